"""How a set of samples is opened."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal

from .._forebay import absolute_path
from .._loader.words import spill_options
from .._samples import (
    CF,
    Along,
    Axis,
    Boundary,
    Centres,
    Constant,
    Field,
    FilesAxis,
    Fixed,
    Groups,
    Paths,
    Ragged,
    Whole,
    Windows,
)
from .._sizes import size_of
from .._tiers.tiers import Policy, TierOptions, Tiers, naming_renamed
from .anndata import cell_fields
from .dataset import Dataset


@naming_renamed
def open(
    files: Paths,
    fields: Sequence[str | Field] | Mapping[str, str | Field] | str | None = None,
    label: str | Field | None = None,
    *,
    samples: Boundary | None = None,
    files_axis: Axis | None = None,
    gaps: Literal["split", "cross"] = "split",
    cf: CF = False,
    mask_valid: bool = False,
    convention: Literal["anndata"] | None = None,
    memory: int | str | None = None,
    transfer_size: int | str | None = None,
    spill: str | os.PathLike[str] | None = None,
    spill_quota: int | str | None = None,
    tiers: Tiers | None = None,
    policy: Policy | None = None,
    config: str | os.PathLike[str] | None = None,
    placement_threads: int | None = None,
    tier_block: int | str | None = None,
    whole_file: bool | None = None,
    tier_ahead: int | str | None = None,
) -> Dataset:
    """Opens a set of samples.

    ``files`` is a path, a URL such as ``"s3://bucket/a.h5"``, a pattern such as ``"train/*.h5"``, a folder, or a list
    of these; ``~`` and variables such as ``$SCRATCH`` are replaced. ``fields`` names the
    variables a sample is made of: a list of names or :class:`Field`, or a dict that gives them other names. ``label``
    is one more field, which ``Dataset.label`` remembers. ``samples`` says which part of a variable is one sample; by
    default one row of axis 0. Nothing but descriptions and offsets is read here.

    ``files_axis`` names the first axis of the fields, such as ``"time"``: the files follow each other along it, in the order
    they are named, and :class:`Windows` go on from file to file. Where the values of that axis, the variable of the same name, leave a gap (a
    step of more than one and a half times the usual one, such as a file that is missing), no window crosses it, unless
    ``gaps="cross"``. Without such a variable there are no gaps.

    ``cf=True`` unpacks the values of all fields as the CF conventions say, and makes ``datetime64[ns]`` of times (of
    other calendars, days, which :func:`cftime_dates` makes dates of);
    ``cf="mask"`` gives a field ``NAME_mask`` besides, instead of NaN for missing values. :class:`Field` tells more of it,
    and of ``mask_valid``. By default values are as they are stored.

    ``convention="anndata"`` is for AnnData's ``.h5ad`` files and Zarr stores, in which a sample is a cell. ``fields`` are elements of
    it: ``"X"`` (the default), ``"layers/counts"``, ``"obsm/X_pca"``, or the name of a column of ``obs``. Rows of sparse
    matrices are made whole; ``"X/data"`` and ``"X/indices"`` are their values and columns as they are stored. A categorical column gives its
    codes, and :attr:`Dataset.categories` what they stand for; a nullable one also ``NAME_mask``. Files must have the same genes.

    ``tiers`` are nearer places for copies, the fastest first: words such as ``"memory:4GiB"``,
    ``"disk:/nvme/$USER:100GiB:keep"`` or a folder, or dicts as in ``forebay.toml``; ``[]`` for none, and by default what
    ``config``, the environment or ``forebay.toml`` say. ``policy`` says which copies leave a full tier: a name, or a
    callable that is given a :class:`BlockFacts` and returns a number, the least of which leaves first, or an object with
    such a method ``rank``. ``placement_threads``, ``tier_block``, ``whole_file`` and ``tier_ahead`` say how copies are made.

    The rest is about indexing the set: ``memory`` bounds what it may take, from the first sample on that is asked for;
    ``transfer_size`` are the bytes a request ought to bring, ``spill`` is a folder on a local disk for decoded values that
    memory cannot hold, ``spill_quota`` the most it takes.
    """
    samples = _checked_boundary(samples)
    if _checked_convention(convention, samples, files_axis) and fields is None:
        fields = ["X"]
    named = _named(fields)
    label_name = None
    if label is not None:
        one = _field(label)
        label_name = one.name or one.variable
        if isinstance(samples, Ragged) and one.samples is None and not samples._names(label_name):
            # A molecule has many atoms and one energy.
            one = dataclasses.replace(one, samples=Fixed(1))
        own = one.samples or samples
        if isinstance(own, Windows) and own.targets and one.part is None:
            # What is to be foretold is what follows.
            one = dataclasses.replace(one, part="target")
        if label_name in named and isinstance(label, Field) and not _are_alike(label, named[label_name]):
            raise ValueError(
                f"label={label!r}, and fields have another {label_name!r}: give the label's Field a name=, or name it by "
                f"label={label_name!r}"
            )
        named.setdefault(label_name, one)
    if not named:
        raise ValueError("name the fields of a sample, as in fields=['image']; `forebay inspect FILE` lists variables")
    lists = [_paths(files)]
    # What another rank has told names the fields as they are stored already.
    if convention is not None and heard.get() is None:
        named = cell_fields(named, lists[0], _paths)
    specs: list[dict[str, Any]] = []
    over = None if files_axis is None else FilesAxis(files_axis, gaps)
    for name, one in named.items():
        number = 0
        if one.files is not None:
            lists.append(_paths(one.files))
            number = len(lists) - 1
        boundary = _checked_boundary(one.samples) or samples or Fixed(1)
        specs += one._specs(name, boundary, number, cf, mask_valid, over)
    spec = {"files": lists, "fields": {"fields": specs}}
    options: dict[str, Any] = {
        "memory": size_of(memory, "memory"),
        "transfer_size": size_of(transfer_size, "transfer_size"),
        "spill": spill_options(spill, spill_quota),
    }
    through = TierOptions(tiers, policy, config, placement_threads, tier_block, whole_file, tier_ahead)
    return Dataset(json.dumps(spec), options, label_name, through, *(heard.get() or ()))


def _checked_convention(convention: Any, samples: Any, files_axis: Any) -> bool:
    """Whether files follow a convention, which must be known, and says itself what a sample is."""
    if convention is None:
        return False
    if convention != "anndata":
        raise ValueError(f"convention={convention!r}; there is 'anndata'")
    for name, given in (("samples", samples), ("files_axis", files_axis)):
        if given is not None:
            raise ValueError(f"{name}={given!r} with convention='anndata', where a sample is a cell")
    return True


heard: ContextVar[tuple[tuple[str, str], bytes] | None] = ContextVar("heard", default=None)
"""What another rank has told of the set that is being opened: the files by name, and what they say of themselves."""


def _named(fields: Any) -> dict[str, Field]:
    if fields is None:
        return {}
    if isinstance(fields, (str, Field)):
        fields = [fields]
    if isinstance(fields, Mapping):
        return {name: _field(one) for name, one in fields.items()}
    found: dict[str, Field] = {}
    for one in map(_field, fields):
        name = one.name or one.variable
        if name in found:
            raise ValueError(f"two fields are called {name!r}")
        found[name] = one
    return found


def _are_alike(one: Field, other: Field) -> bool:
    def spec(field: Field) -> Any:
        boundary = _checked_boundary(field.samples) or Fixed(1)
        files = None if field.files is None else _paths(field.files)
        return files, field.samples is None, field.part, field._spec("", boundary, 0, False, False)

    return one is other or bool(spec(one) == spec(other))


def _field(one: Any) -> Field:
    if isinstance(one, str):
        return Field(one)
    if isinstance(one, (list, tuple)) and all(isinstance(name, str) for name in one):
        raise TypeError(f"{one!r} is no field: name each by itself, and have the loader stack them, as in ds.loader(fields={{'x': {list(one)}}})")
    if not isinstance(one, Field):
        raise TypeError(f"{one!r} is no field: give the name of a variable, or a forebay.Field")
    return one


def _checked_boundary(samples: Any) -> Any:
    if samples is None or isinstance(
        samples, (Fixed, Along, Ragged, Whole, Windows, Centres, Groups, Constant)
    ):
        return samples
    raise TypeError(
        f"samples={samples!r}; there are Fixed(…), Along(…), Ragged(…), Whole(), Windows(…), Centres(…), Groups(…) and Constant()"
    )


def _paths(files: Paths) -> list[str]:
    given: Any = files
    is_list = isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike, Mapping, bytes))
    paths: list[Any] = list(given) if is_list else [given]
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"{path!r} is no path: give paths, URLs, patterns, folders, or a list of these")
    # Made absolute: a worker that opens them again may stand in another folder.
    return [absolute_path(os.fspath(path)) for path in paths]
