"""Memory of batches that a CUDA device copies from by itself, whichever framework uses the device."""

from __future__ import annotations

import os
import warnings

from .._forebay import ForebayWarning, LoaderMemory


def cuda_runtime() -> str | None:
    """The CUDA runtime that this process has loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if os.path.basename(path).startswith("libcudart.so"):
                    return "/" + path
    except OSError:
        pass
    return None


class PinningWatch:
    """Warns once of memory that the driver does not pin."""

    def __init__(self, memory: LoaderMemory) -> None:
        self._memory = memory
        self._has_warned = False

    def look(self) -> None:
        if self._has_warned or self._memory.pageable_bytes == 0:
            return
        self._has_warned = True
        stats = self._memory.stats()
        why = f"the driver refused it (error {stats['last_error']}); the limit of locked memory (ulimit -l) may be too low"
        if stats["refusals"] == 0:
            why = "no CUDA runtime (libcudart.so) is loaded in this process"
        warning = ForebayWarning(f"batches go to the device from pageable memory, which is slower: {why}")
        warning.kind = "pinning"
        warnings.warn(warning, stacklevel=4)
