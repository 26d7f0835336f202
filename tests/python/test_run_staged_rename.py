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


def test_a_folder_that_is_renamed_by_a_path_with_a_slash_takes_its_files_with_it(origin: Path) -> None:
    program = """
    for number in range(3):
        os.mkdir("run")
        write("run/result", f"of run {number}")
        os.rename("run/", f"run.{number}/")
    print(sorted(os.listdir(".")), open("run.1/result").read())
    write("file", "closed")
    for old, new in (("file/", "other"), ("file", "other/")):
        try:
            os.rename(old, new)
        except OSError as error:
            print(error.errno in (errno.ENOTDIR, errno.ENOENT))
    """
    out = staged(origin, RENAME + program).out.decode()
    assert out == "['run.0', 'run.1', 'run.2'] of run 1\nTrue\nTrue\n"
    for number in range(3):
        assert (origin / f"run.{number}" / "result").read_text() == f"of run {number}"
    assert (origin / "file").read_text() == "closed"
    assert len(os.listdir(origin)) == 4


def test_a_folder_takes_the_place_of_no_file(origin: Path) -> None:
    (origin.parent / "outside").mkdir()
    program = """
    os.mkdir("folder")
    write("file", "precious")
    kept = open("kept", "w")
    kept.write("written on")
    kept.flush()
    for old in ("folder", "../outside"):
        for new in ("file", "kept"):
            try:
                os.rename(old, new)
            except OSError as error:
                print(errno.errorcode[error.errno])
    kept.close()
    """
    assert staged(origin, RENAME + program).out.decode() == "ENOTDIR\n" * 4
    assert (origin / "file").read_text() == "precious"
    assert (origin / "kept").read_text() == "written on"
    assert sorted(os.listdir(origin)) == ["file", "folder", "kept"]


def test_a_folder_with_files_on_their_way_is_not_empty_for_remove_either(origin: Path) -> None:
    program = """
    library = ctypes.CDLL(None, use_errno=True)
    os.mkdir("folder")
    kept = open("folder/file", "w")
    for call in (library.remove, library.rmdir):
        print(call(b"folder"), errno.errorcode[ctypes.get_errno()])
    kept.write("written")
    kept.close()
    print(library.remove(b"folder"), errno.errorcode[ctypes.get_errno()])
    os.unlink("folder/file")
    print(library.remove(b"folder"), os.listdir("."))
    """
    assert staged(origin, RENAME + program).out.decode() == "-1 ENOTEMPTY\n" * 3 + "0 []\n"
    assert os.listdir(origin) == []


def test_a_name_is_free_once_its_file_was_removed(origin: Path) -> None:
    program = """
    for number in range(5):
        write("file", "one")
        time.sleep(0.3 * (number % 2))
        os.unlink("file")
        os.close(os.open("file", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        time.sleep(0.3 * (number % 2))
        os.unlink("file")
        os.mkdir("file")
        os.rmdir("file")
    write("file", "last")
    print(open("file").read())
    """
    assert staged(origin, program).out.decode() == "last\n"
    assert (origin / "file").read_text() == "last"


def test_a_rename_onto_itself_and_flags_that_exclude_each_other_are_answered_as_by_the_kernel(origin: Path) -> None:
    program = """
    kept = open("file", "w")
    told = [renameat2("file", "file", flags) for flags in (0, 1, 3, 8)]
    print(told)
    """
    assert staged(origin, RENAME + program).out.decode() == "['done', 'EEXIST', 'EINVAL', 'EINVAL']\n"


def test_who_reads_a_name_while_files_are_renamed_to_it_finds_one_of_them(origin: Path) -> None:
    program = """
    (program, pipe) = (os.fork(), None)
    if program == 0:
        (seen, last) = (0, -1)
        while last < 299:
            try:
                number = int(open("latest").read())
            except FileNotFoundError:
                assert last == -1, "the name was lost"
                continue
            assert number >= last, (number, last)
            os.stat("latest")
            (seen, last) = (seen + 1, number)
        os._exit(0 if seen > 10 else 3)
    for number in range(300):
        write("next", str(number))
        os.rename("next", "latest")
    print(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))
    """
    assert staged(origin, program).out.decode() == "0\n"
    assert (origin / "latest").read_text() == "299"


def test_a_program_with_few_numbers_finds_its_files(origin: Path) -> None:
    program = """
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for few in (200, 100):
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
        write("part", f"of {few}")
        lowest = os.open("/dev/null", os.O_RDONLY)
        os.close(lowest)
        with open("part") as file:
            print(file.read(), file.fileno() == lowest)
        os.rename("part", f"whole.{few}")
        print(os.stat(f"whole.{few}").st_size, os.path.exists("part"))
        write("gone", "x")
        os.unlink("gone")
    # As few are left as that some of what names need can be opened, and some not.
    def tried(call, *words):
        try:
            call(*words)
            return "done"
        except OSError as error:
            return errno.errorcode[error.errno]
    def cut(path):
        os.close(os.open(path, os.O_RDWR))
    write("part", "of none")
    os.mkdir("folder")
    os.mkdir("empty")
    write("folder/file", "in it")
    kept = open("folder/kept", "w")
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        assert error.errno == errno.EMFILE
    for left in range(5):
        told = [tried(os.rename, "part", "whole"), tried(os.unlink, "part"), tried(cut, "part")]
        told += [tried(os.rename, "folder", "other"), tried(os.rmdir, "folder"), tried(os.chmod, "part", 0o600)]
        print(left, os.stat("part").st_size, set(told), tried(os.rmdir, "empty"), tried(os.mkdir, "part"))
        os.path.exists("empty") or os.mkdir("empty")
        os.close(taken.pop())
    for one in taken:
        os.close(one)
    os.rename("part", "whole")
    os.rename("folder", "other")
    kept.close()
    """
    out = staged(origin, "    import errno\n" + program).out.decode().splitlines()
    assert out[:4] == ["of 200 True", "6 False", "of 100 True", "6 False"]
    assert out[4:] == [f"{left} 7 {{'EMFILE'}} done EEXIST" for left in range(5)]
    names = ["empty", "other", "whole", "whole.100", "whole.200"]
    assert sorted(os.listdir(origin)) == names
    assert [(origin / name).read_text() for name in names[2:]] == ["of none", "of 100", "of 200"]
    assert (origin / "other" / "file").read_text() == "in it"


def test_a_folder_in_which_others_begin_files_is_not_waited_for_for_ever(origin: Path) -> None:
    program = """
    os.mkdir("folder")
    child = os.fork()
    if child == 0:
        until = time.monotonic() + 2
        number = 0
        while time.monotonic() < until:
            write(f"folder/{number % 50}", "x")
            number += 1
        os._exit(0)
    time.sleep(0.1)
    began = time.monotonic()
    try:
        os.rmdir("folder")
    except OSError as error:
        print(errno.errorcode[error.errno], time.monotonic() - began < 1.5)
    os.waitpid(child, 0)
    """
    assert staged(origin, RENAME + program).out.decode() == "ENOTEMPTY True\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to a group that its user is not in")
def test_new_files_have_the_group_of_a_folder_that_says_so(origin: Path) -> None:
    group = 54321
    shared = origin / "shared"
    shared.mkdir()
    os.chown(shared, -1, group)
    shared.chmod(0o2775)
    old = origin / "old"
    old.write_text("old")
    os.chown(old, 65534, group)
    old.chmod(0o664)
    program = """
    write("shared/new", "new")
    write("shared/given", "given")
    os.chown("shared/given", -1, 65534)
    write("old", "newer")
    with open("back", "w") as file:
        os.fchown(file.fileno(), 0, 0)
    """
    back = origin / "back"
    back.write_text("of others")
    os.chown(back, 65534, group)
    staged(origin, program)
    assert (shared / "new").stat().st_gid == group
    assert (shared / "given").stat().st_gid == 65534
    assert (back.stat().st_uid, back.stat().st_gid) == (0, 0)
    facts = old.stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777, old.read_text()) == (65534, group, 0o664, "newer")
