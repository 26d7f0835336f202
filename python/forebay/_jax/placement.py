"""Where arrays of JAX lie, and whether they had to be copied to get there."""

from __future__ import annotations

import copy
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._batch import array_of
from .._device.pinned_memory import PinningWatch, cuda_runtime
from .._forebay import LoaderMemory, Memory, RawBatch
from ..transforms import Cast
from .batch import jax

NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
"""What JAX makes of numbers of 64 bits, unless it is told to keep them."""
QUEUED_COPIES = 12
"""Copies to a CUDA device whose host memory is held: each waits for the computations that the program queued before it. With a host 8
steps ahead of an H200, a conv net over batches of 32 MiB came to 0.67 / 0.78 / 0.96 / 0.97 of its ceiling with 2 / 6 / 10 / 16."""


class HandOver:
    """How arrays came to JAX, counted: the same memory (``shared``), copied by JAX (``copied``), copied because DLPack was
    refused (``refused``), made numbers of 32 bits (``narrowed``), or sent to a device or to several (``placed``)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("shared", "copied", "refused", "narrowed", "placed"), 0)
        self.why: str | None = None
        """What JAX said when it first refused."""
        self.quick_batches = 0
        """Batches that were handed over by one call. One consumer takes batches at a time: no lock is needed."""
        self.quick_fields: dict[str, int] = {}
        """How the fields of each of these came."""

    def note(self, what: str, why: str | None = None, count: int = 1) -> None:
        """Counts an array, or several."""
        with self._lock:
            self._counts[what] += count
            self.why = self.why or why

    def counts(self) -> dict[str, Any]:
        """How many arrays came how."""
        quick = {name: count * self.quick_batches for name, count in self.quick_fields.items()}
        with self._lock:
            return {**{name: count + quick.get(name, 0) for name, count in self._counts.items()}, "why_refused": self.why}


class Placement:
    """Arrays in memory of the host, which JAX takes over by DLPack."""

    is_ahead = False
    """Whether it pays to place batches before they are asked for."""
    held = 2
    """Batches whose host memory is in use besides those placed ahead: one that the consumer has, and one that is being copied."""

    def __init__(self, hand_over: HandOver, device: Any = None) -> None:
        self._hand_over, self._device = hand_over, device
        self._quick = quick_from_dlpack()
        self._narrow: dict[str, str] = {}
        self._was_narrowed: set[str] = set()

    def batch_memory(self) -> LoaderMemory | None:
        """Memory that the devices copy from by themselves; nothing where batches do not go to such."""
        return None

    def keep_pace(self, batch: Any) -> None:
        """Waits where devices are too far behind."""

    def check(self, shapes: Mapping[str, tuple[Any, ...]], world: int) -> None:
        """Refuses batches that cannot go there: ``shapes`` are those of their fields, in each of ``world`` processes."""

    def fill(self, raw: RawBatch, batch: dict[str, Any]) -> bool:
        """Puts the fields of ``raw`` into ``batch``, all by one call; false where it has to be field by field."""
        if self._quick is None or self._narrow:
            return False
        raw.fill(batch, self._quick.convert, self._late, self._quick.rest)
        counts = self._hand_over
        counts.quick_batches += 1
        if not counts.quick_fields:
            narrowed = len(self._was_narrowed)
            counts.quick_fields = {"shared": len(batch) - narrowed, "narrowed": narrowed}
        return True

    def _late(self, memory: Memory) -> Any:
        """A field that the quick conversion did not take: it counts for itself."""
        self._hand_over.note("narrowed" if memory.name in self._was_narrowed else "shared", count=-1)
        return self._shared(memory)

    def narrow(self, types: dict[str, str], is_done: bool) -> None:
        """Has fields of 64 bits become what ``types`` says, or notes that they are, where that ``is_done`` already."""
        self._was_narrowed = set(types)
        self._narrow = {} if is_done else types

    def of_memory(self, memory: Memory) -> Any:
        """The field that lies in ``memory``."""
        narrow = self._narrow.get(memory.name)
        if narrow is not None:
            self._hand_over.note("narrowed")
            return jax.device_put(array_of(memory).astype(narrow), self._device)
        if self._quick is not None:
            try:
                made = self._quick(memory.__dlpack__())
            except Exception:
                return self._shared(memory)
            self._hand_over.note("narrowed" if memory.name in self._was_narrowed else "shared")
            return made
        return self._shared(memory)

    def _shared(self, memory: Memory) -> Any:
        """The same as JAX's own function has it, which copies where it has to."""
        array = array_of(memory)
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


class AheadPlacement(Placement):
    """Arrays in memory of devices, sent there ahead of the consumer.

    CUDA devices copy from registered memory at 54 GB/s (H200, batches of 32 MiB) where JAX brings others through a buffer of its own at
    13.6; JAX holds on to an array until its copy is done.
    """

    is_ahead = True

    def __init__(self, hand_over: HandOver, devices: Iterable[Any]) -> None:
        super().__init__(hand_over)
        self._cuda = next((one for one in devices if is_cuda(one)), None)
        self._watch: PinningWatch | None = None
        # Of arrays, whose end may be noticed while another is counted.
        self._copies, self._lock = 0, threading.RLock()
        if self._cuda is not None:
            self.held = QUEUED_COPIES

    def batch_memory(self) -> LoaderMemory | None:
        if self._cuda is None:
            return None
        memory = LoaderMemory.registered(cuda_runtime(), self._cuda.local_hardware_id)
        self._watch = PinningWatch(memory)
        return memory

    def fill(self, raw: RawBatch, batch: dict[str, Any]) -> bool:
        return False

    def of_memory(self, memory: Memory) -> Any:
        self._hand_over.note("placed")
        array = array_of(memory)
        if self._watch is not None:
            self._watch.look()
            self._count(1)
            weakref.finalize(array, self._count, -1)
        return self._put(array, memory.name)

    def keep_pace(self, batch: Any) -> None:
        """Waits for the copy of ``batch``, which is not handed out yet, and so for all before it, where too many are under way."""
        if self._copies <= QUEUED_COPIES:
            return
        arrays = jax.tree_util.tree_leaves(batch)
        if self._copies > QUEUED_COPIES * len(arrays):
            jax.block_until_ready(arrays)

    def _count(self, change: int) -> None:
        with self._lock:
            self._copies += change


class DevicePlacement(AheadPlacement):
    """Arrays on one device that has memory of its own."""

    def __init__(self, hand_over: HandOver, device: Any) -> None:
        super().__init__(hand_over, [device])
        self._device = device


class ShardedPlacement(AheadPlacement):
    """Arrays over several devices, of several processes too: each brings what it has read."""

    def __init__(self, hand_over: HandOver, sharding: Any) -> None:
        every = list(sharding.values()) if isinstance(sharding, Mapping) else [sharding]
        for one in every:
            if not isinstance(one, jax.sharding.Sharding):
                raise TypeError(f"sharding={one!r} is no jax.sharding.Sharding, such as NamedSharding(mesh, PartitionSpec('data'))")
        super().__init__(hand_over, (device for one in every for device in one.addressable_devices))
        self._sharding = sharding

    def check(self, shapes: Mapping[str, tuple[Any, ...]], world: int) -> None:
        if isinstance(self._sharding, Mapping) and (unknown := [name for name in self._sharding if name not in shapes]):
            raise ValueError(f"sharding of {', '.join(map(repr, unknown))}, which is no field; there are {', '.join(shapes)}")
        for name, (batch_size, *rest) in shapes.items():
            sharding = self._of(name)
            try:
                sharding.shard_shape((batch_size * world, *rest))
            except ValueError as error:
                raise ValueError(
                    f"field {name!r}: batches of {batch_size} samples of shape {tuple(rest)} cannot be cut over its {sharding.num_devices} "
                    f"devices: choose a batch_size that they divide ({error})"
                ) from None

    def _put(self, array: Any, name: str | None) -> Any:
        return jax.make_array_from_process_local_data(self._of(name), array)

    def _of(self, name: str | None) -> Any:
        if not isinstance(self._sharding, Mapping):
            return self._sharding
        if name not in self._sharding:
            raise ValueError(f"no sharding for field {name!r}; there are those of {', '.join(map(str, self._sharding))}")
        return self._sharding[name]


def is_cuda(device: Any) -> bool:
    """Whether ``device`` is one of CUDA: those of ROCm are of the platform "gpu" too."""
    return getattr(device, "platform", "") in ("gpu", "cuda") and "cuda" in device.client.platform_version.lower()


class QuickConversion(NamedTuple):
    """JAX's conversion of a capsule, and its arguments after that."""

    convert: Callable[..., Any]
    rest: tuple[Any, ...]

    def __call__(self, capsule: Any) -> Any:
        """The array that ``capsule`` holds."""
        return self.convert(capsule, *self.rest)


@functools.cache
def quick_from_dlpack() -> QuickConversion | None:
    """JAX's conversion of a capsule, without what ``from_dlpack`` asks anew for each array: a third of its time is an exception of a backend that has no
    streams. Nothing where this JAX has it by another name or takes other arguments."""
    try:
        from jax._src.lib import _jax  # type: ignore[import-not-found]

        convert, device = _jax.dlpack_managed_tensor_to_buffer, jax.local_devices(backend="cpu")[0]
    except (ImportError, AttributeError, RuntimeError):
        return None
    tried = _aligned(np.arange(32, dtype=np.float32))
    # No stream, and no copy: what it cannot share is an error. Newer ones want the kind of the device besides.
    for rest in ((device, None, False, 1), (device, None, False)):
        try:
            made = convert(tried.__dlpack__(), *rest)
        except Exception:
            continue
        if isinstance(made, jax.Array) and made.devices() == {device} and np.array_equal(made, tried):
            return QuickConversion(convert, rest)
    return None


def _aligned(values: Any) -> Any:
    """``values`` at an address that is a multiple of 64."""
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + values.nbytes] = values.view(np.uint8)
    return room[start : start + values.nbytes].view(values.dtype)


def narrow_types(fields: Iterable[tuple[str, np.dtype[Any]]]) -> dict[str, str]:
    """By field of 64 bits, what JAX makes of it; nothing where it keeps them."""
    if jax.config.jax_enable_x64:
        return {}
    return {name: NARROW[dtype.name] for name, dtype in fields if dtype.name in NARROW}


def with_casts(spec: dict[str, Any] | None, types: dict[str, str]) -> dict[str, Any]:
    """The transforms of ``spec``, and a cast of each field of ``types`` after all that is done to it."""
    made: dict[str, Any] = copy.deepcopy(spec or {"fields": [], "is_selection": False})
    for name, dtype in types.items():
        found = next((one for one in made["fields"] if one["name"] == name), None)
        if found is None:
            found = {"name": name, "from": [name], "ops": []}
            made["fields"].append(found)
        if found["ops"] and found["ops"][-1]["op"] == "cast":
            found["ops"].pop()
        found["ops"].append(Cast(dtype)._spec())
    return made


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
