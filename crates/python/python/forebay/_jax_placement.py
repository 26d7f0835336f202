"""Where arrays of JAX lie, and whether they had to be copied to get there."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._batch import array_of
from ._forebay import Memory
from ._jax_batch import jax

NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
"""What JAX makes of numbers of 64 bits, unless it is told to keep them."""


class HandOver:
    """How arrays came to JAX, counted: the same memory (``shared``), copied by JAX (``copied``), copied because DLPack was
    refused (``refused``), made numbers of 32 bits (``narrowed``), or sent to a device or to several (``placed``)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("shared", "copied", "refused", "narrowed", "placed"), 0)
        self.why: str | None = None
        """What JAX said when it first refused."""

    def note(self, what: str, why: str | None = None) -> None:
        """Counts one array."""
        with self._lock:
            self._counts[what] += 1
            self.why = self.why or why

    def counts(self) -> dict[str, Any]:
        """How many arrays came how."""
        with self._lock:
            return {**self._counts, "why_refused": self.why}


class Placement:
    """Arrays in memory of the host, which JAX takes over by DLPack."""

    is_ahead = False
    """Whether it pays to place batches before they are asked for."""

    def __init__(self, hand_over: HandOver, device: Any = None) -> None:
        self._hand_over, self._device = hand_over, device

    def of_memory(self, memory: Memory) -> Any:
        """The field that lies in ``memory``."""
        array = array_of(memory)
        narrow = _narrow(array)
        if narrow is not None:
            self._hand_over.note("narrowed")
            return jax.device_put(narrow, self._device)
        return self._shared(memory, array)

    def _shared(self, memory: Memory, array: Any) -> Any:
        try:
            made = jax.dlpack.from_dlpack(memory)
        except Exception as error:
            # What it raises differs by version and by backend; the values are the same either way.
            self._hand_over.note("refused", f"{type(error).__name__}: {error}")
            return jax.device_put(array, self._device)
        is_shared = array.size == 0 or made.unsafe_buffer_pointer() == array.__array_interface__["data"][0]
        self._hand_over.note("shared" if is_shared else "copied")
        return made

    def of_value(self, value: Any, name: str | None = None) -> Any:
        """``value``, an array that a callable of the user made; whatever is no array of numbers stays as it is."""
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufcV":
            return self._put(value, name)
        return value

    def _put(self, array: Any, name: str | None) -> Any:
        return jax.device_put(array, self._device)


class DevicePlacement(Placement):
    """Arrays on one device that has memory of its own."""

    is_ahead = True

    def of_memory(self, memory: Memory) -> Any:
        self._hand_over.note("placed")
        return self._put(array_of(memory), memory.name)


class ShardedPlacement(Placement):
    """Arrays over several devices, of several processes too: each brings what it has read."""

    is_ahead = True

    def __init__(self, hand_over: HandOver, sharding: Any) -> None:
        super().__init__(hand_over)
        self._sharding = sharding

    def of_memory(self, memory: Memory) -> Any:
        self._hand_over.note("placed")
        return self._put(array_of(memory), memory.name)

    def _put(self, array: Any, name: str | None) -> Any:
        return jax.make_array_from_process_local_data(self._of(name), array)

    def _of(self, name: str | None) -> Any:
        if not isinstance(self._sharding, Mapping):
            return self._sharding
        if name not in self._sharding:
            raise ValueError(f"no sharding for field {name!r}; there are those of {', '.join(map(str, self._sharding))}")
        return self._sharding[name]


def placement_of(hand_over: HandOver, device: Any, sharding: Any) -> Placement:
    """Where the batches go: over ``sharding``, to ``device``, or to the device that JAX takes by default."""
    if sharding is not None:
        if device is not None:
            raise ValueError("device= and sharding=: a sharding names the devices itself")
        return ShardedPlacement(hand_over, sharding)
    target = device if device is not None else jax.config.jax_default_device
    if isinstance(target, str):
        target = jax.local_devices(backend=target)[0]
    target = jax.local_devices()[0] if target is None else target
    if getattr(target, "platform", "") == "cpu" and target == jax.local_devices(backend="cpu")[0]:
        return Placement(hand_over, device)
    return DevicePlacement(hand_over, target)


def _narrow(array: Any) -> Any:
    """``array`` as JAX has it without numbers of 64 bits; nothing where that is how it is."""
    to = NARROW.get(array.dtype.name)
    return None if to is None or jax.config.jax_enable_x64 else array.astype(to)
