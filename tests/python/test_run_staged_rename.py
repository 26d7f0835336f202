"""``forebay run --stage-writes`` and renames: those that wait for older versions, that must replace nothing, that exchange two files, and
of files that are still written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from run_programs import LIBRARY, Ran, python, run, tier_folder

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")

# So long that bringing it to its destination takes longer than a file that was closed is left alone.
LONG = 256 << 20

WRITE = f"""
    import os, sys, time
    os.chdir(sys.argv[1])
    def write(name, text):
        with open(name, "w") as file:
            file.write(text)
    def write_long(name):
        with open(name, "wb") as file:
            for _ in range({LONG} >> 20):
                file.write(bytes(1 << 20))
        # It is on its way by then, and waits for somebody who needs it.
        time.sleep(0.6)
"""


def staged(origin: Path, program: str) -> Ran:
    settings = {"FOREBAY_STAGE_FREE_FLOOR": "0", "FOREBAY_STAGE_PAUSED": "true"}
    with tier_folder() as area:
        ran = run(origin, *python(WRITE + program, origin), tiers=[], flags=["--stage-writes", "--stage", area], **settings)
        assert list(area.rglob("*.journal")) == []
    return ran


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "set"
    folder.mkdir()
    return folder


def test_a_file_that_is_renamed_over_a_staged_one_is_what_stays(origin: Path) -> None:
    (origin / "plain").write_text("of the plain file")
    program = """
    write_long("name")
    write("name", "of the staged file")
    os.rename("plain", "name")
    print(open("name").read())
    """
    assert staged(origin, program).out == b"of the plain file\n"
    assert (origin / "name").read_text() == "of the plain file"
    assert os.listdir(origin) == ["name"]


def test_staged_files_of_a_folder_follow_it_when_it_is_renamed(origin: Path) -> None:
    program = """
    os.mkdir("part")
    write_long("part/long")
    write("part/short", "closed right before")
    os.rename("part", "whole")
    print(os.listdir("."), open("whole/short").read(), os.path.getsize("whole/long"))
    """
    assert staged(origin, program).out.decode() == f"['whole'] closed right before {LONG}\n"
    assert sorted(os.listdir(origin / "whole")) == ["long", "short"]
    assert (origin / "whole" / "short").read_text() == "closed right before"
    assert (origin / "whole" / "long").stat().st_size == LONG


RENAME = """
    import ctypes, errno
    def renameat2(old, new, flags):
        library = ctypes.CDLL(None, use_errno=True)
        answer = library.renameat2(-100, old.encode(), -100, new.encode(), flags)
        return "done" if answer == 0 else errno.errorcode[ctypes.get_errno()]
    def told():
        return [(name, open(name).read()) for name in sorted(os.listdir("."))]
"""


def test_a_rename_that_must_replace_nothing_replaces_no_staged_file(origin: Path) -> None:
    program = """
    write("a", "of a")
    write("b", "of b")
    print(renameat2("a", "b", 1), renameat2("none", "b", 1), renameat2("a", "c", 1))
    print(told())
    time.sleep(0.6)
    print(renameat2("c", "b", 1), told())
    """
    told = staged(origin, RENAME + program).out.decode()
    both = [("b", "of b"), ("c", "of a")]
    assert told == f"EEXIST ENOENT done\n{both}\nEEXIST {both}\n"
    assert [(path.name, path.read_text()) for path in sorted(origin.iterdir())] == both


def test_staged_files_are_exchanged_once_nobody_writes_them(origin: Path) -> None:
    program = """
    write("a", "of a")
    write("b", "of b")
    print(renameat2("a", "b", 2), told())
    write("c", "of c")
    with open("d", "w") as file:
        file.write("of d")
        print(renameat2("c", "d", 2))
    print(told()[2:])
    """
    told = staged(origin, RENAME + program).out.decode()
    assert told == f"done {[('a', 'of b'), ('b', 'of a')]}\nEINVAL\n{[('c', 'of c'), ('d', 'of d')]}\n"


def test_a_file_that_is_still_written_does_not_leave_the_prefix_by_its_older_version(origin: Path, tmp_path: Path) -> None:
    (origin / "a").write_text("old")
    program = f"""
    with open("a", "w") as file:
        file.write("new")
        file.flush()
        try:
            os.rename("a", "{tmp_path}/outside")
        except OSError as error:
            print(errno.errorcode[error.errno], os.path.exists("{tmp_path}/outside"))
    os.rename("a", "{tmp_path}/outside")
    print(os.listdir("."))
    """
    assert staged(origin, RENAME + program).out == b"EXDEV False\n[]\n"
    assert (tmp_path / "outside").read_text() == "new"


def test_folders_are_exchanged_with_the_staged_files_in_them(origin: Path) -> None:
    program = """
    for folder in "AB":
        os.mkdir(folder)
        write(f"{folder}/same", f"of {folder}")
        write(f"{folder}/only-{folder}", "alone")
    print(renameat2("A", "B", 2), open("A/same").read(), open("B/same").read())
    with open("B/open", "w") as file:
        print(renameat2("A", "B", 2))
    os.mkdir("C")
    with open("C/open", "w") as file:
        os.mkdir("D")
        print(renameat2("D", "C", 0))
    """
    assert staged(origin, RENAME + program).out == b"done of B of A\nEINVAL\nENOTEMPTY\n"
    found = {str(path.relative_to(origin)): path.read_text() for path in origin.rglob("*") if path.is_file()}
    assert found == {
        "A/same": "of B", "A/only-B": "alone", "B/same": "of A", "B/only-A": "alone", "B/open": "", "C/open": "",
    }  # fmt: skip
