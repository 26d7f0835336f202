"""The call of the Stimulus paper inside ``Dataset.interleave``, for each format."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import tensorflow as tf
import zarr
from package_fixtures import Make, images, same

import forebay
import forebay.tensorflow
from forebay.tensorflow import HDF5, from_slices

ROW = 6 * 5 * 3
COUNT = 16


@pytest.fixture
def files(make: Make) -> list[Any]:
    paths = [
        make(f"{number}.h5", image=images(COUNT, number), label=np.arange(number * COUNT, (number + 1) * COUNT))
        for number in range(3)
    ]
    return [(path, "image", "label", ("FIXED", ROW)) for path in paths]


def check(samples: Any, count: int = 3) -> None:
    """Every sample came once, with its own label."""
    everything = np.concatenate([images(COUNT, number) for number in range(count)])
    seen = []
    for data, label in samples:
        same(data.numpy(), everything[int(label)])
        seen.append(int(label))
    assert sorted(seen) == list(range(count * COUNT))


def test_the_call_of_the_paper(files: list[Any]) -> None:
    ds = from_slices(files)
    ds = ds.interleave(lambda x: HDF5(x, transfer_size=1048576, read_threads=4), cycle_length=4, block_length=16)
    assert ds.element_spec == (tf.TensorSpec((6, 5, 3), tf.uint8), tf.TensorSpec((), tf.int64))
    check(ds)
    check(ds.shuffle(10).prefetch(2))
    for image_batch, label_batch in ds.batch(4):
        assert image_batch.shape == (4, 6, 5, 3) and label_batch.shape == (4,)
    parallel = from_slices(files).interleave(HDF5, cycle_length=2, num_parallel_calls=2, deterministic=False)
    check(parallel)


def test_files_of_unequal_length_are_interleaved_whatever_crosses_at_once(make: Make) -> None:
    lens = [16, 5, 1, 23]
    starts = np.cumsum([0, *lens])
    paths = [
        make(f"{number}.h5", image=images(length, number), label=np.arange(starts[number], starts[number + 1]))
        for number, length in enumerate(lens)
    ]
    everything = np.concatenate([images(length, number) for number, length in enumerate(lens)])
    ds = from_slices([(path, "image", "label", ("FIXED", ROW)) for path in paths])
    for transfer_size, read_threads in ((1, 1), (3 * (ROW + 8), 2), ("1MiB", 4)):
        read = lambda x: HDF5(x, transfer_size=transfer_size, read_threads=read_threads)  # noqa: B023, E731
        labels = []
        for data, label in ds.interleave(read, cycle_length=3, block_length=4):
            same(data.numpy(), everything[int(label)])
            labels.append(int(label))
        # In turns of four samples, as tf.data has it, until a file has no more.
        assert labels[:13] == [0, 1, 2, 3, 16, 17, 18, 19, 21, 4, 5, 6, 7] and sorted(labels) == list(range(sum(lens)))


def test_a_file_alone_is_a_dataset(files: list[Any]) -> None:
    check(HDF5(files[0], transfer_size=ROW * 3), 1)
    check(HDF5(tuple(map(str, files[0][:3]))), 1)
    data = HDF5((files[0][0], "image"))
    assert data.element_spec == tf.TensorSpec((6, 5, 3), tf.uint8)
    same(np.stack([one.numpy() for one in data]), images(COUNT, 0))


def test_sources_of_ones_own_tensors_need_like_or_a_spec(files: list[Any]) -> None:
    paths, fields, labels, boundaries = zip(*files)
    modes, sizes = zip(*boundaries)
    own = tf.data.Dataset.from_tensor_slices((list(map(str, paths)), list(fields), list(labels), (list(modes), list(sizes))))
    check(own.interleave(lambda *x: HDF5(x, like=files[1])))
    spec = (tf.TensorSpec((6, 5, 3), tf.uint8), tf.TensorSpec((), tf.int64))
    check(own.interleave(lambda *x: HDF5(x, element_spec=spec)))
    with pytest.raises(ValueError, match=r"from_slices\(files\), or give like="):
        own.interleave(lambda *x: HDF5(x))
    with pytest.raises(ValueError, match="like= is a path, and the field is a tensor"):
        own.interleave(lambda *x: HDF5(x, like=files[0][0]))
    alone = tf.data.Dataset.from_tensor_slices(list(map(str, paths)))
    check(alone.interleave(lambda path: HDF5((path, "image", "label", ("FIXED", ROW)), like=files[0][0])))


def test_rows_cross_in_blocks(files: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lens: list[int] = []
    block = forebay._tf_formats._Rows._block

    def noting(self: Any, path: Any, batch: Any, fields: Any) -> Any:
        lens.append(len(batch["label"]))
        return block(self, path, batch, fields)

    monkeypatch.setattr(forebay._tf_formats._Rows, "_block", noting)
    check(HDF5(files[0], transfer_size=4 * (ROW + 8)), 1)
    assert lens == [4, 4, 4, 4]


def test_files_that_differ_say_so_or_have_a_spec_that_allows_it(make: Make, files: list[Any]) -> None:
    other = make("other.h5", image=images(COUNT)[:, :3], label=np.arange(COUNT))
    sources = [files[0], (other, "image", "label", ("FIXED", ROW // 2))]
    with pytest.raises(tf.errors.OpError, match=r"other\.h5: uint8\[3, 5, 3\].*like=.*element_spec="):
        list(from_slices(sources).interleave(HDF5))
    spec = (tf.TensorSpec((None, 5, 3), tf.uint8), tf.TensorSpec((), tf.int64))
    made = list(from_slices(sources).interleave(lambda x: HDF5(x, element_spec=spec), cycle_length=1))
    same(np.stack([data.numpy() for data, _ in made[:COUNT]]), images(COUNT, 0))
    same(np.stack([data.numpy() for data, _ in made[COUNT:]]), images(COUNT)[:, :3])


def test_samples_of_different_lengths(make: Make) -> None:
    path = make(x=np.arange(10.0), ptr=[0, 3, 3, 10], y=[7, 8, 9])
    ds = from_slices([(path, "x", "y", ("VARIABLE", "ptr"))]).interleave(HDF5)
    assert ds.element_spec[0] == tf.TensorSpec((None,), tf.float64)
    assert [(data.numpy().tolist(), int(label)) for data, label in ds] == [([0, 1, 2], 7), ([], 8), ([3, 4, 5, 6, 7, 8, 9], 9)]


def test_what_is_no_source_is_refused(files: list[Any]) -> None:
    for wrong in (5, ("a.h5",), ("a", "b", "c", "d", "e")):
        with pytest.raises(ValueError, match="is no source"):
            HDF5(wrong)
    with pytest.raises(ValueError, match="at least 1"):
        HDF5(files[0], read_threads=0)
    with pytest.raises(ValueError, match="samples of 91 bytes; a row has 90"):
        HDF5((files[0][0], "image", "label", ("FIXED", 91)))
    with pytest.raises(ValueError, match=r"format hdf5, which Zarr does not take; forebay\.tensorflow\.HDF5 takes it"):
        forebay.tensorflow.Zarr(files[0])
    with pytest.raises(ValueError, match="have a label or none has"):
        from_slices([files[0], files[1][:2]])


@pytest.mark.parametrize("front", ["NetCDF", "NC", "GNCF", "HDF5"])
def test_netcdf(tmp_path: Path, front: str) -> None:
    path = tmp_path / "images.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, length in zip("nyxc", (COUNT, 6, 5, 3)):
            file.createDimension(name, length)
        file.createVariable("image", "u1", tuple("nyxc"))[:] = images(COUNT)
        file.createVariable("label", "i8", ("n",))[:] = np.arange(COUNT)
    made = from_slices([(path, "image", "label", ("FIXED", ROW))]).interleave(getattr(forebay.tensorflow, front))
    check(made, 1)


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "NETCDF4"])
def test_netcdf_gives_scaled_values_and_missing_ones_as_nan(tmp_path: Path, kind: str) -> None:
    path, stored = tmp_path / "packed.nc", np.arange(COUNT * 6, dtype="i2").reshape(COUNT, 6)
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("n", None)
        file.createDimension("x", 6)
        packed = file.createVariable("t2m", "i2", ("n", "x"), fill_value=np.int16(-1))
        packed.setncatts({"scale_factor": np.float32(0.5), "add_offset": np.float32(270)})
        packed.set_auto_maskandscale(False)
        packed[:] = np.where(stored == 7, -1, stored)
        file.createVariable("label", "i4", ("n",))[:] = np.arange(COUNT)
    # Bytes of a sample are those that are stored.
    sources = from_slices([(path, "t2m", "label", ("FIXED", 12))])
    scaled = np.where(stored == 7, np.nan, stored * np.float32(0.5) + np.float32(270)).astype("f4")
    for front in (forebay.tensorflow.NetCDF, forebay.tensorflow.NC, forebay.tensorflow.GNCF):
        made = list(sources.interleave(front))
        assert [int(label) for _, label in made] == list(range(COUNT))
        values = np.stack([data.numpy() for data, _ in made])
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, scaled)
    raw = np.stack([data.numpy() for data, _ in sources.interleave(lambda x: forebay.tensorflow.NetCDF(x, cf=False))])
    same(raw, np.where(stored == 7, -1, stored).astype("i2"))


def test_zarr(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("image", data=images(COUNT), chunks=(4, 6, 5, 3))
    group.create_array("label", data=np.arange(COUNT))
    check(from_slices([(tmp_path / "a.zarr", "image", "label", ("FIXED", ROW))]).interleave(forebay.tensorflow.Zarr), 1)


def test_adios2(tmp_path: Path) -> None:
    adios2 = pytest.importorskip("adios2")
    path = tmp_path / "a.bp"
    with adios2.Stream(str(path), "w") as stream:
        for number in range(COUNT):
            stream.begin_step()
            image = images(COUNT)[number]
            stream.write("image", image, list(image.shape), [0, 0, 0], list(image.shape))
            stream.write("label", np.array([number]), [1], [0], [1])
            stream.end_step()
    ds = from_slices([(path, "image", "label", ("FIXED", ROW))]).interleave(forebay.tensorflow.ADIOS2)
    check(ds.map(lambda data, label: (data, tf.squeeze(label))), 1)


def test_silo(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "benches" / "formats" / "silo_rows.c"
    if shutil.which("cc") is None or not Path("/usr/include/silo.h").exists():
        pytest.skip("no compiler, or no Silo to write files with")
    subprocess.run(["cc", "-o", tmp_path / "write", source, "-lsiloh5", "-l:libstdc++.so.6"], check=True)
    rows = np.arange(4 * COUNT, dtype="<f4").reshape(COUNT, 4)
    rows.tofile(tmp_path / "raw")
    subprocess.run([tmp_path / "write", tmp_path / "raw", tmp_path / "a.silo", str(COUNT), "4"], check=True)
    made = from_slices([(tmp_path / "a.silo", "x", None, ("FIXED", 16))]).interleave(forebay.tensorflow.Silo)
    same(np.stack([data.numpy() for data in made]), rows)
    # Where the rows of the mesh lie is a label as well as any.
    labelled = list(from_slices([(tmp_path / "a.silo", "x", "mesh/coord1", ("FIXED", 16))]).interleave(forebay.tensorflow.Silo))
    same(np.stack([data.numpy() for data, _ in labelled]), rows)
    assert [float(label) for _, label in labelled] == list(range(COUNT))
