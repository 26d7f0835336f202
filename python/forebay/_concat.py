"""Several data sets as one: end to end, or mixed by weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, overload

import numpy as np

from ._dataset.dataset import Dataset
from ._dataset.subset import Subset
from ._forebay import InvalidError, RawSubset
from ._loader.draws import DrawSpec
from ._sizes import whole
from ._store.concat import StoreConcat
from ._store.store import Store


@overload
def concat(*sets: Dataset | Subset) -> Dataset | Subset: ...  # type: ignore[overload-overlap]


@overload
def concat(*sets: Store | Subset) -> Store | Subset: ...


def concat(*sets: Any) -> Any:
    """The samples of all ``sets``, one set after another, as one set.

    They have the same fields: names, types, shapes, and what a sample is; each may lie in files of its own. Subsets bring the
    samples that they have. Tiers, memory and the like are those of the first. All are sets of files, or all are stores.
    """
    return _together(sets)


def _together(sets: Sequence[Any]) -> Dataset | Store | Subset:
    if not sets:
        raise ValueError("concat() needs at least one data set")
    for one in sets:
        base = one.base if isinstance(one, Subset) else one
        if not isinstance(base, (Dataset, Store)):
            raise TypeError(
                f"{one!r} cannot be put beside others: give data sets of files, as forebay.open gives them, stores, or parts of these"
            )
        if isinstance(one, Subset) and one._drawn is not None:
            raise TypeError(f"{one!r} is mixed: mix all sets at once")
    bases: list[Any] = [one.base if isinstance(one, Subset) else one for one in sets]
    for other in bases[1:]:
        if isinstance(other, Store) != isinstance(bases[0], Store):
            raise TypeError(f"{bases[0]!r} and {other!r} are a store and a set of files\n  hint: fill a store with both")
        _check_alike(bases[0], other)
    joined: Dataset | Store = StoreConcat(bases) if isinstance(bases[0], Store) else _joined(bases)
    if not any(isinstance(one, Subset) for one in sets):
        return joined
    first, numbers = 0, []
    for one, base in zip(sets, bases):
        own = one.indices if isinstance(one, Subset) else np.arange(len(one), dtype=np.int64)
        numbers.append(own + first)
        first += len(base)
    return Subset(joined, RawSubset.listed(len(joined), np.concatenate(numbers).astype(np.uint64).tobytes()))


def mix(weights: Mapping[Dataset | Store | Subset, float], *, length: int | None = None) -> Subset:
    """The samples of several data sets, mixed so that each has its part of every round: ``mix({a: 0.7, b: 0.3})``.

    The set is that of :func:`concat`; its loaders draw in rounds. A round of ``R`` samples has ``m`` of each set, where
    ``m / R`` is its weight over all weights (``R`` is at most 1000: weights are rounded to it), in an order that is shuffled for
    each round. The samples of a set come in an order shuffled for each epoch, and each comes once before one comes again.

    An epoch has ``length`` samples; by default as many whole rounds as there are before the first set runs out, so that no
    sample comes twice.
    """
    sets = list(weights)
    shares = _shares([float(weights[one]) for one in sets])
    together = _together(sets)
    lens = [len(one) for one in sets]
    for one, count, share in zip(sets, lens, shares):
        if share and not count:
            raise ValueError(f"{one!r} has no samples to mix")
    rounds = min(count // share for count, share in zip(lens, shares) if share)
    if length is None and rounds == 0:
        raise ValueError(f"sets of {lens} samples do not fill a round of {shares}: give length=, and samples come again")
    epoch_samples = rounds * sum(shares) if length is None else whole("length", length)
    drawn = DrawSpec("rounds", (lens, shares, epoch_samples), epoch_samples)
    if isinstance(together, Subset):
        return Subset(together.base, together._part, drawn)
    return Subset(together, RawSubset.slice(len(together), 0, 1, len(together)), drawn)


_LONGEST_ROUND = 1000


def _shares(weights: list[float]) -> list[int]:
    """Samples of each set in a round: the shortest round that has the weights exactly, or one of 1000."""
    if not weights:
        raise ValueError("mix() needs at least one data set")
    for weight in weights:
        if not np.isfinite(weight) or weight < 0:
            raise ValueError(f"a weight of {weight}: give finite weights of at least 0")
    total = sum(weights)
    if total <= 0:
        raise ValueError("no weight is above 0")
    parts = [Fraction(weight / total).limit_denominator(_LONGEST_ROUND) for weight in weights]
    length = math.lcm(*(part.denominator for part in parts))
    if sum(parts) == 1 and length <= _LONGEST_ROUND:
        return [int(part * length) for part in parts]
    # What rounding leaves goes to the largest remainders; no set with a weight is left out.
    exact = [weight / total * _LONGEST_ROUND for weight in weights]
    shares = [max(int(one), int(one > 0)) for one in exact]
    by_remainder = sorted(range(len(exact)), key=lambda number: int(exact[number]) - exact[number])
    for number in by_remainder[: max(0, _LONGEST_ROUND - sum(shares))]:
        shares[number] += 1
    return shares


def _check_alike(one: Any, other: Any) -> None:
    """Refuses sets whose samples are not of one kind, and names both."""
    of_one, of_other = (_described(each) for each in (one, other))
    if of_one.keys() != of_other.keys():
        raise InvalidError(f"{one!r} has the fields {list(of_one)}, and {other!r} has {list(of_other)}")
    for name, (dtype, shape) in of_one.items():
        if of_other[name] != (dtype, shape):
            found, others = of_other[name]
            raise InvalidError(
                f"field {name!r} of {one!r} is {dtype} of shape {shape}, and of {other!r} {found} of shape {others}"
            )
    if isinstance(one, Store):
        return
    specs = [_field_specs(each) for each in (one, other)]
    for mine, others in zip(*specs):
        if mine != others:
            raise InvalidError(
                f"field {mine['name']!r} of {one!r} and of {other!r} are cut or converted in different ways\n  hint: open both with "
                "the same fields= and samples="
            )


def _described(dataset: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    rows = dataset._raw.fields() if isinstance(dataset, Store) else dataset._opened.fields()
    return {name: (stored, tuple(shape)) for name, _, shape, stored in rows}


def _field_specs(dataset: Dataset) -> list[dict[str, Any]]:
    """What the fields are, whichever files they are in."""
    specs = dataset._opened.spec_dict["fields"]["fields"]
    for spec in specs:
        if any(kind.startswith("listed") for kind in _kinds(spec["samples"])):
            raise InvalidError(
                f"field {spec['name']!r} of {dataset!r} has places that are listed for its files: such a set cannot be put beside others"
            )
    return [{name: value for name, value in spec.items() if name != "files"} for spec in specs]


def _kinds(value: Any) -> list[str]:
    """The names of all tables in ``value``."""
    if not isinstance(value, dict):
        return []
    return [*value, *(name for inner in value.values() for name in _kinds(inner))]


def _joined(sets: list[Dataset]) -> Dataset:
    """The files of all sets under one number."""
    first, *others = (one._opened.spec_dict for one in sets)
    lists: list[list[str]] = []
    fields = first["fields"]["fields"]
    for number, field in enumerate(fields):
        files = [spec["files"][spec["fields"]["fields"][number].get("files", 0)] for spec in (first, *others)]
        lists.append([file for each in files for file in each])
        field["files"] = number
    # Fields of the same files share a list: they are opened once.
    kept: list[list[str]] = []
    for field, files in zip(fields, lists):
        if files not in kept:
            kept.append(files)
        field["files"] = kept.index(files)
    spec = json.dumps({"files": kept, "fields": {"fields": fields}})
    return Dataset(spec, sets[0]._options, sets[0].label, sets[0]._through, (spec, None))
