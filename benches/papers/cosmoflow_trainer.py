"""Programs of the CosmoFlow part: HDF5 files to TFRecords, and epochs over either.

  cosmoflow_trainer.py convert HDF5_FOLDER TFRECORD_FOLDER
  cosmoflow_trainer.py train FOLDER --format hdf5|tfrecord --epochs N

Prints one line of JSON with the seconds that it took.
"""

import argparse
import json
import pathlib
import struct
import time


def masked_crc(data):
    import crc32c

    crc = crc32c.crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def example(x, y):
    """A `tf.train.Example` of two features of bytes, as converters of CosmoFlow write it."""
    features = b"".join(field(1, field(1, name) + field(2, field(1, field(1, value)))) for name, value in ((b"x", x), (b"y", y)))
    return field(1, features)


def convert(args):
    import h5py

    began = time.perf_counter()
    for path in sorted(pathlib.Path(args.folder).glob("*.h5")):
        with h5py.File(path) as file:
            record = example(file["x"][0].tobytes(), file["y"][0].tobytes())
        length = struct.pack("<Q", len(record))
        with open(pathlib.Path(args.target) / f"{path.stem}.tfrecord", "wb") as out:
            out.write(length + struct.pack("<I", masked_crc(length)))
            out.write(record)
            out.write(struct.pack("<I", masked_crc(record)))
    return {"seconds": time.perf_counter() - began}


def train(args):
    import torch

    import forebay
    import forebay.torch

    torch.set_num_threads(1)
    pattern = {"hdf5": "*.h5", "tfrecord": "*.tfrecord"}[args.format]
    began = time.perf_counter()
    ds = forebay.open(f"{args.folder}/{pattern}", fields=["x"])
    loader = forebay.torch.Loader(ds, batch_size=1, shuffle="full", seed=7, read_threads=4, memory="256MiB", spill_quota=0)
    epochs, read = [], 0
    for epoch in range(args.epochs):
        loader.set_epoch(epoch)
        start = time.perf_counter()
        for batch in loader:
            data = batch["x"]
            read += data.numel() * data.element_size()
            time.sleep(args.step_s)
        epochs.append(time.perf_counter() - start)
    return {"seconds": time.perf_counter() - began, "epochs_s": epochs, "bytes": read}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("convert")
    one.add_argument("folder")
    one.add_argument("target")
    other = kinds.add_parser("train")
    other.add_argument("folder")
    other.add_argument("--format", required=True)
    other.add_argument("--epochs", type=int, default=4)
    other.add_argument("--step-s", type=float, default=0.0)
    args = parser.parse_args()
    print(json.dumps((convert if args.kind == "convert" else train)(args)))


if __name__ == "__main__":
    main()
