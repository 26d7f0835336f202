"""The table of docs/migrate.md about xbatcher: both give the same windows in the same order, and what stands there can be done."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import xbatcher

import forebay

PAGE = Path(__file__).parents[2] / "docs" / "migrate.md"


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.DataArray:
    """What the page speaks of."""
    values = np.random.default_rng(0).normal(size=(12, 8, 12)).astype("f4")
    made = xr.DataArray(values, dims=("time", "lat", "lon"), name="t2m", coords={"time": np.arange(12.0)})
    made.to_netcdf(tmp_path / "weather.nc", engine="netcdf4")
    monkeypatch.chdir(tmp_path)
    return made


def rows() -> list[tuple[str, str]]:
    """Left and right of each row of the section."""
    section = PAGE.read_text().split("## From xbatcher")[1].split("\n## ")[0]
    return re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)


def test_generators_and_windows_are_the_same(array: xr.DataArray) -> None:
    compared = 0
    for left, right in rows():
        code = re.match(r"`(BatchGenerator\(.*?\))`", left)
        if code is None:
            continue
        theirs = list(eval(code[1], {"BatchGenerator": xbatcher.BatchGenerator, "array": array}))
        ours = eval(re.search(r"`(forebay\.open\(.*\))`", right)[1], {"forebay": forebay})  # type: ignore[index]
        assert len(ours) == len(theirs)
        for sample, window in zip(ours, theirs):
            np.testing.assert_array_equal(sample["t2m"], window.transpose("time", "lat", "lon").values)
        compared += 1
    assert compared == 3


def test_what_stands_in_the_table_can_be_done(array: xr.DataArray) -> None:
    windows = forebay.open("weather.nc", ["t2m"], samples=forebay.Windows({"time": 4}))
    scope: dict[str, Any] = {"forebay": forebay, "windows": windows}
    codes = [code for _, right in rows() for code in re.findall(r"`([^`]+)`", right) if code.startswith(("forebay.open", "windows."))]
    assert len(codes) > 6
    for code in codes:
        ast.parse(code, mode="eval")
        made = eval(code, scope)
        assert len(made) > 0, code
