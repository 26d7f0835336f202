"""``forebay run --stage-writes`` and renames that have to wait for older versions: what is closed meanwhile does not get in their way."""

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
