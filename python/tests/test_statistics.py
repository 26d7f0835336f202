"""Statistics of fields in one pass: right, the same whatever the threads, saved, and of use for normalising."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Make

import forebay

RNG = np.random.default_rng(11)


def settle() -> None:
    """Waits until files that were written are no longer new: about those nothing is saved, since their times could hide a change."""
    time.sleep(2.1)


@pytest.fixture
def values() -> dict[str, Any]:
    x = RNG.normal(280, 15, (300, 3, 20, 11)).astype(np.float32)
    x[:, 1] *= 100
    x[5, 2, 3] = np.nan
    return {"x": x, "n": RNG.integers(0, 200, 300), "u": RNG.integers(0, 255, (300, 4), np.uint8)}


@pytest.fixture
def ds(make: Make, values: dict[str, Any]) -> forebay.Dataset:
    return forebay.open(make(**{name: (one, {"chunks": (7, *one.shape[1:])}) for name, one in values.items()}), list(values))


def test_statistics_are_those_of_numpy(ds: forebay.Dataset, values: dict[str, Any]) -> None:
    found = ds.statistics(save=False)
    assert list(found) == ["x", "n", "u"]
    for name, x in values.items():
        one, wide = found[name], x.astype(np.float64)
        assert (one.count, one.missing) == (np.isfinite(wide).sum(), np.isnan(wide).sum())
        assert one.mean == pytest.approx(np.nanmean(wide), rel=1e-12)
        assert one.std == pytest.approx(np.nanstd(wide), rel=1e-10)
        assert (one.min, one.max) == (np.nanmin(wide), np.nanmax(wide))
        for part, value in one.quantiles.items():
            right = np.quantile(wide[~np.isnan(wide)], part, method="inverted_cdf")
            assert abs(value - right) <= abs(right) / 2048
            assert x.dtype.kind == "f" or value == right


def test_channels_are_told_apart(ds: forebay.Dataset, values: dict[str, Any]) -> None:
    one = ds.statistics("x", axis=0, quantiles=[0.5], save=False)["x"]
    x = values["x"].astype(np.float64)
    assert one.axis == 0 and one.missing.tolist() == [0, 0, 11]
    np.testing.assert_allclose(one.mean, np.nanmean(x, axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(one.std, np.nanstd(x, axis=(0, 2, 3)), rtol=1e-10)
    assert one.min.tolist() == np.nanmin(x, axis=(0, 2, 3)).tolist()
    last = ds.statistics(["u", "x"], axis={"u": -1}, save=False)
    np.testing.assert_allclose(last["u"].mean, values["u"].mean(0), rtol=1e-12)
    assert last["x"].axis is None


def test_threads_change_no_bit(ds: forebay.Dataset) -> None:
    one, *others = (repr(ds.statistics(save=False, read_threads=threads)) for threads in (1, 2, 5))
    assert all(other == one for other in others)


def test_fields_are_normalised_by_their_statistics(ds: forebay.Dataset, values: dict[str, Any]) -> None:
    statistics = ds.statistics("x", axis=0, save=False)
    (batch,) = ds.loader(batch_size=300, normalize=statistics)
    x = batch["x"].astype(np.float64)
    assert np.abs(np.nanmean(x, axis=(0, 2, 3))).max() < 1e-5
    assert np.abs(np.nanstd(x, axis=(0, 2, 3)) - 1).max() < 1e-5
    assert (batch["n"] == values["n"]).all()
    (batch,) = ds.loader(batch_size=300, normalize={"n": ds.statistics("n", save=False)["n"]})
    assert abs(float(batch["n"].mean())) < 1e-5


def test_what_was_computed_is_kept_until_the_files_change(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "statistics"
    path = make(x=np.arange(10.0))
    settle()
    told: list[dict[str, Any]] = []
    forebay.open(path, ["x"]).statistics(save=False)
    assert not kept.exists(), "what is not to be saved is not"
    first = forebay.open(path, ["x"]).statistics(progress=told.append)
    (entry,) = kept.iterdir()
    assert first["x"].mean == 4.5 and told[-1]["samples"] == 10
    stamp = entry.stat().st_mtime_ns
    assert forebay.open(path, ["x"]).statistics() == first and entry.stat().st_mtime_ns == stamp
    entry.write_bytes(entry.read_bytes()[:-1])
    assert forebay.open(path, ["x"]).statistics() == first, "a damaged entry is computed anew"
    for _ in range(2):
        assert forebay.open(path, ["x"]).take([1, 2]).statistics()["x"].mean == 1.5
        assert forebay.open(path, ["x"]).take([1, 2, 2, 3]).statistics()["x"].mean == 2.0
    assert len(list(kept.iterdir())) == 3
    make(x=np.arange(10.0) + 1)
    assert forebay.open(path, ["x"]).statistics()["x"].mean == 5.5


def test_parts_of_a_set_have_statistics_of_their_own(make: Make) -> None:
    x = RNG.normal(5, 3, (60, 4))
    ds = forebay.open(make(x=x), ["x"])
    train, test = ds.split([0.8, 0.2], seed=1)
    for part in (train, test, ds.take([3, 3, 59])):
        told: list[dict[str, Any]] = []
        one = part.statistics("x", progress=told.append, save=False)["x"]
        assert one.count == len(part) * 4 and one.mean == pytest.approx(x[part.indices].mean(), rel=1e-12)
        assert told[-1]["samples"] == len(part)
    (batch,) = train.loader(batch_size=len(train), normalize=train.statistics(save=False))
    assert abs(float(batch["x"].mean())) < 1e-6 and abs(float(batch["x"].std()) - 1) < 1e-6
    with forebay.Store() as store, forebay.Store() as other:
        store.fill(ds)
        other.fill(test)
        assert store.statistics()["x"] == ds.statistics(save=False)["x"], "batches of the same samples give the same bits"
        both = forebay.concat(store, other)
        for part, numbers in ((both, [*range(60), *test.indices]), (store.take([1, 1, 7]), [1, 1, 7]), (both.take([61, 3]), [test.indices[1], 3])):
            one = part.statistics("x", axis=0)["x"]
            np.testing.assert_allclose(one.mean, x[numbers].mean(0), rtol=1e-12)


def test_samples_of_different_lengths_are_measured_once_each(make: Make) -> None:
    lens = RNG.integers(0, 6, 50)
    v = RNG.normal(0, 1, (int(lens.sum()), 3))
    ds = forebay.open(make(v=v, n=lens), ["v"], samples=forebay.Ragged(lengths="n"))
    one = ds.statistics("v", axis=1, save=False)["v"]
    assert one.count.tolist() == [len(v)] * 3
    np.testing.assert_allclose(one.mean, v.mean(0), atol=1e-12)


def test_of_no_values_there_are_no_statistics(make: Make) -> None:
    x = np.arange(24.0).reshape(4, 3, 2)
    x[:, 1] = np.nan
    ds = forebay.open(make(x=x), ["x"])
    whole, channels, nothing = ds.statistics()["x"], ds.statistics(axis=0)["x"], ds.take([]).statistics()["x"]
    assert (whole.count, whole.missing, whole.mean) == (16, 8, np.nanmean(x))
    assert channels.count.tolist() == [8, 0, 8] and channels.missing.tolist() == [0, 8, 0]
    assert (nothing.count, nothing.missing) == (0, 0)
    for name in ("mean", "std", "min", "max"):
        assert np.isnan(getattr(channels, name)).tolist() == [False, True, False], name
        assert np.isnan(getattr(nothing, name)), name
    assert all(np.isnan(value) for value in nothing.quantiles.values())
    assert all(np.isnan(values).tolist() == [False, True, False] for values in channels.quantiles.values())


def test_what_cannot_be_measured_is_refused(ds: forebay.Dataset, make: Make) -> None:
    with pytest.raises(forebay.InvalidError, match="no field 'z'"):
        ds.statistics("z")
    with pytest.raises(forebay.InvalidError, match="axis 3"):
        ds.statistics("x", axis=3)
    with pytest.raises(forebay.InvalidError, match="quantile"):
        ds.statistics("x", quantiles=[1.5])
    with pytest.raises(forebay.InvalidError, match="a std of 0"):
        same = forebay.open(make("same.h5", x=np.ones(5)), ["x"])
        same.loader(normalize=same.statistics(save=False))
