"""A set of samples."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, overload

import numpy as np

from . import _html
from ._anndata import cell_fields
from ._batch import Batch, sample_of, split_samples
from ._dates import DAYS
from ._forebay import (
    BatchLoader,
    InvalidError,
    LoaderMemory,
    RawBatch,
    RawDraws,
    RawSubset,
    SampleReader,
    absolute_path,
    memory_report,
)
from ._loader import Loader
from ._samples import (
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
from ._sizes import size_of, whole
from ._statistics import QUANTILES, Statistics, compute
from ._subset import SetOperations, Subset
from ._tiers import Policy, TierOptions, Tiers, leave_at_exit, naming_renamed
from ._warming import Warming
from ._workers import note_workers


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
    return Dataset(json.dumps(spec), json.dumps(options), label_name, through, *(heard.get() or ()))


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


def spill_options(folder: str | os.PathLike[str] | None, quota: int | str | None, shared: bool | None = None) -> Any:
    """What the compiled part takes about the spill."""
    return {"folder": None if folder is None else os.fspath(folder), "quota": size_of(quota, "spill_quota"), "shared": shared}


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
    return [_path(os.fspath(path)) for path in paths]


def _path(path: str) -> str:
    # Made absolute: a worker that opens them again may stand in another folder.
    return absolute_path(path)


class Dataset(SetOperations):
    """A set of samples, made by :func:`open`.

    ``ds[5]`` is one sample, a dict of arrays; ``ds[2:9]``, ``ds[[9, 2, 2]]`` and ``ds[mask]`` are a :class:`Batch`. It
    can be pickled, and used after a fork: the other process opens the same files for itself, and refuses files that were
    changed.
    """

    label: str | None
    """The name of the field that is the label, if one was named."""

    def __init__(
        self,
        spec: str,
        options: str,
        label: str | None,
        through: TierOptions,
        had: tuple[str, str | None] | None = None,
        told: bytes | None = None,
    ) -> None:
        self._spec = spec
        self._options = options
        self.label = label
        self._through = through
        # A set that is opened again has the files it had, whatever a pattern matches by now.
        spec, fingerprint = had or (spec, None)
        is_again = had is not None
        tiers = (through.config, through.rank, through.newcomers_compete)
        self._opened = SampleReader(spec, options, *tiers, is_again, told)
        # The number of a file, which tells two files of one name apart, is another on another node.
        if is_again and told is None and fingerprint not in (None, self._opened.fingerprint):
            raise InvalidError(
                "files of this data set were changed since it was opened, so that its samples may be others\n  hint: open the "
                "set again"
            )
        self._process = os.getpid()
        self._enter()

    def _enter(self) -> None:
        if self._through.tiers:
            leave_at_exit(self)

    def _leave(self) -> None:
        if self._process == os.getpid():
            self._opened.close()

    @property
    def _reader(self) -> SampleReader:
        note_workers()
        if self._process != os.getpid():
            self._opened = self._opened.reopened(self._options)
            self._process = os.getpid()
            self._enter()
        return self._opened

    def __len__(self) -> int:
        return len(self._opened)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.batch(range(*index.indices(len(self))))
        if not isinstance(index, (int, np.integer, str)) and np.ndim(index) > 0:
            return self.batch(index)
        number = operator.index(index)
        return sample_of(self._reader.get([self._checked(number)]))

    def __iter__(self) -> Any:
        return (self[number] for number in range(len(self)))

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The samples ``indices`` as a list, each chunk read once."""
        return self._split(self.batch(indices))

    def batch(self, numbers: Any) -> Batch:
        """The samples ``numbers``, side by side: a sequence, array or tensor of whole numbers, of which negative ones count
        from the end, or a mask."""
        batch = Batch._of(self._reader.get(self._numbers(numbers)))
        if batch.offsets:
            batch._axes = self._axes
        return batch

    def _split(self, batch: Batch) -> list[dict[str, Any]]:
        return split_samples(batch, self._axes)

    @functools.cached_property
    def _axes(self) -> dict[str, int]:
        """By field whose samples differ in length, along which axis."""
        shapes = ((name, shape) for name, _, shape, _ in self._opened.fields())
        return {name: shape.index(None) for name, shape in shapes if None in shape}

    def _numbers(self, index: Any) -> list[int]:
        table = np.asarray(index if hasattr(index, "__array__") or isinstance(index, range) else list(index))
        if table.dtype == bool:
            if table.shape != (len(self),):
                raise IndexError(f"a mask of shape {table.shape} for {len(self)} samples")
            return np.flatnonzero(table).tolist()
        if table.ndim != 1 or (table.size and table.dtype.kind not in "iu"):
            raise IndexError("samples are chosen by numbers, a slice, a list of numbers or a mask")
        return [self._checked(number) for number in table.tolist()]

    def _checked(self, number: int) -> int:
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        return number % len(self)

    def _raw_batch(self, numbers: Sequence[int]) -> RawBatch:
        return self._reader.get([self._checked(operator.index(number)) for number in numbers])

    @property
    def _base(self) -> Dataset:
        return self

    def _part_lens(self) -> list[int]:
        return self._opened.part_lens()

    def _within(self, part: RawSubset) -> Subset:
        return Subset(self, part)

    def _field_batches(self, field: str, part: RawSubset | None = None) -> Iterator[Batch]:
        alone = self._with_field(field)
        samples = alone if part is None else Subset(alone, part)
        # Some 4 MiB: enough for a request, little enough for a batch of each thread.
        batch_size = (4 << 20) // max(alone.nbytes // max(len(alone), 1), 1)
        with Loader(samples, batch_size=min(max(batch_size, 1), 1 << 16), check_ranks=False) as loader:
            yield from loader

    def _with_field(self, field: str) -> Dataset:
        """The same samples with one field alone, and its mask where it has one; all of them where it comes along with others."""
        if field not in self.fields:
            raise ValueError(f"{field!r} is no field: there are {', '.join(self.fields)}")
        spec = json.loads(self._opened.spec)
        named = {one["name"]: one for one in spec["fields"]["fields"]}
        one = named.get(field) or named[field.removesuffix("_mask")]
        files = spec["files"][one.get("files", 0)]
        text = json.dumps({"files": [files], "fields": {"fields": [{**one, "files": 0}]}})
        try:
            alone = type(self)(text, self._options, None, self._through, (text, None))
        except InvalidError:
            return self
        return alone if len(alone) == len(self) else self

    def _batch_loader(
        self,
        options: str,
        on_lost: str,
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: str | None = None,
    ) -> BatchLoader:
        if on_lost != "raise":
            raise ValueError(f"on_lost={on_lost!r}: these samples are in files, not in the memory of ranks")
        return BatchLoader(self._reader, options, subset, draws, memory, transforms)

    def loader(self, **options: Any) -> Loader:
        """A loader of these samples; see :class:`Loader` for what it takes."""
        return Loader(self, **options)

    def statistics(
        self,
        fields: Sequence[str] | str | None = None,
        *,
        axis: int | Mapping[str, int] | None = None,
        quantiles: Sequence[float] = QUANTILES,
        save: bool = True,
        progress: bool | Callable[[dict[str, Any]], object] | None = None,
        read_threads: int | None = None,
        memory: int | str | None = None,
    ) -> Statistics:
        """Count, mean, standard deviation, bounds, quantiles and number of missing values of ``fields`` (by default of all that
        are numbers), in one pass over all samples by threads.

        ``axis`` is an axis of one sample, or a dict of these by field: its indexes, such as channels, are measured one by one. NaN is
        missing; ``open(cf=True)`` makes NaN of fill values. What comes out does not depend on threads. ``save`` keeps it beside
        the saved indexes and takes it from there the next time, as long as the files are the same. ``progress`` shows a bar (by
        default on a terminal), or is called with a dict now and then. Give it to ``loader(normalize=...)``.
        """
        return compute(self, fields, axis, quantiles, save, progress, read_threads, memory)

    def _read_through(self, **options: Any) -> Dataset:
        """These samples, read as ``options`` say of tiers; what they do not say stays as it is."""
        if all(value is None for value in options.values()):
            return self
        through = TierOptions(**options, base=self._through)
        return type(self)(self._spec, self._options, self.label, through, self._had)

    @property
    def _had(self) -> tuple[str, str]:
        """What opens the same files again, and refuses them if they were changed."""
        return self._opened.spec, self.fingerprint

    def _opened_anew(self) -> Dataset:
        """These samples, of the files as they are now."""
        return type(self)(self._spec, self._options, self.label, self._through)

    @property
    def tiers(self) -> list[dict[str, Any]]:
        """The tiers it is read through, as dicts that ``open`` takes."""
        return self._through.tiers

    @overload
    def warm(
        self,
        background: Literal[False] = False,
        progress: Callable[[dict[str, Any]], object] | None = None,
        threads: int | None = None,
    ) -> dict[str, Any]: ...
    @overload
    def warm(self, background: Literal[True], progress: None = None, threads: int | None = None) -> Warming: ...
    def warm(
        self,
        background: bool = False,
        progress: Callable[[dict[str, Any]], object] | None = None,
        threads: int | None = None,
    ) -> dict[str, Any] | Warming:
        """Copies all files to the tiers, before a job reads them; what is there already is compared and stays.

        Gives what was done: ``sources``, their ``bytes``, and how many of these were ``placed_bytes``,
        ``present_bytes`` and ``refused_bytes``; ``passed_over`` counts files that no tier copies. ``progress`` is called
        with such a dict now and then. Ctrl-C ends it; what was copied stays. In the ``background`` it gives a
        :class:`Warming` at once. ``threads`` are those that copy.
        """
        if threads is not None and whole("threads", threads) < 1:
            raise ValueError(f"threads={threads}; at least 1 is needed")
        if background and progress is not None:
            raise ValueError("progress= and background=True exclude each other: a Warming has stats()")
        warming = Warming(self, self._reader.warm(threads))
        return warming if background else warming._follow(progress)

    def close(self) -> None:
        """Leaves files and tiers. Loaders that were made of it go on; it cannot be used any more."""
        self._reader.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def fields(self) -> list[str]:
        """The names of the fields."""
        return [name for name, *_ in self._opened.fields()]

    @property
    def categories(self) -> dict[str, dict[str, int]]:
        """By field whose integers stand for names, such as cell types or classes of pictures: the integer of each name, the same
        in all files."""
        return {name: dict(categories) for name, categories in self._opened.categories()}

    @property
    def files(self) -> list[str]:
        """The files, each once: absolute paths without links among their folders, or URLs."""
        return self._opened.files()

    @property
    def fingerprint(self) -> str:
        """Differs when the files, or what a sample is, are not the same."""
        return self._opened.fingerprint

    @property
    def nbytes(self) -> int:
        """Bytes of all samples as they are delivered."""
        return self._opened.nbytes

    def describe(self) -> dict[str, Any]:
        """What there is: the number of samples, the files, and type and shape of each field.

        A shape has ``None`` along the axis whose length differs from sample to sample. A field of days has ``units``
        and ``calendar``, as the CF conventions write them. A field whose integers stand for names, such as the classes
        of pictures, has ``categories``: the integer of each name, the same in all files. ``in_force`` is what indexing takes: ``memory_bytes`` in all,
        ``cache_bytes`` of them for decoded chunks, and the ``spill``; ``None`` before the first sample was asked for. ``process`` is what this process may take, and who in it has taken how much.
        """
        fields: dict[str, dict[str, Any]] = {
            name: {"dtype": stored, "numpy": np.dtype(code), "shape": tuple(shape)}
            for name, code, shape, stored in self._opened.fields()
        }
        for name, calendar in self._opened.calendars():
            fields[name].update(units=DAYS, calendar=calendar)
        for name, categories in self.categories.items():
            fields[name]["categories"] = categories
        return {
            "samples": len(self),
            "files": self.files,
            "fields": fields,
            "label": self.label,
            "bytes": self.nbytes,
            "fingerprint": self.fingerprint,
            "in_force": json.loads(self._reader.in_force()),
            "process": json.loads(memory_report()),
        }

    def stats(self) -> dict[str, Any]:
        """What indexing has read so far; ``tiers`` is what this process read from where, ``None`` without tiers.

        ``origin_latency`` is how long reads from behind a network took, as in :meth:`Loader.stats`.
        """
        stats: dict[str, Any] = json.loads(self._reader.stats())
        return stats

    def __repr__(self) -> str:
        try:
            return f"<forebay.Dataset of {len(self)} samples in {len(self.files)} files: {', '.join(self.fields)}>"
        except (InvalidError, AttributeError):
            # Closed, or never opened: its making ended by an error.
            return "<forebay.Dataset, closed>"

    def _repr_html_(self) -> str:
        try:
            fields = self.describe()["fields"]
        except (InvalidError, AttributeError):
            fields = {}
        rows = [(name, field["dtype"], field["shape"]) for name, field in fields.items()]
        return _html.table(repr(self).strip("<>"), ("field", "type", "shape of a sample"), rows)

    def __reduce__(self) -> Any:
        return type(self), (self._spec, self._options, self.label, self._through, self._had)
