"""Climate fields in NetCDF files, one for each year: unpacked, one day a sample, through a tier of memory.

Usage: python torch_climate.py [FILES...]   # files with "t2m" (time, lat, lon), packed or not, and "insolation" (time)

The temperature is stored as 16-bit integers with a scale, an offset and a fill value, as archives do. It arrives as
floats, missing cells as NaN. The model learns how high the sun stands from the field alone.
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
    """Four years of a small, noisy planet with seasons, in the classic format that PnetCDF writes too."""
    import netCDF4
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for year in range(4):
        path = folder / f"planet_{2000 + year}.nc"
        with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_DATA") as file:
            for name, size in (("time", None), ("lat", 16), ("lon", 32)):
                file.createDimension(name, size)
            time = file.createVariable("time", "f8", ("time",))
            time.units = f"days since {2000 + year}-01-01"
            t2m = file.createVariable("t2m", "i2", ("time", "lat", "lon"), fill_value=-32768)
            t2m.scale_factor, t2m.add_offset = np.float32(0.01), np.float32(280)
            insolation = file.createVariable("insolation", "f4", ("time",))
            days = np.arange(365)
            sun = np.sin(2 * np.pi * days / 365).astype("f4")
            lat = np.linspace(-1, 1, 16)[None, :, None]
            field = 285 - 30 * lat**2 + 12 * lat * sun[:, None, None] + random.normal(0, 2, (365, 16, 32))
            time[:], insolation[:] = days, sun
            t2m[:] = np.ma.array(field, mask=random.random(field.shape) < 0.01)
        paths.append(str(path))
    return paths


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    ds = forebay.open(
        files, fields=["t2m"], label="insolation", samples=forebay.Along("time"), cf=True, tiers=["memory:64MiB"]
    )
    print(ds)
    loader = forebay.torch.Loader(ds, batch_size=32, shuffle="full", seed=1)
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(4):
        total = 0.0
        for batch in loader:
            field = (batch["t2m"].float().nan_to_num(285) - 285) / 15
            error = (model(field)[:, 0] - batch["insolation"]).square().mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            total += error.item() * len(field)
        print(f"epoch {epoch}: error {total / len(ds):.4f}")
    missing = torch.isnan(batch["t2m"]).float().mean()
    print(f"{missing:.1%} of the cells of the last batch are missing")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
