"""Weather windows over monthly files: what lies 1 and 6 hours ahead is foretold from the last 4 hours.

Usage: python torch_weather.py [FILES...]   # files with "t2m" (time, lat, lon) and "height" (lat, lon), in the order of time

Windows go on from month to month. A month that is missing is a gap, which no window crosses. The map of heights has no time:
it comes with every window.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> list[str]:
    """Four months of a wave that goes around a small planet, without March."""
    import netCDF4
    import numpy as np

    random = np.random.default_rng(0)
    height = random.random((8, 16)).astype("f4")
    paths, hour = [], 0
    for month, days in enumerate((31, 28, 31, 30), start=1):
        hours = hour + np.arange(days * 24)
        hour += days * 24
        if month == 3:
            continue
        path = folder / f"era_{month:02}.nc"
        with netCDF4.Dataset(path, "w") as file:
            for name, size in (("time", None), ("lat", 8), ("lon", 16)):
                file.createDimension(name, size)
            time = file.createVariable("time", "f8", ("time",))
            time.units = "hours since 2021-01-01"
            file.createVariable("height", "f4", ("lat", "lon"))[:] = height
            t2m = file.createVariable("t2m", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(24, 8, 16))
            phase = 2 * np.pi * (np.arange(16)[None, None] / 16 - hours[:, None, None] / 24)
            time[:], t2m[:] = hours, np.sin(phase) - height + random.normal(0, 0.05, (len(hours), 8, 16))
        paths.append(str(path))
    return paths


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    windows = forebay.Windows({"time": 4}, stride={"time": 1}, targets={"time": (1, 6)})
    ds = forebay.open(files, fields=["t2m", "height"], samples=windows, files_axis="time")
    print(ds)
    loader = forebay.torch.Loader(ds, batch_size=32, shuffle="block", seed=1)
    model = nn.Conv2d(5, 2, 3, padding=1, padding_mode="circular")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(3):
        total = 0.0
        for batch in loader:
            inputs = torch.cat([batch["t2m"], batch["height"][:, None]], dim=1)
            error = (model(inputs) - batch["t2m_target"]).square().mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            total += error.item() * len(inputs)
        print(f"epoch {epoch}: error {total / len(ds):.4f}")
    print(f"the last batch begins at hour {int(batch.origins['time'][0])} of all files")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
