"""What the benchmark ran on."""

import importlib.metadata
import os
import pathlib
import platform

PACKAGES = ("forebay", "numpy", "h5py", "torch", "tensorstore")


def _line_of(path, name):
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "unknown")


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe():
    memory = _line_of("/proc/meminfo", "MemTotal").split()[0]
    versions = {"Python": platform.python_version()} | {name: _version(name) for name in PACKAGES}
    return {
        "cpu": _line_of("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_len": int(memory) * 1024 if memory.isdigit() else None,
        "kernel": platform.release(),
        "versions": {name: version for name, version in versions.items() if version},
    }


def in_words(machine):
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    memory = f"{machine['memory_len'] / (1 << 30):.0f} GiB" if machine["memory_len"] else "unknown"
    return (f"{machine['cpu']}, {machine['cores']} cores, {memory} of memory, Linux {machine['kernel']}; {versions}.")
