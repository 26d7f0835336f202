"""Tensors of whole batches: in host memory that a device copies from by itself, and on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from .._batch import untensored
from .._device.pinned_memory import PinningWatch, cuda_runtime
from .._forebay import LoaderMemory, RawBatch

# By DLPack's code and bits.
_TYPES = {
    (0, 8): torch.int8, (0, 16): torch.int16, (0, 32): torch.int32, (0, 64): torch.int64,
    (1, 8): torch.uint8, (1, 16): torch.uint16, (1, 32): torch.uint32, (1, 64): torch.uint64,
    (2, 16): torch.float16, (2, 32): torch.float32, (2, 64): torch.float64, (4, 16): torch.bfloat16,
    (5, 64): torch.complex64, (5, 128): torch.complex128, (6, 8): torch.bool,
}  # fmt: skip


def registered_memory(device: torch.device) -> LoaderMemory:
    """Memory of our own that the CUDA runtime registers for ``device``."""
    return LoaderMemory.registered(cuda_runtime(), device.index)


def pinned_memory() -> LoaderMemory:
    """Memory of PyTorch's own allocator of pinned memory, which waits for copies in any stream before it uses it again."""
    return LoaderMemory.allocated(lambda size: torch.empty(size, dtype=torch.uint8, pin_memory=True))


class Layout:
    """Where the fields of a batch lie in the pieces of its memory."""

    __slots__ = ("fields",)

    def __init__(self, fields: list[Any]) -> None:
        self.fields = fields

    def tensors(self, pieces: list[torch.Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields, and the offsets of those whose samples differ in length, as views of ``pieces``."""
        values: dict[str, Any] = {}
        offsets: dict[str, Any] = {}
        # Each piece as elements of each type.
        typed: dict[Any, torch.Tensor] = {}
        for name, place, bounds, memory in self.fields:
            if place is None:
                values[name] = untensored(memory)
                continue
            values[name] = _view(pieces, typed, place)
            if bounds is not None:
                offsets[name] = _view(pieces, typed, bounds)
        return values, offsets


def _view(pieces: list[torch.Tensor], typed: dict[Any, torch.Tensor], place: Any) -> torch.Tensor:
    number, first, kind, shape, strides = place
    whole = typed.get((number, kind))
    if whole is None:
        whole = typed[number, kind] = pieces[number].view(_TYPES[kind])
    return whole.as_strided(shape, strides, whole.storage_offset() + first)


def joint_pieces(raw: RawBatch) -> tuple[list[torch.Tensor], Layout]:
    """The host memory of ``raw`` in as few tensors of bytes as possible, and where its fields lie in them."""
    pieces, fields = raw.take_joint()
    return [from_dlpack(piece.__dlpack__()) for piece in pieces], Layout(fields)


def pinned_tensors(raw: RawBatch, memory: LoaderMemory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields and offsets of ``raw`` as views of the tensors that ``memory`` allocated."""
    pieces, fields = raw.take_joint()
    owners = []
    for piece in pieces:
        view = from_dlpack(piece.__dlpack__())
        owner = memory.tensor_at(view.data_ptr())
        # Only a view of the allocator's own tensor has it wait for copies.
        owners.append(view if owner is None else owner[0].narrow(0, owner[1], len(view)))
    return Layout(fields).tensors(owners)


class CudaCopier:
    """Copies to a CUDA device, in a stream of its own."""

    def __init__(self, device: torch.device, memory: LoaderMemory) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._watch = PinningWatch(memory)

    def start(self, host: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.cuda.Event]:
        if torch.cuda.current_device() == self._device.index:
            # The context manager would do the same by more calls, because it can change devices too.
            current = torch.cuda.current_stream(self._device)
            torch.cuda.set_stream(self._stream)
            try:
                started = self._copies(host)
            finally:
                torch.cuda.set_stream(current)
        else:
            with torch.cuda.stream(self._stream):
                started = self._copies(host)
        self._watch.look()
        return started

    def _copies(self, host: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.cuda.Event]:
        return [piece.to(self._device, non_blocking=True) for piece in host], self._stream.record_event()

    def receive(self, target: list[torch.Tensor], copied: torch.cuda.Event) -> None:
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(copied)
        for piece in target:
            piece.record_stream(stream)

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        return event
