"""The table of docs/migrate.md about tf.data: what stands there can be done."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import forebay
import forebay.tensorflow

PAGE = Path(__file__).parents[2] / "docs" / "migrate.md"


def test_what_stands_in_the_table_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["x"], file["y"] = np.arange(300, dtype="f4").reshape(100, 3), np.arange(100) % 4
    monkeypatch.chdir(tmp_path)
    samples = forebay.open("train.h5", fields=["x"], label="y")
    made = lambda **options: forebay.tensorflow.dataset(samples, batch_size=32, **options)  # noqa: E731
    scope: dict[str, Any] = {"ds": made, "forebay": forebay, "f": lambda batch: batch["x"] + 1}
    scope["first"], scope["second"] = samples.take(slice(0, 50)), samples.take(slice(50, 100))
    section = PAGE.read_text().split("## From tf.data")[1].split("\n## ")[0]
    rights = re.findall(r"^\| .+? \| (.+?) \|$", section, re.MULTILINE)
    codes = [code for right in rights for code in re.findall(r"`([^`]+)`", right) if code.startswith(("ds(", "forebay.mix"))]
    assert len(codes) > 12
    for code in codes:
        ast.parse(code, mode="eval")
        given = eval(code, scope)
        if code.startswith("forebay.mix"):
            given = forebay.tensorflow.dataset(given, batch_size=32)
        assert next(iter(given)) is not None, code


def test_a_state_of_a_numpy_loader_goes_on_in_tensorflow(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["y"] = np.arange(100)
    samples = forebay.open(tmp_path / "a.h5", fields=["y"])
    how: dict[str, Any] = {"batch_size": 10, "shuffle": "full", "seed": 7}
    loader = samples.loader(**how)
    before = [batch["y"].tolist() for _, batch in zip(range(4), loader)]
    state = forebay.tensorflow.State(loader.state_dict())
    after = [batch["y"].numpy().tolist() for batch in forebay.tensorflow.dataset(samples, state=state, **how)]
    # The same batches as one loader alone has them.
    assert before + after == [batch["y"].tolist() for batch in samples.loader(**how)]
