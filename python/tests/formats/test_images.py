"""Pictures, held against Pillow, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay


def picture(height: int, width: int, channels: int, seed: int = 0) -> np.ndarray:
    """Smooth with some noise, as photographs are."""
    rng = np.random.default_rng(seed)
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    smooth = 128 + 80 * np.sin(x / 9 + c) + 40 * np.cos(y / 7 + seed)
    return np.clip(smooth + rng.normal(0, 3, smooth.shape), 0, 255).astype("u1").reshape(height, width, channels)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1"])
def test_every_kind_of_png(forebay_command: Any, tmp_path: Path, mode: str) -> None:
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "P": 3, "1": 1}[mode]
    pixels = picture(33, 47, channels)
    image = Image.fromarray(pixels.squeeze() if channels == 1 else pixels)
    image = image.convert(mode) if mode in "P1" else image
    image.save(tmp_path / "a.png")
    plain = np.asarray(Image.open(tmp_path / "a.png").convert({"P": "RGB", "1": "L"}.get(mode, mode)))
    forebay_command.same(tmp_path / "a.png", "image", plain.reshape(1, 33, 47, channels))


def test_png_of_16_bits(forebay_command: Any, tmp_path: Path) -> None:
    pixels = np.arange(20 * 30, dtype="<u2").reshape(20, 30) * 99
    Image.fromarray(pixels).save(tmp_path / "a.png")
    forebay_command.same(tmp_path / "a.png", "image", pixels.reshape(1, 20, 30, 1))


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"quality": 40}, {"optimize": True}])
@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg(forebay_command: Any, tmp_path: Path, options: dict[str, Any], channels: int) -> None:
    pixels = picture(70, 51, channels)
    Image.fromarray(pixels.squeeze()).save(tmp_path / "a.jpg", **options)
    plain = np.asarray(Image.open(tmp_path / "a.jpg")).reshape(1, 70, 51, channels)
    forebay_command.same(tmp_path / "a.jpg", "image", plain)
    encoded = np.frombuffer((tmp_path / "a.jpg").read_bytes(), "u1")
    forebay_command.same(tmp_path / "a.jpg", "encoded", encoded)
    forebay_command.same(tmp_path / "a.jpg", "encoded@offsets", np.array([0, len(encoded)]))


def test_folders_are_classes(forebay_command: Any, tmp_path: Path) -> None:
    pictures = []
    for number, name in enumerate(["cat/b.png", "cat/a.png", "dog/a.png", "ape/z.png"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pixels = picture(8, 9, 3, number)
        Image.fromarray(pixels).save(tmp_path / name)
        pictures.append((name, pixels))
    (tmp_path / "README.md").write_text("notes")
    pictures.sort()
    assert forebay_command.inspect(tmp_path)["format"] == "images"
    forebay_command.same(tmp_path, "image", np.stack([pixels for _, pixels in pictures]))
    forebay_command.same(tmp_path, "label", np.array([0, 1, 1, 2]))
    forebay_command.same(tmp_path, "path", np.array([name.encode() for name, _ in pictures]))
    files = [(tmp_path / name).read_bytes() for name, _ in pictures]
    forebay_command.same(tmp_path, "encoded", np.frombuffer(b"".join(files), "u1"))
    forebay_command.same(tmp_path, "encoded@offsets", np.cumsum([0, *map(len, files)]))


def test_grey_among_colour_is_spread_and_another_size_is_named(forebay_command: Any, tmp_path: Path) -> None:
    Image.fromarray(picture(8, 8, 3)).save(tmp_path / "0.png")
    grey = picture(8, 8, 1).squeeze()
    Image.fromarray(grey).save(tmp_path / "1.png")
    found = np.frombuffer(forebay_command.dump(tmp_path, "image"), "u1").reshape(2, 8, 8, 3)
    assert (found[1] == grey[..., None]).all()
    Image.fromarray(picture(8, 9, 3)).save(tmp_path / "2.png")
    error = forebay_command.refuses(tmp_path, "image")
    assert "2.png" in error and "8 x 9 pixels" in error and "encoded" in error


def test_files_that_were_cut_are_refused(forebay_command: Any, tmp_path: Path) -> None:
    for ending in ("png", "jpg"):
        path = tmp_path / f"a.{ending}"
        Image.fromarray(picture(64, 64, 3)).save(path)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        assert path.name in forebay_command.refuses(path, "image")


def shards(folder: Path) -> dict[str, int]:
    """Folders of pictures of one colour each, of which not all have all classes; the colour of each class."""
    colours = {"ant": 5, "cat": 10, "dog": 20, "emu": 30}
    for shard, classes in {"s0": ("cat", "dog", "emu"), "s1": ("dog", "emu"), "s2": ("ant", "emu")}.items():
        for name in classes:
            (folder / shard / name).mkdir(parents=True)
            for number in range(3):
                Image.fromarray(np.full((8, 8, 3), colours[name], "u1")).save(folder / shard / name / f"{number}.png")
    return colours


@pytest.mark.parametrize("files", [["s0", "s1", "s2"], ["s2", "s0"], ["s1", "s0"], "s*", ""])
def test_folders_of_one_set_share_one_table_of_classes(tmp_path: Path, files: Any) -> None:
    colours = shards(tmp_path)
    paths = tmp_path / files if isinstance(files, str) else [tmp_path / name for name in files]
    ds = forebay.open(paths, ["image"], label="label")
    classes = ds.describe()["fields"]["label"]["categories"]
    there = {path.parent.name for path in tmp_path.rglob("*.png") if not files or isinstance(files, str) or path.parts[-3] in files}
    assert classes == {name: number for number, name in enumerate(sorted(there))}
    batch = ds[:]
    assert batch["image"][:, 0, 0, 0].tolist() == [colours[sorted(there)[label]] for label in batch["label"]]
    assert batch["label"].dtype == np.int64
    for batch in ds.loader(batch_size=4, shuffle="full"):
        assert batch["image"][:, 0, 0, 0].tolist() == [colours[sorted(there)[label]] for label in batch["label"]]


def test_a_set_of_other_classes_is_another_set(tmp_path: Path) -> None:
    shards(tmp_path)
    known = forebay.open([tmp_path / "s0", tmp_path / "s1"], ["image"], label="label").fingerprint
    (tmp_path / "s0/cat").rename(tmp_path / "s0/zoo")
    assert forebay.open([tmp_path / "s0", tmp_path / "s1"], ["image"], label="label").fingerprint != known


@pytest.mark.parametrize("odd", ["size", "colour", "bits"])
def test_pictures_that_are_odd_are_skipped_and_counted(tmp_path: Path, odd: str) -> None:
    for number in range(20):
        pixels = np.full((20, 20, 3), number, "u1")
        Image.fromarray(pixels).save(tmp_path / f"{number:02}.png")
    other = {"size": np.zeros((21, 20, 3), "u1"), "colour": np.zeros((20, 20, 4), "u1"), "bits": np.zeros((20, 20), "u2")}
    Image.fromarray(other[odd]).save(tmp_path / "07.png")
    ds = forebay.open(tmp_path, ["image"])
    with pytest.raises(forebay.UnsupportedError, match=r"07\.png.*an image of .* among images of 20 x 20 pixels"):
        ds[7]
    loader = ds.loader(batch_size=10, on_error="skip")
    assert [value for batch in loader for value in batch["image"][:, 0, 0, 0].tolist()] == [n for n in range(20) if n != 7]
    assert loader.stats()["skipped"] == 1
    replaced = ds.loader(batch_size=10, on_error="substitute")
    assert [value for batch in replaced for value in batch["image"][:, 0, 0, 0].tolist()] == [
        8 if n == 7 else n for n in range(20)
    ]


def blocks(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Squares of random colours: hard edges, the worst that chroma sampled less often can meet."""
    small = rng.integers(0, 255, (height // 4 + 1, width // 4 + 1, 3)).astype("u1")
    return small.repeat(4, 0).repeat(4, 1)[:height, :width]


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 3}, {"quality": 12, "optimize": True}])
def test_jpeg_has_the_levels_of_libjpeg_turbo_up_to_every_edge(
    tmp_path: Path, subsampling: str, options: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    sizes = [(1, 1), (2, 3), (4, 5), (64, 64), (64, 63), (64, 62), (63, 64), (62, 64), (60, 56), (17, 33)]
    for height, width in sizes + [tuple(rng.integers(1, 70, 2)) for _ in range(6)]:
        Image.fromarray(blocks(rng, height, width)).save(tmp_path / "a.jpg", subsampling=subsampling, **options)
        theirs = np.asarray(Image.open(tmp_path / "a.jpg"))
        assert np.array_equal(forebay.read(tmp_path / "a.jpg", "image")[0], theirs), (height, width)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}])
def test_jpeg_that_is_cut_or_damaged_is_an_error_or_a_picture(tmp_path: Path, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "a.jpg"
    Image.fromarray(blocks(rng, 37, 29)).save(path, quality=60, **options)
    whole = path.read_bytes()
    for end in rng.integers(2, len(whole) - 20, 40):
        path.write_bytes(whole[:end])
        with pytest.raises((forebay.CorruptError, forebay.UnsupportedError), match=r"a\.jpg"):
            forebay.read(path, "image")
    for _ in range(150):
        damaged = bytearray(whole)
        # The size stays, so that what is read is no larger than the picture was.
        for at in rng.integers(180, len(whole), 3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            assert forebay.read(path, "image").ndim == 4
        except (forebay.CorruptError, forebay.UnsupportedError) as error:
            assert "a.jpg" in str(error)
