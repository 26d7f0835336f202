"""The least there is to it: HDF5 files in, NumPy batches out.

Usage: python numpy_minimal.py [FILES...]  # files with "image" and "label"; made where none are given
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import forebay


def make(folder: Path) -> list[str]:
    """Three small files of images, as an instrument may have left them."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for number in range(3):
        path = folder / f"train_{number}.h5"
        with h5py.File(path, "w") as file:
            images = random.integers(0, 255, (200, 32, 32), np.uint8)
            file.create_dataset("image", data=images, chunks=(16, 32, 32), compression="gzip", shuffle=True)
            file.create_dataset("label", data=random.integers(0, 10, 200))
        paths.append(str(path))
    return paths


def main(files: list[str]) -> None:
    ds = forebay.open(files, fields=["image"], label="label")
    print(ds)
    loader = ds.loader(batch_size=64, shuffle="full", seed=7)
    for epoch in range(2):
        for batch in loader:
            images, labels = batch["image"], batch["label"]
            if batch.step == 0:
                print(f"epoch {epoch}: {images.dtype}{images.shape}, labels {labels[:5]}, samples {batch.indices[:5]}")
    stats = loader.stats()
    print(f"{stats['samples']} samples, {stats['decoded_units']} chunks decoded, limited by: {stats['verdict']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
