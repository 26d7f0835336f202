"""TFRecord files, held against the `tfrecord` package and against frames and messages made here."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pytest
from tfrecord import TFRecordWriter, example_pb2

import forebay


def frame(payload: bytes) -> bytes:
    def masked(data: bytes) -> bytes:
        crc = crc32c.crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def example(**features: Any) -> bytes:
    message = example_pb2.Example()
    for name, value in features.items():
        feature = message.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif np.asarray(value).dtype.kind == "f":
            feature.float_list.value.extend(np.atleast_1d(value))
        else:
            feature.int64_list.value.extend(np.atleast_1d(value).tolist())
    return message.SerializeToString()


def write(path: Path, payloads: list[bytes]) -> Path:
    path.write_bytes(b"".join(map(frame, payloads)))
    return path


def test_what_another_writer_wrote(forebay_command: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 33)).astype("<f4")
    many = rng.integers(-(2**62), 2**62, size=(200, 20))
    raw = rng.integers(0, 256, (200, 100), dtype="u1")
    path = tmp_path / "a.tfrecord"
    writer = TFRecordWriter(str(path))
    for index in range(200):
        writer.write({
            "label": (index - 100, "int"),
            "weight": (index / 8, "float"),
            "x": (x[index].tolist(), "float"),
            "many": (many[index].tolist(), "int"),
            "image/raw": (raw[index].tobytes(), "byte"),
            "name": (b"n" * (index % 7), "byte"),
        })  # fmt: skip
    writer.close()
    forebay_command.same(path, "label", np.arange(-100, 100))
    forebay_command.same(path, "weight", (np.arange(200) / 8).astype("<f4"))
    forebay_command.same(path, "x", x)
    forebay_command.same(path, "many", many)
    forebay_command.same(path, "image/raw", raw)
    lens = np.arange(200) % 7
    forebay_command.same(path, "name", np.frombuffer(b"n" * int(lens.sum()), "u1"))
    forebay_command.same(path, "name@offsets", np.concatenate([[0], np.cumsum(lens)]))


def test_whole_records_and_payloads_that_are_no_examples(forebay_command: Any, tmp_path: Path) -> None:
    payloads = [b"plain text", b"", b"\xff" * 1000, b"\x0a"]
    path = write(tmp_path / "a.tfrecord", payloads)
    assert set(forebay_command.inspect(path)["variables"]) == {"record", "record@offsets"}
    forebay_command.same(path, "record", np.frombuffer(b"".join(payloads), "u1"))
    forebay_command.same(path, "record@offsets", np.cumsum([0, *map(len, payloads)]))


def test_lists_of_varying_length_and_features_that_some_records_lack(forebay_command: Any, tmp_path: Path) -> None:
    floats = [np.arange(n, dtype="<f4") for n in (3, 0, 5, 1)]
    path = write(tmp_path / "a", [example(f=f, i=np.arange(n)) for n, f in enumerate(floats)] + [example(other=1)])
    forebay_command.same(path, "f", np.concatenate(floats))
    forebay_command.same(path, "f@offsets", np.array([0, 3, 3, 8, 9, 9]))
    forebay_command.same(path, "i", np.array([0, 0, 1, 0, 1, 2]))
    forebay_command.same(path, "i@offsets", np.array([0, 0, 1, 3, 6, 6]))


def test_numbers_that_are_not_packed(forebay_command: Any, tmp_path: Path) -> None:
    def long(field: int, payload: bytes) -> bytes:
        assert len(payload) < 128
        return bytes([field << 3 | 2, len(payload)]) + payload

    def one(name: bytes, kind: int, values: bytes) -> bytes:
        return long(1, long(1, name) + long(2, long(kind, values)))

    floats = np.arange(10, dtype="<f4")
    single = b"".join(b"\x0d" + f.tobytes() for f in floats)
    payload = long(1, one(b"f", 2, single) + one(b"i", 3, b"\x08\x05" * 6))
    path = write(tmp_path / "a", [payload, payload])
    forebay_command.same(path, "f", np.stack([floats, floats]))
    forebay_command.same(path, "i", np.full((2, 6), 5))


def test_records_longer_than_the_window(forebay_command: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, (5, 300_000), dtype="u1")
    path = write(tmp_path / "a", [example(raw=row.tobytes(), z=index) for index, row in enumerate(raw)])
    forebay_command.same(path, "raw", raw)
    forebay_command.same(path, "z", np.arange(5))


def test_what_is_damaged_is_refused(forebay_command: Any, tmp_path: Path, monkeypatch: Any) -> None:
    whole = write(tmp_path / "a", [example(x=n) for n in range(9)]).read_bytes()
    (tmp_path / "a").write_bytes(whole[:-1])
    assert "record 8" in forebay_command.refuses(tmp_path / "a", "x")
    second = len(whole) // 9
    broken = bytearray(whole)
    broken[second] ^= 1
    (tmp_path / "a").write_bytes(broken)
    assert "checksum" in forebay_command.refuses(tmp_path / "a", "x")
    broken = bytearray(whole)
    broken[second - 6] ^= 1
    (tmp_path / "a").write_bytes(broken)
    forebay_command.dump(tmp_path / "a", "record")
    monkeypatch.setenv("FOREBAY_TFRECORD_CHECK", "1")
    assert "record 0" in forebay_command.refuses(tmp_path / "a", "record")


def test_what_is_not_read_says_so(forebay_command: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(gzip.compress(frame(example(x=1))))
    assert "gunzip" in forebay_command.refuses(path, "x")
    sequence = b"\x0a\x00\x12\x00"
    path = write(tmp_path / "s", [sequence])
    assert "SequenceExample" in forebay_command.refuses(path, "features")
    forebay_command.same(path, "record", np.frombuffer(sequence, "u1"))
    several = example_pb2.Example()
    several.features.feature["b"].bytes_list.value.extend([b"a", b"b"])
    path = write(tmp_path / "b", [several.SerializeToString()])
    assert "several values" in forebay_command.refuses(path, "b")


def test_shards_of_which_some_are_ragged_are_one_set(tmp_path: Path) -> None:
    lengths = {"a": [3, 3, 3], "b": [1, 0, 4], "c": [5, 5]}
    values: list[Any] = []
    for name, counts in lengths.items():
        own = [np.arange(count, dtype="f4") + 10 * len(values) for count in counts]
        write(tmp_path / f"{name}.tfrecord", [example(x=one, n=[len(one)]) for one in own])
        values += own
    files = [tmp_path / f"{name}.tfrecord" for name in lengths]
    for order in ([0, 1, 2], [1, 2, 0], [0, 2]):
        expected = [one for at in order for one in values[sum(map(len, list(lengths.values())[:at])) :][: len(list(lengths.values())[at])]]
        ds = forebay.open([files[at] for at in order], ["x"], label="n", samples=forebay.Ragged(offsets="x@offsets"))
        assert len(ds) == len(expected)
        for number, one in enumerate(expected):
            assert ds[number]["x"].tolist() == one.tolist() and ds[number]["n"] == len(one)
        batch = ds[:]
        assert batch["x"].tolist() == np.concatenate(expected).tolist()
        assert np.diff(batch.offsets["x"]).tolist() == [len(one) for one in expected]
        for batch in ds.loader(batch_size=2, shuffle="full"):
            assert batch["x"].tolist() == np.concatenate([expected[number] for number in batch.indices]).tolist()


def test_a_ragged_shard_is_not_read_row_by_row_among_others(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [example(x=[1.0]), example(x=[2.0])])
    write(tmp_path / "b.tfrecord", [example(x=[3.0, 4.0]), example(x=[5.0])])
    for first, second in ("ab", "ba"):
        with pytest.raises(forebay.InvalidError, match=rf"{second}\.tfrecord.*'x'.*length.*Ragged\(offsets=.x@offsets.\)"):
            forebay.open([tmp_path / f"{first}.tfrecord", tmp_path / f"{second}.tfrecord"], ["x"])
