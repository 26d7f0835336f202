"""Counts of what was compared, written line by line so that they outlive a suite that dies."""

from __future__ import annotations

import collections
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

# Files kept to look at later, and their longest length.
KEPT_COUNT, KEPT_BYTES = 40, 32 << 20
MESSAGE_LENGTH = 160


class Tally:
    """Counts by kind, and by message, of one suite; each test's are appended to a file when it ends."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.process = os.getpid()
        self.kept = 0
        self._clear()

    def _clear(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.messages: collections.Counter[tuple[str, str]] = collections.Counter()
        self.test = ""
        self.wrong: list[dict[str, Any]] = []

    def count(self, kind: str, message: str | None = None) -> None:
        """One more of ``kind``: ``"files"``, ``"matched"``, ``"refused"``, ``"by design"``, ``"not compared"``."""
        self.counts[kind] += 1
        if message is not None:
            self.messages[kind, message] += 1
            self.test = _test()

    def add_wrong(self, path: str, variable: str, what: str, shown: str) -> None:
        """One more wrong value: its file is kept, and it is told with the test that wrote it."""
        self.counts["wrong"] += 1
        self.wrong.append(
            {"test": _test(), "file": shown, "kept": self._keep(path), "variable": variable, "difference": what}
        )

    def _keep(self, path: str) -> str | None:
        if self.kept >= KEPT_COUNT:
            return None
        folder = self.file.with_suffix(".kept")
        folder.mkdir(exist_ok=True)
        copy = folder / f"{self.kept}-{Path(path).name}"
        try:
            if Path(path).is_dir():
                shutil.copytree(path, copy)
            elif os.path.getsize(path) <= KEPT_BYTES:
                shutil.copyfile(path, copy)
            else:
                return None
        except OSError:
            return None
        self.kept += 1
        return str(copy)

    def end_test(self) -> None:
        """Writes down what was counted since the last test ended; forked children count for nobody."""
        if not self.counts or os.getpid() != self.process:
            return
        line = {
            "test": self.test,
            "counts": self.counts,
            "messages": [[kind, message, count] for (kind, message), count in self.messages.items()],
            "wrong": self.wrong,
        }
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line, default=str) + "\n")
        self._clear()


def _test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]


def grouped(message: str, path: str) -> str:
    """The message of a refusal without what differs from file to file: paths, names of variables, numbers."""
    message = message.replace(path, "FILE").split("; libhdf5 was tried")[0]
    message = re.sub(r"^FILE[^:]*: variable '.*?': ", "", message)
    message = re.sub(r"/[^\s:']*", "PATH", message)
    message = re.sub(r"'(?:[^'\\]|\\.)*'|0x[0-9a-f]+", "…", message)
    return re.sub(r"\d+", "N", message)[:MESSAGE_LENGTH]
