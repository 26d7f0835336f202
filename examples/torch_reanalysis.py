"""Patches of a reanalysis in a Zarr store: three hours in, the fourth to be told, through a tier of memory.

Usage: python torch_reanalysis.py [STORE]   # a Zarr store with "t2m" (time, latitude, longitude)

A sample is a window of four hours over 16 by 16 cells, wherever it lies in the chunks.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> str:
    """Waves that travel east, in chunks of 24 hours, compressed, eight chunks to a shard."""
    import numpy as np
    import zarr

    random = np.random.default_rng(0)
    path = folder / "reanalysis.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=3)
    hours, lat, lon = np.arange(192)[:, None, None], np.arange(32)[None, :, None], np.arange(64)[None, None, :]
    waves = sum(np.sin(2 * np.pi * (k * (lon - hours) / 64 + random.random()) + k * lat / 8) for k in (1, 2, 3))
    t2m = group.create_array(
        "t2m", shape=(192, 32, 64), chunks=(24, 8, 16), shards=(24, 32, 32), dtype="f4",
        dimension_names=("time", "latitude", "longitude"),
    )  # fmt: skip
    t2m[:] = waves + random.normal(0, 0.05, waves.shape)
    return str(path)


def main(store: str) -> None:
    torch.manual_seed(0)
    windows = forebay.Windows({"time": 4, "latitude": 16, "longitude": 16}, stride={"time": 2})
    ds = forebay.open(store, fields=["t2m"], samples=windows, tiers=["memory:64MiB"])
    print(ds)
    loader = forebay.torch.Loader(ds, batch_size=32, shuffle="full", seed=1)
    model = nn.Conv2d(3, 1, 3, padding=1, padding_mode="replicate")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(4):
        total = 0.0
        for batch in loader:
            past, future = batch["t2m"][:, :3], batch["t2m"][:, 3:]
            error = (model(past) - future).square().mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            total += error.item() * len(past)
        print(f"epoch {epoch}: error {total / len(ds):.4f}")
    print(f"limited by: {loader.stats()['verdict']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if sys.argv[1:] else make(Path(folder)))
