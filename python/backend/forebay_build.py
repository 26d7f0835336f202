"""Builds the Python package: maturin's backend, after the HDF5 plug-ins were built and put into the package.

HDF5 loads every library of a folder when it looks for one plug-in, so each has a folder of its own: `forebay/hdf5/vfd` and
`forebay/hdf5/vol`; the library that `forebay run` preloads is beside them, in `forebay/hdf5/preload`. They are libraries of
their own because HDF5 finds a plug-in by two functions that a library has once.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLUGINS = ("vfd", "vol", "preload")

get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
build_sdist = maturin.build_sdist


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    put_plugins(Path.cwd(), "release")
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    put_plugins(Path.cwd(), "dev")
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def put_plugins(project: Path, profile: str) -> None:
    """Builds the plug-ins of the project in the folder `project`, and puts them beside its Python files."""
    if sys.platform != "linux":
        return
    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["maturin"]
    flags = cargo_flags(os.environ.get("MATURIN_PEP517_ARGS", ""), profile)
    package = project / settings["python-source"] / "forebay" / "hdf5"
    for plugin, library in built(project / settings["manifest-path"], flags).items():
        put(library, package / plugin / library.name)


def cargo_flags(given: str, profile: str) -> list[str]:
    """The flags of cargo that say the same as those that `given` has for maturin."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", default=profile)
    parser.add_argument("--target")
    for switch in ("--locked", "--offline", "--frozen"):
        parser.add_argument(switch, action="store_true")
    asked, _ = parser.parse_known_args(shlex.split(given))
    flags = ["--profile", asked.profile]
    flags += ["--target", asked.target] if asked.target else []
    return flags + [f"--{switch}" for switch in ("locked", "offline", "frozen") if getattr(asked, switch)]


def built(manifest: Path, flags: list[str]) -> dict[str, Path]:
    """The library of each plug-in, built in the workspace of `manifest`."""
    cargo = os.environ.get("CARGO", "cargo")
    packages = [flag for plugin in PLUGINS for flag in ("-p", f"forebay-{plugin}")]
    command = [cargo, "build", "--lib", "--manifest-path", str(manifest), *packages, *flags]
    command += ["--message-format", "json-render-diagnostics"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in said.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact":
            libraries = {Path(name).name: Path(name) for name in message["filenames"]}
            found.update(
                {plugin: libraries[name] for plugin in PLUGINS if (name := f"libforebay_{plugin}.so") in libraries}
            )
    missing = [plugin for plugin in PLUGINS if plugin not in found]
    if missing:
        raise SystemExit(f"cargo built no library of {', '.join(missing)}")
    return found


def put(library: Path, place: Path) -> None:
    """Copies by rename: a program that has the old file mapped keeps it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.copyfile(library, part)
    part.chmod(0o755)
    part.replace(place)
