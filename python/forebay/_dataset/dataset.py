"""A set of samples in files."""

from __future__ import annotations

import functools
import json
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from .. import _html
from .._batch import Batch, sample_of, split_samples
from .._dates import DAYS
from .._forebay import (
    BatchLoader,
    InvalidError,
    LoaderMemory,
    RawBatch,
    RawDraws,
    RawStatistics,
    RawSubset,
    SampleReader,
    memory_report,
)
from .._loader.draws import DrawSpec
from .._loader.loader import Loader
from .._sizes import whole
from .._tiers.tiers import TierOptions, leave_at_exit
from .._warming import Warming
from .sample_set import FIELD_BATCH_BYTES, SampleSet
from .subset import Subset
from .workers import note_workers

if TYPE_CHECKING:
    from typing_extensions import Self


class Dataset(SampleSet):
    """A set of samples, made by :func:`open`.

    ``ds[5]`` is one sample, a dict of arrays; ``ds[2:9]``, ``ds[[9, 2, 2]]`` and ``ds[mask]`` are a :class:`Batch`. It
    can be pickled, and used after a fork: the other process opens the same files for itself, and refuses files that were
    changed.
    """

    __module__ = "forebay"

    _may_grow = True

    label: str | None
    """The name of the field that is the label, if one was named."""

    def __init__(
        self,
        spec: str,
        options: dict[str, Any],
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
        self._opened: SampleReader = SampleReader(spec, options, *tiers, is_again, told)
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

    @property
    def _file_set(self) -> Dataset:
        return self

    def _part_lens(self) -> list[int]:
        return self._opened.part_lens()

    def _within(self, part: RawSubset, drawn: DrawSpec | None = None) -> Subset:
        return Subset(self, part, drawn)

    def _field_batches(self, field: str, part: RawSubset | None = None) -> Iterator[Batch]:
        alone = self._with_field(field)
        samples = alone if part is None else alone._within(part)
        batch_size = FIELD_BATCH_BYTES // max(alone.nbytes // max(len(alone), 1), 1)
        with Loader(samples, batch_size=min(max(batch_size, 1), 1 << 16), check_ranks=False) as loader:
            yield from loader

    def _with_field(self, field: str) -> Dataset:
        """The same samples with one field alone, and its mask where it has one; all of them where it comes along with others, or where
        files were changed: reading them then is an error."""
        if field not in self.fields:
            raise ValueError(f"{field!r} is no field: there are {', '.join(self.fields)}")
        spec = self._opened.spec_dict
        named = {one["name"]: one for one in spec["fields"]["fields"]}
        one = named.get(field) or named[field.removesuffix("_mask")]
        files = spec["files"][one.get("files", 0)]
        text = json.dumps({"files": [files], "fields": {"fields": [{**one, "files": 0}]}})
        told = self._opened.told()
        try:
            alone = type(self)(text, self._options, None, self._through, (text, None), told)
        except InvalidError:
            return self
        return alone if len(alone) == len(self) and self._is_unchanged(told) else self

    def _is_unchanged(self, told: bytes) -> bool:
        """Whether the files are still those that were opened; ``told`` is what they held."""
        try:
            now = SampleReader(self._opened.spec, self._options, None, None, False, True, told)
        except (InvalidError, FileNotFoundError):
            return False
        return now.fingerprint == self.fingerprint

    def _batch_loader(
        self,
        options: dict[str, Any],
        on_lost: str,
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
    ) -> BatchLoader:
        if on_lost != "raise":
            raise ValueError(f"on_lost={on_lost!r}: these samples are in files, not in the memory of ranks")
        return BatchLoader(self._reader, options, subset, draws, memory, transforms)

    def loader(self, **options: Any) -> Loader:
        """A loader of these samples; see :class:`Loader` for what it takes."""
        return Loader(self, **options)

    def _raw_statistics(self, spec: dict[str, Any], options: dict[str, Any], save: bool, part: RawSubset | None) -> RawStatistics:
        return RawStatistics(self._reader, spec, options, save, part)

    def _field_rows(self) -> list[tuple[str, Any, list[int | None], str]]:
        """Name, type for NumPy, shape of a sample and stored type of each field."""
        return self._opened.fields()

    def _read_through(self, **options: Any) -> Self:
        if all(value is None for value in options.values()):
            return self
        through = TierOptions(**options, base=self._through)
        return type(self)(self._spec, self._options, self.label, through, self._had)

    @property
    def spec(self) -> str:
        """What the set is, as JSON: its files, fields and samples. The C interface opens the same set of it."""
        return self._opened.spec

    @property
    def _had(self) -> tuple[str, str]:
        """What opens the same files again, and refuses them if they were changed."""
        return self._opened.spec, self.fingerprint

    def _opened_anew(self) -> Self:
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
            "in_force": self._reader.in_force(),
            "process": memory_report(),
        }

    def stats(self) -> dict[str, Any]:
        """What indexing has read so far; ``tiers`` is what this process read from where, ``None`` without tiers.

        ``origin_latency`` is how long reads from behind a network took, as in :meth:`Loader.stats`.
        """
        return self._reader.stats()

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
