"""How the samples of an epoch are drawn: by weight, by class, in batches of similar length, or from several sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._forebay import RawDraws
from .._sizes import whole


@dataclass(frozen=True)
class DrawSpec:
    """How samples are drawn, as plain data."""

    kind: str
    """``"weighted"``, ``"balanced"``, ``"buckets"`` or ``"rounds"``."""
    arguments: tuple[Any, ...]
    epoch_samples: int
    """How many samples an epoch has, over all ranks."""

    def raw(self) -> RawDraws:
        """What the compiled part makes of it."""
        packed = [one.tobytes() if isinstance(one, np.ndarray) else one for one in self.arguments]
        made: RawDraws = getattr(RawDraws, self.kind)(*packed)
        return made


def draws_of(
    dataset: Any,
    batch_size: int,
    weights: Any = None,
    replacement: bool = True,
    balance: Any = None,
    bucket_by: Any = None,
    epoch_samples: int | None = None,
) -> DrawSpec | None:
    """How a loader of ``dataset`` with these arguments draws; ``None`` where each sample comes once."""
    given = [name for name, one in (("weights", weights), ("balance", balance), ("bucket_by", bucket_by)) if one is not None]
    drawn: DrawSpec | None = getattr(dataset, "_drawn", None)
    if len(given) > 1 or (given and drawn is not None):
        others = given if len(given) > 1 else [given[0], "a mixed set"]
        raise ValueError(f"{others[0]} and {others[1]} exclude each other: both say how samples are drawn")
    if replacement is not True and "weights" not in given:
        raise ValueError("replacement= is about draws by weights=")
    if epoch_samples is not None and given not in (["weights"], ["balance"]):
        raise ValueError("epoch_samples= is about draws by weights= or balance=: else each sample comes once")
    length = epoch_samples_of(dataset, weights, replacement, epoch_samples)
    if weights is not None:
        table = np.asarray(weights)
        if table.shape != (len(dataset),) or table.dtype.kind not in "iufb":
            raise ValueError(f"weights of type {table.dtype} and shape {table.shape} for {len(dataset)} samples: give one number for each")
        return DrawSpec("weighted", (table.astype(np.float64), length, bool(replacement)), length)
    if balance is not None:
        classes = np.unique(_per_sample(dataset, "balance", balance), return_inverse=True)[1].reshape(-1)
        return DrawSpec("balanced", (classes.astype(np.uint32), length), length)
    if bucket_by is not None:
        lens = _lens(dataset, bucket_by)
        return DrawSpec("buckets", (lens.astype(np.uint64), whole("batch_size", batch_size)), length)
    return drawn


def epoch_samples_of(dataset: Any, weights: Any = None, replacement: bool = True, epoch_samples: int | None = None) -> int:
    """How many samples an epoch of a loader of ``dataset`` with these arguments has, over all ranks; nothing is read."""
    if epoch_samples is not None:
        given = whole("epoch_samples", epoch_samples)
        if given == 0:
            raise ValueError("epoch_samples=0; give at least 1")
        return given
    drawn: DrawSpec | None = getattr(dataset, "_drawn", None)
    if drawn is not None:
        return drawn.epoch_samples
    if weights is not None and not replacement:
        return int(np.count_nonzero(np.asarray(weights) > 0))
    return len(dataset)


def _per_sample(dataset: Any, name: str, given: Any, of: Callable[[Any], Any] = np.asarray) -> npt.NDArray[Any]:
    """One value for each sample: given as an array, or what ``of`` makes of the field of that name."""
    if not isinstance(given, str):
        table = np.asarray(given)
    else:
        _check_field(dataset, name, given)
        read = [of(batch[given]) for batch in dataset._field_batches(given)]
        table = np.concatenate(read) if read else np.zeros(0, np.int64)
        table = table.reshape(-1) if table.size == len(table) else table
    if table.shape != (len(dataset),):
        raise ValueError(f"{name}={_shown(given)} has shape {table.shape} for {len(dataset)} samples: one value for each is needed")
    return table


def _lens(dataset: Any, given: Any) -> npt.NDArray[Any]:
    """How long each sample is: given as an array, read from a field of whole numbers, or the lengths of a field's samples, which
    of texts are their bytes in UTF-8."""
    if isinstance(given, str):
        _check_field(dataset, "bucket_by", given)
        known = _known_lens(dataset, given)
        if known is not None:
            return known
        if given in dataset._base._axes:
            read = [np.diff(np.asarray(batch.offsets[given])) for batch in dataset._field_batches(given)]
            return np.concatenate([np.zeros(0, np.int64), *read])
    lens = _per_sample(dataset, "bucket_by", given, _value_lens)
    if lens.dtype.kind not in "iu" or (lens.size and lens.min() < 0):
        raise ValueError(f"bucket_by={_shown(given)} is of type {lens.dtype}: lengths are whole numbers of at least 0")
    return lens


def _known_lens(dataset: Any, field: str) -> npt.NDArray[Any] | None:
    """How long samples are, where files tell without values being read."""
    base = dataset._base
    reader = getattr(base, "_reader", None)
    known = None if reader is None else reader.joined_lens(field)
    if known is None:
        return None
    lens = np.frombuffer(known, np.uint64)
    return lens if base is dataset else lens[dataset.indices]


def _value_lens(values: Any) -> npt.NDArray[Any]:
    """How long texts are, in bytes; whole numbers are lengths already."""
    if isinstance(values, list):
        return np.array([_text_len(value) for value in values], np.int64)
    table = np.asarray(values)
    return np.char.str_len(table) if table.dtype.kind == "S" else table


def _text_len(value: Any) -> int:
    """Bytes of a text in UTF-8, or of several, of which each has an end."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogateescape"))
    return sum(_text_len(one) + 1 for one in value)


def _check_field(dataset: Any, name: str, field: str) -> None:
    if field not in dataset.fields:
        raise ValueError(f"{name}={field!r} is no field: there are {', '.join(dataset.fields)}")


def _shown(given: Any) -> str:
    return repr(given) if isinstance(given, str) else "an array"


