"""The pytest plugin: watches the libraries of a suite, and checks what its tests write.

``FOREBAY_PEERS_OUT`` names the file for counts, ``FOREBAY_PEERS_WATCH`` the libraries, ``FOREBAY_PEERS_CF=1`` asks for
unpacked values too.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from . import watch as watching
from .check import Checker
from .tally import Tally

tally = Tally(Path(os.environ["FOREBAY_PEERS_OUT"]))
checker = Checker(tally, os.environ.get("FOREBAY_PEERS_CF") == "1")
watch = watching.Watch(checker.check)
for library in os.environ["FOREBAY_PEERS_WATCH"].split(","):
    getattr(watching, f"watch_{library}")(watch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Before fixtures take files away."""
    try:
        return (yield)
    finally:
        watch.end_test()


def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    tally.end_test()


def pytest_sessionfinish(session: pytest.Session) -> None:
    tally.end_test()
