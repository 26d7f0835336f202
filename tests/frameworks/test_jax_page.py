"""The page of JAX says what is so, and the example of Flax goes on as if it had not been stopped."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from page_code import make_files, run_page

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    left = run_page("jax.md")
    assert len(left["source"]) == 300 and left["batch"]["image"].shape[1:] == (16, 16)


def test_the_example_of_flax_learns_and_goes_on_with_the_steps_of_a_run_that_was_not_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    program = runpy.run_path(str(EXAMPLES / "flax_images.py"))
    files = program["make"](tmp_path)
    program["main"](files, tmp_path)
    said = capsys.readouterr().out
    means = [float(line.split()[-1]) for line in said.splitlines() if "loss" in line]
    assert len(means) == 4 and means[-1] < means[0] / 2, said
    assert "going on after step 92, with 19 batches left of epoch 2" in said, said

    state, loader = program["new_state"](seed=0), program["new_loader"](files)
    for _ in range(3):
        state, losses = program["train"](state, loader)
    assert np.mean(losses[18:]) == pytest.approx(means[-1], abs=1e-4)
