"""Windows that go on from file to file, with targets and with what is the same for all; groups that are samples."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from conftest import same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay
from forebay import Along, Constant, Field, Fixed, Groups, Windows

RANDOM = np.random.default_rng(11)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def write(path: Path, hours: Any, values: Any, start: str = "2020-01-01", **options: Any) -> str:
    """A NetCDF file with ``t2m`` over time, lat and lon, and a map without time."""
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", None), ("lat", values.shape[1]), ("lon", values.shape[2])):
            file.createDimension(name, size)
        time = file.createVariable("time", "f8", ("time",))
        time.units = f"hours since {start}"
        time[:] = hours
        file.createVariable("lat", "f4", ("lat",))[:] = np.arange(values.shape[1]) * 10
        file.createVariable("height", "f4", ("lat", "lon"))[:] = np.arange(values[0].size).reshape(values.shape[1:])
        file.createVariable("t2m", values.dtype, ("time", "lat", "lon"), **options)[:] = values
    return str(path)


@pytest.fixture
def months(tmp_path: Path) -> tuple[list[str], Any]:
    """Four months of 6-hourly fields, and all of them as one array."""
    lens = [31 * 4, 29 * 4, 31 * 4, 30 * 4]
    values = RANDOM.random((sum(lens), 4, 6)).astype("f4")
    starts = ["2020-01-01", "2020-02-01", "2020-03-01", "2020-04-01"]
    cuts = np.split(values, np.cumsum(lens)[:-1])
    options = {"zlib": True, "chunksizes": (7, 4, 6)}
    paths = [
        write(tmp_path / f"era5_{number}.nc", np.arange(len(cut)) * 6, cut, start, **options)
        for number, (cut, start) in enumerate(zip(cuts, starts))
    ]
    return paths, values


def test_windows_and_targets_go_on_from_month_to_month_as_xarray_has_them(months: Any) -> None:
    paths, values = months
    samples = Windows({"time": 4}, stride={"time": 1}, targets={"time": (1, 6)})
    ds = forebay.open(paths, ["t2m", "time", "height", "lat"], samples=samples, files_axis="time", cf=True)
    import xarray

    opened = [xarray.open_dataset(path) for path in paths]
    whole = xarray.concat(opened, "time", data_vars="minimal", coords="minimal", compat="override")
    assert len(ds) == len(values) - 4 - 6 + 1
    stamps = whole["time"].values
    for batch in ds.loader(batch_size=64, shuffle="block", seed=2):
        for row, at in enumerate(batch.indices):
            same(batch["t2m"][row], values[at : at + 4])
            same(batch["t2m_target"][row], values[[at + 4, at + 9]])
            assert (batch["time"][row] == stamps[at : at + 4]).all()
            assert (batch["time_target"][row] == stamps[[at + 4, at + 9]]).all()
            same(batch["height"][row], whole["height"].values)
            same(batch["lat"][row], whole["lat"].values)
        assert (batch.origins["time"] == batch.indices).all() and list(batch.origins) == ["time"]
    assert "height_target" not in ds.fields and "lat_target" not in ds.fields


def test_no_window_crosses_a_month_that_is_missing_unless_asked(months: Any) -> None:
    paths, values = months
    there = np.concatenate([values[:240], values[364:]])
    files = [*paths[:2], paths[3]]
    ds = forebay.open(files, ["t2m"], samples=Windows({"time": 8}, stride={"time": 1}), files_axis="time")
    starts = [*range(240 - 7), *range(240, len(there) - 7)]
    assert ds[:].origins["time"].tolist() == starts
    same(ds[:]["t2m"], np.stack([there[at : at + 8] for at in starts]))
    crossing = forebay.open(
        files, ["t2m"], samples=Windows({"time": 8}, stride={"time": 1}), files_axis="time", gaps="cross"
    )
    same(crossing[:]["t2m"], np.stack([there[at : at + 8] for at in range(len(there) - 7)]))
    assert crossing.fingerprint != ds.fingerprint


def test_files_in_the_wrong_order_are_refused_by_name(months: Any) -> None:
    paths, _ = months
    with pytest.raises(forebay.InvalidError, match=r"era5_0\.nc.*'time' goes back(.|\n)*in the order of 'time'"):
        forebay.open([paths[1], paths[0]], ["t2m"], samples=Windows({"time": 4}), files_axis="time")


def test_what_cannot_go_on_from_file_to_file_is_said(months: Any) -> None:
    paths, _ = months
    with pytest.raises(forebay.UnsupportedError, match="'lat' is not its first axis"):
        forebay.open(paths, ["t2m"], samples=Windows({"time": 4, "lat": 2}), files_axis="lat")
    with pytest.raises(ValueError, match="only Windows, Fixed and Along"):
        forebay.open(paths, ["t2m"], samples=forebay.Whole(), files_axis="time")
    with pytest.raises(forebay.InvalidError, match="takes 4000 rows, and no more than 484 follow each other"):
        forebay.open(paths, ["t2m"], samples=Windows({"time": 4000}), files_axis="time")
    with pytest.raises(ValueError, match="its windows have none"):
        forebay.open(paths, [Field("t2m", part="target")], samples=Windows({"time": 4}), files_axis="time")
    with pytest.raises(forebay.InvalidError, match=r"lead times \[6, 1\]"):
        forebay.open(paths, ["t2m"], samples=Windows({"time": 4}, targets={"time": (6, 1)}))


def test_the_label_of_windows_with_targets_is_what_follows(months: Any) -> None:
    paths, values = months
    samples = Windows({"time": 2}, targets={"time": 3})
    ds = forebay.open(paths, [Field("t2m", part="input")], Field("t2m", name="y"), samples=samples, files_axis="time")
    assert ds.fields == ["t2m", "y"] and ds.label == "y"
    same(ds[5]["y"], values[[14]])
    # Without an axis over files each month ends its windows.
    alone = forebay.open(paths, ["t2m"], samples=samples)
    assert len(alone) == sum((count - 5) // 2 + 1 for count in (124, 116, 124, 120))
    same(alone[-1]["t2m_target"], values[[364 + 2 * 57 + 1 + 3]])


def test_a_map_is_cut_where_the_windows_are(months: Any) -> None:
    paths, values = months
    samples = Windows({"time": 5, "lat": 2, "lon": 3}, stride={"time": 50, "lat": 1})
    ds = forebay.open(paths, ["t2m", "height", "time", "lat"], samples=samples, files_axis="time")
    height = np.arange(24, dtype="f4").reshape(4, 6)
    batch = ds[:]
    assert list(batch.origins) == ["time", "lat", "lon"]
    for row, (time, lat, lon) in enumerate(zip(*batch.origins.values())):
        same(batch["t2m"][row], values[time : time + 5, lat : lat + 2, lon : lon + 3])
        same(batch["height"][row], height[lat : lat + 2, lon : lon + 3])
        assert (batch["lat"][row] == np.arange(lat, lat + 2) * 10).all()
        assert len(batch["time"][row]) == 5
    assert len(ds) == 10 * 3 * 2


def test_all_of_a_variable_comes_with_every_sample_where_that_is_said(make: Any) -> None:
    x = RANDOM.random((9, 3))
    path = make(x=x, table=np.arange(12).reshape(3, 4), c=np.float64(2.5))
    ds = forebay.open(path, ["x", Field("table", samples=Constant()), Field("c", samples=Constant())])
    same(ds[[2, 7]]["table"], np.stack([np.arange(12).reshape(3, 4)] * 2))
    assert ds[[2, 7]]["c"].tolist() == [2.5, 2.5] and ds[[2, 7]].origins[0].tolist() == [2, 7]
    with pytest.raises(forebay.InvalidError, match="no field says how many"):
        forebay.open(path, [Field("table", samples=Constant())])


def test_a_part_of_a_set_knows_where_its_windows_were_cut(months: Any) -> None:
    paths, values = months
    ds = forebay.open(paths, ["t2m"], samples=Windows({"time": 4}, stride={"time": 3}), files_axis="time")
    part = ds.take(slice(150, 20, -7))
    for batch in [part[:], *part.loader(batch_size=4, shuffle="full", seed=1)]:
        starts = batch.origins["time"]
        assert (starts == (150 - 7 * batch.indices) * 3).all()
        same(batch["t2m"], np.stack([values[at : at + 4] for at in starts]))


def reference(values: Any, size: int, step: int, stride: int, leads: list[int]) -> tuple[Any, Any]:
    reach = (size - 1) * step + 1
    need = reach + max([0, *leads])
    starts = range(0, len(values) - need + 1, stride)
    inputs = [values[at : at + reach : step] for at in starts]
    return np.array(inputs), np.array([values[[at + reach - 1 + lead for lead in leads]] for at in starts])


@QUICK
@given(data=st.data())
def test_windows_over_any_files_are_those_of_the_joined_array(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("files")
    lens = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(lambda lens: sum(lens) > 0), "lens")
    total = sum(lens)
    size = data.draw(st.integers(1, total), "size")
    step = data.draw(st.integers(1, max(1, (total - 1) // max(size - 1, 1))), "step")
    room = total - (size - 1) * step - 1
    leads = sorted(data.draw(st.sets(st.integers(0, room), max_size=4), "leads"))
    stride = data.draw(st.integers(1, 4), "stride")
    values = RANDOM.integers(-99, 99, (total, 2, 3))
    stored = data.draw(st.sampled_from([{}, {"chunks": (2, 2, 3)}, {"chunks": (3, 1, 2), "compression": "gzip"}]), "as")
    paths = []
    for number, cut in enumerate(np.split(values, np.cumsum(lens)[:-1])):
        paths.append(folder / f"part{number}.h5")
        with h5py.File(paths[-1], "w") as file:
            # Files may differ in type and in how they are stored.
            file.create_dataset("x", data=cut.astype("i4" if number % 2 else "i8"), **(stored if len(cut) > 2 else {}))
    field = Field("x", dtype="float32", axes=data.draw(st.sampled_from([None, (1, 0, 2), (2, 1, 0)]), "axes"))
    samples = Windows({0: size}, stride={0: stride}, step={0: step}, targets={0: leads} if leads else None)
    ds = forebay.open(paths, [field], samples=samples, files_axis=0)
    inputs, targets = reference(values, size, step, stride, leads)
    axes = (0, *(1 + axis for axis in field.axes)) if field.axes else (0, 1, 2, 3)
    inputs = inputs.transpose(axes).astype("f4")
    assert len(ds) == len(inputs)
    same(ds[:]["x"], inputs)
    if leads:
        same(ds[:]["x_target"], targets.transpose(axes).astype("f4"))
    world = data.draw(st.integers(1, 3), "world")
    shuffle = data.draw(st.sampled_from(["none", "full", "block"]), "shuffle")
    seen: list[int] = []
    for rank in range(world):
        options = {"batch_size": 2, "shuffle": shuffle, "seed": 3, "rank": rank, "world": world, "tail": "pad"}
        loader = ds.loader(**options, **({"lanes": 12} if shuffle == "block" else {}))
        stop = data.draw(st.integers(0, len(loader)), "stop")
        batches = iter(loader)
        first = [next(batches) for _ in range(stop)]
        resumed = ds.loader(**options, **({"lanes": 12} if shuffle == "block" else {}))
        resumed.load_state_dict(loader.state_dict())
        for batch in first + (list(resumed) if stop < len(loader) else []):
            there = batch.indices >= 0
            same(batch["x"][there], inputs[batch.indices[there]])
            assert not batch["x"][~there].any()
            seen += batch.indices[there].tolist()
            assert batch.origins[0].tolist() == [at * stride if at >= 0 else -1 for at in batch.indices]
    assert sorted(seen) == list(range(len(ds)))


def test_rows_of_several_are_windows_over_files(tmp_path: Path) -> None:
    values = np.arange(22).reshape(11, 2)
    paths = [tmp_path / f"{number}.npy" for number in range(3)]
    for path, cut in zip(paths, (values[:5], values[5:6], values[6:])):
        np.save(path, cut)
    name = forebay.inspect(paths[0])["variables"].keys()
    for samples in (Fixed(4), Along(0, rows=4)):
        ds = forebay.open(paths, list(name), samples=samples, files_axis=0)
        same(ds[:][next(iter(name))], values[:8].reshape(2, 4, 2))


def molecules(path: Path, count: int, start: int = 0) -> list[dict[str, Any]]:
    made = []
    with h5py.File(path, "w") as file:
        for number in range(start, start + count):
            atoms = 3 + number * 7 % 5
            one = {"coords": RANDOM.random((atoms, 3)), "z": RANDOM.integers(1, 9, atoms), "energy": RANDOM.random()}
            made.append(one)
            for name, value in one.items():
                file[f"mol_{number:05}/{name}"] = value
        file["about/notes"] = 1
    return made


def test_groups_of_files_are_samples(tmp_path: Path) -> None:
    made = molecules(tmp_path / "a.h5", 300) + molecules(tmp_path / "b.h5", 200, 300)
    ds = forebay.open([tmp_path / "a.h5", tmp_path / "b.h5"], ["coords", "z"], "energy", samples=Groups("mol_*"))
    assert len(ds) == 500 and ds.label == "energy"
    for number in (0, 299, 300, 499):
        for name, value in made[number].items():
            same(ds[number][name], np.asarray(value))
    for shuffle in ("none", "full", "block"):
        seen = []
        for batch in ds.loader(batch_size=33, shuffle=shuffle, seed=1):
            own = [made[number] for number in batch.indices]
            same(batch["coords"], np.concatenate([one["coords"] for one in own]))
            same(batch["z"], np.concatenate([one["z"] for one in own]))
            assert batch["energy"].tolist() == [one["energy"] for one in own]
            assert np.diff(batch.offsets["z"]).tolist() == [len(one["z"]) for one in own]
            assert (batch.origins["file"] == (batch.indices >= 300)).all()
            seen += batch.indices.tolist()
        assert sorted(seen) == list(range(500)) and (shuffle == "none") == (seen == sorted(seen))


def test_groups_that_are_not_there_or_lack_a_member_are_named(tmp_path: Path) -> None:
    molecules(tmp_path / "a.h5", 3)
    with pytest.raises(forebay.NotFoundError, match=r"a\.h5.*no group is called 'mole_\*'(.|\n)*'about', 'mol_00000'"):
        forebay.open(tmp_path / "a.h5", ["z"], samples=Groups("mole_*"))
    with pytest.raises(forebay.NotFoundError, match=r"a\.h5.*no variable 'about/z'"):
        forebay.open(tmp_path / "a.h5", ["z"], samples=Groups("*"))


def test_a_member_of_a_compound_is_a_field(make: Any) -> None:
    dtype = [("energy", ">f8"), ("kind", "u1"), ("at", [("x", "<i4"), ("name", "S3")]), ("force", "<f4", (3,))]
    table = np.zeros(50, dtype)
    table["energy"], table["kind"] = RANDOM.random(50), np.arange(50)
    table["at"]["x"], table["at"]["name"], table["force"] = np.arange(50) * 7, b"abc", RANDOM.random((50, 3))
    path = make("a.h5", table=(table, {"chunks": (8,), "compression": "gzip"}))
    fields = {
        "e": Field("table", member="energy"),
        "k": Field("table", member="kind", dtype="float32", scale=0.5),
        "x": Field("table", member="at.x"),
        "name": Field("table", member="at.name"),
        "f": Field("table", member="force"),
        "row": Field("table"),
    }
    ds = forebay.open([path, make("b.h5", table=table[::-1])], fields)
    whole = np.concatenate([table, table[::-1]])
    for batch in ds.loader(batch_size=9, shuffle="full", seed=4):
        own = whole[batch.indices]
        same(batch["e"], own["energy"].astype("f8"))
        same(batch["k"], own["kind"].astype("f4") * np.float32(0.5))
        same(batch["x"], own["at"]["x"].copy())
        assert (batch["name"] == own["at"]["name"]).all()
        same(batch["f"], own["force"].copy())
        assert (batch["row"]["energy"] == own["energy"]).all()
    with pytest.raises(forebay.NotFoundError, match=r"a\.h5.*no member 'mass'(.|\n)*energy, kind, at, force"):
        forebay.open(path, [Field("table", member="mass")])
    with pytest.raises(forebay.InvalidError, match="which has no member 'x'"):
        forebay.open(path, [Field("table", member="kind.x")])


def test_a_batch_that_is_kept_keeps_no_files_open_and_says_so_of_its_origins(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(12.0)
    ds = forebay.open(path, ["x"], samples=Windows({0: 3}, stride={0: 1}))
    early, late = ds.loader(batch_size=5)
    assert early.origins[0].tolist() == [0, 1, 2, 3, 4]
    ds.close()
    del ds
    gc.collect()
    assert early.origins[0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(forebay.InvalidError, match=r"while the data set or its loader is there"):
        _ = late.origins
    assert pickle.loads(pickle.dumps(late))["x"].tolist() == late["x"].tolist()
