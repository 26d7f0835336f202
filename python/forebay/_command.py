"""The ``forebay`` command."""

from __future__ import annotations

import signal
import sys

from ._forebay import run_command


def main() -> int:
    """Runs the command that ``sys.argv`` says; its exit code."""
    # Python's own handler only makes a note until Python code runs again, which is when the command is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Python ignores it, and a program that takes this one's place would too.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if sys.argv[1:2] == ["store-bench"] and "--study" in " ".join(sys.argv):
        # It reads pickles, as only Python can.
        from ._compat import ddstore_study

        return ddstore_study.main(sys.argv[2:])
    return run_command(["forebay", *sys.argv[1:]], [sys.executable, "-m", "forebay"])
