"""The page of JAX says what is so."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_code import make_files, run_page


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    left = run_page("jax.md")
    assert len(left["source"]) == 300 and left["batch"]["image"].shape[1:] == (16, 16)
