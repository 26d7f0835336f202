"""Samples that a rank adds to a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._forebay import InvalidError, RawFilling

_WRITE_BYTES = 8 << 20
"""Samples are handed over in pieces of this many bytes."""


class AddedArrays:
    """Samples that a rank adds: one array, arrays that differ along one axis, or texts. They are written in native byte order."""

    kind: str | None = None
    """``text`` where a sample is one, ``texts`` where it is a list of them."""

    is_untyped = False
    """True of empty lists alone, which may be of texts or of numbers: samples of other ranks say which."""

    def __init__(self, dtype: Any, shape: Any, count: int, lens: list[int] | None, values: Any) -> None:
        self.dtype = None if dtype is None else np.dtype(dtype).newbyteorder("=")
        self.shape, self.count, self.lens, self._values = shape, count, lens, values

    @classmethod
    def of(cls, name: str, samples: Any) -> AddedArrays:
        if isinstance(samples, np.ndarray) and samples.dtype == object and samples.ndim == 1:
            samples = samples.tolist()
        if isinstance(samples, (list, tuple)):
            kind = _text_kind(samples)
            if kind is not None:
                return cls._of_texts(name, kind, samples)
            made = cls._of_list(name, [np.asarray(one) for one in samples])
            made.is_untyped = bool(samples) and all(isinstance(one, (list, tuple)) and not one for one in samples)
            return made
        array = np.asarray(samples)
        if array.ndim == 0:
            raise ValueError(f"{name!r} is one number: give an array whose first axis counts samples")
        return cls(array.dtype, list(array.shape[1:]), len(array), None, array)

    @classmethod
    def described(cls, name: str, samples: Any, shape: list[int | None], kind: str | None) -> AddedArrays:
        """Samples of which it is known that they are of ``shape``, and texts where there is a ``kind``: an array of them, or a list
        where they differ in length."""
        if kind is not None:
            return cls._of_texts(name, kind, samples)
        if len(samples) == 0:
            return cls(None, None, 0, None, [])
        if None not in shape:
            return cls(samples.dtype, list(samples.shape[1:]), len(samples), None, samples)
        lens = [part.shape[shape.index(None)] for part in samples]
        return cls(samples[0].dtype, shape, len(samples), lens, samples)

    @classmethod
    def _of_list(cls, name: str, parts: list[npt.NDArray[Any]]) -> AddedArrays:
        if not parts:
            return cls(None, None, 0, None, [])
        dtypes, ndims = {part.dtype for part in parts}, {part.ndim for part in parts}
        if len(dtypes) > 1 or len(ndims) > 1:
            raise ValueError(f"samples of {name!r} have different types or numbers of axes: {dtypes}, {ndims}")
        shapes = np.array([part.shape for part in parts], np.int64).reshape(len(parts), -1)
        differing = np.flatnonzero((shapes != shapes[0]).any(axis=0)).tolist()
        if len(differing) > 1:
            raise ValueError(f"samples of {name!r} differ along the axes {differing}: one alone may differ")
        shape: list[int | None] = shapes[0].tolist()
        lens = None
        if differing:
            shape[differing[0]] = None
            lens = shapes[:, differing[0]].tolist()
        return cls(parts[0].dtype, shape, len(parts), lens, parts)

    @classmethod
    def _of_texts(cls, name: str, kind: str, samples: Any) -> AddedArrays:
        encoded = [_encoded(one) if kind == "text" else b"".join(_ended(name, each) for each in one) for one in samples]
        parts = [np.frombuffer(one, np.uint8) for one in encoded]
        made = cls(np.uint8, [None], len(parts), [len(part) for part in parts], parts)
        made.kind = kind
        return made

    def told(self) -> dict[str, Any]:
        """What other ranks need to know."""
        dtype = None if self.dtype is None else _code(self.dtype)
        return {"dtype": dtype, "shape": self.shape, "count": self.count, "kind": self.kind, "is_untyped": self.is_untyped}

    def learn(self, name: str, known: list[dict[str, Any]]) -> None:
        """Takes the type and shape that all ranks agree on: an axis that differs on one rank, or between ranks, differs.

        A rank without samples cannot know them, and an array of none may have any: it takes those of the ranks that have some.
        """
        having = [one for one in enumerate(known) if one[1]["count"]] or [one for one in enumerate(known) if one[1]["dtype"]]
        if not having:
            raise ValueError(f"no rank brings a sample of {name!r}, so that its type is not known")
        typed = next((one for one in having if not one[1]["is_untyped"]), having[0])
        first, joined = typed[1], list(typed[1]["shape"])
        for rank, one in having:
            if one["kind"] != first["kind"] and not one["is_untyped"]:
                raise _differ(name, "types", typed, (rank, one), lambda one: one["kind"] or np.dtype(_from_code(one["dtype"])))
            if one["dtype"] != first["dtype"] and not one["is_untyped"]:
                raise _differ(name, "types", typed, (rank, one), lambda one: np.dtype(_from_code(one["dtype"])))
            if len(one["shape"]) == len(joined):
                joined = [a if a == b else None for a, b in zip(joined, one["shape"])]
            if len(one["shape"]) != len(joined) or joined.count(None) > 1:
                raise _differ(name, "shapes", typed, (rank, one), lambda one: tuple(one["shape"]))
        if self.is_untyped:
            self.kind, self.dtype = first["kind"], np.dtype(_from_code(first["dtype"]))
        if self.count == 0:
            self.kind = first["kind"]
            if self.dtype is None or _code(self.dtype) != first["dtype"]:
                self.dtype = np.dtype(_from_code(first["dtype"]))
            self.shape, self.lens = joined, None if None not in joined else []
        elif None in joined and None not in self.shape:
            # All samples of this rank are alike, and those of another are not.
            self.lens = [self.shape[joined.index(None)]] * self.count
            self.shape = joined

    def write(self, filling: RawFilling) -> None:
        first, _ = filling.share()
        if isinstance(self._values, list):
            for number, sample in enumerate(self._values, first):
                filling.write(number, np.ascontiguousarray(sample, self.dtype).tobytes())
            return
        step = max(1, _WRITE_BYTES // max(1, self._values[:1].nbytes))
        for at in range(0, len(self._values), step):
            piece = np.ascontiguousarray(self._values[at : at + step], self.dtype)
            filling.write(first + at, piece.tobytes())


def is_text(value: Any) -> bool:
    """True of a text, and of a list of texts or of nothing."""
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value))


def _text_kind(samples: Any) -> str | None:
    """What ``samples`` are where all are texts, or all are lists of texts, of which some may be empty."""
    if samples and all(isinstance(one, str) for one in samples):
        return "text"
    are_lists = all(isinstance(one, (list, tuple)) and is_text(one) for one in samples)
    return "texts" if are_lists and any(samples) else None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _ended(name: str, text: str) -> bytes:
    """One of several texts of a sample, as it is stored."""
    if "\0" in text:
        raise ValueError(f"a text of {name!r} has a NUL in it, among several of a sample")
    return _encoded(text) + b"\0"


def _differ(name: str, what: str, one: tuple[int, Any], other: tuple[int, Any], named: Any) -> InvalidError:
    each = f"rank {one[0]} {named(one[1])}, rank {other[0]} {named(other[1])}"
    return InvalidError(f"ranks add samples of {name!r} of different {what}: {each}")


def as_stored(name: str, samples: Any, dtype: Any, shape: list[int | None]) -> list[npt.NDArray[Any]]:
    """Arrays of ``dtype`` whose bytes, one after the other, are ``samples`` of ``shape``.

    Values that ``dtype`` does not have are an error: nothing is cut off.
    """
    stored = np.dtype(dtype).newbyteorder("=")
    # Samples that differ in length are taken one by one.
    is_ragged = None in shape
    arrays = [np.asarray(one) for one in samples] if is_ragged else [np.asarray(samples)]
    return [_cast(name, array, stored, shape, is_ragged) for array in arrays]


def _cast(name: str, array: Any, stored: Any, shape: list[int | None], is_sample: bool) -> npt.NDArray[Any]:
    own = array.shape if is_sample else array.shape[1:]
    is_alike = len(own) == len(shape) and all(of is None or of == this for this, of in zip(own, shape))
    if not is_alike or (array.ndim == 0 and not is_sample):
        raise ValueError(f"samples of {name!r} have the shape {tuple(shape)}: an array of {array.shape} has no such samples")
    if not np.can_cast(array.dtype, stored, "same_kind"):
        raise TypeError(f"{name!r} is of {stored}, into which {array.dtype} does not fit")
    cast = np.ascontiguousarray(array, stored)
    if stored.kind in "iu" and not np.array_equal(cast, array):
        raise ValueError(f"{name!r} is of {stored}, which does not have all of these values")
    return cast


def _code(dtype: Any) -> Any:
    return np.lib.format.dtype_to_descr(np.dtype(dtype))


def _from_code(code: Any) -> Any:
    if isinstance(code, list):
        return [tuple(tuple(item) if isinstance(item, list) else item for item in field) for field in code]
    return code
