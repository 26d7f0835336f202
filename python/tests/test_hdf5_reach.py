"""Which way of opening an HDF5 file is reached by the driver, by the connector, by neither: the table of the guide, tried.

Each row is a program of its own, as HDF5 reads its variables once. The driver was reached where something was made in the
folder of the staging area, and the connector where something was in that of its values: a file that passes through leaves both
empty.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import forebay
import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "hdf5-plugins.md"
PLUGINS = Path(forebay.__file__).parent / "hdf5"


@dataclass
class Row:
    """A way to write and read the file ``path``, and what reaches it."""

    name: str
    source: str
    driver: bool
    connector: bool


def h5py_row(name: str, arguments: str, driver: bool, connector: bool) -> Row:
    source = f"""
        import h5py, numpy as np
        with h5py.File(path, "w"{arguments}) as file:
            file.create_dataset("x", data=np.arange(50_000), chunks=(5000,))
        pause()
        for _ in range(2):
            with h5py.File(path, "r"{arguments}) as file:
                assert (file["x"][:] == np.arange(50_000)).all()
    """
    return Row(name, source, driver, connector)


ROWS = [
    h5py_row("`h5py.File(path)`", "", True, True),
    h5py_row('`h5py.File(path, libver="latest")`', ', libver="latest"', True, True),
    h5py_row('`h5py.File(path, driver="sec2")`', ', driver="sec2"', False, True),
    h5py_row('`h5py.File(path, driver="stdio")`', ', driver="stdio"', False, False),
    h5py_row('`h5py.File(path, driver="core")`', ', driver="core"', False, False),
    Row(
        '`h5py.File(path, driver="family")`',
        """
        import h5py, numpy as np
        name = path.replace(".h5", "-%d.h5")
        for mode in ("w", "r"):
            with h5py.File(name, mode, driver="family", memb_size=100_000) as file:
                if mode == "w":
                    file["x"] = np.arange(50_000)
                assert (file["x"][:] == np.arange(50_000)).all()
            pause()
        """,
        True,
        False,
    ),
    Row(
        '`h5py.File(open(path, "rb"))`',
        """
        import h5py, numpy as np
        for mode in ("w", "r"):
            with open(path, "w+b" if mode == "w" else "rb") as under, h5py.File(under, mode) as file:
                if mode == "w":
                    file["x"] = np.arange(50_000)
                assert (file["x"][:] == np.arange(50_000)).all()
            pause()
        """,
        False,
        False,
    ),
    Row(
        '`netCDF4.Dataset(path)`, NetCDF-4',
        """
        import netCDF4, numpy as np
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", 50_000)
            file.createVariable("x", "i8", ("x",))[:] = np.arange(50_000)
        pause()
        for _ in range(2):
            with netCDF4.Dataset(path) as file:
                assert (file["x"][:] == np.arange(50_000)).all()
        """,
        True,
        True,
    ),
    Row(
        "`netCDF4.Dataset(path)`, NetCDF-3",
        """
        import netCDF4, numpy as np
        with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
            file.createDimension("x", 50_000)
            file.createVariable("x", "i4", ("x",))[:] = np.arange(50_000)
        with netCDF4.Dataset(path) as file:
            assert (file["x"][:] == np.arange(50_000)).all()
        """,
        False,
        False,
    ),
    Row(
        "`netCDF4.Dataset(name, memory=…)`",
        """
        import netCDF4, numpy as np
        file = netCDF4.Dataset(path, "w", memory=1 << 20)
        file.createDimension("x", 50_000)
        file.createVariable("x", "i8", ("x",))[:] = np.arange(50_000)
        image = bytes(file.close())
        with netCDF4.Dataset(path, memory=image) as file:
            assert (file["x"][:] == np.arange(50_000)).all()
        """,
        False,
        False,
    ),
    Row(
        "`tables.open_file(path)`",
        """
        import numpy as np, tables
        with tables.open_file(path, "w") as file:
            file.create_carray("/", "x", obj=np.arange(50_000))
        pause()
        for _ in range(2):
            with tables.open_file(path) as file:
                assert (file.root.x[:] == np.arange(50_000)).all()
        """,
        True,
        True,
    ),
    Row(
        '`tables.open_file(path, driver="H5FD_CORE")`',
        """
        import numpy as np, tables
        for mode in ("w", "r"):
            with tables.open_file(path, mode, driver="H5FD_CORE") as file:
                if mode == "w":
                    file.create_carray("/", "x", obj=np.arange(50_000))
                assert (file.root.x[:] == np.arange(50_000)).all()
            pause()
        """,
        False,
        False,
    ),
]
PREAMBLE = """
import sys, time
path = sys.argv[1]
pause = lambda: time.sleep(0.1)
"""
PYTHON_ROWS = {row.name: row for row in ROWS}


def environment(folder: Path, plugin: str) -> dict[str, str]:
    variable = {"vfd": "HDF5_DRIVER", "vol": "HDF5_VOL_CONNECTOR"}[plugin]
    netcdf4 = Path(next(path for path in sys.path if (Path(path) / "netCDF4").is_dir())) / "netCDF4" / "plugins"
    return {
        **os.environ,
        "HDF5_PLUGIN_PATH": f"{PLUGINS / plugin}:{netcdf4}",
        variable: "forebay",
        "FOREBAY_CONFIG": "none",
        "FOREBAY_HDF5_PATHS": str(folder / "managed"),
        "FOREBAY_STAGE": str(folder / "stage"),
        "FOREBAY_HDF5_CACHE": str(folder / "cache"),
        # Small data sets count, and a file is old enough after the pause.
        "FOREBAY_HDF5_LEAST": "1",
        "FOREBAY_HDF5_CLOCK_GRAIN_MS": "20",
    }


def reaches(folder: Path, plugin: str, command: list[str]) -> bool:
    """Whether the program, which writes and reads a file below ``folder``, is reached by the plug-in."""
    for name in ("managed", "stage", "cache"):
        (folder / name).mkdir(parents=True)
    done = subprocess.run(command, env=environment(folder, plugin), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return any((folder / ("stage" if plugin == "vfd" else "cache")).iterdir())


def documented() -> dict[str, tuple[str, str]]:
    """What the guide's table says of each row."""
    rows = re.findall(r"^\| (.+?) \| (yes|no)\b[^|]*\| (yes|no)\b[^|]*\|", GUIDE.read_text(), re.M)
    return {name: (driver, connector) for name, driver, connector in rows}


@pytest.mark.parametrize("name", PYTHON_ROWS)
def test_each_row_of_the_guide_is_so(name: str, tmp_path: Path) -> None:
    row = PYTHON_ROWS[name]
    source = PREAMBLE + textwrap.dedent(row.source)
    found = []
    for plugin in ("vfd", "vol"):
        path = str(tmp_path / plugin / "managed" / "file.h5")
        is_reached = reaches(tmp_path / plugin, plugin, [sys.executable, "-c", source, path])
        found.append("yes" if is_reached else "no")
    assert tuple(found) == ("yes" if row.driver else "no", "yes" if row.connector else "no")
    assert documented()[name] == tuple(found)


C_SOURCE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
typedef long long hid_t; typedef unsigned long long hsize_t; typedef int herr_t;
#define GET(type, name, args) type (*name) args = (type (*) args)dlsym(hdf5, #name); if (!name) return 10
int main(int count, char **args) {
    void *hdf5 = dlopen(args[1], RTLD_NOW | RTLD_GLOBAL);
    if (!hdf5) { fprintf(stderr, "%s\n", dlerror()); return 11; }
    GET(herr_t, H5open, (void)); H5open();
    GET(hid_t, H5Pcreate, (hid_t)); GET(herr_t, H5Pset_fapl_sec2, (hid_t)); GET(herr_t, H5Pset_fapl_core, (hid_t, size_t, unsigned));
    GET(hid_t, H5Fcreate, (const char *, unsigned, hid_t, hid_t)); GET(hid_t, H5Fopen, (const char *, unsigned, hid_t));
    GET(herr_t, H5Fclose, (hid_t)); GET(hid_t, H5Screate_simple, (int, const hsize_t *, const hsize_t *));
    GET(hid_t, H5Dcreate2, (hid_t, const char *, hid_t, hid_t, hid_t, hid_t, hid_t)); GET(hid_t, H5Dopen2, (hid_t, const char *, hid_t));
    GET(herr_t, H5Dwrite, (hid_t, hid_t, hid_t, hid_t, hid_t, const void *)); GET(herr_t, H5Dread, (hid_t, hid_t, hid_t, hid_t, hid_t, void *));
    GET(herr_t, H5Dclose, (hid_t));
    hid_t access = *(hid_t *)dlsym(hdf5, "H5P_CLS_FILE_ACCESS_ID_g"), type = *(hid_t *)dlsym(hdf5, "H5T_NATIVE_INT_g");
    hid_t fapl = 0;
    if (strcmp(args[3], "default")) fapl = H5Pcreate(access);
    if (!strcmp(args[3], "sec2")) H5Pset_fapl_sec2(fapl);
    if (!strcmp(args[3], "core")) H5Pset_fapl_core(fapl, 1 << 20, 1);
    static int values[50000], again[50000];
    for (int i = 0; i < 50000; i++) values[i] = i;
    hsize_t size = 50000;
    hid_t file = H5Fcreate(args[2], 2, 0, fapl), space = H5Screate_simple(1, &size, 0);
    if (file < 0) return 12;
    hid_t set = H5Dcreate2(file, "x", type, space, 0, 0, 0);
    if (H5Dwrite(set, type, 0, 0, 0, values) < 0) return 13;
    H5Dclose(set);
    if (H5Fclose(file) < 0) return 14;
    usleep(100000);
    for (int round = 0; round < 2; round++) {
        file = H5Fopen(args[2], 0, fapl); set = H5Dopen2(file, "x", 0);
        if (H5Dread(set, type, 0, 0, 0, again) < 0 || memcmp(values, again, sizeof values)) return 15;
        H5Dclose(set); H5Fclose(file);
    }
    return 0;
}
"""
C_ROWS = {
    "C, `H5Fcreate(…, H5P_DEFAULT)`": ("default", "yes", "yes"),
    "C, a property list of its own without a driver": ("list", "yes", "yes"),
    "C, `H5Pset_fapl_sec2`": ("sec2", "no", "yes"),
    "C, `H5Pset_fapl_core`": ("core", "no", "no"),
}


@pytest.fixture(scope="session")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is part of the set-up"
    folder = tmp_path_factory.mktemp("c")
    (folder / "reach.c").write_text(C_SOURCE)
    subprocess.run([compiler, "-O1", "-w", "-o", folder / "reach", folder / "reach.c", "-ldl"], check=True)
    return folder / "reach"


@pytest.mark.parametrize("name", C_ROWS)
def test_each_row_of_c_programs_is_so(name: str, tmp_path: Path, c_program: Path) -> None:
    import h5py

    (library,) = (Path(h5py.__file__).parents[1] / "h5py.libs").glob("libhdf5-*")
    driver, *expected = C_ROWS[name]
    found = []
    for plugin in ("vfd", "vol"):
        path = tmp_path / plugin / "managed" / "file.h5"
        command = [str(c_program), str(library), str(path), driver]
        found.append("yes" if reaches(tmp_path / plugin, plugin, command) else "no")
    assert found == expected
    assert documented()[name] == tuple(found)


def test_the_guide_has_no_row_that_is_not_tried() -> None:
    # By a parallel HDF5, in test_hdf5_c.py.
    elsewhere = {"C, `H5Pset_fapl_mpio`"}
    assert set(documented()) == {*PYTHON_ROWS, *C_ROWS, *elsewhere}


def test_files_outside_the_configured_paths_are_left_alone(tmp_path: Path) -> None:
    source = PREAMBLE + textwrap.dedent(ROWS[0].source)
    for plugin in ("vfd", "vol"):
        folder = tmp_path / plugin
        assert not reaches(folder, plugin, [sys.executable, "-c", source, str(tmp_path / f"{plugin}.h5")])
        assert not any((folder / "stage").iterdir()) and not any((folder / "cache").iterdir())
