"""Hugging Face datasets over HDF5 files: an `IterableDataset` in an order that is shuffled over all samples, without a copy of the set.

Usage: python huggingface_datasets.py [FILES...]   # with variables "image" and "label"
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from datasets import Array2D, Features, IterableDataset, Value


def make(folder: Path) -> list[str]:
    """Two files of small images."""
    random = np.random.default_rng(0)
    for number in range(2):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            file.create_dataset("image", data=random.integers(0, 255, (200, 16, 16), np.uint8), chunks=(20, 16, 16), compression="gzip")
            file["label"] = np.arange(200) + 200 * number
    return [str(folder / f"{number}.h5") for number in range(2)]


def samples(shards: list[int], files: tuple[str, ...], seed: int) -> Iterator[dict[str, Any]]:
    """The samples of some shards, which are ranks of a loader: each has its part of one shuffle."""
    # Imported here: `datasets` hashes all that a generator refers to.
    import forebay

    ds = forebay.open(list(files), fields=["image"], label="label")
    for shard in shards:
        for batch in ds.loader(batch_size=50, shuffle="full", seed=seed, rank=shard, world=WORLD, tail="drop"):
            yield from ({name: values[number] for name, values in batch.items()} for number in range(batch.size))


WORLD = 4


def main(files: list[str]) -> None:
    features = Features({"image": Array2D((16, 16), "uint8"), "label": Value("int64")})
    given = {"shards": list(range(WORLD)), "files": tuple(files), "seed": 7}
    ds = IterableDataset.from_generator(samples, gen_kwargs=given, features=features).with_format("numpy")
    labels: list[int] = []
    for batch in ds.map(lambda one: {"mean": float(one["image"].mean())}).iter(batch_size=64):
        labels += batch["label"].tolist()
    print(f"{len(set(labels))} samples, each once: {len(labels) == len(set(labels))}; the first are {labels[:4]}")
    # As a trainer on two processes takes them.
    halves = [[int(one["label"]) for one in ds.shard(2, number)] for number in range(2)]
    print(f"two processes have {len(halves[0])} and {len(halves[1])}, none in common: {not set(halves[0]) & set(halves[1])}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
