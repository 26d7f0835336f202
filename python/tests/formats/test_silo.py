"""Silo files of both drivers, as libsilo writes them, bit for bit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WRITER = Path(__file__).with_name("silo_writer.c")
DRIVERS = ["pdb", "sun", "hdf5", "gzip", "checksum"]
FILES = ["quads.silo", "cells.silo", "materials.silo", "multi.silo"]


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that writes the files; Debian's libsilo uses libstdc++ without naming it."""
    program = tmp_path_factory.mktemp("silo") / "silo_writer"
    words = ["cc", "-O1", "-w", "-o", program, WRITER, "-lsiloh5", "-l:libstdc++.so.6"]
    subprocess.run(words, check=True)
    return program


@pytest.fixture(scope="session")
def written(writer: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a driver's files, and what they hold: ``{(file, variable): array}``."""
    folders: dict[str, Any] = {}

    def write(driver: str) -> Any:
        if driver not in folders:
            folder = tmp_path_factory.mktemp(driver)
            subprocess.run([writer, driver, folder], check=True)
            arrays = {}
            for line in (folder / "expected.tsv").read_text().splitlines():
                file, variable, dtype, shape, raw = line.split("\t")
                values = np.fromfile(folder / raw, dtype)
                arrays[file, variable] = values.reshape([int(n) for n in shape.split(",")])
            folders[driver] = folder, arrays
        return folders[driver]

    return write


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_every_array_has_the_values_and_the_shape_that_were_written(
    forebay_command: Any, written: Any, driver: str, file: str
) -> None:
    folder, arrays = written(driver)
    path = folder / file
    said = forebay_command.inspect(path)
    assert said["format"] == "silo"
    known = {variable["name"]: variable["shape"] for variable in said["variables"].values()}
    count = 0
    for (of, variable), expected in arrays.items():
        # A Sun's long is four bytes: the values were cut when they were written.
        if of != file or (driver == "sun" and "_long" in variable):
            continue
        assert known.get(variable, list(expected.shape)) == list(expected.shape), variable
        assert forebay_command.dump(path, variable) == expected.tobytes(), variable
        count += 1
    assert count >= 9


def test_floats_of_another_make_of_machine_are_read_by_libsilo(forebay_command: Any, written: Any) -> None:
    folder, arrays = written("cray")
    path = folder / "quads.silo"
    name = "q_float_3_0"
    assert forebay_command.dump(path, name) == arrays["quads.silo", name].tobytes()
    assert "libsilo" in forebay_command("inspect", path, name).stdout.decode()
    # Integers need no library; a Cray's take eight bytes.
    whole = np.frombuffer(forebay_command.dump(path, "q_int_3_1"), "<i8")
    np.testing.assert_array_equal(whole, arrays["quads.silo", "q_int_3_1"].ravel())


def test_without_libsilo_only_what_needs_it_is_refused(
    forebay_command: Any, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_LIBSILO", "off")
    folder, _ = written("cray")
    error = forebay_command.refuses(folder / "quads.silo", "q_float_3_0")
    for word in ["quads.silo", "Silo", "libsilo", "libsiloh5-0"]:
        assert word in error, error
    for driver in ["pdb", "gzip"]:
        folder, arrays = written(driver)
        name = "q_double_3_0"
        forebay_command.same(folder / "quads.silo", name, arrays["quads.silo", name])


@pytest.mark.parametrize("driver", ["pdb", "hdf5", "gzip"])
def test_blocks_that_cannot_be_joined_say_why(forebay_command: Any, written: Any, driver: str) -> None:
    folder, arrays = written(driver)
    path = folder / "multi.silo"
    assert "nowhere.silo" in forebay_command.refuses(path, "lost")
    assert "different types" in forebay_command.refuses(path, "odd")
    assert "block0/none" in forebay_command.refuses(path, "absent")
    assert "passwd" in forebay_command.refuses(path, "outside")
    assert "constructive solids" in forebay_command.refuses(folder / "materials.silo", "solids")
    joined = forebay_command.inspect(path)["variables"]["rho"]
    assert joined["chunks"]["shape"] == [1, 2, 3, 4]
    # The missing file appears: what was remembered of the set no longer holds.
    whole = arrays["multi.silo", "rho"]
    shutil.copy(folder / f"{'pdb' if driver == 'pdb' else 'hdf5'}_part0.silo", folder / "nowhere.silo")
    assert "no object" in forebay_command.refuses(path, "lost")
    os.remove(folder / "nowhere.silo")
    forebay_command.same(path, "rho", whole)


@pytest.mark.parametrize("driver", ["pdb", "hdf5"])
def test_labels_units_and_times_are_attributes(forebay_command: Any, written: Any, driver: str) -> None:
    folder, _ = written(driver)
    variables = forebay_command.inspect(folder / "quads.silo")["variables"]
    said = {attribute["name"]: attribute["values"][0] for attribute in variables["q_float_3_0"]["attributes"]}
    wanted = {"label": "Density", "units": "kg/m^3", "mesh": "mesh", "centering": "nodes", "cycle": 42}
    assert said == wanted | {"time": 0.25, "dtime": 0.5}
    axis = {attribute["name"]: attribute["values"][0] for attribute in variables["mesh/coord0"]["attributes"]}
    assert (axis["label"], axis["units"]) == ("Width", "cm")


def test_both_drivers_give_the_same_names_to_the_same_objects(forebay_command: Any, written: Any) -> None:
    for file in FILES:
        names = []
        for driver in ["pdb", "hdf5"]:
            folder, arrays = written(driver)
            given = forebay_command.inspect(folder / file)["variables"]
            names.append({name for of, name in arrays if of == file} & set(given))
        assert names[0] == names[1]


def test_stored_names_of_hdf5_lead_to_the_same_arrays(forebay_command: Any, written: Any) -> None:
    folder, arrays = written("gzip")
    path = folder / "quads.silo"
    assert forebay_command.dump(path, "/.silo/#000001") == arrays["quads.silo", "q_char_1_0"].tobytes()
    assert not any(".silo/#" in name for name in forebay_command.inspect(path)["variables"])


@pytest.mark.parametrize("driver", ["pdb", "hdf5"])
def test_a_file_cut_anywhere_is_an_error_or_reads_what_is_there(
    forebay_command: Any, written: Any, driver: str, tmp_path: Path
) -> None:
    folder, _ = written(driver)
    whole = (folder / "cells.silo").read_bytes()
    path = tmp_path / "cut.silo"
    for part in range(1, 10):
        path.write_bytes(whole[: len(whole) * part // 10])
        assert forebay_command("inspect", path, check=False).returncode != 0


def test_a_pdb_file_of_something_else_is_refused(forebay_command: Any, written: Any, tmp_path: Path) -> None:
    folder, _ = written("pdb")
    path = tmp_path / "other.pdb"
    path.write_bytes((folder / "cells.silo").read_bytes().replace(b"\nGroup\x01", b"\nOther\x01"))
    assert "not one of Silo's" in forebay_command.refuses(path, "curve/x")


@pytest.mark.parametrize("kind", ["friendly", "latest"])
def test_variants_of_hdf5_files_read_alike(forebay_command: Any, written: Any, tmp_path: Path, kind: str) -> None:
    """The same objects through other links, or in groups of the newest layout."""
    import h5py

    folder, arrays = written("hdf5")
    path = tmp_path / "other.silo"
    version = ("latest", "latest") if kind == "latest" else None
    with h5py.File(folder / "quads.silo") as source, h5py.File(path, "w", libver=version) as copy:
        for name in source:
            if name != "..":
                source.copy(name, copy)
        copy[".."] = copy["/"]
        if kind == "friendly":
            copy["a_link"] = h5py.SoftLink("/q_double_3_0")
    if kind == "friendly":
        forebay_command.same(path, "a_link", arrays["quads.silo", "q_double_3_0"])
    assert forebay_command.inspect(path)["format"] == "silo"
    forebay_command.same(path, "vector3/2", arrays["quads.silo", "vector3/2"])
