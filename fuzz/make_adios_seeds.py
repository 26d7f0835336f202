#!/usr/bin/env python3
"""Makes the fuzzer's first ADIOS folders: `make_adios_seeds.py [DIR]`, each packed into one file.

A packed folder is, for `md.idx`, `md.0`, `mmd.0` and `data.0` in turn, its length in four bytes and the file itself.
"""

import pathlib
import struct
import sys
import tempfile

import adios2
import numpy as np
from adios2 import bindings

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus" / "adios")
folder.mkdir(parents=True, exist_ok=True)


def pack(path):
    """The files of a folder as one."""
    files = [path / name for name in ("md.idx", "md.0", "mmd.0", "data.0")]
    parts = [file.read_bytes() if file.exists() else b"" for file in files]
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def seed(name, write, steps=2):
    """A folder of each format; `write(io, put)` is called at every step."""
    for engine in ("BP4", "BP5"):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "f.bp"
            adios = adios2.Adios()
            io = adios.declare_io("w")
            io.set_engine(engine)
            file = io.open(str(path), bindings.Mode.Write)
            defined = {}

            def put(name, values, shape=(), start=(), operator=None):
                if isinstance(values, str):
                    defined.setdefault(name, io.inquire_variable(name) or io.define_variable(name, values))
                    return file.put(defined[name], values)
                values = np.asarray(values)
                if name not in defined:
                    defined[name] = io.define_variable(name, values, list(shape), list(start), list(values.shape))
                    if operator:
                        defined[name].add_operation(adios.define_operator(name, operator))
                if values.ndim:
                    defined[name].set_selection([list(start), list(values.shape)])
                return file.put(defined[name], values, bindings.Mode.Sync)

            for step in range(steps):
                file.begin_step()
                write(io, put, step)
                file.end_step()
            file.close()
            (folder / f"seed_{name}_{engine.lower()}").write_bytes(pack(path))


def mixed(io, put, step):
    put("array", np.arange(6, dtype="i4").reshape(2, 3) + step, (2, 3), (0, 0))
    put("value", np.array(step, "f8"))
    put("text", "text" * (step + 1))
    for block in range(2):
        put("local", np.full((2, 2), step + block, "f4"))
    if step == 0:
        io.define_attribute("number", 1.5)
        io.define_attribute("words", ["a", "bc"])
        io.define_attribute("unit", "K", "array")


def blocks(io, put, step):
    for at, rows in ((0, 1), (1, 3)):
        put("rows", np.full((rows, 2), step, "u2"), (4, 2), (at, 0))
    for at in (0, 1):
        put("columns", np.full((3, 1 + at), step, "c16"), (3, 3), (0, at))
        put("ragged", np.arange(at + 1, dtype="i8"))


seed("mixed", mixed)
seed("blocks", blocks)
seed("operator", lambda io, put, step: put("x", np.arange(6.0), (6,), (0,), "null"))
seed("one", lambda io, put, step: put("x", np.zeros(3, "u1"), (3,), (0,)), steps=1)

# The format before was one file of descriptions, and one of values beside it: only the first is a seed.
with tempfile.TemporaryDirectory() as scratch:
    path = pathlib.Path(scratch) / "f.bp"
    io = adios2.Adios().declare_io("w")
    io.set_engine("BP3")
    array = io.define_variable("array", np.zeros((2, 3)), [2, 3], [0, 0], [2, 3])
    text = io.define_variable("text", "x")
    io.define_attribute("unit", "K", "array")
    file = io.open(str(path), bindings.Mode.Write)
    for step in range(2):
        file.begin_step()
        file.put(array, np.full((2, 3), step, "f8"), bindings.Mode.Sync)
        file.put(text, "text" * (step + 1))
        file.end_step()
    file.close()
    (folder / "seed_bp3").write_bytes(path.read_bytes())
