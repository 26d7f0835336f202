"""Objects saved by the libraries they belong to, into files that are staged."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._area import Area, area_of
from ._file import StagedFile
from ._open import create

Writer = Callable[[Any, StagedFile], object]


def save(
    obj: Any,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    area: Area | str | os.PathLike[str] | None = None,
    priority: int = 0,
    latest: str | os.PathLike[str] | None = None,
) -> StagedFile:
    """Saves ``obj`` into a file that is staged, and gives the closed file: its ``staged`` and ``durable`` are futures.

    ======================  ============================================================  ============================
    ``format``              what is saved                                                 read by
    ======================  ============================================================  ============================
    ``"torch"``             whatever ``torch.save`` takes                                 ``torch.load``
    ``"safetensors"``       a dict of names and tensors, or arrays                        ``safetensors``
    ``"npy"``               an array (no objects)                                         ``numpy.load``
    ``"npz"``               a dict of names and arrays (no objects)                       ``numpy.load``
    ``"bytes"``             an object with a buffer, as it is
    ======================  ============================================================  ============================

    By default it follows from the object: bytes are bytes, an array is ``"npy"``; a dict is ``"safetensors"`` for a path that
    ends so, ``"npz"`` where all values are arrays, and else ``"torch"``, as is anything that holds a tensor. Anything else is
    refused: nothing is pickled unless ``torch.save`` does it, and nothing is ever unpickled.
    """
    name = os.fsdecode(path)
    chosen = _format_of(obj, name) if format is None else format
    writer = _WRITERS.get(chosen)
    if writer is None:
        raise ValueError(f"format={format!r}: it is one of {', '.join(map(repr, _WRITERS))}")
    with create(os.path.abspath(name), "w+b", area_of(area), priority, latest) as file:
        writer(obj, file)
    return file


def _format_of(obj: Any, path: str) -> str:
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return "bytes"
    if isinstance(obj, (np.ndarray, np.generic)):
        return "npy"
    if isinstance(obj, Mapping) and path.endswith(".safetensors"):
        return "safetensors"
    if isinstance(obj, Mapping) and obj and all(isinstance(value, (np.ndarray, np.generic)) for value in obj.values()):
        return "npz"
    if _holds_tensors(obj):
        return "torch"
    raise TypeError(
        f"{type(obj).__name__} is none of bytes, array, dict of arrays, or dict or list with tensors: give format='torch' to have "
        "torch.save pickle it, or write it to forebay.stage.open(path, 'wb') yourself"
    )


def _holds_tensors(obj: Any) -> bool:
    """True for a tensor, and for what holds one at any depth; without PyTorch there is none."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    waiting, seen = [obj], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, (torch.Tensor, torch.nn.Module)):
            return True
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, (list, tuple)):
            waiting += part
    return False


def _save_torch(obj: Any, file: StagedFile) -> None:
    importlib.import_module("torch").save(obj, file)


def _save_safetensors(obj: Any, file: StagedFile) -> None:
    if not isinstance(obj, Mapping):
        raise TypeError(f"safetensors are a dict of names and tensors, not {type(obj).__name__}")
    has_tensors = _holds_tensors(obj)
    library = importlib.import_module("safetensors.torch" if has_tensors else "safetensors.numpy")
    file.write(library.save(dict(obj)))


def _save_npy(obj: Any, file: StagedFile) -> None:
    np.save(file, obj, allow_pickle=False)


def _save_npz(obj: Any, file: StagedFile) -> None:
    if not isinstance(obj, Mapping) or not all(isinstance(name, str) for name in obj):
        raise TypeError("npz is a dict of names and arrays")
    import zipfile

    # As np.savez does, which takes the names as arguments of its own: "file" could not be one.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, value in obj.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, np.asanyarray(value), allow_pickle=False)


def _save_bytes(obj: Any, file: StagedFile) -> None:
    file.write(obj)


_WRITERS: dict[str, Writer] = {
    "torch": _save_torch,
    "safetensors": _save_safetensors,
    "npy": _save_npy,
    "npz": _save_npz,
    "bytes": _save_bytes,
}
