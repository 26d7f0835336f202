"""The compiled part of forebay."""

from collections.abc import Callable, Sequence
from typing import Any, final

__all__ = [
    "BatchLoader",
    "BlockFacts",
    "BugError",
    "CorruptError",
    "DeniedError",
    "EpochRun",
    "FileReader",
    "ForebayError",
    "ForebayWarning",
    "FormatFile",
    "FullError",
    "InvalidError",
    "LoaderMemory",
    "Memory",
    "NotFoundError",
    "RawArea",
    "RawArray",
    "RawBatch",
    "RawComm",
    "RawDraws",
    "RawFilling",
    "RawOrigin",
    "RawSealed",
    "RawSource",
    "RawStagedFile",
    "RawStatistics",
    "RawStore",
    "RawStoreConcat",
    "RawSubset",
    "SampleReader",
    "SystemError",
    "UnavailableError",
    "UnsupportedError",
    "WarmingRun",
    "__version__",
    "absolute_path",
    "expanded_files",
    "format_at",
    "inspect_file",
    "memory_report",
    "parse_size",
    "read_variable",
    "register_format",
    "run_command",
    "set_workers",
    "stage_recover",
    "stage_settings",
    "tier_config",
]

__version__: str

class ForebayError(Exception):
    """Whatever goes wrong in forebay."""

    kind: str
    """What the caller can do about it, in a word: ``"not_found"``, ``"corrupt"``, ..."""
    errno: int | None
    """The number of the operating system's error that caused it, or ``None``."""

class ForebayWarning(UserWarning):
    """Something was left out, or done otherwise than one may think."""

    kind: str
    """What it is about, in a word: ``"tier"``, ``"list"``, ``"sample"``, ``"spill"``; empty where Python itself warns."""

class NotFoundError(ForebayError, FileNotFoundError):
    """Nothing is there."""

class InvalidError(ForebayError):
    """The request makes no sense."""

class CorruptError(ForebayError):
    """The bytes break their own format."""

class UnsupportedError(ForebayError):
    """A valid request this build cannot serve."""

class UnavailableError(ForebayError):
    """It may work if tried again later."""

class FullError(ForebayError):
    """No room is left."""

class DeniedError(ForebayError, PermissionError):
    """The system does not let this user do it."""

class SystemError(ForebayError, OSError):
    """The system refused."""

class BugError(ForebayError):
    """A promise inside forebay was broken."""

@final
class Memory:
    """Memory that NumPy may use as long as it holds on to this object, and others until they drop their tensor."""

    @property
    def name(self) -> str:
        """The name of the field."""
    @property
    def dtype(self) -> Any:
        """What ``numpy.dtype`` makes the type of an element of."""
    @property
    def is_bfloat16(self) -> bool:
        """True when the elements are bfloat16, which NumPy does not know."""
    @property
    def texts(self) -> list[str] | list[list[str]] | None:
        """The texts of each sample, or the one it is; nothing where samples are no texts."""
    @property
    def offset_bytes(self) -> bytes | None:
        """The bytes of where samples of different lengths begin and end, as 64-bit integers; nothing for texts."""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """How NumPy finds the elements."""
    @property
    def __array_struct__(self) -> Any:
        """The same for numbers, without a dict to make and to take apart."""
    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The field as a DLPack tensor, bfloat16 as such; ``stream`` is ignored: the memory is the host's."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of the tensor: the host."""

@final
class FormatFile:
    """A file, or a folder, that is to be described."""

    @property
    def path(self) -> str:
        """Its path or URL."""
    @property
    def size(self) -> int:
        """Its bytes; 0 for a folder."""
    @property
    def is_folder(self) -> bool:
        """True for a folder, which has no bytes of its own."""
    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on; an error where the file is shorter."""

@final
class RawOrigin:
    """Where files and objects are read by name."""

    def __new__(
        cls,
        config: dict[str, Any] | None = None,
        rank: Callable[[BlockFacts], float] | None = None,
        newcomers_compete: bool = False,
    ) -> RawOrigin: ...
    def open(self, name: str) -> RawSource:
        """Opens the file or object called ``name``."""
    def survey(self, name: str) -> list[tuple[str, int, float | None]]:
        """All that lies under ``name``, at any depth: name, length, and when it was modified."""
    def stats(self) -> dict[str, Any] | None:
        """What was read from where; nothing without tiers."""
    def close(self) -> None:
        """Ends the tiers; what is open reads on from where it lies."""

@final
class RawSource:
    """A file or object that is open."""

    def facts(self) -> tuple[str, int, float | None]:
        """Its name, its length, and when it was modified (seconds since 1970)."""
    @property
    def version(self) -> str:
        """What tells one state of its bytes from the next."""
    @property
    def request_bytes(self) -> int:
        """The request size that hides the latency of a request; 0 where small ones cost hardly more than large ones."""
    def read(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` to ``end``."""
    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each of ``ranges``, asked for together."""

@final
class FileReader:
    """A file that stays open."""

    def __new__(
        cls, path: str, how: dict[str, Any] | None = None, origin: RawOrigin | None = None, version: str | None = None
    ) -> FileReader: ...
    @property
    def version(self) -> str | None:
        """Names this state of the file on every node; nothing where a SWMR writer goes on changing it."""
    @property
    def format(self) -> str:
        """The name of the file's format."""
    def names(self) -> list[str]:
        """The names of all variables, in the order of the file."""
    def group_names(self) -> list[str]:
        """The names of all groups, the root's first, which is empty."""
    def growing_scales(self, group: str) -> list[str]:
        """The names of the dimensions that the HDF5 group ``group`` itself has and that may grow."""
    def find(self, name: str) -> tuple[str, list[int]]:
        """The stored name and the shape of the variable ``name``."""
    def facts(self, name: str) -> tuple[dict[str, Any], Any]:
        """The facts of the variable ``name``, and its type for NumPy."""
    def attributes(self, name: str) -> list[tuple[str, RawArray | str]]:
        """Names and values of the attributes of the variable ``name``."""
    def group_attributes(self, name: str) -> list[tuple[str, RawArray | str]] | None:
        """The same for the group ``name``; nothing where there is no such group."""
    def read(self, name: str, selection: str) -> RawArray:
        """The part ``selection`` of the variable ``name``."""
    def close(self) -> None:
        """Ends it; may be called more than once."""

@final
class RawArray:
    """Values of one variable or attribute."""

    @property
    def dtype(self) -> Any:
        """What ``numpy.dtype`` makes the type of an element of."""
    @property
    def is_bfloat16(self) -> bool:
        """True when the elements are bfloat16, which NumPy does not know."""
    @property
    def is_text(self) -> bool:
        """True when the elements are text."""
    @property
    def shape(self) -> list[int]:
        """Elements per dimension."""
    @property
    def layout(self) -> Any:
        """How an element that differs in length from others is put together."""
    @property
    def offsets(self) -> list[int] | None:
        """Where elements that differ in length begin and end."""
    @property
    def mask(self) -> bytes | None:
        """A byte for each element that is 1 where it is missing, where that was asked for."""
    def packed(self) -> bytes:
        """The elements, end to end."""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """How NumPy finds the elements."""

@final
class LoaderMemory:
    """Where the batches of a loader lie."""

    @staticmethod
    def registered(library: str | None, device: int = 0) -> LoaderMemory:
        """Memory that the CUDA runtime ``library`` registers for ``device``; pageable memory where there is none."""
    @staticmethod
    def allocated(allocate: Callable[[int], Any]) -> LoaderMemory:
        """Memory of tensors that ``allocate`` gives for a number of bytes; each is let go as soon as nobody uses its batch."""
    def tensor_at(self, address: int) -> tuple[Any, int] | None:
        """The tensor that ``allocate`` gave and that ``address`` lies in, and the bytes before that."""
    @property
    def pageable_bytes(self) -> int:
        """Bytes that are not pinned, though they should be."""
    def stats(self) -> dict[str, int]:
        """How much is pinned."""

@final
class RawBatch:
    """Fields, sample numbers and seeds."""

    def take_fields(self) -> list[Memory]:
        """The fields, once: from then on they are the caller's alone."""
    def fill(
        self,
        batch: dict[str, Any],
        tensor_of: Callable[..., Any],
        other: Callable[[Memory], Any],
        more: tuple[Any, ...] | None = None,
    ) -> dict[str, Any]:
        """Puts the fields into ``batch``, once, each as ``tensor_of`` makes it of a DLPack capsule and ``more`` arguments, or ``other`` of
        its memory where DLPack has no type for it; gives the offsets of those whose samples differ in length, as tensors too."""
    def take_joint(self) -> tuple[list[Memory], list[tuple[str, Any, Any, Memory | None]]]:
        """The fields side by side, once: the memory in as few pieces as it has blocks, and of each field where it lies."""
    @property
    def epoch(self) -> int:
        """The epoch it belongs to."""
    @property
    def step(self) -> int:
        """Its number within the epoch."""
    @property
    def wait_seconds(self) -> float:
        """Seconds that the consumer waited for it."""
    @property
    def make_seconds(self) -> float:
        """Seconds that a thread took to make it."""
    @property
    def position(self) -> tuple[int, int] | None:
        """Where the consumer is once this batch was used: the epoch, and positions of its order over all ranks; nothing for samples
        that were asked for by number."""
    def index_bytes(self) -> bytes:
        """The bytes of the sample numbers as 64-bit integers, -1 where padding stands."""
    def seed_bytes(self) -> bytes:
        """The bytes of the seeds as unsigned 64-bit integers."""
    def renumbered(self, numbers: list[int]) -> RawBatch:
        """The same samples under other numbers; the fields are taken from this one."""
    def troubles(self) -> list[tuple[int, str]]:
        """Samples that could not be read, and why."""
    def origins(self) -> list[tuple[str | int, bytes]]:
        """By axis, by its name or position, the bytes of where samples begin, as 64-bit integers."""

@final
class RawSubset:
    """A subset: from its numbers to those of the whole set."""

    @staticmethod
    def slice(whole_len: int, start: int, step: int, len: int) -> RawSubset:
        """``len`` samples of ``whole_len``, from ``start`` on in steps of ``step``."""
    @staticmethod
    def listed(whole_len: int, samples: bytes) -> RawSubset:
        """The listed samples of ``whole_len``, as the bytes of unsigned 64-bit integers."""
    @staticmethod
    def split(len: int, seed: int, start: int, end: int) -> RawSubset:
        """The samples at the places ``start`` to ``end`` of a shuffle of ``len`` by ``seed``."""
    def then(self, inner: RawSubset) -> RawSubset:
        """The subset of this one that ``inner`` is."""
    def __len__(self) -> int: ...
    @property
    def digest(self) -> str:
        """Which samples these are, in a word."""
    def samples(self, numbers: bytes | None = None) -> bytes:
        """The samples of the whole set that have ``numbers`` here, or all; both as the bytes of 64-bit integers."""

@final
class RawDraws:
    """How the samples of an epoch are drawn."""

    @staticmethod
    def weighted(weights: bytes, len: int, replacement: bool) -> RawDraws:
        """``len`` draws by ``weights``, the bytes of 64-bit floats."""
    @staticmethod
    def rounds(lens: list[int], shares: list[int], len: int) -> RawDraws:
        """``len`` draws in rounds of ``shares`` samples of each of several sources, which have ``lens`` samples."""
    @staticmethod
    def balanced(classes: bytes, len: int) -> RawDraws:
        """``len`` draws in rounds of one sample of each class; ``classes`` are the bytes of unsigned 32-bit integers."""
    @staticmethod
    def buckets(lens: bytes, run_len: int) -> RawDraws:
        """Runs of ``run_len`` samples of similar length; ``lens`` are the bytes of unsigned 64-bit integers."""
    def __len__(self) -> int:
        """How many samples an epoch has."""

@final
class SampleReader:
    """A set of samples, by number."""

    def __new__(
        cls,
        spec: str,
        options: dict[str, Any],
        config: dict[str, Any] | None = None,
        rank: Callable[[BlockFacts], float] | None = None,
        newcomers_compete: bool = False,
        is_expanded: bool = False,
        told: bytes | None = None,
    ) -> SampleReader:
        """Opens the files of ``spec`` (JSON), read as ``options`` say and through the tiers of ``config``.

        ``rank`` is a policy in place of the one that is configured. With ``is_expanded`` the files are taken as they are
        named, and no pattern or folder is looked up. ``told`` is what :meth:`told` gave on another rank.
        """
    @property
    def spec(self) -> str:
        """What it was opened from (JSON), with the files that patterns and folders stood for."""
    @property
    def spec_dict(self) -> dict[str, Any]:
        """The same as a dict."""
    def told(self) -> bytes:
        """What its files hold, for other ranks that open the same set."""
    def reopened(self, options: dict[str, Any]) -> SampleReader:
        """The same files with nothing shared: for a process that was forked."""
    def __len__(self) -> int: ...
    def get(self, numbers: list[int]) -> RawBatch:
        """The samples ``numbers``, side by side."""
    @property
    def fingerprint(self) -> str:
        """Differs when the files, or what a sample is, are not the same; a file that was written or touched since is another."""
    def fields(self) -> list[tuple[str, Any, list[int | None], str]]:
        """Name, type and shape of one sample of each field; ``None`` along the axis whose length differs."""
    def calendars(self) -> list[tuple[str, str]]:
        """By field whose values are days since 1970-01-01, the calendar they are of."""
    def categories(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """By field whose integers stand for names, each name and its integer."""
    def files(self) -> list[str]:
        """The files, each once."""
    def part_lens(self) -> list[int]:
        """Samples of each file of the field with the most bytes."""
    def joined_lens(self, name: str) -> bytes | None:
        """How long each sample of field ``name`` is along the axis that differs, as the bytes of unsigned 64-bit integers; nothing of
        texts, which only reading them shows."""
    def formats(self) -> list[tuple[str, str]]:
        """By format, the first file of it and its name."""
    @property
    def nbytes(self) -> int:
        """Bytes of all samples as they are delivered."""
    def most_nbytes(self) -> int:
        """The same, with every text and sequence as long as its reference says, which is read for it."""
    def stats(self) -> dict[str, Any]:
        """What was read so far."""
    def in_force(self) -> dict[str, Any] | None:
        """What memory and which spill are in force; ``None`` before the first sample was asked for."""
    def warm(self, threads: int | None = None) -> WarmingRun:
        """Begins to copy all files to the tiers, by ``threads`` threads."""
    def close(self) -> None:
        """Leaves files and tiers. May be called more than once."""

@final
class BlockFacts:
    """What is known of a copy that a policy ranks."""

    @property
    def locator(self) -> str | None:
        """The path or URL it is a copy of; ``None`` where a disk holds it for another job."""
    @property
    def block(self) -> int | None:
        """Which block of the file; ``None`` when it is all of it that is there."""
    @property
    def length(self) -> int:
        """Its bytes."""
    @property
    def placed(self) -> int:
        """When it came: larger is later."""
    @property
    def used(self) -> int:
        """When it was last used, on the same clock."""
    @property
    def uses(self) -> int:
        """How often it was used."""
    @property
    def next_use(self) -> int | None:
        """How many other uses come before its next; ``None`` where the future is not known."""

@final
class WarmingRun:
    """Files on their way to the tiers."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is over, at most ``timeout`` seconds; false when that was not enough."""
    def stats(self) -> dict[str, Any]:
        """How far it is."""
    def cancel(self) -> None:
        """Ends it: what was placed stays."""
    @property
    def done(self) -> bool:
        """True when it is over."""

@final
class BatchLoader:
    """Gives the batches of a set of samples, epoch after epoch."""

    def __new__(
        cls,
        reader: SampleReader,
        options: dict[str, Any],
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
    ) -> BatchLoader:
        """A loader of the samples of ``reader``, or of a ``subset`` of them, which works as ``options`` say, with batches
        transformed as ``transforms`` say; they lie in ``memory``, if that is given."""
    @staticmethod
    def of_store(
        store: RawStore,
        names: list[str],
        options: dict[str, Any],
        files: SampleReader | None = None,
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
    ) -> BatchLoader:
        """A loader of the variables ``names`` of ``store``; samples of ranks that are gone are read by ``files``, if it is given."""
    @staticmethod
    def of_stores(
        stores: RawStoreConcat,
        names: list[str],
        options: dict[str, Any],
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
    ) -> BatchLoader:
        """A loader of the variables ``names`` of several stores, one after another."""
    def fields(self) -> list[tuple[str, Any, list[int | None], str]]:
        """Name, type and shape of one sample of each field of its batches; ``None`` along the axis whose length differs."""
    def start(self, is_followed: bool = False) -> EpochRun:
        """Begins an epoch. Where it ``is_followed`` by another, that is begun while the last batches of this one are taken."""
    def __len__(self) -> int:
        """Batches of a whole epoch."""
    def remaining(self) -> int:
        """Batches that the consumer has yet to commit of its epoch, or else of the next."""
    def state(self) -> dict[str, Any]:
        """Where the consumer is."""
    def state_at_once(self) -> dict[str, Any] | None:
        """The same without waiting, for a process that was forked; nothing where it cannot be known."""
    def load_state(self, state: dict[str, Any], strict: bool) -> bool:
        """Goes on from ``state``; false when it was taken of files with other times of modification."""
    def order(self) -> dict[str, Any]:
        """What the order of samples is made of, and where in it the next run begins: the same on every rank."""
    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the next one that is begun."""
    def upcoming(self) -> tuple[int, int]:
        """The epoch that is begun next, and the position of its order where it begins."""
    def stats(self) -> dict[str, Any]:
        """What it did so far."""
    def in_force(self) -> dict[str, Any]:
        """What threads, memory and spill are in force."""
    def makes_on_caller(self) -> bool:
        """True when batches may be made on one thread alone, the one that asks for them."""
    def release_memory(self) -> None:
        """Gives memory that no batch lies in back to the system."""
    def close(self) -> None:
        """Leaves files and tiers. May be called more than once."""

@final
class EpochRun:
    """One epoch on its way to the consumer."""

    def next(self) -> RawBatch | None:
        """The next batch, or ``None`` when the epoch is over. It counts in the state once it is ``received``."""
    @property
    def received(self) -> None:
        """Write-only: assigning a batch commits it."""
    @received.setter
    def received(self, batch: RawBatch) -> None: ...
    def follow(self, is_followed: bool) -> EpochRun | None:
        """The epoch after this one, if it was begun and no other was set since; this one is over then."""
    def poll(self) -> RawBatch | None:
        """The next batch if it is there, not committed; ``None`` where it is not yet, or the epoch is over."""
    def poll_following(self) -> RawBatch | None:
        """The next batch of the epoch after this one, if this one is over and that batch is there, not committed."""
    def close(self) -> None:
        """Ends the threads. May be called more than once, and in a forked child, where there are none."""

@final
class RawStatistics:
    """Statistics that are being computed, or were found."""

    def __new__(
        cls, reader: SampleReader, spec: dict[str, Any], options: dict[str, Any], saves: bool, subset: RawSubset | None = None
    ) -> RawStatistics:
        """Begins to compute what ``spec`` says of the samples of ``reader``, or of a ``subset`` of them, by ``options``;
        with ``saves``, what was computed before is taken as it is, and what is computed is kept."""
    @staticmethod
    def of_store(store: RawStore, spec: dict[str, Any], options: dict[str, Any], subset: RawSubset | None = None) -> RawStatistics:
        """The same of the samples of ``store``, of which nothing is saved."""
    @staticmethod
    def of_stores(
        stores: RawStoreConcat, spec: dict[str, Any], options: dict[str, Any], subset: RawSubset | None = None
    ) -> RawStatistics:
        """The same of the samples of several stores."""
    def advance(self) -> tuple[int, int] | None:
        """Goes on for a moment: samples done, and of how many; ``None`` when all is done."""
    def result(self) -> list[tuple[str, int | None, list[tuple[int, int, list[float]]]]]:
        """What came out: of each field its name, its axis, and of each channel the count, the missing values, and mean, deviation, bounds
        and quantiles."""
    def close(self) -> None:
        """Ends the threads. May be called more than once."""

def format_at(path: str) -> str | None:
    """The name of the format of what lies at ``path``, or nothing where this build has none for it."""

def inspect_file(path: str) -> tuple[dict[str, Any], list[Any], list[tuple[bool, str, str, RawArray | str]]]:
    """What is in the file at ``path``: facts, types for NumPy by variable, and attributes.

    An attribute is given as: whether a group has it, the name of its owner, its own name, and its value or why it has none.
    """

def read_variable(path: str, variable: str, selection: str, how: dict[str, Any] | None = None) -> RawArray:
    """The part ``selection`` of a variable of the file at ``path``, unpacked as ``how`` says, if it says anything."""

def register_format(
    name: str,
    probe: Callable[[str, bytes], object],
    describe: Callable[[FormatFile], list[dict[str, Any]]],
) -> None:
    """Adds a format; one that was registered under the same name is replaced."""

def absolute_path(name: str) -> str:
    """The path or pattern, absolute and with ``~`` and variables written out; a URL stands for itself."""

def expanded_files(names: list[str]) -> list[str]:
    """The files that paths, patterns and folders stand for, in the order a set has them."""

def memory_report() -> dict[str, Any]:
    """What this process may take of the node's memory budget, and who in it has taken how much."""

def set_workers(count: int, pool: int) -> None:
    """Says that this process is one of ``count`` workers that divide what it may take, which are called ``pool`` among
    those of the same parent."""

def parse_size(text: str) -> int:
    """The bytes of a size as people write it."""

def tier_config(given: dict[str, Any], base: dict[str, Any] | None = None) -> dict[str, Any]:
    """The configuration in force under what ``given`` says.

    It goes over ``base`` where that is given, else over environment and file.
    """

def stage_settings(given: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The settings of the staging area that ``given`` asks for, and whether there is one; what it does not say comes
    from the configuration."""

def stage_recover(
    path: str,
    apply: list[str],
    discard: list[str],
    hosts: list[str],
    dry_run: bool,
    report: Callable[[int, int, int], None] | None = None,
) -> list[list[tuple[str, str, str, str, int, int, bool, float, str | None]]]:
    """Finishes or discards every item in the area in ``path`` whose process is gone: items finished, discarded, refused, in use."""

def run_command(args: list[str], program: list[str]) -> int:
    """Runs the command line ``args``, whose first is the program's name, and gives the exit code."""

@final
class RawComm:
    """The ranks of a job, as one of them sees them."""

    @staticmethod
    def of_job(data: str) -> RawComm:
        """The ranks that a launcher started on one node or by MPI, or this process alone. Collective."""
    @staticmethod
    def of_mpi(handle: int, data: str) -> RawComm:
        """The ranks of a communicator of this process's MPI, by its handle. Collective over them."""
    @staticmethod
    def of_torch(store: Any, data: str) -> RawComm:
        """The ranks that torchrun started, which find each other through ``store``. Collective."""
    @staticmethod
    def launcher() -> str:
        """What started this process: ``none``, ``mpi``, ``torch`` on one node, or ``torch-nodes`` on several."""
    @property
    def rank(self) -> int:
        """The number of this rank."""
    @property
    def size(self) -> int:
        """How many ranks there are."""
    def auto_width(self, set_bytes: int, rank_bytes: int) -> int:
        """Ranks that hold a set of ``set_bytes`` between them, of which this one may keep ``rank_bytes``. Collective."""
    def barrier(self) -> None:
        """Returns when every rank has called it."""
    def broadcast(self, root: int, bytes: bytes) -> bytes:
        """The bytes of rank ``root``, on every rank."""
    def join_job(self) -> None:
        """Has tiers of peers that this process opens lie in the memory of these ranks."""
    def all_gather(self, mine: bytes, is_patient: bool = False) -> list[bytes]:
        """The bytes of every rank."""

@final
class RawStore:
    """A data set in the memory of all ranks."""

    def __new__(cls, comm: RawComm, width: int | None, folder: str | None, limit: int | None, memory: int) -> RawStore:
        """A store of nothing yet, whose shards live in memory or in files of ``folder``. Collective."""
    def begin(
        self, name: str, dtype: Any, sample_shape: list[int | None], count: int, lens: list[int] | None, kind: str | None = None
    ) -> RawFilling:
        """Begins a variable of which this rank has as many samples as ``lens``, or ``count`` where all have one shape. Its bytes are
        those of a ``text``, or of several ``texts`` with a NUL after each, where ``kind`` says so. Collective."""
    def fill(
        self, reader: SampleReader, options: dict[str, Any], by_count: bool, progress: Callable[[int, int, int], None] | None
    ) -> None:
        """Fills the store with the samples of ``reader``, read as ``options`` say. Collective."""
    def update(self, name: str, first: int, bytes: bytes) -> None:
        """Writes samples of this rank anew."""
    def restripe(self, by_count: bool) -> None:
        """Divides samples anew among ranks, evenly by their count or else by their bytes. Collective."""
    def seal(self) -> None:
        """Lets nothing be written from now on. Collective."""
    def variables(self) -> list[tuple[str, int]]:
        """Names of variables, in the order they were added, and how many samples each has."""
    def fields(self) -> list[tuple[str, Any, list[int | None], str]]:
        """Name, type for NumPy, shape of a sample and stored type of each variable."""
    def get(self, names: list[str], numbers: list[int]) -> RawBatch:
        """The samples ``numbers`` of the variables ``names``, side by side."""
    def count_within(self, name: str, numbers: list[int], most_bytes: int) -> int:
        """How many of the first of ``numbers`` come to at most ``most_bytes`` of the variable ``name``; at least one, where there is one."""
    def get_range(self, name: str, first: int, count: int, into: tuple[int, int]) -> None:
        """Reads ``count`` consecutive samples of the variable ``name``, from ``first`` on, into memory at an address and of so many
        bytes."""
    def samples_of(self, name: str, rank: int) -> tuple[int, int]:
        """Which samples ``rank`` holds of the variable ``name``."""
    def member(self) -> tuple[int, int]:
        """The place of this rank in its replica group, and how many ranks the group has."""
    def stats(self) -> dict[str, Any]:
        """What was read so far."""
    def close(self) -> None:
        """Gives all memory back. Collective; may be called more than once."""

@final
class RawStoreConcat:
    """Several stores of the same variables, one after another."""

    def __new__(cls, stores: list[RawStore]) -> RawStoreConcat:
        """The stores, which have the same variables."""
    def variables(self) -> list[tuple[str, int]]:
        """Names of variables, and how many samples each has in all."""
    def fields(self) -> list[tuple[str, Any, list[int | None], str]]:
        """Name, type for NumPy, shape of a sample and stored type of each variable."""
    def get(self, names: list[str], numbers: list[int]) -> RawBatch:
        """The samples ``numbers`` of the variables ``names``, side by side."""
    def count_within(self, name: str, numbers: list[int], most_bytes: int) -> int:
        """How many of the first of ``numbers`` come to at most ``most_bytes`` of the variable ``name``; at least one, where there is one."""
    def samples_of(self, name: str, rank: int) -> tuple[int, int]:
        """Which samples ``rank`` holds of the variable ``name`` of the first store."""
    def member(self) -> tuple[int, int]:
        """The place of this rank in the largest of its replica groups, and how many ranks that has."""
    def stats(self) -> dict[str, Any]:
        """What was read so far from all stores."""

@final
class RawFilling:
    """A variable of which this rank writes its samples."""

    def share(self) -> tuple[int, int]:
        """The first sample of this rank, and one past the last."""
    def write(self, first: int, bytes: bytes) -> None:
        """Writes consecutive samples, from ``first`` on."""
    def finish(self, error: str | None = None) -> None:
        """Publishes what all ranks wrote, unless one of them gives an error. Collective."""

@final
class RawArea:
    """A staging area."""

    def __new__(cls, settings: dict[str, Any]) -> RawArea:
        """The area that ``settings`` describe."""
    @property
    def path(self) -> str | None:
        """The folder, or nothing for memory."""
    def create(self, path: str, priority: int, latest: str | None, exclusive: bool) -> RawStagedFile:
        """A new file for the destination ``path``; with ``exclusive``, an error with the number ``EEXIST`` where there is one."""
    def is_pending(self, path: str) -> bool:
        """True where an item of some process has bytes for ``path`` that are not there yet."""
    def open_staged(self, path: str) -> int | None:
        """A descriptor of the staged image of ``path``, where one is sealed and not durable yet; the caller closes it."""
    def wait_for(self, path: str, timeout: float | None = None) -> bool:
        """Waits until no item of any process has bytes for ``path``; false when ``timeout`` seconds were not enough."""
    def items(self) -> list[tuple[str, str, str, str, int, int, bool, float, str | None]]:
        """The items of all processes: id, kind, destination, state, bytes, process, whether that is gone, begin, error."""
    def drain(self, report: Callable[[int, int, int], None] | None = None) -> None:
        """Waits until all items of this process are durable; ``report`` is called with items and bytes left, and bytes done."""
    def pause(self, everyone: bool) -> None:
        """Stops the drainers of this process, or of everyone who uses the area."""
    def resume(self, everyone: bool) -> None:
        """Lets the drainers of this process, or of everyone, go on."""
    def stats(self) -> list[tuple[str, int]]:
        """What this process has done here so far, by name."""
    def close(self) -> None:
        """Drains, and ends the threads."""
    def leave(self) -> None:
        """Leaves what is not durable to ``recover``: the end of the process does not wait for it."""

@final
class RawStagedFile:
    """A new file on its way, with a position."""

    def write(self, bytes: bytes) -> int:
        """Writes ``bytes`` at the position."""
    def write_from(self, address: int, len: int) -> int:
        """Writes the ``len`` bytes at ``address``, which the caller holds until this returns."""
    def read_into(self, address: int, len: int) -> int:
        """Reads at the position into the ``len`` bytes at ``address``; gives how many there were before the end of the file."""
    def read(self, size: int | None = None) -> bytes:
        """Up to ``size`` bytes from the position on, or all that follow."""
    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset`` on; the position stays."""
    def seek(self, offset: int, whence: int) -> int:
        """Moves the position, from the begin (0), from itself (1) or from the end (2), and gives it."""
    def tell(self) -> int:
        """The position."""
    def truncate(self, len: int) -> int:
        """Cuts or extends the file to ``len`` bytes, and gives that."""
    def flush(self) -> None:
        """Hands small writes that were put together to the area."""
    def seal(self) -> RawSealed:
        """Ends the writing: the file goes to its destination."""
    def abandon(self) -> None:
        """Gives the file up: the destination stays as it was."""

@final
class RawSealed:
    """A file that is sealed: two events, ``"staged"`` and ``"durable"``, tell how far it is."""

    def wait(self, event: str, timeout: float | None = None) -> bool:
        """Waits until the event has happened or failed; false when ``timeout`` seconds were not enough."""
    def is_set(self, event: str) -> bool:
        """True when the event has happened, or failed."""
    def error(self, event: str) -> BaseException | None:
        """The exception that the event failed with, if it did."""
