"""Blocks of a mesh in a Silo file: one block a sample, through a tier of memory.

Usage: python torch_blocks.py [FILES...]   # Silo files with the multi-block variables "density" and "pressure"

A multi-block variable whose blocks have one shape is an array with an axis "block" before the others. The model learns
the law by which pressure follows from density.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import forebay
import forebay.torch

# Of silo.h.
CLOBBER, LOCAL, HDF5, FLOAT, ZONECENT, COLLINEAR, QUADMESH, QUADVAR = 0, 0, 7, 19, 111, 130, 500, 501


def make(folder: Path) -> list[str]:
    """A file of 64 blocks of 12 by 12 zones, as a parallel code leaves it, written by the Silo library itself."""
    import numpy as np

    silo = ctypes.CDLL(ctypes.util.find_library("siloh5") or "libsiloh5.so.0")
    silo.DBCreateReal.restype = ctypes.c_void_p
    random = np.random.default_rng(0)
    path = folder / "blast.silo"
    file = ctypes.c_void_p(silo.DBCreateReal(str(path).encode(), CLOBBER, LOCAL, b"blast", HDF5))
    edges = np.arange(13, dtype="f4")
    names = {"mesh": [], "density": [], "pressure": []}

    def pointers(*values):
        return (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))

    def texts(values):
        return (ctypes.c_char_p * len(values))(*(value.encode() for value in values))

    for block in range(64):
        folder_name = f"block_{block:02}"
        silo.DBMkDir(file, folder_name.encode())
        nodes, zones = (ctypes.c_int * 2)(13, 13), (ctypes.c_int * 2)(12, 12)
        mesh = f"{folder_name}/mesh"
        silo.DBPutQuadmesh(
            file, mesh.encode(), texts(["x", "y"]), pointers(edges + 12 * block, edges), nodes, 2, FLOAT, COLLINEAR, None
        )
        density = random.uniform(0.5, 2, (12, 12)).astype("f4")
        for name, values in (("density", density), ("pressure", 0.4 * density**1.4)):
            variable = f"{folder_name}/{name}"
            values = np.ascontiguousarray(values, "f4")
            silo.DBPutQuadvar1(
                file, variable.encode(), mesh.encode(), values.ctypes.data_as(ctypes.c_void_p), zones, 2, None, 0, FLOAT,
                ZONECENT, None
            )  # fmt: skip
            names[name].append(variable)
        names["mesh"].append(mesh)
    kinds = (ctypes.c_int * 64)(*[QUADMESH] * 64)
    silo.DBPutMultimesh(file, b"mesh", 64, texts(names["mesh"]), kinds, None)
    kinds = (ctypes.c_int * 64)(*[QUADVAR] * 64)
    for name in ("density", "pressure"):
        silo.DBPutMultivar(file, name.encode(), 64, texts(names[name]), kinds, None)
    silo.DBClose(file)
    return [str(path)]


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    ds = forebay.open(files, fields=["density", "pressure"], tiers=["memory:64MiB"])
    print(ds)
    loader = forebay.torch.Loader(ds, batch_size=8, shuffle="full", seed=1)
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(10):
        total = 0.0
        for batch in loader:
            error = (model(batch["density"][..., None])[..., 0] - batch["pressure"]).square().mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            total += error.item() * len(batch["density"])
        print(f"epoch {epoch}: error {total / len(ds):.5f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
