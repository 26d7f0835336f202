"""Pictures of different sizes to pictures of one size, against Pillow and torchvision's formulas."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from forebay import transforms as T

SIZES = [(37, 61), (61, 37), (8, 8), (200, 31), (1, 1), (3, 90), (64, 64), (23, 23)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(3)
    for number, (height, width) in enumerate(SIZES):
        pixels = rng.integers(0, 256, (height, width, 4), np.uint8)
        kinds = [("RGB", "jpg", pixels[..., :3]), ("L", "png", pixels[..., 0]), ("RGBA", "png", pixels), ("LA", "png", pixels[..., :2])]
        mode, ending, values = kinds[number % 4]
        Image.fromarray(values, mode).save(made / f"{number}.{ending}")
    return made


def pictures(folder: Path) -> list[Image.Image]:
    return [Image.open(path).convert("RGB") for path in sorted(folder.iterdir())]


def batches(folder: Path, *steps: Any, **options: Any) -> list[Any]:
    ds = forebay.open(folder, ["encoded"], samples=forebay.Ragged(offsets={"encoded": "encoded@offsets"}))
    return list(ds.loader(batch_size=3, transforms={"encoded": list(steps)}, **options))


def decoded(folder: Path, *steps: Any, **options: Any) -> Any:
    return np.concatenate([batch["encoded"] for batch in batches(folder, *steps, **options)])


@pytest.mark.parametrize("size", [(16, 16), (50, 20), (5, 77), (1, 1)])
def test_stretched_pictures_have_the_levels_that_pillow_gives(folder: Path, size: tuple[int, int]) -> None:
    height, width = size
    expected = [np.asarray(one.resize((width, height), Image.Resampling.BILINEAR)) for one in pictures(folder)]
    assert np.array_equal(decoded(folder, T.DecodeImage(height, width)), np.stack(expected))
    first = decoded(folder, T.DecodeImage(height, width, channels="first"))
    assert np.array_equal(first, np.stack(expected).transpose(0, 3, 1, 2))


def middle(picture: Image.Image, shorter: int, side: int) -> Any:
    """torchvision's Resize(shorter) and CenterCrop(side)."""
    width, height = picture.size
    short, long = min(width, height), max(width, height)
    sizes = (shorter, int(shorter * long / short))
    columns, rows = sizes if width <= height else sizes[::-1]
    top, left = round((rows - side) / 2.0), round((columns - side) / 2.0)
    return np.asarray(picture.resize((columns, rows), Image.Resampling.BILINEAR))[top : top + side, left : left + side]


@pytest.mark.parametrize("shorter", [None, 24, 33])
def test_the_middle_is_that_of_resize_and_center_crop(folder: Path, shorter: int | None) -> None:
    expected = [middle(one, shorter or 24, 24) for one in pictures(folder)]
    assert np.array_equal(decoded(folder, T.DecodeImage(24, 24, crop="center", shorter=shorter)), np.stack(expected))


def test_a_box_that_is_not_square_is_covered(folder: Path) -> None:
    assert decoded(folder, T.DecodeImage(10, 30, crop="center")).shape == (len(SIZES), 10, 30, 3)


def test_random_boxes_are_those_that_the_formula_gives(folder: Path) -> None:
    step = T.DecodeImage(12, 9, crop="random", scale=(0.2, 0.9))
    known, seen = pictures(folder), set()
    for epoch in range(4):
        for batch in batches(folder, step, shuffle="full", seed=epoch):
            chosen = [known[int(index)] for index in batch.indices]
            boxes = step.boxes(batch.seeds, [(one.height, one.width) for one in chosen])
            for values, one, (top, left, height, width) in zip(batch["encoded"], chosen, boxes.tolist()):
                cut = one.crop((left, top, left + width, top + height))
                assert np.array_equal(values, np.asarray(cut.resize((9, 12), Image.Resampling.BILINEAR)))
                seen.add((top, left, height, width))
    assert len(seen) > len(SIZES)


def test_other_steps_follow_and_padding_stays_zero(folder: Path) -> None:
    plain = decoded(folder, T.DecodeImage(16, 16))
    steps = [T.DecodeImage(16, 16), T.CenterCrop(8, 8, axes=(0, 1)), T.Normalize([1, 2, 3], [4, 5, 6], axis=-1)]
    last = batches(folder, *steps, tail="pad")[-1]
    mean, std = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    assert np.array_equal(last["encoded"][0], (plain[6, 4:12, 4:12].astype("f4") - mean) / std)
    assert last["encoded"].shape == (3, 8, 8, 3) and not last["encoded"][2].any()


def test_what_makes_no_sense_is_refused_before_the_first_batch(folder: Path) -> None:
    refused = [
        ([T.DecodeImage(0, 4)], "pictures of 0 x 4"),
        ([T.DecodeImage(9, 4, crop="center", shorter=8)], "give shorter= at least as much"),
        ([T.DecodeImage(9, 4, crop="random", scale=(0.0, 2.0))], "no part of an area"),
        ([T.DecodeImage(9, 4, crop="random", ratio=(2.0, 1.0))], "ratio="),
        ([T.DecodeImage(9, 4), T.DecodeImage(9, 4)], "as the first step"),
    ]
    for steps, said in refused:
        with pytest.raises(forebay.InvalidError, match=said):
            batches(folder, *steps)
    with pytest.raises(ValueError, match="'none', 'center' or 'random'"):
        batches(folder, T.DecodeImage(9, 4, crop="middle"))


def test_a_file_that_is_no_picture_or_was_cut_is_an_error_and_can_be_skipped(folder: Path, tmp_path: Path) -> None:
    for name in ("0.jpg", "2.png", "5.png"):
        whole = next(iter(sorted(folder.glob(f"{name[0]}.*")))).read_bytes()
        (tmp_path / name).write_bytes(whole[:-30] if name == "2.png" else whole)
    with pytest.raises(forebay.ForebayError, match="picture 'encoded' of sample 1"):
        batches(tmp_path, T.DecodeImage(8, 8))
    kept = [batch["encoded"] for batch in batches(tmp_path, T.DecodeImage(8, 8), on_error="skip")]
    assert sum(len(one) for one in kept) == 2


def test_a_picture_that_says_it_is_huge_takes_no_memory(tmp_path: Path) -> None:
    made = io.BytesIO()
    Image.new("L", (8, 8)).save(made, "png")
    data = bytearray(made.getvalue())
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(bytes(data))
    with pytest.raises(forebay.ForebayError, match="60000 x 60000 pixels"):
        batches(tmp_path, T.DecodeImage(8, 8))
