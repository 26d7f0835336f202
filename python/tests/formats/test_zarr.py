"""Zarr stores made by zarr-python and tensorstore, versions 2 and 3, read bit for bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import tensorstore
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.codecs import numcodecs as of_numcodecs

import forebay

# What the fixture `forebay_command` gives.
Command = Any

RANDOM = np.random.default_rng(7)


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Any bits at all, as elements of a type; text and booleans as such."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape))
    if kind.kind == "b":
        return RANDOM.integers(0, 2, shape).astype(bool)
    if kind.kind == "U":
        letters = RANDOM.choice(list("aé漢z"), (count, 3))
        return np.array(["".join(word) for word in letters], kind).reshape(shape)
    if kind.kind == "S":
        return np.array([b"x" * (n % 6) for n in range(count)], kind).reshape(shape)
    if kind.kind in "fc":
        # Repetition, so that there is something to compress.
        return (RANDOM.integers(-99, 99, shape) / 8).astype(kind)
    return np.frombuffer(RANDOM.bytes(count * kind.itemsize), kind).reshape(shape)


def write(path: Path, array: np.ndarray[Any, Any], **options: Any) -> Path:
    """An array that is a store by itself."""
    made = zarr.create_array(path, shape=array.shape, dtype=array.dtype, **options)
    made[...] = array
    return path


TYPES = ["|b1", "|i1", "<i2", ">i2", "<i4", ">i8", "|u1", "<u2", ">u4", "<u8", "<f2", ">f4", "<f4", "<f8", ">f8"]
TYPES += ["<c8", ">c16", "|S5", "<U3", ">U3", "<M8[ns]", "<m8[s]", "|V6"]
V2_TYPES = [*TYPES, [("a", "<i4"), ("b", ">f8"), ("c", "S3")]]


@pytest.mark.parametrize("version", [2, 3])
def test_types(forebay_command: Command, made: Path, version: int) -> None:
    for number, dtype in enumerate(V2_TYPES if version == 2 else TYPES):
        if isinstance(dtype, list):
            array = np.zeros((5, 4), np.dtype(dtype))
            for name in array.dtype.names:
                array[name] = values("<f8", array[name].shape).astype(array[name].dtype)
        else:
            array = values(dtype, (5, 4))
        options: dict[str, Any] = {} if version == 2 else {"compressors": []}
        path = made / f"types{version}" / f"{number}"
        write(path, array, chunks=(2, 3), zarr_format=version, **options)
        forebay_command.same(path, ".", array)


V2_CODECS: list[tuple[list[Any], Any]] = [
    ([], None),
    ([], numcodecs.Zlib(3)),
    ([], numcodecs.GZip(3)),
    ([], numcodecs.Zstd(3)),
    ([], numcodecs.BZ2(3)),
    ([], numcodecs.LZ4()),
    *[([], numcodecs.Blosc(cname, 5, shuffle)) for cname in ("lz4", "zstd", "zlib", "blosclz") for shuffle in (0, 1, 2)],
    ([numcodecs.Shuffle(4)], numcodecs.Zlib(1)),
    ([numcodecs.Delta("<i4")], numcodecs.Zstd(1)),
    ([numcodecs.Delta("<i4", "<i2")], None),
    ([numcodecs.AsType("<i2", "<i4")], numcodecs.LZ4()),
    ([numcodecs.CRC32()], None),
    ([numcodecs.CRC32C()], numcodecs.Zlib(1)),
    ([numcodecs.Adler32()], None),
]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("separator", [".", "/"])
def test_codecs_of_version_2(forebay_command: Command, made: Path, order: Any, separator: Any) -> None:
    array = np.cumsum(RANDOM.integers(-9, 9, (7, 5, 6)), axis=0).astype("<i4")
    for number, (filters, compressor) in enumerate(V2_CODECS):
        path = made / "v2" / f"{order}{ord(separator)}{number}"
        options = {"chunk_key_encoding": {"name": "v2", "separator": separator}}
        write(path, array, chunks=(3, 5, 4), zarr_format=2, order=order, filters=filters, compressors=compressor, **options)
        forebay_command.same(path, ".", array)


def test_filters_that_change_numbers(forebay_command: Command, made: Path) -> None:
    floats = values("<f8", (20, 6))
    for number, (array, codec) in enumerate(
        [
            (floats, numcodecs.FixedScaleOffset(offset=-20, scale=8, dtype="<f8", astype="<u2")),
            (floats.astype("<f4"), numcodecs.FixedScaleOffset(offset=1.5, scale=3.7, dtype="<f4", astype="<i2")),
            (floats, numcodecs.Quantize(2, "<f8", "<f4")),
            (floats, numcodecs.Quantize(2, "<f8")),
            (floats.astype("<f4"), numcodecs.BitRound(5)),
            (floats, numcodecs.Delta("<f8")),
            (values("|b1", (20, 6)), numcodecs.PackBits()),
        ]
    ):
        path = write(made / "change" / f"{number}", array, chunks=(6, 6), zarr_format=2, filters=[codec], compressors=None)
        forebay_command.same(path, ".", zarr.open_array(path, mode="r")[...])


V3_CODECS: list[list[Any]] = [
    [BytesCodec(endian="little")],
    [BytesCodec(endian="big")],
    [BytesCodec(), GzipCodec(level=3)],
    [BytesCodec(endian="big"), ZstdCodec(level=3)],
    [BytesCodec(), ZstdCodec(level=3, checksum=True), Crc32cCodec()],
    [BytesCodec(), BloscCodec(cname="lz4", shuffle="bitshuffle", typesize=4)],
    [BytesCodec(), BloscCodec(cname="zstd", shuffle="shuffle", typesize=4)],
    [TransposeCodec(order=(2, 0, 1)), BytesCodec()],
    [TransposeCodec(order=(2, 1, 0)), BytesCodec(endian="big"), ZstdCodec()],
]


def v3(path: Path, array: np.ndarray[Any, Any], chunks: tuple[int, ...], codecs: list[Any], **options: Any) -> Path:
    """An array with these very codecs."""
    made = zarr.Array.create(path, shape=array.shape, dtype=array.dtype, chunk_shape=chunks, codecs=codecs, zarr_format=3, **options)
    made[...] = array
    return path


def test_codecs_of_version_3(forebay_command: Command, made: Path) -> None:
    array = np.cumsum(RANDOM.integers(-9, 9, (7, 5, 6)), axis=0).astype("<i4")
    keys = [("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")]
    for number, codecs in enumerate(V3_CODECS):
        for kind, separator in keys if number == 0 else keys[:1]:
            path = made / "v3" / f"{number}{kind}{ord(separator)}"
            v3(path, array, (3, 5, 4), codecs, chunk_key_encoding=(kind, separator))
            forebay_command.same(path, ".", array)


def test_codecs_of_numcodecs_in_version_3(forebay_command: Command, made: Path) -> None:
    array = np.cumsum(RANDOM.integers(-9, 9, (20, 6)), axis=0)
    chains: list[tuple[str, list[Any], list[Any]]] = [
        ("<i4", [], [of_numcodecs.Zlib(level=3)]),
        ("<i4", [], [of_numcodecs.BZ2(level=3)]),
        ("<i4", [], [of_numcodecs.LZ4(), of_numcodecs.CRC32()]),
        ("<i4", [], [of_numcodecs.Shuffle(elementsize=4), of_numcodecs.GZip(), of_numcodecs.Adler32()]),
        ("<i4", [of_numcodecs.Delta(dtype="<i4")], [of_numcodecs.Zlib()]),
        ("<i4", [of_numcodecs.AsType(encode_dtype="<i2", decode_dtype="<i4")], []),
        ("<f8", [of_numcodecs.FixedScaleOffset(offset=0, scale=10, dtype="<f8", astype="<i2")], []),
        ("<f4", [of_numcodecs.BitRound(keepbits=9)], []),
        ("|b1", [of_numcodecs.PackBits()], []),
    ]
    for number, (dtype, filters, compressors) in enumerate(chains):
        # zarr-python does not read back what numbers it filtered and stored big-endian: these are whole, and survive.
        for endian in ("little", "big"):
            path = made / "numcodecs3" / f"{number}{endian}"
            serializer = BytesCodec(endian=endian)
            write(path, array.astype(dtype), chunks=(6, 6), filters=filters, compressors=compressors, serializer=serializer)
            forebay_command.same(path, ".", array.astype(dtype))


def test_shards(forebay_command: Command, made: Path) -> None:
    array = np.cumsum(RANDOM.integers(-9, 9, (13, 9)), axis=0).astype("<f4")
    inner = [[BytesCodec()], [BytesCodec(endian="big"), ZstdCodec()], [TransposeCodec(order=(1, 0)), BytesCodec(), GzipCodec(), Crc32cCodec()]]
    for number, codecs in enumerate(inner):
        for location in ("end", "start"):
            for index in ([BytesCodec()], [BytesCodec(), Crc32cCodec()]):
                shard = ShardingCodec(chunk_shape=(2, 3), codecs=codecs, index_codecs=index, index_location=location)
                path = made / "shards" / f"{number}{location}{len(index)}"
                v3(path, array, (6, 6), [shard], fill_value=-1.5)
                forebay_command.same(path, ".", array)
                said = forebay_command.inspect(path)["variables"]["."]
                assert said["chunks"]["shape"] == [2, 3], said


def test_what_was_never_written_is_the_fill_value(forebay_command: Command, made: Path) -> None:
    fills: list[tuple[str, Any]] = [("<f4", np.nan), ("<f8", -np.inf), ("<i2", -3), ("|u1", 255), ("<c8", 1 - 2j), ("|b1", True), ("<f2", 0.1)]
    fills += [("<u8", 2**64 - 1), ("<i8", -(2**63)), ("|S3", b"ab"), ("<U2", "é"), (">i4", 7), ("<f4", None)]
    for version in (2, 3):
        for number, (dtype, fill) in enumerate(fills):
            path = made / f"fill{version}" / f"{number}"
            array = zarr.create_array(path, shape=(9, 4), chunks=(2, 4), dtype=dtype, fill_value=fill, zarr_format=version)
            array[2:4] = values(dtype, (2, 4))
            forebay_command.same(path, ".", array[...])
        shard = zarr.create_array(made / f"fill_shard{version}", shape=(40,), chunks=(2,), shards=(8,) if version == 3 else None, dtype="<i4", fill_value=5, zarr_format=version)
        shard[10:13] = 1
        forebay_command.same(made / f"fill_shard{version}", ".", shard[...])


def test_shapes(forebay_command: Command, made: Path) -> None:
    for version in (2, 3):
        for number, (shape, chunks) in enumerate([((), ()), ((0,), (1,)), ((5,), (9,)), ((1,), (1,)), ((3, 0, 2), (1, 1, 1)), ((2, 3, 4, 5), (1, 2, 3, 4))]):
            array = values("<i4", shape)
            path = made / f"shapes{version}" / f"{number}"
            write(path, array, chunks=chunks, zarr_format=version)
            forebay_command.same(path, ".", array)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("is_consolidated", [True, False])
def test_groups(forebay_command: Command, made: Path, version: int, is_consolidated: bool) -> None:
    path = made / f"groups{version}{is_consolidated}"
    root = zarr.open_group(path, mode="w", zarr_format=version)
    root.attrs.update({"title": "a set", "number": 3, "list": [1.5, 2], "nested": {"a": [None]}, "bad": float("nan")})
    arrays = {"x": values("<f4", (4, 3)), "deep/er/y": values("|u1", (6,)), "deep/z": values("<i8", (2, 2))}
    for name, array in arrays.items():
        names = {"dimension_names": [f"d{axis}" for axis in range(array.ndim)]} if version == 3 else {}
        made_array = root.create_array(name, shape=array.shape, dtype=array.dtype, chunks=(2,) * array.ndim, **names)
        made_array[...] = array
        made_array.attrs["units"] = "K"
        if version == 2:
            made_array.attrs["_ARRAY_DIMENSIONS"] = [f"d{axis}" for axis in range(array.ndim)]
    if is_consolidated:
        zarr.consolidate_metadata(path)
    for name, array in arrays.items():
        forebay_command.same(path, name, array)
        forebay_command.same(path / name, ".", array)
    forebay_command.same(path / "deep", "er/y", arrays["deep/er/y"])
    said = forebay_command.inspect(path)
    assert said["format"] == "zarr"
    assert sorted(said["variables"]) == sorted(arrays)
    assert "no variable 'w'" in forebay_command.refuses(path, "w")


def test_texts_and_bytes_of_any_length(forebay_command: Command, made: Path) -> None:
    words = np.array([["", "a", "é漢"], ["bc" * 300, "d", "e"], ["f", "", "gh"]], dtype=object)

    def dumped(array: Any) -> bytes:
        items = [item.encode() if isinstance(item, str) else bytes(item) for item in array.ravel()]
        return b"".join(len(item).to_bytes(8, "little") + item for item in items)

    for version in (2, 3):
        for kind, array in (("string", words), (zarr.dtype.VariableLengthBytes(), np.vectorize(str.encode, otypes=[object])(words))):
            for number, compressor in enumerate((None, "zstd", "gzip")):
                codec: Any = {"zstd": numcodecs.Zstd(), "gzip": numcodecs.GZip()}.get(compressor or "")
                if version == 3:
                    codec = {"zstd": ZstdCodec(), "gzip": GzipCodec()}.get(compressor or "")
                path = made / f"any{version}{array[0, 1]}{number}"
                made_array = zarr.create_array(path, shape=(4, 3), chunks=(2, 2), dtype=kind, zarr_format=version, compressors=codec)
                made_array[:3] = array
                assert forebay_command.dump(path, ".") == dumped(made_array[...]), path


def test_tensorstore(forebay_command: Command, made: Path) -> None:
    array = values("<f4", (9, 8, 7))
    for number, metadata in enumerate(
        [
            {"driver": "zarr", "metadata": {"chunks": [2, 8, 7], "compressor": {"id": "zstd", "level": 1}}},
            {"driver": "zarr", "metadata": {"chunks": [2, 3, 7], "compressor": None, "order": "F"}},
            {"driver": "zarr3", "metadata": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8, 7]}}}},
            {
                "driver": "zarr3",
                "metadata": {
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8, 8]}},
                    "codecs": [
                        {
                            "name": "sharding_indexed",
                            "configuration": {
                                "chunk_shape": [2, 4, 8],
                                "codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, {"name": "bytes"}, {"name": "zstd"}],
                                "index_location": "start",
                            },
                        }
                    ],
                },
            },
        ]
    ):
        path = made / "tensorstore" / f"{number}"
        spec = {**metadata, "kvstore": {"driver": "file", "path": f"{path}/"}}
        spec["metadata"].setdefault("shape", list(array.shape))
        store = tensorstore.open(spec, create=True, dtype=tensorstore.float32, shape=array.shape).result()
        store.write(array).result()
        forebay_command.same(path, ".", array)


def test_plain_arrays_have_no_filters(forebay_command: Command, made: Path) -> None:
    array = values("<f4", (8, 3, 2))
    for name, options in {"v2": {"zarr_format": 2, "compressors": None}, "v3": {"compressors": []}}.items():
        path = write(made / f"plain{name}", array, chunks=(2, 3, 2), **options)
        assert forebay_command.inspect(path)["variables"]["."]["filters"] == []
        forebay_command.same(path, ".", array)


def test_what_is_not_read_says_so(forebay_command: Command, made: Path) -> None:
    path = write(made / "refused" / "good", values("<i4", (4,)), chunks=(2,), compressors=[])
    document = json.loads((path / "zarr.json").read_text())

    def changed(**changes: Any) -> str:
        other = made / "refused" / "changed"
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(path, other)
        (other / "zarr.json").write_text(json.dumps({**document, **changes}))
        return forebay_command.refuses(other, ".")

    sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes"}]}}
    nested = {"name": "sharding_indexed", "configuration": {**sharding["configuration"], "codecs": [sharding]}}
    for changes, said in [
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "lzma"}]}, "codec 'lzma'"),
        ({"codecs": [nested]}, "shards inside shards"),
        ({"data_type": "int4"}, "'int4'"),
        ({"zarr_format": 4}, "version 4"),
        ({"node_type": "thing"}, "neither an array nor a group"),
        ({"chunk_grid": {"name": "rectilinear"}}, "'rectilinear'"),
        ({"storage_transformers": [{"name": "x"}]}, "storage transformers"),
        ({"shape": [-1]}, "'shape'"),
        ({"shape": [2**62, 2**62]}, "axes"),
        ({"fill_value": "x"}, "fill value"),
    ]:
        error = changed(**changes)
        assert said in error, (changes, error)
    (path / "c" / "1").write_bytes(b"123")
    assert "3 bytes long where 8 belong" in forebay_command.refuses(path, ".")
    pickled = write(made / "refused" / "pickled", values("<i4", (4,)), chunks=(2,), zarr_format=2)
    array = json.loads((pickled / ".zarray").read_text())
    (pickled / ".zarray").write_text(json.dumps({**array, "dtype": "|O", "filters": [{"id": "pickle"}]}))
    assert "nothing is unpickled" in forebay_command.refuses(pickled, ".")


@pytest.mark.parametrize("dtype", ["<M8[ns]", ">m8[s]"])
def test_times_without_a_fill_value_that_were_never_written_are_no_times(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "x.zarr"
    zarr.create_array(path, shape=5, dtype=dtype, fill_value=None, zarr_format=2)
    expected = zarr.open_array(path, mode="r")[...]
    assert np.isnat(expected).all()
    np.testing.assert_array_equal(forebay.read(path, "."), expected.astype(dtype.replace(">", "<")).view("i8"))
