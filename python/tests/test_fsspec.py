"""fsspec's protocol "forebay": local files and objects, as fsspec's users expect them."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import time
import warnings
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from conftest import FREE
from test_object import Server, s3, server  # noqa: F401

import forebay
from forebay._fsspec_listing import entries, everything

DOC = Path(__file__).parents[2] / "docs" / "fsspec.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "set/deep").mkdir(parents=True)
    (tmp_path / "set/a.bin").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "set/deep/b.txt").write_text("one\ntwo\nthree\n")
    return tmp_path / "set"


def bare(**options: Any) -> Any:
    return fsspec.filesystem("forebay", tiers=[], **options)


def test_names_sizes_and_patterns_are_those_of_the_local_file_system(folder: Path) -> None:
    fs, local = bare(), fsspec.filesystem("file")
    assert fs.ls(str(folder), detail=False) == sorted(local.ls(str(folder), detail=False))
    assert fs.find(str(folder)) == local.find(str(folder))
    assert fs.glob(f"{folder}/**/*.txt") == local.glob(f"{folder}/**/*.txt")
    info = fs.info(folder / "a.bin")
    assert (info["size"], info["type"], info["name"]) == (10240, "file", str(folder / "a.bin"))
    assert fs.isdir(folder) and fs.isfile(folder / "a.bin") and not fs.exists(folder / "none")
    assert fs.du(str(folder)) == local.du(str(folder))
    assert fs.modified(folder / "a.bin") == local.modified(folder / "a.bin")
    with pytest.raises(FileNotFoundError):
        fs.open(folder / "none")


def test_folders_and_files_in_files_are_the_errors_of_the_local_file_system(folder: Path) -> None:
    fs, local = bare(), fsspec.filesystem("file")
    cases = {folder / "deep": IsADirectoryError, folder / "a.bin/x": NotADirectoryError, folder / "none/x": FileNotFoundError}
    for path, kind in cases.items():
        for reads in (lambda fs, path: fs.cat_file(path), lambda fs, path: fs.open(path)):
            for one in (local, fs):
                with pytest.raises(OSError) as raised:
                    reads(one, str(path))
                assert type(raised.value) is kind and raised.value.filename == str(path)
        assert isinstance(fs.cat_ranges([str(path)], 0, 4)[0], kind)


def test_no_error_is_its_own_cause(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(forebay.ForebayError) as raised:
        bare().cat_file(str(tmp_path / "pipe"))
    assert raised.value.__cause__ is not raised.value


def test_zarr_finds_nothing_where_a_key_is_a_folder_or_lies_in_a_file(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "z.zarr", shape=(4,), dtype="f4", name="x")
    store = zarr.storage.FsspecStore.from_url(f"forebay://{tmp_path}/z.zarr", read_only=True, storage_options={"tiers": []})
    prototype = zarr.core.buffer.default_buffer_prototype()
    for key in ("x", "x/zarr.json/more", "none"):
        assert asyncio.run(store.get(key, prototype=prototype)) is None
    assert asyncio.run(store.get("x/zarr.json", prototype=prototype)) is not None


def test_an_option_that_there_is_not_is_an_error_that_names_those_that_there_are() -> None:
    with pytest.raises(TypeError, match="no option foo, tier; it has tiers, policy, config.*skip_instance_cache"):
        bare(foo=1, tier=["memory:1MiB"])
    standard = {"skip_instance_cache": True, "use_listings_cache": False, "asynchronous": True, "loop": None, "batch_size": 4}
    assert bare(**standard, listings_expiry_time=1, max_paths=4, target_protocol="file").protocol == "forebay"


def test_tiers_of_no_use_are_a_warning_once(folder: Path, tmp_path: Path) -> None:
    time.sleep(2.1)  # of a file that has just changed nothing would be copied anywhere
    tiers = [{"path": str(tmp_path / "tier"), "quota": "1MiB", **FREE}]
    fs = fsspec.filesystem("forebay", tiers=tiers)
    with pytest.warns(forebay.ForebayWarning, match="the files lie on its own device"):
        fs.cat_file(folder / "a.bin")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fs.cat_file(folder / "a.bin")
    with pytest.warns(forebay.ForebayWarning, match="a tier is left out: disk tier '/proc/forebay-no-files'"):
        fsspec.filesystem("forebay", tiers=["/proc/forebay-no-files:1MiB"])


def test_urls_lead_to_paths_and_other_urls() -> None:
    strip = type(bare())._strip_protocol
    assert strip("forebay:///a/b") == "/a/b" and strip("forebay://s3://bucket/key/") == "s3://bucket/key"
    assert strip(["forebay:///a", "/c"]) == ["/a", "/c"] and strip("~/x").startswith("/")
    fs, path = fsspec.url_to_fs("forebay:///a/b", tiers=[])
    assert fs.protocol == "forebay" and path == "/a/b" and fs.unstrip_protocol(path) == "forebay:///a/b"


def test_bytes_are_those_of_the_file_however_they_are_asked_for(folder: Path) -> None:
    fs, whole = bare(), (folder / "a.bin").read_bytes()
    path = str(folder / "a.bin")
    assert fs.cat_file(path) == whole and fs.cat(path) == whole
    for start, end in [(5, 99), (-100, None), (None, -5), (10_000, 99_999), (50, 20)]:
        assert fs.cat_file(path, start, end) == whole[start:end]
    other = str(folder / "deep/b.txt")
    assert fs.cat_ranges([path, other, path], [0, 4, -3], [10, 7, None]) == [whole[:10], b"two", whole[-3:]]
    found = fs.cat_ranges([path, str(folder / "none")], 0, 4)
    assert found[0] == whole[:4] and isinstance(found[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([str(folder / "none")], 0, 4, on_error="raise")
    assert fs.head(path, 7) == whole[:7] and fs.tail(path, 7) == whole[-7:]
    assert fs.read_block(other, 2, 5, delimiter=b"\n") == b"two\n"
    fs.get(path, str(folder / "copy"))
    assert (folder / "copy").read_bytes() == whole


def test_a_file_is_read_as_any_file_of_python(folder: Path) -> None:
    with fsspec.open(f"forebay://{folder}/a.bin", tiers=[]) as ours, open(folder / "a.bin", "rb") as theirs:
        for move in (lambda f: f.read(10), lambda f: f.seek(-20, 2), lambda f: f.read(), lambda f: f.seek(300), lambda f: f.tell()):
            assert move(ours) == move(theirs)
        into = bytearray(100)
        assert ours.readinto(into) == 100 and bytes(into) == theirs.read(100)
        assert ours.seekable() and ours.readable() and not ours.writable() and ours.size == 10240
        again = pickle.loads(pickle.dumps(ours))
        assert again.tell() == ours.tell() and again.read(5) == ours.read(5)
    with fsspec.open(f"forebay://{folder}/deep/b.txt", "r", tiers=[]) as text:
        assert text.readlines() == ["one\n", "two\n", "three\n"]
    with pytest.raises(ValueError, match="closed"):
        ours.read(1)


def test_nothing_can_be_written(folder: Path) -> None:
    fs, path = bare(), str(folder / "new")
    for change in (
        lambda: fs.open(path, "wb"), lambda: fs.mkdir(path), lambda: fs.makedirs(path), lambda: fs.pipe(path, b"x"),
        lambda: fs.touch(path), lambda: fs.rm(str(folder / "a.bin")), lambda: fs.cp(str(folder / "a.bin"), path),
        lambda: fs.put(str(folder / "a.bin"), path), lambda: fs.rmdir(str(folder)),
    ):  # fmt: skip
        with pytest.raises(OSError, match="read-only"):
            change()
    assert not (folder / "new").exists() and (folder / "a.bin").exists()


def test_a_changed_file_is_seen_at_the_next_open_and_never_in_part(folder: Path) -> None:
    fs, path = bare(), folder / "a.bin"
    before = fs.ukey(path)
    with fs.open(path) as file:
        sent = pickle.dumps(file)
    path.write_bytes(b"changed")
    assert fs.cat_file(path) == b"changed" and fs.ukey(path) != before
    with pytest.raises(OSError, match="open it again"):
        pickle.loads(sent)


def test_pandas_zarr_and_h5py_read_the_same_through_it(folder: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(50), "y": np.linspace(0, 1, 50)})
    frame.to_csv(folder / "t.csv", index=False)
    pd.testing.assert_frame_equal(pd.read_csv(f"forebay://{folder}/t.csv", storage_options={"tiers": []}), frame)
    values = np.random.default_rng(1).normal(size=(40, 30))
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(7, 30), compression="gzip")
    with bare().open(folder / "a.h5") as raw, h5py.File(raw) as file:
        assert (file["x"][:] == values).all()
    zarr.create_array(str(folder / "z.zarr"), data=values, chunks=(9, 8))
    found = zarr.open_array(f"forebay://{folder}/z.zarr", mode="r", storage_options={"tiers": []})
    assert (np.asarray(found[:]) == values).all()
    assert bare().get_mapper(str(folder / "deep"))["b.txt"] == b"one\ntwo\nthree\n"


def test_parquet_is_read_by_pyarrow(folder: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(1000), "text": [str(n) for n in range(1000)]})
    frame.to_parquet(folder / "t.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(f"forebay://{folder}/t.parquet", storage_options={"tiers": []}), frame)


def test_file_systems_are_one_for_the_same_arguments_and_can_be_pickled(folder: Path) -> None:
    fs = bare()
    assert bare() is fs and pickle.loads(pickle.dumps(fs)) is fs
    assert fs.stats() is None
    with pytest.raises(ValueError, match="environment"):
        fsspec.filesystem("forebay", tiers=[], target_protocol="s3", target_options={"key": "x"})


def test_the_second_reading_comes_from_the_tiers(origin: Path, tmp_path: Path) -> None:
    disk = {"path": str(tmp_path / "tier"), "quota": "64MiB", **FREE}
    fs = fsspec.filesystem("forebay", tiers=["memory:16MiB", disk])
    path = origin / "plain1.h5"
    for _ in range(2):
        assert fs.cat_file(path) == path.read_bytes()
        with h5py.File(fs.open(path)) as ours, h5py.File(path) as theirs:
            assert (ours["x"][:] == theirs["x"][:]).all()
    stats = fs.stats()
    assert stats["origin"]["bytes"] <= path.stat().st_size + (64 << 10)
    assert sum(tier["bytes"] for tier in stats["tiers"]) > 2 * path.stat().st_size


def test_folders_of_a_bucket_are_made_of_its_names() -> None:
    rows = [("s3://b/set/a", 3, 1.0), ("s3://b/set/deep/c", 4, None), ("s3://b/set/deep/er/d", 5, 2.0), ("s3://b/settled", 1, None)]
    found = [(entry["name"], entry["type"], entry["size"]) for entry in entries("s3://b/set", rows)]
    assert found == [("s3://b/set/a", "file", 3), ("s3://b/set/deep", "directory", 0)]
    assert sorted(everything("s3://b/set/", rows, None, False)) == [row[0] for row in rows[:3]]
    assert sorted(everything("s3://b/set", rows, 2, True)) == [
        "s3://b/set/a", "s3://b/set/deep", "s3://b/set/deep/c", "s3://b/set/deep/er",
    ]  # fmt: skip


def test_objects_are_listed_and_read(s3: Server) -> None:  # noqa: F811
    body = bytes(range(256)) * 100
    for key, value in {"set/a.bin": body, "set/deep/b.txt": b"text", "other": b"x"}.items():
        s3.put("fsspec-bucket", key, value)
    # The environment leads elsewhere than for the tests before.
    fs, root = bare(skip_instance_cache=True), "s3://fsspec-bucket"
    assert fs.ls(f"{root}/set", detail=False) == [f"{root}/set/a.bin", f"{root}/set/deep"]
    assert fs.find(root) == [f"{root}/other", f"{root}/set/a.bin", f"{root}/set/deep/b.txt"]
    assert fs.glob(f"{root}/set/**/*.txt") == [f"{root}/set/deep/b.txt"]
    assert fs.isdir(f"{root}/set") and fs.info(f"{root}/set/a.bin")["size"] == len(body)
    assert fs.cat_file(f"{root}/set/a.bin", 250, 300) == body[250:300]
    with fsspec.open(f"forebay://{root}/set/a.bin", tiers=[], skip_instance_cache=True) as file:
        file.seek(1000)
        assert file.read(10) == body[1000:1010]
    below = bare(target_protocol="s3", skip_instance_cache=True)
    assert below.cat_file("fsspec-bucket/set/deep/b.txt") == b"text"
    assert not fs.exists(f"{root}/none")


def test_the_pages_examples_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("FOREBAY_CONFIG", "none")
    pd.DataFrame({"x": [1, 2]}).to_csv("set/t.csv", index=False)
    with h5py.File("set/a.h5", "w") as file:
        file["x"] = np.arange(5)
    blocks = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        if "s3://" not in block:
            exec(compile(block, str(DOC), "exec"), {})
