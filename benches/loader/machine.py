"""What the benchmark ran on."""

import importlib.metadata
import os
import pathlib
import platform
import time

PACKAGES = ("forebay", "numpy", "h5py", "torch", "tensorstore")


def _line_of(path, name):
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "unknown")


def _busy_seconds():
    user, nice, system, _, _, *others = (int(ticks) for ticks in _words("/proc/stat")[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def _words(path):
    return pathlib.Path(path).read_text().split("\n", 1)[0].split()


def busy_cores(seconds=1.0):
    """How many cores others keep busy while we do nothing."""
    before, start = _busy_seconds(), time.perf_counter()
    time.sleep(seconds)
    return (_busy_seconds() - before) / (time.perf_counter() - start)


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
    return f"{machine['cpu']}, {machine['cores']} cores, {memory} of memory, Linux {machine['kernel']}; {versions}."
