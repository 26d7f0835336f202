"""A data set by index, what it says of itself, and its errors."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Make, images, same

import forebay
from forebay import Field


@pytest.fixture
def ds(make: Make) -> forebay.Dataset:
    return forebay.open(make(image=(images(), {"chunks": (4, 6, 5, 3)}), label=np.arange(20)), ["image"], "label")


def test_one_number_gives_one_sample(ds: forebay.Dataset) -> None:
    for index in (0, 5, 19, -1, -20, np.int32(7), np.uint8(7), np.array(3)):
        sample = ds[index]
        same(sample["image"], images()[index])
        assert sample["label"] == range(20)[index] and np.ndim(sample["label"]) == 0


@pytest.mark.parametrize(
    "index",
    [slice(None), slice(3, 9), slice(None, None, -3), slice(-4, None), slice(5, 5), [9, 2, 2], (1, 2), range(3, 8, 2),
     np.array([4, -1], np.int16), np.array([], int), [], [-20]],
    ids=str,
)  # fmt: skip
def test_many_numbers_give_a_batch(ds: forebay.Dataset, index: Any) -> None:
    numbers = np.arange(20)[index if isinstance(index, slice) else np.asarray(list(index), int)]
    batch = ds[index]
    assert isinstance(batch, forebay.Batch) and batch.size == len(numbers)
    same(batch.indices, numbers)
    same(batch["image"], images()[numbers])
    same(batch["label"], numbers)


def test_a_mask_gives_a_batch(ds: forebay.Dataset) -> None:
    mask = np.arange(20) % 3 == 0
    same(ds[mask]["label"], np.flatnonzero(mask))
    with pytest.raises(IndexError, match="mask of shape"):
        ds[mask[:-1]]


@pytest.mark.parametrize("index", [20, -21, [0, 20], [-21], np.array([5, 99])], ids=str)
def test_what_is_out_of_range_is_an_index_error(ds: forebay.Dataset, index: Any) -> None:
    with pytest.raises(IndexError, match="of 20"):
        ds[index]


@pytest.mark.parametrize("numbers", [[-1], [3, -20], (5, 5), range(-2, 2), np.array([-1, 0], np.int8)], ids=str)
def test_a_batch_counts_numbers_below_0_from_the_end(ds: forebay.Dataset, numbers: Any) -> None:
    expected = np.arange(20)[np.asarray(list(numbers))]
    same(ds.batch(numbers).indices, expected)
    same(ds.batch(numbers)["label"], expected)
    same(ds.batch(iter(numbers))["label"], expected)


@pytest.mark.parametrize("numbers", [[20], [-21], [0, 99], [0.5]], ids=str)
def test_a_batch_of_what_is_out_of_range_is_an_index_error(ds: forebay.Dataset, numbers: Any) -> None:
    with pytest.raises(IndexError, match="of 20|numbers"):
        ds.batch(numbers)


@pytest.mark.parametrize("index", [1.5, "image", [0.5], [[1, 2]], None], ids=str)
def test_what_is_no_index_is_refused(ds: forebay.Dataset, index: Any) -> None:
    with pytest.raises((TypeError, IndexError)):
        ds[index]


def test_a_set_can_be_walked_and_counted(ds: forebay.Dataset) -> None:
    assert len(ds) == len(list(ds)) == 20
    assert [int(sample["label"]) for sample in ds] == list(range(20))


def test_describe_says_what_there_is(ds: forebay.Dataset) -> None:
    told = ds.describe()
    assert told["samples"] == 20 and told["label"] == "label" and told["files"] == ds.files
    image = told["fields"]["image"]
    assert image["numpy"] == np.uint8 and image["shape"] == (6, 5, 3) and image["dtype"] == "|u1"
    assert told["bytes"] == 20 * (90 + 8) == ds.nbytes
    assert "20 samples" in repr(ds)


def test_fields_may_have_other_names(make: Make) -> None:
    path = make(image=images(), label=np.arange(20))
    ds = forebay.open(path, {"x": "image", "y": Field("label", dtype="float32")})
    assert ds.fields == ["x", "y"] and ds[3]["y"].dtype == np.float32
    ds = forebay.open(path, [Field("image", name="x")], label=Field("label", name="y"))
    assert ds.fields == ["x", "y"] and ds.label == "y"
    assert forebay.open(path, "image").fields == ["image"]
    with pytest.raises(ValueError, match="two fields are called 'x'"):
        forebay.open(path, [Field("image", name="x"), Field("label", name="x")])
    with pytest.raises(ValueError, match="name the fields"):
        forebay.open(path)


def test_files_are_named_by_path_pattern_folder_or_list(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [make(f"{letter}.h5", x=np.arange(3) + number) for number, letter in enumerate("bac")]
    folder = paths[0].parent
    in_order = [str(folder / f"{letter}.h5") for letter in "abc"]
    for files in (folder, folder / "*.h5", str(folder / "[a-c].h5"), [folder / "a.h5", folder / "[bc].h5"]):
        assert forebay.open(files, ["x"]).files == in_order
    assert forebay.open(paths, ["x"]).files == [str(path) for path in paths]
    monkeypatch.chdir(folder)
    assert forebay.open("*.h5", ["x"]).files == in_order


def errors(make: Make) -> Any:
    """Requests that go wrong: kind, exception, words of the message."""
    good = make(x=np.arange(4))
    empty = good.parent / "empty.h5"
    empty.write_bytes(b"")
    return good, empty


def test_errors_are_typed_and_name_the_place(make: Make, tmp_path: Path) -> None:
    good, empty = errors(make)
    with pytest.raises(forebay.NotFoundError, match=r"gone\.h5") as caught:
        forebay.open(tmp_path / "gone.h5", ["x"])
    assert caught.value.kind == "not_found" and isinstance(caught.value, forebay.ForebayError)
    with pytest.raises(forebay.NotFoundError, match=r"no file matches"):
        forebay.open(tmp_path / "*.nc", ["x"])
    with pytest.raises(forebay.NotFoundError, match=r"a\.h5.*'y'") as caught:
        forebay.open(good, ["y"])
    with pytest.raises(forebay.ForebayError, match=r"empty\.h5"):
        forebay.open(empty, ["x"])
    torn = tmp_path / "torn.h5"
    torn.write_bytes(good.read_bytes()[:600])
    with pytest.raises(forebay.CorruptError, match=r"torn\.h5") as caught:
        forebay.open(torn, ["x"])
    assert caught.value.kind == "corrupt"
    with pytest.raises(forebay.InvalidError):
        forebay.open(good, ["x"]).loader(batch_size=0)
    with pytest.raises(forebay.InvalidError, match="rank=3 with world=2"):
        forebay.open(good, ["x"]).loader(rank=3, world=2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_denied(make: Make) -> None:
    path = make(x=np.arange(4))
    path.chmod(0)
    with pytest.raises(forebay.DeniedError, match=r"a\.h5"):
        forebay.open(path, ["x"])


def test_a_missing_file_is_pythons_own_error_too_and_has_its_number(make: Make, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        forebay.open(tmp_path / "gone.h5", ["x"])
    assert caught.value.errno == errno.ENOENT and str(caught.value).count("gone.h5") == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.errno) == (forebay.NotFoundError, str(caught.value), errno.ENOENT)
    with pytest.raises(forebay.NotFoundError) as caught:
        forebay.open(make(x=np.arange(4)) / "b.h5", ["x"])
    assert caught.value.errno == errno.ENOTDIR
    assert forebay.InvalidError("a").errno is None
    assert issubclass(forebay.DeniedError, PermissionError) and issubclass(forebay.SystemError, OSError)


def test_every_exception_has_its_kind() -> None:
    kinds = {
        "NotFoundError": "not_found", "InvalidError": "invalid", "CorruptError": "corrupt", "FullError": "full",
        "UnsupportedError": "unsupported", "UnavailableError": "unavailable", "DeniedError": "denied",
        "SystemError": "system", "BugError": "bug",
    }  # fmt: skip
    for name, kind in kinds.items():
        exception = getattr(forebay, name)
        assert exception.kind == kind and issubclass(exception, forebay.ForebayError)
        assert exception.__module__ == "forebay"


@pytest.mark.parametrize(
    "options",
    [{"shuffle": "some"}, {"tail": "long"}, {"drop_last": True, "tail": "pad"}, {"memory": "lots"}, {"memory": -1},
     {"transfer_size": "1XB"}, {"on_error": "ignore"}],
    ids=str,
)  # fmt: skip
def test_options_that_make_no_sense_are_value_errors(ds: forebay.Dataset, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ds.loader(**options)


def test_a_batch_larger_than_memory_is_refused(ds: forebay.Dataset) -> None:
    with pytest.raises(forebay.FullError, match="memory") as caught:
        ds.loader(batch_size=20, memory=1000)
    assert caught.value.kind == "full"


@pytest.mark.parametrize(
    ("text", "size"), [("1MiB", 1 << 20), ("2 kB", 2000), ("1.5k", 1536), (7, 7), ("3", 3), ("2GB", 2 * 10**9)]
)
def test_sizes_are_read_as_people_write_them(text: Any, size: int) -> None:
    from forebay._sizes import size_of

    assert size_of(text) == size


def test_an_empty_set_has_no_batches(make: Make) -> None:
    ds = forebay.open(make(x=np.empty((0, 3), np.float32)), ["x"])
    assert len(ds) == 0 and ds[:]["x"].shape == (0, 3)
    assert list(ds.loader(batch_size=4, shuffle="full")) == []


def test_numbers_may_be_those_of_numpy(make: Make) -> None:
    path = make(x=np.arange(12.0).reshape(4, 3))
    field = Field("x", scale=np.float32(2), axes=np.array([0]))
    ds = forebay.open(path, [field], memory=np.int64(1 << 24))
    loader = ds.loader(batch_size=np.int64(2), seed=np.uint8(3), memory=np.int32(1 << 24))
    assert [batch.size for batch in loader] == [2, 2]


@pytest.mark.parametrize(
    "options",
    [{"seed": -1}, {"batch_size": -1}, {"rank": -1}, {"prefetch": -1}, {"read_threads": -1},
     {"shuffle": "block", "lanes": -1}],
    ids=str,
)  # fmt: skip
def test_numbers_below_0_are_named(ds: forebay.Dataset, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w+=-1 is below 0"):
        ds.loader(**options)


def test_sizes_of_batches_that_cannot_be_are_named(ds: forebay.Dataset) -> None:
    with pytest.raises(ValueError, match=r"batch_size=10+; it must be below 2\*\*64"):
        ds.loader(batch_size=10**30)
    with pytest.raises(forebay.InvalidError, match="batch_size=0.*at least 1"):
        ds.loader(batch_size=0)


def test_what_is_no_whole_number_is_named(ds: forebay.Dataset) -> None:
    with pytest.raises(TypeError, match=r"batch_size=2\.0 is no whole number"):
        ds.loader(batch_size=2.0)
    with pytest.raises(ValueError, match="axis=-1 is below 0"):
        forebay.open(ds.files, [Field("image", axes=(-1, 0, 1))])


def test_a_star_import_hides_nothing_of_pythons_own() -> None:
    import builtins

    assert not set(forebay.__all__) & set(dir(builtins))


def test_what_is_no_state_is_refused(ds: forebay.Dataset) -> None:
    for state in ({}, "state", None):
        with pytest.raises(ValueError, match="state_dict"):
            ds.loader().load_state_dict(state)


@pytest.mark.parametrize("samples", [4, "fixed", forebay.Fixed], ids=str)
def test_what_is_no_boundary_is_named(make: Make, samples: Any) -> None:
    with pytest.raises(TypeError, match="there are Fixed"):
        forebay.open(make(x=np.arange(4)), ["x"], samples=samples)


def test_what_is_no_field_is_named(make: Make) -> None:
    path = make(x=np.arange(4))
    with pytest.raises(TypeError, match="no field"):
        forebay.open(path, [3])
    with pytest.raises(TypeError, match="no field"):
        forebay.open(path, ["x"], label=["x"])


def test_a_url_that_nobody_reads_is_refused_by_name() -> None:
    with pytest.raises(forebay.UnsupportedError, match="ftp://host/a.h5"):
        forebay.open("ftp://host/a.h5", ["x"])


def test_a_spill_that_is_no_folder_is_refused(ds: forebay.Dataset, tmp_path: Path) -> None:
    with pytest.raises(forebay.NotFoundError, match="spill"):
        ds.loader(spill=tmp_path / "nowhere")
