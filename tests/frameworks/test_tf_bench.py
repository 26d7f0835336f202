"""The benchmark of TensorFlow says how fast batches came."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bench import check, run_small


def test_contestants_have_figures_and_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    figures = run_small("tensorflow", tmp_path, monkeypatch, "W1", "W3", is_apart=False)
    said = capsys.readouterr().out
    ours, records, packed = "forebay.tensorflow.dataset", "TFRecord", "TFRecord, gzip"
    generators = ["from_generator over h5py", "from_generator over h5py, a batch each"]
    for workload in ("W1", "W3"):
        goals = [(ours, generators[0], 5.0), (ours, records, 1.0), (ours, packed, 1.0)]
        check(said, figures, workload, [ours, *generators, records, packed], goals)
