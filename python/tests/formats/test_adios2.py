"""ADIOS2's folders, held against the library that wrote them: types, steps, blocks, texts and attributes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

adios2 = pytest.importorskip("adios2")
from adios2 import bindings  # noqa: E402

ENGINES = ["BP3", "BP4", "BP5"]
TYPES = "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16".split()


class Writer:
    """A folder that is being written; ``put`` takes what the library calls shape and start."""

    def __init__(self, path: Path, engine: str, **parameters: str) -> None:
        self.path = path
        shutil.rmtree(path, ignore_errors=True)
        self.adios = adios2.Adios()
        self.io = self.adios.declare_io("w")
        self.io.set_engine(engine)
        self.io.set_parameters(parameters)
        self.variables: dict[str, Any] = {}
        self.engine = self.io.open(str(path), bindings.Mode.Write)

    def put(self, name: str, values: Any, shape: Any = (), start: Any = ()) -> None:
        if isinstance(values, str):
            variable = self.variables.setdefault(name, None) or self.io.define_variable(name, values)
            self.variables[name] = variable
            self.engine.put(variable, values)
            return
        values = np.array(values, order="C")
        if name not in self.variables:
            self.variables[name] = self.io.define_variable(
                name, values, list(shape), list(start), list(values.shape)
            )
        variable = self.variables[name]
        if len(shape):
            variable.set_shape(list(shape))
        if values.ndim:
            variable.set_selection([list(start), list(values.shape)])
        self.engine.put(variable, values, bindings.Mode.Sync)

    def step(self) -> Iterator[None]:
        """For ``with``-less use: between two of these lies one step."""
        self.engine.begin_step()
        yield
        self.engine.end_step()

    def close(self) -> Path:
        self.engine.close()
        return self.path


def steps(writer: Writer, count: int) -> Iterator[int]:
    """The numbers of ``count`` steps, each begun before and ended after its turn."""
    for number in range(count):
        yield from (number for _ in writer.step())


def values(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Values of any bits that are no signalling NaN."""
    noise = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return noise.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    real = noise.standard_normal(shape)
    return (real + 1j * noise.standard_normal(shape) if dtype.startswith("c") else real).astype(dtype)


def by_library(path: Path, name: str, step: int) -> Any:
    """A global array or a value at a step, as the library reads it."""
    with adios2.FileReader(str(path)) as file:
        variable = file.inquire_variable(name)
        variable.set_step_selection([step, 1])
        return np.asarray(file.read(variable))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_every_type_at_one_and_at_many_steps(forebay_command: Any, made: Path, engine: str, shape: tuple[int, ...]) -> None:
    for count in (1, 3):
        writer = Writer(made / f"types_{len(shape)}_{count}.{engine}.bp", engine)
        for step in steps(writer, count):
            for number, dtype in enumerate(TYPES):
                writer.put(f"array/{dtype}", values(dtype, shape, 100 * step + number), shape, [0] * len(shape))
                writer.put(f"value_{dtype}", values(dtype, (), 100 * step + number))
        path = writer.close()
        said = forebay_command.inspect(path)["variables"]
        for number, dtype in enumerate(TYPES):
            each = [values(dtype, shape, 100 * step + number) for step in range(count)]
            ones = [values(dtype, (), 100 * step + number) for step in range(count)]
            # The library's own Python layer does not know single complex.
            if dtype != "c8":
                assert np.array_equal(by_library(path, f"array/{dtype}", count - 1).reshape(shape), each[-1])
            forebay_command.same(path, f"array/{dtype}", each[-1])
            if len(shape) == 2 or dtype == "f4":
                forebay_command.same(path, f"value_{dtype}", ones[-1])
            assert (f"array/{dtype}@steps" in said) == (count > 1)
            if count > 1:
                forebay_command.same(path, f"array/{dtype}@steps", np.stack(each))
                if dtype in ("c16", "u2"):
                    forebay_command.same(path, f"value_{dtype}@steps", np.stack(ones))


def cuts(shape: tuple[int, ...], kind: str) -> list[tuple[slice, ...]]:
    """How an array is put together of blocks."""
    rows, columns = shape
    if kind == "whole":
        return [np.s_[:, :]]
    if kind == "rows":
        return [np.s_[at : at + 2, :] for at in range(0, rows, 2)]
    if kind == "uneven rows":
        return [np.s_[:1, :], np.s_[1:5, :], np.s_[5:, :]]
    if kind == "columns":
        return [np.s_[:, :4], np.s_[:, 4:]]
    if kind == "uneven columns":
        return [np.s_[:, :1], np.s_[:, 1:]]
    if kind == "grid":
        return [np.s_[a : a + 4, b : b + 4] for a in range(0, rows, 4) for b in range(0, columns, 4)]
    if kind == "backwards":
        return cuts(shape, "rows")[::-1]
    return [np.s_[:3, :], np.s_[3:, :5], np.s_[3:, 5:]]


KINDS = ["whole", "rows", "uneven rows", "columns", "uneven columns", "grid", "backwards", "puzzle"]


@pytest.mark.parametrize("engine", ENGINES)
def test_blocks_of_any_shape_make_up_the_array(forebay_command: Any, made: Path, engine: str) -> None:
    writer = Writer(made / f"blocks.{engine}.bp", engine)
    for step in steps(writer, 2):
        for kind in KINDS:
            array = values("f8", (8, 8), step)
            for cut in cuts(array.shape, kind):
                corner = [part.indices(8)[0] for part in cut]
                writer.put(kind, array[cut], array.shape, corner)
    path = writer.close()
    said = forebay_command.inspect(path)["variables"]
    for kind in KINDS:
        last, first = values("f8", (8, 8), 1), values("f8", (8, 8), 0)
        assert np.array_equal(by_library(path, kind, 1), last)
        forebay_command.same(path, kind, last)
        forebay_command.same(path, f"{kind}@steps", np.stack([first, last]))
    # Rows are read in place where blocks allow it: their chunks span all other axes.
    for name in ("whole", "rows", "uneven rows", "backwards", "whole@steps"):
        shape = said[name]["chunks"]["shape"] if said[name]["chunks"] else said[name]["shape"]
        assert said[name]["layout"] in ("chunked", "contiguous"), name
        assert shape[1:] == said[name]["shape"][1:], name


@pytest.mark.parametrize("engine", ENGINES)
def test_a_part_that_nobody_wrote_reads_as_zeros(forebay_command: Any, made: Path, engine: str) -> None:
    writer = Writer(made / f"holes.{engine}.bp", engine)
    for _ in steps(writer, 1):
        writer.put("x", np.ones((2, 3)), (6, 3), (2, 0))
    expected = np.zeros((6, 3))
    expected[2:4] = 1
    forebay_command.same(writer.close(), "x", expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_without_a_global_shape(forebay_command: Any, made: Path, engine: str) -> None:
    writer = Writer(made / f"local.{engine}.bp", engine)
    for step in steps(writer, 2):
        for block in range(3):
            writer.put("equal", values("i4", (2, 3), 10 * step + block))
            writer.put("ragged", values("f4", (block + 1, 2), 10 * step + block))
    path = writer.close()
    equal = [np.stack([values("i4", (2, 3), 10 * step + block) for block in range(3)]) for step in range(2)]
    ragged = [
        np.concatenate([values("f4", (block + 1, 2), 10 * step + block).ravel() for block in range(3)])
        for step in range(2)
    ]
    said = forebay_command.inspect(path)["variables"]
    forebay_command.same(path, "equal", equal[1])
    forebay_command.same(path, "equal@steps", np.stack(equal))
    forebay_command.same(path, "ragged", ragged[1])
    forebay_command.same(path, "ragged@offsets", np.array([0, 2, 6, 12], "i8"))
    for step in range(2):
        forebay_command.same(path, f"ragged@step{step}", ragged[step])
        forebay_command.same(path, f"ragged@step{step}@offsets", np.array([0, 2, 6, 12], "i8"))
    assert "ragged@steps" not in said


@pytest.mark.parametrize("engine", ENGINES)
def test_values_of_each_writer_and_joined_arrays(forebay_command: Any, made: Path, engine: str) -> None:
    writer = Writer(made / f"joined.{engine}.bp", engine)
    for step in steps(writer, 2):
        if "own" not in writer.variables:
            own = writer.io.define_variable("own", np.array(0, "i4"), [bindings.LocalValueDim], [], [])
            writer.variables["own"] = own
            joined = writer.io.define_variable("joined", np.zeros((1, 3)), [adios2.JoinedDim, 3], [], [1, 3])
            writer.variables["joined"] = joined
        writer.engine.put(writer.variables["own"], np.array(step + 5, "i4"), bindings.Mode.Sync)
        for block in range(3):
            rows = values("f8", (block + 1, 3), 10 * step + block)
            writer.variables["joined"].set_selection([[], list(rows.shape)])
            writer.engine.put(writer.variables["joined"], rows, bindings.Mode.Sync)
    path = writer.close()
    forebay_command.same(path, "own", np.array([6], "i4"))
    forebay_command.same(path, "own@steps", np.array([[5], [6]], "i4"))
    # The library writes joined arrays to the older formats too, but does not read them there.
    if engine != "BP5":
        return
    expected = [np.concatenate([values("f8", (b + 1, 3), 10 * s + b) for b in range(3)]) for s in range(2)]
    assert np.array_equal(by_library(path, "joined", 1), expected[1])
    forebay_command.same(path, "joined", expected[1])
    forebay_command.same(path, "joined@steps", np.stack(expected))


@pytest.mark.parametrize("engine", ENGINES)
def test_shapes_that_change_and_steps_that_leave_a_variable_out(forebay_command: Any, made: Path, engine: str) -> None:
    writer = Writer(made / f"changing.{engine}.bp", engine)
    for step in steps(writer, 4):
        writer.put("always", np.array(step))
        writer.put("grows", np.arange(step + 2, dtype="i8"), [step + 2], [0])
        if step % 2:
            writer.put("odd", np.full((2, 2), step, "f4"), [2, 2], [0, 0])
    path = writer.close()
    forebay_command.same(path, "grows", np.arange(5))
    for step in range(4):
        forebay_command.same(path, f"grows@step{step}", np.arange(step + 2))
    forebay_command.same(path, "odd", np.full((2, 2), 3, "f4"))
    forebay_command.same(path, "odd@steps", np.stack([np.full((2, 2), 1, "f4"), np.full((2, 2), 3, "f4")]))
    assert "grows@steps" not in forebay_command.inspect(path)["variables"]


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_and_attributes(forebay_command: Any, made: Path, engine: str) -> None:
    path = made / f"texts.{engine}.bp"
    shutil.rmtree(path, ignore_errors=True)
    io = adios2.Adios().declare_io("w")
    io.set_engine(engine)
    text = io.define_variable("text", "x")
    array = io.define_variable("array", np.zeros(2), [2], [0], [2])
    for name, value in {
        "number": 1.5,
        "word": "grün",
        "numbers": np.arange(3, dtype="i4"),
        "words": ["ab", "cde", ""],
        "complex": np.array([1 + 2j]),
    }.items():
        io.define_attribute(name, value)
    io.define_attribute("unit", "K", "array")
    file = io.open(str(path), bindings.Mode.Write)
    texts = ["one", "zwei ü", "a much longer text than the others"]
    for one in texts:
        file.begin_step()
        file.put(text, one)
        file.put(array, np.ones(2), bindings.Mode.Sync)
        file.end_step()
    file.close()
    width = max(len(one.encode()) for one in texts)
    forebay_command.same(path, "text", np.array(texts[-1].encode(), f"S{width}"))
    forebay_command.same(path, "text@steps", np.array([one.encode() for one in texts], f"S{width}"))
    said = forebay_command.inspect(path)
    for name in ("array", "array@steps"):
        assert attributes(said["variables"][name]) == {"unit": ([], ["K"])}
    assert attributes(said["groups"][0]) == {
        "number": ([], [1.5]),
        "word": ([], ["grün"]),
        "numbers": ([3], [0, 1, 2]),
        "words": ([3], ["ab", "cde", ""]),
        # BP3 and BP4 do not tell one number from an array of one.
        "complex": ([1] if engine == "BP5" else [], attributes(said["groups"][0])["complex"][1]),
    }


def attributes(owner: dict[str, Any]) -> dict[str, Any]:
    """Shape and values of all attributes, by name."""
    return {one["name"]: (one["shape"], one["values"]) for one in owner["attributes"]}


def test_what_was_flushed_before_the_end_of_a_step(forebay_command: Any, made: Path) -> None:
    writer = Writer(made / "flushed.bp", "BP5")
    for step in steps(writer, 2):
        for block in range(3):
            writer.put("x", np.full((1, 1000), 10.0 * step + block), (3, 1000), (block, 0))
            writer.engine.perform_data_write()
    path = writer.close()
    expected = np.repeat(np.array([[0.0, 1, 2], [10, 11, 12]])[..., None], 1000, axis=2)
    forebay_command.same(path, "x@steps", expected)


@pytest.mark.parametrize("flag", ["n", "y"])
@pytest.mark.parametrize("engine", ["BP4", "BP5"])
def test_axes_in_the_order_of_fortran(forebay_command: Any, made: Path, engine: str, flag: str) -> None:
    writer = Writer(made / f"fortran_{flag}.{engine}.bp", engine)
    for step in steps(writer, 2):
        for at in (0, 2):
            writer.put("x", values("i4", (2, 3, 4), step + at), (4, 3, 4), (at, 0, 0))
    path = writer.close()
    if engine == "BP5":
        table = bytearray((path / "md.idx").read_bytes())
        assert table[40] == ord("n")
        table[40] = ord(flag)
        (path / "md.idx").write_bytes(table)
    else:
        index = (path / "md.0").read_bytes()
        changed = index.replace(b"\x01\0wn", b"\x01\0w" + flag.encode())
        assert (changed == index) == (flag == "n")
        (path / "md.0").write_bytes(changed)
    each = [by_library(path, "x", step) for step in range(2)]
    assert each[0].shape == ((4, 3, 4) if flag == "n" else (4, 3, 4)[::-1])
    forebay_command.same(path, "x", each[1])
    forebay_command.same(path, "x@steps", np.stack(each))


@pytest.mark.parametrize("engine", ["BP4", "BP5"])
def test_an_operator_that_changes_nothing(forebay_command: Any, made: Path, engine: str) -> None:
    path = made / f"null.{engine}.bp"
    shutil.rmtree(path, ignore_errors=True)
    adios = adios2.Adios()
    io = adios.declare_io("w")
    io.set_engine(engine)
    variable = io.define_variable("x", np.zeros((4, 5)), [8, 5], [0, 0], [4, 5])
    variable.add_operation(adios.define_operator("none", "null"))
    file = io.open(str(path), bindings.Mode.Write)
    expected = values("f8", (8, 5), 3)
    file.begin_step()
    for at in (0, 4):
        variable.set_selection([[at, 0], [4, 5]])
        file.put(variable, expected[at : at + 4].copy(), bindings.Mode.Sync)
    file.end_step()
    file.close()
    forebay_command.same(path, "x", expected)


OPERATORS = {
    "blosc": [{}, {"compressor": "zstd", "clevel": "5"}, {"compressor": "lz4", "doshuffle": "BLOSC_BITSHUFFLE"}],
    "zfp": [{"accuracy": "0.001"}, {"precision": "20"}, {"rate": "12"}],
}


@pytest.mark.parametrize("engine", ["bp4", "bp5"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_are_undone(forebay_command: Any, made: Path, operator: str, engine: str) -> None:
    openpmd = pytest.importorskip("openpmd_api")
    for number, parameters in enumerate(OPERATORS[operator]):
        path = made / f"{operator}_{number}.{engine}.bp"
        dataset = {"operators": [{"type": operator, "parameters": parameters}]}
        options = {"backend": "adios2", "adios2": {"engine": {"type": engine}, "dataset": dataset}}
        shapes = [(1000,), (60, 70), (12, 13, 14)]
        file = openpmd.Series(str(path), openpmd.Access.create, json.dumps(options))
        step = file.write_iterations()[0]
        for shape in shapes:
            for dtype in ("f4", "f8"):
                mesh = step.meshes[f"x{len(shape)}{dtype}"]
                array = values(dtype, shape, number)
                mesh.reset_dataset(openpmd.Dataset(array.dtype, array.shape))
                mesh.store_chunk(array)
                file.flush()
        step.close()
        file.close()
        file = openpmd.Series(str(path), openpmd.Access.read_only)
        names = [f"x{len(shape)}{dtype}" for shape in shapes for dtype in ("f4", "f8")]
        meshes = {name: file.iterations[0].meshes[name].load_chunk() for name in names}
        file.flush()
        for name, expected in meshes.items():
            forebay_command.same(path, f"data/meshes/{name}", expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_without_all_its_files_is_told_so(forebay_command: Any, made: Path, engine: str) -> None:
    writer = Writer(made / f"torn.{engine}.bp", engine)
    for _ in steps(writer, 1):
        writer.put("x", np.ones(1000), [1000], [0])
    path = writer.close()
    data = path / "data.0" if engine != "BP3" else path.with_name(f"{path.name}.dir") / f"{path.name}.0"
    os.truncate(data, data.stat().st_size // 2)
    assert data.name in forebay_command.refuses(path, "x")
    data.unlink()
    assert f"{data.name}, which is not there" in forebay_command.refuses(path, "x")
    if engine == "BP3":
        return
    (path / "md.0").unlink()
    assert "md.0 is not there" in forebay_command.refuses(path, "x")
