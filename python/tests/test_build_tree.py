"""What scripts build in: a copy of the clone whose files change when their contents do (scripts/build_tree.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

BUILD_TREE = Path(__file__).parents[2] / "scripts" / "build_tree.py"
SAY = """#!/usr/bin/env bash
if [[ -n ${RELEASED:-} ]]; then exec {FOREBAY_BUILD_LOCK}>&-; fi
echo "$FOREBAY_CLONE" "$CARGO_TARGET_DIR" "$(dirname "$0")/.." "$@"
sleep "${NAP:-0}"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    made = tmp_path / "clone"
    (made / "scripts").mkdir(parents=True)
    (made / "src").mkdir()
    shutil.copy(BUILD_TREE, made / "scripts")
    (made / "scripts" / "say.sh").write_text(SAY)
    (made / "scripts" / "say.sh").chmod(0o755)
    (made / "src" / "a.rs").write_text("one")
    (made / "src" / "b.rs").write_text("two")
    (made / "link").symlink_to("src/a.rs")
    (made / ".gitignore").write_text("left\n")
    subprocess.run(["git", "init", "--quiet", made], check=True)
    return made


def run(clone: Path, cache: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, clone / "scripts" / "build_tree.py", cache, clone / "scripts" / "say.sh", *arguments]
    return subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True)


def said(running: subprocess.Popen[str]) -> list[str]:
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    return out.split()


def test_a_script_runs_in_a_copy_with_a_target_of_its_own(clone: Path, tmp_path: Path) -> None:
    of_clone, target, root, *arguments = said(run(clone, tmp_path, "first", "second"))
    tree = tmp_path / "build-1" / "tree"
    assert Path(of_clone) == clone and Path(target) == tmp_path / "build-1" / "target"
    assert Path(root).resolve() == tree and arguments == ["first", "second"]
    assert (tree / "src/a.rs").read_text() == "one" and os.readlink(tree / "link") == "src/a.rs"


def test_only_what_has_other_contents_is_written(clone: Path, tmp_path: Path) -> None:
    tree = tmp_path / "build-1" / "tree"
    said(run(clone, tmp_path))
    before = {path.name: path.stat().st_mtime_ns for path in (tree / "src").iterdir()}
    # Builds leave files too.
    (tree / "left").write_text("by a build")
    other = shutil.copytree(clone, tmp_path / "other", symlinks=True)
    # Older than what was built, and another: cargo would take it for what it has.
    (other / "src/a.rs").write_text("changed")
    os.utime(other / "src/a.rs", (1, 1))
    (other / "src/b.rs").touch()
    said(run(other, tmp_path))
    assert (tree / "src/a.rs").read_text() == "changed" and (tree / "src/a.rs").stat().st_mtime_ns > before["a.rs"]
    assert (tree / "src/b.rs").stat().st_mtime_ns == before["b.rs"]
    (other / "src/a.rs").unlink()
    said(run(other, tmp_path))
    assert not (tree / "src/a.rs").exists() and (tree / "left").exists()


def test_a_run_that_closes_its_lock_leaves_the_directory_to_others(clone: Path, tmp_path: Path) -> None:
    with run(clone, tmp_path, NAP="30", RELEASED="1") as first:
        assert first.stdout is not None and "build-1" in first.stdout.readline()
        assert "build-1" in " ".join(said(run(clone, tmp_path)))
        first.kill()


def test_a_second_run_takes_another_directory(clone: Path, tmp_path: Path) -> None:
    with run(clone, tmp_path, NAP="30") as first:
        assert first.stdout is not None and "build-1" in first.stdout.readline()
        assert "build-2" in " ".join(said(run(clone, tmp_path)))
        first.kill()
    until = time.monotonic() + 10
    # A directory is free with the end of the run that had it, whatever that had started.
    while "build-1" not in " ".join(said(run(clone, tmp_path))):
        assert time.monotonic() < until
