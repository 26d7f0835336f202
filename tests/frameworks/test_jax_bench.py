"""The benchmark of JAX says how fast batches came, and how many arrays were shared, copied or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bench import check, run_small


def test_contestants_have_figures_and_goals_and_what_was_handed_over_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = run_small("jax", tmp_path, monkeypatch, "W1", is_apart=True)
    said = capsys.readouterr().out
    ours, numpy, by_hand = "forebay.jax.Loader", "forebay.Loader, NumPy", "forebay.Loader, NumPy, then from_dlpack"
    check(said, figures, "W1", [ours, numpy, by_hand], [(ours, numpy, 0.9), (ours, by_hand, 1.0)])
    (counts,) = [one["hand_over"] for one in figures if one.get("hand_over")]
    # Of each batch the samples are shared, and the labels made 32 bits; whatever is copied or refused would show.
    assert counts["shared"] == counts["narrowed"] > 0 == counts["copied"] == counts["refused"] and counts["why_refused"] is None
    assert f"; arrays: {counts['shared']:,} shared, 0 copied, 0 refused, {counts['narrowed']:,} narrowed, 0 placed" in said
