#!/usr/bin/env python3
"""Makes the fuzzer's first files of the AI formats: `make_ai_seeds.py [DIR]`, a folder for each format."""

import io
import pathlib
import struct
import sys

import crc32c
import numpy as np
from PIL import Image
from tfrecord import example_pb2

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus")
small = np.arange(12, dtype="<i4").reshape(3, 4)


def seed(kind, name, data):
    (root / kind).mkdir(parents=True, exist_ok=True)
    (root / kind / f"seed_{name}").write_bytes(data)


def written(write):
    out = io.BytesIO()
    write(out)
    return out.getvalue()


for name, array in {
    "plain": small, "turned": np.asfortranarray(small), "big": small.astype(">f8"), "text": np.array(["a", "bcd"]),
    "struct": np.zeros(2, [("a", "<i2"), ("b", ">f8", (2,)), ("c", "S3")]), "bool": np.array([True, False]),
}.items():
    seed("npy", name, written(lambda out: np.save(out, array)))
    seed("npz", name, written(lambda out: np.savez(out, x=array)))
    seed("npz", f"{name}_deflated", written(lambda out: np.savez_compressed(out, x=array, y=small)))


def frame(payload):
    def masked(data):
        crc = crc32c.crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def example(size):
    message = example_pb2.Example()
    features = message.features.feature
    features["raw"].bytes_list.value.append(b"r" * size)
    features["x"].float_list.value.extend(range(10))
    features["i"].int64_list.value.extend(range(-3, 7))
    features["label"].int64_list.value.append(size)
    return message.SerializeToString()


seed("tfrecord", "even", frame(example(3)) * 2)
seed("tfrecord", "uneven", frame(example(3)) + frame(example(5)))
seed("tfrecord", "plain", frame(b"plain") + frame(b""))
seed("tfrecord", "sequence", frame(b"\x0a\x00\x12\x00"))
seed("csv", "header", b"a,b\n1,2.5\n3,\n")
seed("csv", "quotes", b'"x, y";t\r\n1;"a\r\nb"\r\n2;"c ""d"""\r\n')
seed("csv", "plain", b"1\t2\n3\t4\n")
picture = (np.mgrid[0:9, 0:7].sum(0) * 12).astype("u1")
for mode in ("L", "RGB", "P", "1"):
    seed("images", f"png_{mode}", written(lambda out: Image.fromarray(picture).convert(mode).save(out, "PNG")))
for name, options in {"base": {}, "progressive": {"progressive": True}}.items():
    seed("images", f"jpeg_{name}", written(lambda out: Image.fromarray(picture).convert("RGB").save(out, "JPEG", **options)))
