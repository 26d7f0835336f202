"""Runs a script of the clone in a copy of it: build_tree.py CACHE SCRIPT [ARGUMENT…]

Cargo rebuilds files whose modification time is later than its last build, and reuses a build for files that are older, whatever
they contain. A fresh clone is all new to it; clones with different contents that share a target directory get each other's builds.
So cargo only ever sees the copy, whose files are written when their contents change. CACHE/build-N has the copy (`tree`) and what
was built from it (`target`). The script's process locks the directory until it ends or closes the descriptor FOREBAY_BUILD_LOCK; a
second run takes the next directory.
"""

from __future__ import annotations

import fcntl
import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

#: Each has all that was built, 15 GB.
DIRECTORIES = 2


def files(clone: Path) -> list[str]:
    """The files that git tracks or would track, by their paths below the clone."""
    listed = ["git", "-C", str(clone), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, stdout=subprocess.PIPE, check=True).stdout.decode(errors="surrogateescape").split("\0")
    return sorted({name for name in names if name and os.path.lexists(clone / name)})


def same(ours: Path, theirs: Path) -> bool:
    if ours.is_symlink() or theirs.is_symlink():
        return ours.is_symlink() and theirs.is_symlink() and os.readlink(ours) == os.readlink(theirs)
    if not theirs.is_file() or ours.stat().st_mode != theirs.stat().st_mode:
        return False
    return filecmp.cmp(ours, theirs, shallow=False)


def copy(clone: Path, tree: Path) -> None:
    """Makes `tree` hold the files of the clone; files of the same contents stay as they are, and so do those that builds left."""
    names, record = files(clone), tree.with_name("files.json")
    before = json.loads(record.read_text()) if record.exists() else []
    # Written first: a run that is ended meanwhile leaves no file that the next one does not know.
    record.write_text(json.dumps(sorted({*before, *names})))
    for name in set(before) - set(names):
        (tree / name).unlink(missing_ok=True)
    for name in names:
        ours, theirs = clone / name, tree / name
        if not same(ours, theirs):
            theirs.parent.mkdir(parents=True, exist_ok=True)
            if theirs.is_dir() and not theirs.is_symlink():
                shutil.rmtree(theirs)
            theirs.unlink(missing_ok=True)
            shutil.copyfile(ours, theirs, follow_symlinks=False)
            if not ours.is_symlink():
                theirs.chmod(ours.stat().st_mode & 0o777)
    # A directory whose files are gone would still be a member of the workspace.
    for directory, _, _ in os.walk(tree, topdown=False):
        if not os.listdir(directory):
            os.rmdir(directory)
    record.write_text(json.dumps(names))


def lock(cache: Path) -> tuple[Path, int]:
    """Locks a directory that no other run has, by a descriptor: a lock of POSIX, which `exec` keeps and children lack."""
    for number in range(1, DIRECTORIES + 1):
        directory = cache / f"build-{number}"
        directory.mkdir(exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if number < DIRECTORIES:
                print(f"== another run builds in {directory}: this one takes the next, which may have less built", file=sys.stderr)
                os.close(descriptor)
                continue
            print(f"== waiting for the run that builds in {directory}", file=sys.stderr, flush=True)
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
        os.set_inheritable(descriptor, True)
        break
    return directory, descriptor


def main(cache: Path, script: Path, arguments: list[str]) -> None:
    clone = Path(__file__).resolve().parent.parent
    directory, descriptor = lock(cache)
    tree = directory / "tree"
    copy(clone, tree)
    os.environ |= {"FOREBAY_CLONE": str(clone), "CARGO_TARGET_DIR": str(directory / "target")}
    os.environ["FOREBAY_BUILD_LOCK"] = str(descriptor)
    program = tree / script.resolve().relative_to(clone)
    os.execv(program, [str(program), *arguments])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
