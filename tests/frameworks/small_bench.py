"""The benchmark of how frameworks are fed (benches/frameworks), at a size that takes a second."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parents[2] / "benches" / "frameworks" / "run.py"


def run_small(framework: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *only: str, is_apart: bool) -> list[dict[str, Any]]:
    """Runs all contestants of the workloads ``only``, in processes of their own where it ``is_apart``, and gives the figures. Which of them
    is faster, nothing of this size says."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("frameworks_bench", RUN)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    if not is_apart:
        monkeypatch.setattr(bench, "measure_apart", lambda args, workload, name: bench.measure(framework, workload, name, args.seconds))
    sizes = ["--scale", "0.004", "--rounds", "1", "--seconds", "0.05", "--only", *only]
    monkeypatch.setattr(sys, "argv", [str(RUN), framework, "--folder", str(folder), "--json", str(folder / "figures.json"), *sizes])
    assert bench.main() in (0, 1)
    figures: list[dict[str, Any]] = json.loads((folder / "figures.json").read_text())
    return figures


def check(said: str, figures: list[dict[str, Any]], workload: str, names: list[str], goals: list[Any]) -> None:
    """Every contestant of ``workload`` has a figure, and every goal a verdict: in print, and in ``figures``."""
    rates = {one["contestant"]: one["samples_per_second"] for one in figures if one["workload"] == workload and "contestant" in one}
    assert list(rates) == names and all(rate > 0 for rate in rates.values())
    for name, rate in rates.items():
        assert re.search(rf"^{workload} {re.escape(name)} +{rate:,.0f} samples/s", said, re.MULTILINE), said
    verdicts = [one for one in figures if one["workload"] == workload and "of" in one]
    assert [(one["of"], one["against"], one["goal"]) for one in verdicts] == goals
    for one in verdicts:
        assert one["ratio"] == pytest.approx(rates[one["of"]] / rates[one["against"]]) and one["met"] == (one["ratio"] >= one["goal"])
        line = f"{workload} {one['of']} / {one['against']}: {one['ratio']:.2f} (goal {one['goal']}){'' if one['met'] else '  MISSED'}"
        assert line in said.splitlines(), said
