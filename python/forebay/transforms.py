"""Transforms of whole fields that forebay's own threads do, without Python: ``ds.loader(transforms={"x": [...]})``.

>>> from forebay import transforms as T
>>> loader = ds.loader(
...     batch_size=64,
...     transforms={"image": [T.RandomCrop(224, 224), T.RandomFlip(), T.Normalize(mean, std, axis=0), T.Cast("float16")]},
... )

Axes are those of one sample: axis 0 of a sample is axis 1 of a batch; negative ones count from the end. Values are computed in
float32, each operation rounded once, and a :class:`Cast` comes last. What is random is a formula of ``batch.seeds``, which
:func:`draw` and the methods ``starts``, ``flips`` and ``shifts`` compute too: the same in every process, after every resume, and
for every field, so that a picture and its mask are cropped alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ._samples import Field
from ._sizes import whole

__all__ = [
    "Cast",
    "CenterCrop",
    "Clip",
    "DecodeImage",
    "Log",
    "Normalize",
    "OneHot",
    "RandomCrop",
    "RandomFlip",
    "RandomRoll",
    "Transform",
    "draw",
    "splitmix64",
]

_KINDS = {"crop": 1, "flip": 2, "roll": 3, "picture": 4}


def splitmix64(words: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """One output of the generator splitmix64 for each state in ``words``."""
    word = np.atleast_1d(np.asarray(words, np.uint64))
    with np.errstate(over="ignore"):
        word = word + np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ word >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ word >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = word ^ word >> np.uint64(31)
    return mixed


def draw(seeds: npt.ArrayLike, kind: str, from_end: int = 1, key: int = 0) -> npt.NDArray[np.uint64]:
    """What a transform of ``kind`` (``"crop"``, ``"flip"``, ``"roll"`` or ``"picture"``) draws for each of ``batch.seeds``, along the axis
    that is ``from_end`` from the end (1 for the last): ``splitmix64(seed ^ splitmix64(kind << 48 | from_end << 32 | key))``, with
    1 to 4 for the kinds. Pictures count what they draw in place of axes."""
    purpose = splitmix64(_KINDS[kind] << 48 | from_end << 32 | key)
    return splitmix64(np.asarray(seeds, np.uint64) ^ purpose)


def _below(drawn: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.int64]:
    """A number below ``count`` for each: the upper 64 bits of the product."""
    half, least = np.uint64(32), np.uint64(0xFFFFFFFF)
    high, low = drawn >> half, drawn & least
    return ((high * np.uint64(count) + (low * np.uint64(count) >> half)) >> half).astype(np.int64)


def _place(axis: int, ndim: int) -> int:
    return axis % ndim


@dataclass(frozen=True, init=False)
class RandomCrop:
    """A box of these lengths, cut out anywhere: along the last axes, or those that ``axes`` names.

    ``RandomCrop(224, 224)`` takes 224 rows and columns. Crops of the same ``key`` draw the same numbers in every field.
    """

    sizes: tuple[int, ...]
    axes: tuple[int, ...] | None
    key: int

    def __init__(self, *sizes: int, axes: Sequence[int] | None = None, key: int = 0) -> None:
        object.__setattr__(self, "sizes", tuple(whole("size", size) for size in sizes))
        object.__setattr__(self, "axes", None if axes is None else tuple(axes))
        object.__setattr__(self, "key", whole("key", key))

    _where = "random"

    def _spec(self) -> dict[str, Any]:
        axes = None if self.axes is None else [int(axis) for axis in self.axes]
        return {"op": "crop", "sizes": list(self.sizes), "axes": axes, "place": self._where, "key": self.key}

    def starts(self, seeds: npt.ArrayLike, shape: Sequence[int]) -> npt.NDArray[np.int64]:
        """Where the boxes begin, for ``batch.seeds`` and the ``shape`` of a sample: one row a sample, one column an axis."""
        axes = self.axes if self.axes is not None else tuple(range(-len(self.sizes), 0))
        columns = []
        for axis, size in zip(axes, self.sizes):
            place = _place(axis, len(shape))
            drawn = draw(seeds, "crop", len(shape) - place, self.key)
            columns.append(_below(drawn, shape[place] - size + 1))
        return np.stack(columns, axis=1)


@dataclass(frozen=True, init=False)
class CenterCrop(RandomCrop):
    """A box of these lengths, cut out of the middle: for validation."""

    _where = "center"

    def starts(self, seeds: npt.ArrayLike, shape: Sequence[int]) -> npt.NDArray[np.int64]:
        """Where the boxes begin: in the middle, whatever the seeds."""
        axes = self.axes if self.axes is not None else tuple(range(-len(self.sizes), 0))
        start = [(shape[_place(axis, len(shape))] - size) // 2 for axis, size in zip(axes, self.sizes)]
        return np.tile(np.array(start, np.int64), (len(np.atleast_1d(np.asarray(seeds))), 1))


@dataclass(frozen=True)
class DecodeImage:
    """JPEG and PNG files of any size, as bytes, become pictures of ``height`` rows and ``width`` columns in colour: the first step
    of a field such as ``encoded``.

    ``crop="none"`` stretches the whole picture. ``"center"`` makes its shorter side ``shorter`` pixels long, by default as few as
    cover the size, and takes the middle: torchvision's ``Resize`` and ``CenterCrop``. ``"random"`` takes a box of a random part
    ``scale`` of the area and a random ``ratio`` of width to height: ``RandomResizedCrop``. Sizes are changed as the bilinear filter
    of Pillow 13 does it, to the same levels. ``channels`` is ``"last"``, or ``"first"`` as PyTorch's layers take it.
    """

    height: int
    width: int
    crop: str = "none"
    shorter: int | None = None
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    channels: str = "last"
    key: int = 0

    def _spec(self) -> dict[str, Any]:
        if self.crop not in ("none", "center", "random"):
            raise ValueError(f"DecodeImage: crop={self.crop!r}; give 'none', 'center' or 'random'")
        if self.channels not in ("last", "first"):
            raise ValueError(f"DecodeImage: channels={self.channels!r}; give 'last' or 'first'")
        if self.shorter is not None and self.crop != "center":
            raise ValueError(f"DecodeImage: shorter={self.shorter!r} belongs to crop='center'")
        crop: dict[str, Any] = {"kind": self.crop}
        if self.crop == "center":
            crop["shorter"] = None if self.shorter is None else whole("shorter", self.shorter)
        if self.crop == "random":
            crop |= {"scale": [float(part) for part in self.scale], "ratio": [float(part) for part in self.ratio]}
        sides = {"height": whole("height", self.height), "width": whole("width", self.width)}
        return {"op": "decode_image", **sides, "crop": crop, "channels": self.channels, "key": whole("key", self.key)}

    def boxes(self, seeds: npt.ArrayLike, sizes: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The boxes that ``crop="random"`` takes, for ``batch.seeds`` and the ``sizes`` (height, width) of the pictures: top, left,
        height and width, one row a sample."""
        drawn = [draw(seeds, "picture", number, self.key) for number in range(40)]
        pairs = np.asarray(sizes, np.int64).reshape(-1, 2).tolist()
        rows = [self._box([int(one[sample]) for one in drawn], *pair) for sample, pair in enumerate(pairs)]
        return np.array(rows, np.int64).reshape(-1, 4)

    def _box(self, drawn: list[int], height: int, width: int) -> tuple[int, int, int, int]:
        part = lambda low, high, word: low + (high - low) * ((word >> 11) * 2.0**-53)  # noqa: E731
        low, high = self.ratio
        for first, second, third, fourth in zip(*(drawn[start::4] for start in range(4))):
            area = float(height) * width * part(*self.scale, first)
            ratio = math.exp(part(math.log(low), math.log(high), second))
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                return third * (height - rows + 1) >> 64, fourth * (width - columns + 1) >> 64, rows, columns
        rows, columns = height, width
        if width / height < low:
            rows = min(max(round(width / low), 1), height)
        elif width / height > high:
            columns = min(max(round(height * high), 1), width)
        return (height - rows) // 2, (width - columns) // 2, rows, columns


@dataclass(frozen=True)
class RandomFlip:
    """The order along ``axis`` turned round, with probability ``p``."""

    axis: int = -1
    p: float = 0.5
    key: int = 0

    def _spec(self) -> dict[str, Any]:
        return {"op": "flip", "axis": int(self.axis), "probability": float(self.p), "key": whole("key", self.key)}

    def flips(self, seeds: npt.ArrayLike, ndim: int) -> npt.NDArray[np.bool_]:
        """Which samples are turned round, for ``batch.seeds`` and samples of ``ndim`` axes."""
        drawn = draw(seeds, "flip", ndim - _place(self.axis, ndim), self.key)
        flips: npt.NDArray[np.bool_] = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53 < self.p
        return flips


@dataclass(frozen=True)
class RandomRoll:
    """A cyclic shift along ``axis`` by any distance, as ``numpy.roll`` does it: for axes that close, such as longitudes."""

    axis: int = -1
    key: int = 0

    def _spec(self) -> dict[str, Any]:
        return {"op": "roll", "axis": int(self.axis), "key": whole("key", self.key)}

    def shifts(self, seeds: npt.ArrayLike, shape: Sequence[int]) -> npt.NDArray[np.int64]:
        """By how much samples of ``shape`` are shifted, for ``batch.seeds``."""
        place = _place(self.axis, len(shape))
        return _below(draw(seeds, "roll", len(shape) - place, self.key), shape[place])


@dataclass(frozen=True)
class Normalize:
    """``(f32(x) - f32(mean)) / f32(std)``, each rounded once: one mean and std, or one for each index of ``axis``.

    Gives float32, unless a :class:`Cast` follows. For a field that is stacked from several, ``axis`` is by default the new one.
    """

    mean: Any
    std: Any
    axis: int | None = None

    def _spec(self) -> dict[str, Any]:
        mean = np.asarray(self.mean, np.float64).ravel()
        std = np.asarray(self.std, np.float64).ravel()
        if mean.size != std.size and 1 in (mean.size, std.size):
            mean, std = np.broadcast_arrays(mean, std)
        for what, values in (("mean", mean), ("std", std)):
            if not np.isfinite(values).all():
                raise ValueError(f"Normalize: {what}={getattr(self, what)!r} is not finite")
        axis = None if self.axis is None else int(self.axis)
        return {"op": "normalize", "mean": mean.tolist(), "std": std.tolist(), "axis": axis}


@dataclass(frozen=True)
class Log:
    """The natural logarithm of ``x + add``, computed in float64 and rounded to float32."""

    add: float = 0.0

    def _spec(self) -> dict[str, Any]:
        if not math.isfinite(self.add):
            raise ValueError(f"Log: add={self.add!r} is not finite")
        return {"op": "log", "add": float(self.add)}


@dataclass(frozen=True)
class Clip:
    """Values below ``low`` become ``low``, those above ``high`` become ``high``; NaN stays. In float32."""

    low: float | None = None
    high: float | None = None

    def _spec(self) -> dict[str, Any]:
        bounds = {name: None if value is None else float(value) for name, value in (("low", self.low), ("high", self.high))}
        if any(value is not None and not math.isfinite(value) for value in bounds.values()):
            raise ValueError(f"Clip({self.low!r}, {self.high!r}): give finite bounds, or None for none")
        return {"op": "clip", **bounds}


@dataclass(frozen=True)
class OneHot:
    """Whole numbers become rows of ``classes`` numbers, a one and zeros, along one more axis, the last. A number that is none of
    the classes is a sample that cannot be read, with which ``on_error`` deals."""

    classes: int
    dtype: Any = "float32"

    def _spec(self) -> dict[str, Any]:
        return {"op": "one_hot", "classes": whole("classes", self.classes), "to": _number(self.dtype)}


@dataclass(frozen=True)
class Cast:
    """Another number type, as NumPy's ``astype`` gives it; ``"bfloat16"`` too."""

    dtype: Any

    def _spec(self) -> dict[str, Any]:
        return {"op": "cast", "to": _number(self.dtype)}


Transform = Union[DecodeImage, RandomCrop, CenterCrop, RandomFlip, RandomRoll, Normalize, Log, Clip, OneHot, Cast]
"""Any of them."""

_ALL = (DecodeImage, RandomCrop, RandomFlip, RandomRoll, Normalize, Log, Clip, OneHot, Cast)


def _number(dtype: Any) -> str:
    number = Field("", dtype=dtype)._number()
    if number is None:
        raise ValueError("Cast needs a type, such as 'float16'")
    return number


def transform_spec(transforms: Any, normalize: Any, fields: Any) -> dict[str, Any] | None:
    """What the compiled part takes; nothing where nothing is done."""
    if not transforms and not normalize and fields is None:
        return None
    steps: dict[str, list[dict[str, Any]]] = {}
    for name, given in _mapping("transforms", transforms).items():
        listed = list(given) if isinstance(given, (list, tuple)) else [given]
        for one in listed:
            if not isinstance(one, _ALL):
                raise TypeError(f"transforms of {name!r}: {one!r} is no transform of forebay.transforms; map= takes callables")
        steps[name] = [one._spec() for one in listed]
    for name, given in _normalizations(normalize).items():
        # Last but for the cast, as if it stood there.
        at = next((at for at, step in enumerate(steps.get(name, [])) if step["op"] == "cast"), len(steps.get(name, [])))
        steps.setdefault(name, []).insert(at, given._spec())
    sources = _sources(fields)
    if sources is None:
        outputs = [{"name": name, "from": [name], "ops": ops} for name, ops in steps.items()]
        return {"fields": outputs, "is_selection": False}
    unknown = [name for name in steps if name not in sources]
    if unknown:
        raise ValueError(f"transforms of {unknown[0]!r}, which is not among fields={list(sources)}")
    chosen: list[dict[str, Any]] = []
    for name, (source, is_stacked) in sources.items():
        chosen.append({"name": name, "from": source, "stack_axis": 0 if is_stacked else None, "ops": steps.get(name, [])})
    return {"fields": chosen, "is_selection": True}


def _normalizations(normalize: Any) -> dict[str, Normalize]:
    if hasattr(normalize, "normalizations"):
        found: dict[str, Normalize] = normalize.normalizations()
        return found
    made = {}
    for name, given in _mapping("normalize", normalize).items():
        if isinstance(given, Normalize):
            made[name] = given
        elif hasattr(given, "normalize"):
            made[name] = given.normalize()
        elif isinstance(given, tuple) and len(given) in (2, 3):
            made[name] = Normalize(*given)
        else:
            raise TypeError(f"normalize of {name!r}: {given!r}; give (mean, std), (mean, std, axis) or statistics")
    return made


def _mapping(what: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{what}={given!r}; give a dict by field")
    return dict(given)


def _sources(fields: Any) -> dict[str, tuple[list[str], bool]] | None:
    """By field of the batches, what it is made of and whether that is stacked."""
    if fields is None:
        return None
    if isinstance(fields, str):
        fields = [fields]
    if not fields:
        raise ValueError(f"fields={fields!r}: expected at least one field, got none")
    named = fields.items() if isinstance(fields, Mapping) else ((name, name) for name in fields)
    sources: dict[str, tuple[list[str], bool]] = {}
    for name, given in named:
        is_one = isinstance(given, str)
        listed = [given] if is_one else list(given)
        if not listed or not all(isinstance(one, str) for one in [name, *listed]):
            raise TypeError(f"fields: {name!r}: {given!r}; give the name of a field, or a list of names to stack")
        if name in sources:
            raise ValueError(f"two fields are called {name!r}")
        sources[name] = (listed, not is_one)
    return sources
