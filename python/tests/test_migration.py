"""The table of docs/migrate.md about h5py: what stands there can be done, and gives what h5py gives."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import forebay

PAGE = Path(__file__).parents[2] / "docs" / "migrate.md"
FOREBAY = ("forebay.read", "forebay.File", "forebay.open", "ds[", "ds.loader")


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page speaks of."""
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["x"], file["y"] = np.arange(150.0).reshape(50, 3), np.arange(50)
        file["x"].attrs["units"] = "K"
    with h5py.File(tmp_path / "ragged.h5", "w") as file:
        file["x"], file["ptr"] = np.arange(10.0), np.array([0, 4, 4, 10])
    monkeypatch.chdir(tmp_path)
    ds = forebay.open("train.h5", fields=["x"], label="y")
    return {"forebay": forebay, "np": np, "h5py": h5py, "ds": ds, "numbers": [40, 3, 3, 9]}


def section(name: str) -> list[tuple[str, str]]:
    """Left and right of each row of a section."""
    text = PAGE.read_text().split(f"## From {name}")[1].split("\n## ")[0]
    return re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE)


def test_what_stands_in_the_table_can_be_done(scope: dict[str, Any]) -> None:
    codes = [code for _, right in section("h5py") for code in re.findall(r"`([^`]+)`", right) if code.startswith(FOREBAY)]
    assert len(codes) > 8
    for code in codes:
        ast.parse(code, mode="eval")
        assert len(eval(code, scope)) > 0, code


def test_values_are_those_of_h5py(scope: dict[str, Any]) -> None:
    left, right = section("h5py")[1]
    assert left == '`h5py.File("train.h5")["x"][5:9]`'
    theirs = eval(left.strip("`"), scope)
    np.testing.assert_array_equal(eval(right.strip("`"), scope), theirs)
    np.testing.assert_array_equal(eval(section("h5py")[2][1].strip("`"), scope), theirs)
    np.testing.assert_array_equal(scope["ds"][scope["numbers"]]["x"], h5py.File("train.h5")["x"][:][scope["numbers"]])


def test_pages_about_frameworks_link_to_what_there_is() -> None:
    for page in ("migrate.md", "frameworks.md", "launchers.md", "ray.md", "dask.md"):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (PAGE.parent / page).read_text()):
            assert (PAGE.parent / link).exists(), (page, link)


def test_the_program_of_the_page_about_frameworks_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train").mkdir()
    with h5py.File(tmp_path / "train" / "0.h5", "w") as file:
        file["image"], file["label"] = np.zeros((100, 4, 4), "u1"), np.arange(100)
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```$", (PAGE.parent / "frameworks.md").read_text(), re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(program, "frameworks.md", "exec"), scope)
    assert scope["batch"]["label"].shape == (36,)
