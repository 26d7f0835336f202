"""HDF5 programs with the plug-ins of the installed package: the variables, the launcher, what each libhdf5 says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import forebay
import pytest

PLUGINS = Path(forebay.__file__).parent / "hdf5"
COMMAND = [sys.executable, "-m", "forebay"]
# What would decide for the user.
DECISIVE = ("HDF5_PLUGIN_PATH", "HDF5_DRIVER", "HDF5_VOL_CONNECTOR", "FOREBAY_PLUGINS", "FOREBAY_LIBHDF5")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in DECISIVE}
    return {**kept, "FOREBAY_CONFIG": "none", **more}


def forebay_(*arguments: object, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(**more))
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def env_facts(*arguments: object, **more: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(forebay_("hdf5-env", "--json", *arguments, **more).stdout)
    return facts


def test_the_package_holds_the_plugins_each_in_a_folder_of_its_own() -> None:
    for plugin in ("vfd", "vol"):
        assert [path.name for path in (PLUGINS / plugin).iterdir()] == [f"libforebay_{plugin}.so"]
    facts = env_facts("--untried", "--hdf5", "both")
    assert facts["plugins"] == str(PLUGINS)
    assert facts["variables"]["HDF5_PLUGIN_PATH"].startswith(f"{PLUGINS}/vfd:{PLUGINS}/vol:/usr/local/hdf5/lib/plugin")


@pytest.mark.parametrize("plugins", ["vfd", "vol", "both"])
def test_each_libhdf5_of_the_wheels_works_with_the_plugins(plugins: str) -> None:
    libraries = env_facts("--hdf5", plugins, "--hdf5-paths", "/data")["libraries"]
    of_wheels = {Path(found["path"]).parent.name: found for found in libraries}
    for wheel in ("h5py.libs", "netcdf4.libs", "tables.libs"):
        found = of_wheels[wheel]
        assert found["verdict"] == "works", found
        assert ("driver forebay" in found["why"]) == (plugins != "vol")
        assert ("connector forebay" in found["why"]) == (plugins != "vfd")
        assert found["thread_safe"] is not None and not found["parallel"]


def test_a_plugin_that_does_not_load_is_found_out_before_a_program_meets_it(tmp_path: Path) -> None:
    (tmp_path / "vfd").mkdir()
    (tmp_path / "vfd" / "libforebay_vfd.so").write_text("no library")
    done = forebay_("hdf5-env", "--hdf5-paths", "/data", check=False, FOREBAY_PLUGINS=str(tmp_path))
    assert (done.returncode, done.stdout) == (5, ""), done.stdout
    assert "HDF5 does not work with the plug-ins" in done.stderr
    untried = forebay_("hdf5-env", "--untried", "--hdf5-paths", "/data", FOREBAY_PLUGINS=str(tmp_path))
    assert "export HDF5_DRIVER=forebay" in untried.stdout


def test_a_library_that_is_too_old_or_none_is_not_reached(tmp_path: Path) -> None:
    none = tmp_path / "libhdf5.so"
    none.write_text("no library")
    (found,) = env_facts("--hdf5-paths", "/data", FOREBAY_LIBHDF5=str(none))["libraries"]
    assert found["verdict"] == "unreached" and "cannot be loaded" in found["why"]


def test_the_doctor_says_what_came_of_each_library() -> None:
    report = json.loads(forebay_("doctor", "--json").stdout)["hdf5_plugins"]
    assert report["folder"] == str(PLUGINS) and report["why"] is None
    assert {found["verdict"] for found in report["libraries"] if "h5py.libs" in found["path"]} == {"works"}
    text = forebay_("doctor").stdout
    assert "\nHDF5 plug-ins\n" in text and ": works, driver forebay, connector forebay" in text


def run(source: str, *arguments: object, flags: list[object], check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs Python source by ``forebay run``."""
    program = [sys.executable, "-c", textwrap.dedent(source), *arguments]
    return forebay_("run", *flags, "--", *program, check=check)


def test_a_program_writes_through_the_driver_and_leaves_what_it_would_have_left(tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    source = """
        import sys, h5py, numpy as np
        with h5py.File(sys.argv[1], "w") as file:
            file["x"] = np.arange(100_000)
            file.flush()
        sys.exit(7)
    """
    path = tmp_path / "out" / "x.h5"
    path.parent.mkdir()
    flags = ["--hdf5", "--hdf5-paths", path.parent, "--stage", stage]
    done = run(source, path, flags=flags, check=False)
    assert done.returncode == 7, done.stderr
    plain = tmp_path / "plain.h5"
    subprocess.run([sys.executable, "-c", textwrap.dedent(source), plain], env=environment(), check=False)
    assert path.read_bytes() == plain.read_bytes()
    assert stage.is_dir(), "its writes were staged"


def test_filters_of_netcdf4_are_found_as_without_the_plugins(tmp_path: Path) -> None:
    source = """
        import sys, netCDF4, numpy as np
        with netCDF4.Dataset(sys.argv[1], "w") as file:
            file.createDimension("x", 1000)
            variable = file.createVariable("v", "i4", ("x",), compression="zstd", complevel=4)
            variable[:] = np.arange(1000)
        with netCDF4.Dataset(sys.argv[1]) as file:
            assert file["v"].filters()["zstd"], file["v"].filters()
            assert (file["v"][:] == np.arange(1000)).all()
    """
    for flags in (["--hdf5"], ["--hdf5=both"]):
        run(source, tmp_path / "z.nc", flags=[*flags, "--hdf5-paths", tmp_path])


def test_a_signal_ends_the_program_and_is_seen_outside(tmp_path: Path) -> None:
    source = "import time; print('ready', flush=True); time.sleep(600)"
    flags = ["run", "--hdf5", "--hdf5-paths", str(tmp_path), "--", sys.executable, "-c", source]
    with subprocess.Popen([*COMMAND, *flags], stdout=subprocess.PIPE, text=True, env=environment()) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=300) == -signal.SIGINT


def test_what_is_missing_is_said_in_words() -> None:
    done = forebay_("run", "--hdf5", "--hdf5-paths", "/data", "--", "forebay-no-such-program", check=False)
    assert done.returncode == 127
    assert done.stderr == "forebay: there is no program 'forebay-no-such-program'; is it on PATH?\n"


def test_the_commands_of_the_guide_run_one_after_the_other(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "hdf5-plugins.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", guide, re.M | re.S)
    assert len(blocks) == 3
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("forebay", f"{sys.executable} -m forebay"), ("python", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)
    script = "\n".join(["set -eu", *blocks])
    more = {"PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment(**more), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["499999500000"] * 2
    assert (tmp_path / "fast").is_dir() and (tmp_path / "out" / "step.h5").is_file()
