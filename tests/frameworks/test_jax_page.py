"""The page of JAX says what is so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_code import make_files, run_page

import forebay
import forebay.jax


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    left = run_page("jax.md")
    assert len(left["source"]) == 300 and left["batch"]["image"].shape[1:] == (16, 16)


def test_a_state_of_a_numpy_loader_goes_on_in_jax(make: Callable[..., Path]) -> None:
    samples = forebay.open(make(y=np.arange(100, dtype="i4")), fields=["y"])
    how: dict[str, Any] = {"batch_size": 10, "shuffle": "full", "seed": 7}
    loader = samples.loader(**how)
    before = [batch["y"].tolist() for _, batch in zip(range(4), loader)]
    other = forebay.jax.Loader(samples, **how)
    other.load_state_dict(loader.state_dict())
    # The same batches as one loader alone has them.
    assert before + [batch["y"].tolist() for batch in other] == [batch["y"].tolist() for batch in samples.loader(**how)]
