"""The page of TensorFlow says what is so."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from page_code import make_files, run_page


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    left = run_page("tensorflow.md")
    assert left["state"].epoch == 3 and (tmp_path / "state.json").exists()
    assert left["ds"].element_spec == (tf.TensorSpec((16, 16), tf.uint8), tf.TensorSpec((), tf.int64))
