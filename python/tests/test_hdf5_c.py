"""A program in C that is linked with libhdf5 and includes forebay_hdf5.h: its calls, its errors, and what reaches its files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import forebay.hdf5

from hdf5_programs import LIMIT, connector, driver, plain
from test_hdf5_parallel import parallel
from test_hdf5_reach import documented

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["-no-pie", "-pie"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix, launcher = parallel()
    made = tmp_path_factory.mktemp("program") / "control_calls"
    flags = [f"-I{prefix}/include", f"-I{forebay.hdf5.include()}", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lhdf5"]
    how = ["-O1", "-Wall", "-Wextra", "-Werror", "-fPIE" if request.param == "-pie" else "-fno-pie", request.param]
    command = [launcher.parent / "mpicc", *how, "-o", made, ROOT / "tests/hdf5/control_calls.c", *flags]
    subprocess.run(command, check=True, timeout=LIMIT)
    return made


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True, timeout=LIMIT)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True, timeout=LIMIT)


def said(program: Path, environment: dict[str, str], *words: object) -> str:
    done = subprocess.run([program, *map(str, words)], env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_call_of_the_header_does_what_it_says(program: Path, files: Path, tmp_path: Path) -> None:
    for cache in ("memory", tmp_path / "fast"):
        assert said(program, connector(files, cache), "control", files / "a.h5") == "all calls did what they say\n"


def test_a_library_that_is_started_again_gives_no_values_of_the_files_before(program: Path, files: Path, tmp_path: Path) -> None:
    for cache in ("memory", tmp_path / "fast"):
        said(program, connector(files, cache), "restart", files)


def test_errors_of_a_program_in_c_are_those_of_plain_hdf5(program: Path, files: Path, tmp_path: Path) -> None:
    (files / "text.h5").write_text("no HDF5 file, though long enough to be looked at\n" * 100)
    native = said(program, plain(), "errors", files)
    assert native.count("open 0") == 2 and native.count("create 0") == 1 and "*" in native
    stage = tmp_path / "stage"
    for environment in (driver(files, stage), connector(files, "memory", FOREBAY_STAGE=stage)):
        # Line by line: part of the library, what happened, and the words. A connector has lines of its own in between.
        found = iter(said(program, environment, "errors", files).splitlines())
        assert [line for line in native.splitlines() if line not in found] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which takes root")
def test_an_error_that_the_driver_adds_belongs_to_its_part_of_the_library(program: Path, small_disk: Path, tmp_path: Path) -> None:
    found = said(program, driver(small_disk, tmp_path / "stage"), "full", small_disk / "a.h5").splitlines()
    assert found[0] == "failed 1"
    # The mark says that the number is the program's own H5E_VFL or H5E_IO: its copy of the variable was read.
    ours = [line for line in found if "No space left" in line]
    assert ours and ours[0].endswith(" *") and "? /" not in "".join(found), found


def test_a_file_of_mpi_io_is_reached_by_the_connector_alone(program: Path, files: Path, tmp_path: Path) -> None:
    for plugin in ("vol", "vfd"):
        folder = tmp_path / plugin
        for name in ("stage", "cache"):
            (folder / name).mkdir(parents=True)
        environment = connector(files, folder / "cache", FOREBAY_STAGE="")
        if plugin == "vfd":
            environment = driver(files, folder / "stage", FOREBAY_HDF5_CACHE=folder / "cache", FOREBAY_HDF5_WRITE=0)
        said(program, environment, "mpio", files / f"{plugin}.h5")
        assert any((folder / "cache").iterdir()) == (plugin == "vol")
    assert documented()["C, `H5Pset_fapl_mpio`"] == ("no", "yes")
