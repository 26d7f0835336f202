"""NetCDF, classic and NetCDF-4, held against netCDF4-python, PnetCDF and SciPy."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import netCDF4
import numpy as np
import pytest
import scipy.io

if TYPE_CHECKING:
    from conftest import Command

CLASSIC: dict[str, Any] = {"cdf1": "NETCDF3_CLASSIC", "cdf2": "NETCDF3_64BIT_OFFSET", "cdf5": "NETCDF3_64BIT_DATA"}
OLD_TYPES = ["i1", "S1", "i2", "i4", "f4", "f8"]
NEW_TYPES = ["u1", "u2", "u4", "i8", "u8"]
FORMATS: list[Any] = [*CLASSIC.values(), "NETCDF4", "NETCDF4_CLASSIC"]


def types(flavour: Any) -> list[str]:
    return OLD_TYPES + (NEW_TYPES if flavour in ("NETCDF3_64BIT_DATA", "NETCDF4") else [])


def some(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Values that use every bit of their type."""
    bits = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * np.dtype(kind).itemsize, "u1")
    if kind[0] in "fS":
        numbers = bits[: int(np.prod(shape))].astype("i4") % 90 + 33
        return (numbers.astype("u1").view("S1") if kind == "S1" else numbers.astype(kind) / 7).reshape(shape)
    return bits.view(kind).reshape(shape)


def raw(path: Path) -> netCDF4.Dataset:
    """The file as netCDF4 reads it, values as they are stored."""
    file = netCDF4.Dataset(path)
    file.set_auto_maskandscale(False)
    file.set_auto_chartostring(False)
    return file


def every(group: Any, prefix: str = "") -> dict[str, Any]:
    """All variables below a group, by full name."""
    found = {prefix + name: variable for name, variable in group.variables.items()}
    for name, inner in group.groups.items():
        found |= every(inner, f"{prefix}{name}/")
    return found


def little(values: Any) -> bytes:
    values = np.asarray(values)
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def checksums(command: Command, path: Path) -> dict[str, str]:
    """The checksum of every variable, by stored name."""
    lines = command("dump", path, "--all", "--sha256").stdout.decode().splitlines()
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}


def all_same(command: Command, path: Path) -> None:
    """Every variable has the values, shape, axes and growing axes that netCDF4 says, and there are no others."""
    said = command.inspect(path)
    sums = checksums(command, path)
    with raw(path) as file:
        variables = every(file)
        assert sorted(said["variables"]) == sorted(variables), path
        assert not said["refused"], path
        for name, variable in variables.items():
            facts = said["variables"][name]
            assert facts["shape"] == list(variable.shape), (path, name)
            assert facts["dimensions"] == list(variable.dimensions), (path, name)
            grows = [dimension.isunlimited() for dimension in variable.get_dims()]
            assert [most is None for most in facts["max_shape"]] == grows, (path, name)
            group, _, last = name.rpartition("/")
            stored = f"{group}/_nc4_non_coord_{last}".lstrip("/")
            stored = stored if stored in sums else name
            expected = hashlib.sha256(little(variable[...])).hexdigest()
            assert sums[stored] == expected, (path, name, sums[stored])


@pytest.mark.parametrize("flavour", FORMATS)
def test_all_types_fixed_and_in_records_of_every_rank(forebay_command: Command, made: Path, flavour: Any) -> None:
    path = made / f"ranks_{flavour}.nc"
    with netCDF4.Dataset(path, "w", format=flavour) as file:
        for name, length in {"time": None, "a": 3, "b": 2, "c": 5}.items():
            file.createDimension(name, length)
        for number, (kind, rank) in enumerate(itertools.product(types(flavour), range(5))):
            fixed = file.createVariable(f"fixed_{kind}_{rank}", kind, ("a", "b", "c", "a")[:rank])
            fixed.set_auto_maskandscale(False)
            fixed[...] = some(kind, (3, 2, 5, 3)[:rank], number)
            if rank:
                records = file.createVariable(f"records_{kind}_{rank}", kind, ("time", "a", "b", "c")[:rank])
                records.set_auto_maskandscale(False)
                records[...] = some(kind, (4, 3, 2, 5)[:rank], number)
    all_same(forebay_command, path)


@pytest.mark.parametrize("flavour", CLASSIC.values())
@pytest.mark.parametrize("count", [1, 2, 3])
def test_records_of_one_two_and_three_variables(
    forebay_command: Command, made: Path, flavour: Any, count: int
) -> None:
    # Only one variable has no filling between its records: where it is of bytes or shorts, that shows.
    for kind, inner, rows in itertools.product(types(flavour), (1, 3), (0, 1, 4)):
        path = made / f"records_{flavour}_{count}_{kind}_{inner}_{rows}.nc"
        with netCDF4.Dataset(path, "w", format=flavour) as file:
            file.createDimension("time", None)
            file.createDimension("x", inner)
            for number in range(count):
                variable = file.createVariable(f"v{number}", kind, ("time", "x"))
                variable.set_auto_maskandscale(False)
                if rows:
                    variable[:rows] = some(kind, (rows, inner), number)
        with raw(path) as file:
            expected = {name: hashlib.sha256(little(v[...])).hexdigest() for name, v in file.variables.items()}
        assert checksums(forebay_command, path) == expected, path


@pytest.mark.parametrize("flavour", FORMATS)
def test_what_was_never_written_is_the_fill_value(forebay_command: Command, made: Path, flavour: Any) -> None:
    path = made / f"fill_{flavour}.nc"
    with netCDF4.Dataset(path, "w", format=flavour) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        for kind in types(flavour):
            own = b"z" if kind == "S1" else np.array(7, kind)
            file.createVariable(f"default_{kind}", kind, ("time", "x"))
            file.createVariable(f"own_{kind}", kind, ("time", "x"), fill_value=own)
            file.createVariable(f"fixed_{kind}", kind, ("x",))
            file.createVariable(f"fixed_own_{kind}", kind, ("x",), fill_value=own)
        # One variable has five records, so all have.
        file.createVariable("longest", "i2", ("time",))[:] = range(5)
    all_same(forebay_command, path)


def test_dimensions_without_bound_are_as_long_as_their_longest_variable(
    forebay_command: Command, made: Path
) -> None:
    path = made / "growing.nc"
    written = {"long": (7, 5), "short": (3, 1), "narrow": (2, 3)}
    with netCDF4.Dataset(path, "w") as file:
        for name in ("t", "u"):
            file.createDimension(name, None)
        for name, (rows, columns) in written.items():
            # Chunks of two rows and columns, so that some are half written.
            variable = file.createVariable(name, "i4", ("t", "u"), fill_value=-9, chunksizes=(2, 2), zlib=True)
            variable.set_auto_maskandscale(False)
            variable[:rows, :columns] = some("i4", (rows, columns))
        file.createVariable("t", "f8", ("t",))[:] = range(2)
        file.createGroup("g").createVariable("longer", "i1", ("u",))[:] = range(9)
    for name, (rows, columns) in written.items():
        # Not held against netCDF4, which puts rows that are shorter than their dimension at the wrong places.
        expected = np.full((7, 9), -9, "i4")
        expected[:rows, :columns] = some("i4", (rows, columns))
        forebay_command.same(path, name, expected)
    with raw(path) as file:
        forebay_command.same(path, "t", file["t"][...])


def test_files_without_variables_records_or_anything(forebay_command: Command, made: Path) -> None:
    for flavour in FORMATS:
        path = made / f"empty_{flavour}.nc"
        netCDF4.Dataset(path, "w", format=flavour).close()
        assert forebay_command.inspect(path)["variables"] == {}
        path = made / f"no_records_{flavour}.nc"
        with netCDF4.Dataset(path, "w", format=flavour) as file:
            file.createDimension("time", None)
            file.createDimension("x", 2)
            file.createVariable("v", "f4", ("time", "x"))
            file.createVariable("scalar", "i2")[...] = 5
        all_same(forebay_command, path)


def test_attributes_are_texts_and_numbers(forebay_command: Command, made: Path) -> None:
    for flavour in CLASSIC.values():
        path = made / f"attributes_{flavour}.nc"
        with netCDF4.Dataset(path, "w", format=flavour) as file:
            file.title, file.empty, file.numbers = "größer", "", np.array([1, -2], "i4")
            variable = file.createVariable("v", "f8")
            variable.units, variable.factor = "K", np.float32(0.5)
        said = forebay_command.inspect(path)
        of_file = {a["name"]: a["values"] for a in said["groups"][0]["attributes"]}
        assert of_file == {"title": ["größer"], "empty": [""], "numbers": [1, -2]}
        of_variable = {a["name"]: a["values"] for a in said["variables"]["v"]["attributes"]}
        assert of_variable == {"units": ["K"], "factor": [0.5]}
        assert said["format"] == "netcdf3"


def test_parts_of_records_are_those_numpy_cuts_and_rows_cost_themselves(
    forebay_command: Command, made: Path
) -> None:
    path = made / "rows.nc"
    values = some("f4", (50, 3, 4))
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createDimension("y", 4)
        file.createVariable("v", "f4", ("time", "x", "y"))[:] = values
        file.createVariable("other", "i1", ("time",))[:] = range(50)
    forebay_command.same(path, "v", values)
    for text in ("5:40", "::7", "3", "49:50,1:3", "2:45:3,::2,1:4:2", ":,0,:", ":,:,3"):
        cut = eval(f"values[{text}]", {"values": values})
        out = made / "cut"
        forebay_command("dump", path, "v", "--slice", text, "--raw", out)
        assert out.read_bytes() == little(cut), text
    row = forebay_command.inspect(path)["variables"]["v"]["row"]
    assert (row["used_bytes"], row["read_bytes"]) == (48, 48)


def test_a_million_tiny_records_are_gathered(forebay_command: Command, made: Path) -> None:
    path = made / "tiny.nc"
    count = 1 << 20
    records = np.zeros(count, [("a", ">f8"), ("b", ">i4")])
    records["a"], records["b"] = np.arange(count) / 3, np.arange(count)
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("time", None)
        file.createVariable("a", "f8", ("time",))
        file.createVariable("b", "i4", ("time",))
    head = bytearray(path.read_bytes())
    head[4:8] = count.to_bytes(4, "big")
    path.write_bytes(bytes(head) + records.tobytes())
    forebay_command.same(path, "a", records["a"])
    forebay_command.same(path, "b", records["b"])


def test_a_file_that_was_cut_short_is_refused_variable_by_variable(forebay_command: Command, made: Path) -> None:
    for flavour in CLASSIC.values():
        path, cut = made / f"whole_{flavour}.nc", made / f"cut_{flavour}.nc"
        with netCDF4.Dataset(path, "w", format=flavour) as file:
            file.createDimension("time", None)
            file.createDimension("x", 100)
            file.createVariable("fixed", "i4", ("x",))[:] = range(100)
            file.createVariable("records", "f8", ("time", "x"))[:] = np.ones((3, 100))
        cut.write_bytes(path.read_bytes()[:-9])
        forebay_command.same(cut, "fixed", np.arange(100, dtype="i4"))
        error = forebay_command.refuses(cut, "records")
        assert cut.name in error and "'records'" in error and "cut short" in error


def test_a_streamed_file_is_as_long_as_it_is(forebay_command: Command, made: Path) -> None:
    for flavour, width in (("NETCDF3_CLASSIC", 4), ("NETCDF3_64BIT_OFFSET", 4), ("NETCDF3_64BIT_DATA", 8)):
        path = made / f"streamed_{flavour}.nc"
        values = some("i2", (5, 3))
        with netCDF4.Dataset(path, "w", format=flavour) as file:
            file.createDimension("time", None)
            file.createDimension("x", 3)
            for name in ("v", "w"):
                variable = file.createVariable(name, "i2", ("time", "x"))
                variable.set_auto_maskandscale(False)
                variable[:] = values
        written = bytearray(path.read_bytes())
        written[4 : 4 + width] = b"\xff" * width
        path.write_bytes(written)
        forebay_command.same(path, "v", values)
        forebay_command.same(path, "w", values)


@pytest.fixture(scope="module")
def pnetcdf(made: Path) -> Path:
    """The program that writes files by PnetCDF."""
    program = made / "write_pnetcdf"
    source = Path(__file__).with_name("write_pnetcdf.c")
    subprocess.run(["mpicc", "-o", program, source, "-lpnetcdf"], check=True)
    return program


@pytest.mark.parametrize("flavour", [1, 2, 5])
def test_files_written_by_pnetcdf(forebay_command: Command, made: Path, pnetcdf: Path, flavour: int) -> None:
    for rows in (0, 1, 3):
        path = made / f"pnetcdf_{flavour}_{rows}.nc"
        subprocess.run([pnetcdf, path, str(flavour), str(rows)], check=True)
        sums = checksums(forebay_command, path)
        if rows == 0:
            # PnetCDF leaves out what was never written where nothing follows it; others read zeros there.
            assert "cut short, or never written" in forebay_command.refuses(path, "unwritten")
        with raw(path) as file:
            assert len(file.variables) == (21 if flavour == 5 else 11)
            for name, variable in file.variables.items():
                if name != "unwritten" or rows:
                    assert sums[name] == hashlib.sha256(little(variable[...])).hexdigest(), (path, name)
            numbers = file["record_short"][...].tolist()
        assert numbers == (np.arange(3 * rows).reshape(rows, 3) + 1).tolist()


def test_files_written_by_scipy(forebay_command: Command, made: Path) -> None:
    for version, count in itertools.product((1, 2), (1, 2)):
        path = made / f"scipy_{version}_{count}.nc"
        values = some("i2", (4, 3))
        with scipy.io.netcdf_file(path, "w", version=version) as file:
            file.createDimension("time", None)
            file.createDimension("x", 3)
            for number in range(count):
                variable = file.createVariable(f"v{number}", "i2", ("time", "x"))
                for row in range(4):
                    variable[row] = values[row]
        for number in range(count):
            forebay_command.same(path, f"v{number}", values)


def test_netcdf4_groups_coordinates_and_dimensions_without_variables(forebay_command: Command, made: Path) -> None:
    path = made / "groups.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("lat", 4)
        file.createDimension("bare", 2)
        file.createVariable("time", "f8", ("time",))[:] = range(3)
        file.createVariable("lat", "f4", ("lat",))[:] = range(4)
        file.createVariable("t", "f4", ("time", "lat", "bare"))[:] = some("f4", (3, 4, 2))
        # Shares a dimension's name without being its coordinate.
        file.createVariable("bare", "i4", ("lat",))[:] = range(4)
        inner = file.createGroup("deep/inner")
        inner.createDimension("lon", 5)
        inner.createVariable("x", "i2", ("lat", "lon"))[:] = some("i2", (4, 5)) // 2
        # A coordinate of two axes.
        inner.createVariable("lon", "i2", ("lon", "lat"))[:] = 3
    all_same(forebay_command, path)
    assert forebay_command.inspect(path)["format"] == "netcdf4"
    assert set(forebay_command.inspect(path)["variables"]) == {
        "time", "lat", "t", "bare", "deep/inner/x", "deep/inner/lon"
    }
    forebay_command.same(path, "bare", np.arange(4, dtype="i4"))
    text = forebay_command("inspect", path).stdout.decode()
    assert "t <f4 (time: 3, lat: 4, bare: 2) of (inf, 4, 2)" in text
    assert "lat <f4 (lat: 4)" in text


def test_a_bare_dimension_is_there_for_those_who_name_it(forebay_command: Command, made: Path) -> None:
    path = made / "bare.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "i4", ("x",))[:] = 1
    assert list(forebay_command.inspect(path)["variables"]) == ["v"]
    assert forebay_command("inspect", path, "x").returncode == 0
    with h5py.File(path) as file:
        forebay_command.same(path, "/x", file["x"][...])


def test_plain_hdf5_keeps_its_name_its_scales_and_its_labels(forebay_command: Command, made: Path) -> None:
    path = made / "plain.h5"
    with h5py.File(path, "w") as file:
        file["v"], file["x"], file["unnamed"] = np.ones((2, 3, 4)), np.arange(3), np.ones(2)
        file["x"].make_scale("the name of the scale")
        file["v"].dims[0].label = "time"
        file["v"].dims[1].attach_scale(file["x"])
    said = forebay_command.inspect(path)
    assert said["format"] == "hdf5"
    assert {name: facts["dimensions"] for name, facts in said["variables"].items()} == {
        "v": ["time", "x", ""], "x": ["x"], "unnamed": []
    }
    assert "v <f8 (time: 2, x: 3, 4)" in forebay_command("inspect", path).stdout.decode()


def test_axes_of_many_attributes_are_named_too(forebay_command: Command, made: Path) -> None:
    # So many that they lie in a heap of their own.
    path = made / "many.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        variable = file.createVariable("v", "i4", ("x",))
        variable[:] = 1
        for number in range(40):
            variable.setncattr(f"a{number}", number)
    all_same(forebay_command, path)
