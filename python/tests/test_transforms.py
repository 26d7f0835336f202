"""Transforms on forebay's threads: bit for bit what NumPy gives, by seeds that Python can compute, refused early where wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Make

import forebay
from forebay import transforms as T

COUNT = 23
MEAN, STD = np.array([0.48, 0.45, 0.4]), np.array([0.22, 0.23, 0.25])
RNG = np.random.default_rng(3)
IMAGES = {
    "uint8": RNG.integers(0, 256, (COUNT, 3, 13, 17), np.uint8),
    "int16": RNG.integers(-3000, 3000, (COUNT, 3, 13, 17), np.int16),
    "int64": RNG.integers(-(2**40), 2**40, (COUNT, 3, 13, 17), np.int64),
    "float16": RNG.normal(0, 1, (COUNT, 3, 13, 17)).astype(np.float16),
    "float32": RNG.normal(280, 15, (COUNT, 3, 13, 17)).astype(np.float32),
    "float64": RNG.normal(280, 15, (COUNT, 3, 13, 17)),
}


def normalized(x: npt.NDArray[Any], mean: Any, std: Any) -> npt.NDArray[np.float32]:
    """The formula, in NumPy."""
    result: npt.NDArray[np.float32] = (x.astype(np.float32) - np.float32(mean)) / np.float32(std)
    return result


def same(one: Any, other: Any) -> None:
    assert one.dtype == other.dtype and one.shape == other.shape
    assert one.tobytes() == np.ascontiguousarray(other).tobytes()


@pytest.fixture
def ds(make: Make) -> forebay.Dataset:
    mask = np.arange(COUNT * 13 * 17).reshape(COUNT, 13, 17) % 251
    hwc = np.ascontiguousarray(IMAGES["uint8"].transpose(0, 2, 3, 1))
    path = make(x=IMAGES["uint8"], mask=mask.astype(np.uint8), hwc=hwc, y=np.arange(COUNT) % 5)
    return forebay.open(path, ["x", "mask", "hwc"], label="y")


def by_hand(batch: Any, crop: Any, flip: Any, sizes: tuple[int, ...]) -> list[npt.NDArray[Any]]:
    starts, flips = crop.starts(batch.seeds, (3, 13, 17)), flip.flips(batch.seeds, 3)
    made = []
    for index, (row, column), turned in zip(batch.indices, starts, flips):
        part = IMAGES["uint8"][index, :, row : row + sizes[0], column : column + sizes[1]]
        made.append(part[..., ::-1] if turned else part)
    return made


@pytest.mark.parametrize("read_threads", [1, 3])
def test_crop_flip_normalise_and_cast_are_bit_for_bit_what_numpy_gives(ds: forebay.Dataset, read_threads: int) -> None:
    crop, flip = T.RandomCrop(8, 11), T.RandomFlip()
    steps = [crop, flip, T.Normalize(MEAN * 255, STD * 255, axis=0), T.Cast("float16")]
    loader = ds.loader(batch_size=4, shuffle="full", seed=9, read_threads=read_threads, transforms={"x": steps})
    assert loader.describe()["fields"]["x"]["shape"] == [3, 8, 11]
    assert loader.describe()["fields"]["x"]["numpy"] == "float16"
    seen, starts, turned = 0, set(), set()
    for _ in range(2):
        for batch in loader:
            parts = by_hand(batch, crop, flip, (8, 11))
            mean, std = (MEAN * 255)[:, None, None], (STD * 255)[:, None, None]
            same(batch["x"], normalized(np.stack(parts), mean, std).astype(np.float16))
            same(batch["mask"], ds.batch(batch.indices)["mask"])
            starts |= {tuple(start) for start in crop.starts(batch.seeds, (3, 13, 17)).tolist()}
            turned |= set(flip.flips(batch.seeds, 3).tolist())
            seen += batch.size
    assert seen == 2 * COUNT and len(starts) > 15 and turned == {True, False}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("stored", list(IMAGES))
def test_every_type_is_normalised_and_cast_as_numpy_does_it(make: Make, stored: str, dtype: str) -> None:
    x = IMAGES[stored]
    ds = forebay.open(make(x=x), ["x"])
    mean, std = (100.0, 7.0) if stored != "int64" else (1e5, 1e9)
    if np.dtype(dtype).kind == "u":
        mean, std = float(x.min()) - 1, float(np.ptp(x)) / 200
    steps = [T.Normalize(mean, std), T.Cast(dtype)]
    (batch,) = ds.loader(batch_size=COUNT, transforms={"x": steps})
    same(batch["x"], normalized(x, mean, std).astype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "int64"])
@pytest.mark.parametrize("stored", ["uint8", "int16", "float16", "float32", "float64"])
def test_a_cast_alone_is_astype(make: Make, stored: str, dtype: str) -> None:
    x = IMAGES[stored]
    (batch,) = forebay.open(make(x=x), ["x"]).loader(batch_size=COUNT, transforms={"x": T.Cast(dtype)})
    same(batch["x"], x.astype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("stored", ["uint8", "int16", "int32", "uint32", "float16", "float32", "float64"])
def test_large_pictures_that_are_stored_past_the_caches_are_those_of_numpy(make: Make, stored: str, dtype: str) -> None:
    x = np.random.default_rng(5).integers(0, 256, (6, 3, 151, 150)).astype(stored)
    crop = T.RandomCrop(141, 143)
    steps = {"x": [crop, T.Normalize(MEAN * 255, STD * 255, axis=0), T.Cast(dtype)]}
    mean, std = (MEAN * 255)[:, None, None], (STD * 255)[:, None, None]
    for batch in forebay.open(make(x=x), ["x"]).loader(batch_size=4, shuffle="full", transforms=steps):
        starts = crop.starts(batch.seeds, (3, 151, 150))
        parts = [x[index, :, row : row + 141, column : column + 143] for index, (row, column) in zip(batch.indices, starts)]
        same(batch["x"], normalized(np.stack(parts), mean, std).astype(dtype))


def test_channels_may_come_last(ds: forebay.Dataset) -> None:
    crop, flip = T.RandomCrop(8, 11, axes=(0, 1)), T.RandomFlip(axis=1)
    steps = [flip, crop, T.Normalize(MEAN, STD, axis=-1)]
    for batch in ds.loader(batch_size=5, seed=4, transforms={"hwc": steps}):
        starts, flips = crop.starts(batch.seeds, (13, 17, 3)), flip.flips(batch.seeds, 3)
        made = []
        for index, (row, column), turned in zip(batch.indices, starts, flips):
            image = IMAGES["uint8"][index].transpose(1, 2, 0)
            image = image[:, ::-1] if turned else image
            made.append(image[row : row + 8, column : column + 11])
        same(batch["hwc"], normalized(np.stack(made), MEAN, STD))


def test_a_picture_and_its_mask_are_cropped_and_turned_alike(ds: forebay.Dataset, make: Make) -> None:
    places = np.tile(np.arange(13 * 17).reshape(13, 17), (COUNT, 1, 1))
    both = make("both.h5", picture=np.stack([places] * 3, axis=1), mask=places)
    steps = [T.RandomCrop(5, 6), T.RandomFlip(-1), T.RandomFlip(-2), T.RandomRoll(-1)]
    loader = forebay.open(both, ["picture", "mask"]).loader(batch_size=7, transforms={"picture": steps, "mask": steps})
    for batch in loader:
        for channel in range(3):
            assert (batch["picture"][:, channel] == batch["mask"]).all()


def test_crops_flips_and_rolls_in_any_order_are_those_of_numpy(make: Make) -> None:
    x = np.arange(COUNT * 6 * 9, dtype=np.int32).reshape(COUNT, 6, 9)
    roll, flip, crop = T.RandomRoll(-1), T.RandomFlip(0, p=0.7), T.RandomCrop(4, 5)
    again = T.RandomFlip(1, key=3)
    loader = forebay.open(make(x=x), ["x"]).loader(batch_size=4, seed=2, transforms={"x": [roll, flip, crop, again]})
    for batch in loader:
        shifts, flips = roll.shifts(batch.seeds, (6, 9)), flip.flips(batch.seeds, 2)
        starts, turned = crop.starts(batch.seeds, (6, 9)), again.flips(batch.seeds, 2)
        for slot, index in enumerate(batch.indices):
            one = np.roll(x[index], shifts[slot], axis=1)
            one = one[::-1] if flips[slot] else one
            row, column = starts[slot]
            one = one[row : row + 4, column : column + 5]
            same(batch["x"][slot], one[:, ::-1] if turned[slot] else one)


def test_the_middle_is_cropped_where_that_is_wanted(ds: forebay.Dataset) -> None:
    (batch,) = ds.loader(batch_size=COUNT, transforms={"x": T.CenterCrop(8, 8)})
    same(batch["x"], IMAGES["uint8"][:, :, 2:10, 4:12])


def test_log_and_clip_are_computed_in_order(make: Make) -> None:
    x = RNG.gamma(1, 3, (COUNT, 50)).astype(np.float32)
    x[3, 7] = np.nan
    steps = [T.Log(add=0.1), T.Clip(-1.0, 2.0)]
    (batch,) = forebay.open(make(x=x), ["x"]).loader(batch_size=COUNT, transforms={"x": steps})
    logs = np.log(x.astype(np.float64) + 0.1).astype(np.float32)
    np.testing.assert_array_max_ulp(batch["x"][~np.isnan(x)], np.clip(logs, -1, 2)[~np.isnan(x)], 1)
    assert np.isnan(batch["x"][3, 7])


def test_one_hot_rows_have_a_one_at_the_class(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=COUNT, transforms={"y": T.OneHot(5)})
    (batch,) = loader
    same(batch["y"], np.eye(5, dtype=np.float32)[np.arange(COUNT) % 5])
    assert loader.describe()["fields"]["y"]["shape"] == [5]
    with pytest.raises(forebay.CorruptError, match="none of 3 classes"):
        list(ds.loader(batch_size=2, transforms={"y": T.OneHot(3)}))
    kept = [index for batch in ds.loader(on_error="skip", transforms={"y": T.OneHot(3)}) for index in batch.indices.tolist()]
    assert kept == [index for index in range(COUNT) if index % 5 < 3]


def test_variables_are_stacked_along_a_new_axis(make: Make) -> None:
    parts = {name: RNG.normal(at, 1 + at, (COUNT, 6, 7)).astype(np.float32) for at, name in enumerate(["t2m", "u10", "v10"])}
    ds = forebay.open(make(**parts, y=np.arange(COUNT)), [*parts, "y"])
    mean, std = [0.0, 1.0, 2.0], [1.0, 2.0, 3.0]
    crop = T.RandomCrop(4, 5)
    loader = ds.loader(
        batch_size=4, fields={"x": ["t2m", "u10", "v10"], "y": "y"}, transforms={"x": [crop]}, normalize={"x": (mean, std)}
    )
    assert list(loader.describe()["fields"]) == ["x", "y"] and loader.describe()["fields"]["x"]["shape"] == [3, 4, 5]
    for batch in loader:
        assert list(batch) == ["x", "y"] and (batch["y"] == batch.indices).all()
        whole = np.stack([parts[name][batch.indices] for name in parts], axis=1)
        starts = crop.starts(batch.seeds, (3, 6, 7))
        cut = np.stack([one[:, r : r + 4, c : c + 5] for one, (r, c) in zip(whole, starts)])
        same(batch["x"], normalized(cut, np.array(mean)[:, None, None], np.array(std)[:, None, None]))


def test_padding_stays_zero_and_ragged_values_are_normalised(make: Make) -> None:
    lens = RNG.integers(1, 6, 11)
    values = RNG.normal(3, 2, (int(lens.sum()), 4)).astype(np.float32)
    path = make(v=values, n=lens, x=np.arange(11.0) + 1)
    ds = forebay.open(path, ["v"], label="x", samples=forebay.Ragged(lengths="n"))
    loader = ds.loader(batch_size=4, tail="pad", normalize={"v": ([1, 2, 3, 4], [2, 2, 2, 2], 1), "x": (5.0, 2.0)})
    got = []
    for batch in loader:
        real = batch.indices >= 0
        assert (batch["x"][~real] == 0).all()
        same(batch["x"][real], normalized(batch.indices[real] + 1, 5.0, 2.0))
        got.append(batch["v"])
    same(np.concatenate(got), normalized(values, [1, 2, 3, 4], 2.0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transforms": {"z": T.Cast("float32")}}, "no field 'z'"),
        ({"normalize": {"z": (0, 1)}}, "no field 'z'"),
        ({"transforms": {"x": T.RandomCrop(14, 2)}}, "a crop of 14"),
        ({"transforms": {"x": T.RandomCrop(2, 2, 2, 2)}}, "4 axes"),
        ({"transforms": {"x": T.RandomFlip(3)}}, "axis 3"),
        ({"transforms": {"x": T.Normalize(0.0, 0.0)}}, "a std of 0"),
        ({"transforms": {"x": T.Normalize([0.0, 1.0], [1.0, 1.0])}}, "no axis"),
        ({"transforms": {"x": T.Normalize([0.0, 1.0], [1.0, 1.0], axis=0)}}, "2 means for axis 0 of length 3"),
        ({"transforms": {"x": [T.RandomFlip(0), T.Normalize([0] * 3, [1] * 3, axis=0)]}}, "axis 0"),
        ({"transforms": {"x": [T.Cast("float16"), T.Normalize(0, 1)]}}, "put Cast last"),
        ({"transforms": {"y": T.RandomCrop(1)}}, "1 axes of samples that have 0"),
        ({"fields": {"z": ["x", "mask"]}}, "cannot be stacked"),
        ({"fields": ["x", "w"]}, "no field 'w'"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_loader_is_made(ds: forebay.Dataset, options: Any, said: str) -> None:
    with pytest.raises(forebay.InvalidError, match=said):
        ds.loader(batch_size=2, **options)


def test_what_is_no_transform_is_refused(ds: forebay.Dataset) -> None:
    with pytest.raises(TypeError, match="map= takes callables"):
        ds.loader(transforms={"x": np.log})
    with pytest.raises(TypeError, match="ds.loader"):
        forebay.open(ds.files, {"x": ["a", "b"]})
    with pytest.raises(ValueError, match="cannot be cast"):
        ds.loader(transforms={"x": T.Cast("complex64")})


def test_what_is_drawn_depends_on_seed_epoch_and_sample_alone(ds: forebay.Dataset) -> None:
    options: dict[str, Any] = {"shuffle": "full", "seed": 6, "transforms": {"x": [T.RandomCrop(3, 3), T.RandomRoll()]}}

    def epoch(loader: forebay.Loader) -> dict[int, bytes]:
        return {int(index): x.tobytes() for batch in loader for index, x in zip(batch.indices, batch["x"])}

    loader = ds.loader(batch_size=4, **options)
    first, second = epoch(loader), epoch(loader)
    assert first.keys() == second.keys() and first != second
    again = ds.loader(batch_size=7, read_threads=3, **options)
    again.set_epoch(1)
    assert epoch(again) == second
    ranks = [epoch(ds.loader(batch_size=2, rank=rank, world=2, tail="drop", **options)) for rank in range(2)]
    assert all(first[index] == x for rank in ranks for index, x in rank.items())
    half = ds.loader(batch_size=4, **options)
    run = iter(half)
    early = {int(index): x.tobytes() for _ in range(2) for batch in [next(run)] for index, x in zip(batch.indices, batch["x"])}
    resumed = ds.loader(batch_size=4, transforms=options["transforms"])
    resumed.load_state_dict(half.state_dict())
    assert early | epoch(resumed) == first


def test_parts_of_a_set_draw_by_the_seeds_of_their_batches(ds: forebay.Dataset) -> None:
    crop = T.RandomCrop(3, 4)
    part = ds.take([20, 3, 11, 7, 0, 5])
    with forebay.Store() as store:
        store.fill(ds)
        for whole in (part, store.take([20, 3, 11, 7, 0, 5])):
            seen = 0
            for batch in whole.loader(batch_size=4, seed=8, shuffle="full", tail="pad", transforms={"x": [crop]}):
                real = batch.indices >= 0
                starts = crop.starts(batch.seeds, (3, 13, 17))[real]
                images = IMAGES["uint8"][part.base_indices(batch.indices[real])]
                same(batch["x"][real], np.stack([one[:, r : r + 3, c : c + 4] for one, (r, c) in zip(images, starts)]))
                seen += int(real.sum())
            assert seen == 6
    drawn = ds.loader(batch_size=4, weights=np.arange(COUNT), transforms={"x": [crop]})
    for batch in drawn:
        starts = crop.starts(batch.seeds, (3, 13, 17))
        images = IMAGES["uint8"][batch.indices]
        same(batch["x"], np.stack([one[:, r : r + 3, c : c + 4] for one, (r, c) in zip(images, starts)]))


def test_a_store_transforms_as_files_do(ds: forebay.Dataset) -> None:
    steps = {"x": [T.RandomCrop(8, 8), T.Normalize(MEAN, STD, axis=0)]}
    with forebay.Store() as store:
        store.fill(ds)
        for ours, theirs in zip(store.loader(batch_size=4, transforms=steps), ds.loader(batch_size=4, transforms=steps)):
            same(ours["x"], theirs["x"])


def test_draws_are_those_that_are_documented() -> None:
    assert T.splitmix64([0, 1]).tolist() == [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1]
    drawn = T.draw([7, 2**64 - 1], "roll", 2, 5)
    purpose = int(T.splitmix64(3 << 48 | 2 << 32 | 5)[0])
    assert drawn.tolist() == [int(T.splitmix64(seed ^ purpose)[0]) for seed in (7, 2**64 - 1)]
    starts = T.RandomCrop(4).starts(np.arange(1000), (1000,))
    drawn = T.draw(np.arange(1000), "crop", 1)
    assert starts[:, 0].tolist() == [int(one) * 997 >> 64 for one in drawn]


def test_tensors_are_transformed_too(ds: forebay.Dataset) -> None:
    torch = pytest.importorskip("torch")
    import forebay.torch

    loader = forebay.torch.Loader(ds, batch_size=4, transforms={"x": [T.CenterCrop(4, 4), T.Cast("bfloat16")]}, as_tuple=True)
    for x, _, _, y in loader:
        assert x.dtype == torch.bfloat16 and x.shape[1:] == (3, 4, 4) and y.dtype == torch.int64


def test_the_guide_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "transforms.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", guide, re.M | re.S)
    assert len(blocks) == 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
