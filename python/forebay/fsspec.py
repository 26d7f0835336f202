"""fsspec's protocol ``forebay``: files and objects read through tiers, by whatever program uses fsspec.

>>> fsspec.open("forebay:///lustre/set/a.h5")
>>> fsspec.open("forebay://s3://bucket/a.nc")            # forebay's own reader of S3, HTTP, GCS and Azure
>>> fsspec.filesystem("forebay", tiers=["memory:4GiB", "/nvme/$USER:100GiB"])

fsspec finds it by itself once forebay is installed; nothing has to be imported. It is read-only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from fsspec.spec import AbstractBufferedFile  # type: ignore[import-untyped]
from fsspec.utils import stringify_path, tokenize  # type: ignore[import-untyped]

from ._forebay import InvalidError, NotFoundError, RawSource, UnsupportedError
from ._fsspec_listing import entries, everything
from ._tiers.origin import TieredOrigin, shared_origin
from ._tiers.tiers import Policy, TierOptions, Tiers

try:
    from fsspec.implementations.chained import ChainedFileSystem  # type: ignore[import-untyped]
except ImportError:
    # Before 2025.7 fsspec knew its own caches alone: there the target is named in the URL.
    from fsspec.spec import AbstractFileSystem as ChainedFileSystem

__all__ = ["ForebayFile", "ForebayFileSystem"]

# Files that are asked for together.
READ_THREADS = 8
LOCAL_PROTOCOLS = ("file", "local", None)
OPTIONS = ("tiers", "policy", "config", "target_protocol", "target_options")
# What fsspec and its users give to any file system, whether it heeds them or not.
STANDARD_OPTIONS = frozenset({
    "asynchronous", "batch_size", "block_size", "default_block_size", "default_cache_type", "default_fill_cache",
    "listings_expiry_time", "loop", "max_paths", "skip_instance_cache", "use_listings_cache",
})  # fmt: skip


class ForebayFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """Files of this machine, and URLs that forebay reads itself (``s3``, ``gs``, ``az``, ``http`` and ``https``), through tiers.

    ``tiers``, ``policy`` and ``config`` are those of :func:`forebay.open`: by default what the environment or ``forebay.toml``
    say, and ``tiers=[]`` for none. File systems with the same ones share their tiers, which stay until the program ends.

    Paths are absolute paths or URLs. With ``target_protocol="s3"``, as chained URLs have it (``forebay::s3://bucket/key``), paths
    without a protocol are below ``s3://``. What a remote store needs to be reached comes from the environment, not from
    ``target_options``.
    """

    protocol = "forebay"
    root_marker = ""

    def __init__(
        self,
        tiers: Tiers | None = None,
        policy: Policy | None = None,
        config: str | os.PathLike[str] | None = None,
        *,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fo: Any = None,
        **storage_options: Any,
    ) -> None:
        unknown = sorted(storage_options.keys() - STANDARD_OPTIONS)
        if unknown:
            raise TypeError(
                f"the file system forebay has no option {', '.join(unknown)}; it has {', '.join(OPTIONS)}, and of fsspec "
                f"{', '.join(sorted(STANDARD_OPTIONS))}"
            )
        super().__init__(
            tiers=tiers, policy=policy, config=config, target_protocol=target_protocol, target_options=target_options,
            **storage_options,
        )  # fmt: skip
        if target_options:
            given = ", ".join(sorted(target_options))
            raise ValueError(
                f"target_options ({given}) are for another file system: forebay reads {target_protocol}:// itself, and is told "
                "of endpoints and credentials by the environment, see docs/object-stores.md"
            )
        self._local = LocalFileSystem()
        self._origin: TieredOrigin = shared_origin(TierOptions(tiers, policy, config))
        if target_protocol not in LOCAL_PROTOCOLS:
            # Chained URLs bring paths without the protocol.
            self.__dict__["_strip_protocol"] = lambda path: _below_target(self._without_protocol(path), target_protocol)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """A URL, or an absolute path."""
        path = cls._without_protocol(path)
        if isinstance(path, list):
            return [_absolute(one) for one in path]
        return _absolute(path)

    @classmethod
    def _without_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, tuple)):
            return [cls._without_protocol(one) for one in path]
        return stringify_path(path).removeprefix("forebay://").removeprefix("forebay::")

    def unstrip_protocol(self, name: str) -> str:
        """The name with the protocol before it."""
        return f"forebay://{self._strip_protocol(name)}"

    def stats(self) -> dict[str, Any] | None:
        """What was read from which tier and from the origin, by this process; nothing without tiers."""
        return self._origin.stats()

    def source(self, path: str) -> RawSource:
        """What is at ``path``, opened now: the bytes of one version, or an error."""
        path = self._strip_protocol(path)
        try:
            return self._origin.raw.open(path)
        except (NotFoundError, InvalidError) as error:
            local = _as_local(error, path)
            if local is error:
                raise
            raise local from error

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Name, size and type, and what else is known."""
        path = self._strip_protocol(path)
        if not _is_url(path):
            found: dict[str, Any] = self._local.info(path)
            return found
        try:
            return _file_entry(path, self.source(path))
        except FileNotFoundError:
            # A web server lists nothing.
            with contextlib.suppress(UnsupportedError):
                if self._survey(path):
                    return {"name": path, "size": 0, "type": "directory"}
            raise

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """What is in a folder, or the file itself; of a bucket, all below is listed for it."""
        path = self._strip_protocol(path)
        found = entries(path, self._survey(path)) if _is_url(path) else self._local.ls(path, detail=True)
        if not found and _is_url(path):
            found = [self.info(path)]
        return found if detail else sorted(entry["name"] for entry in found)

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> Any:
        """All files below ``path``: of a bucket, by one listing."""
        path = self._strip_protocol(path)
        if not _is_url(path):
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)
        found = everything(path, self._survey(path), maxdepth, withdirs)
        if not found and self.isfile(path):
            found = {path: self.info(path)}
        return found if detail else sorted(found)

    def _survey(self, path: str) -> list[tuple[str, int, float | None]]:
        try:
            return self._origin.raw.survey(path)
        except NotFoundError:
            return []

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """The bytes of a file, or those from ``start`` to ``end``; negative numbers count from its end."""
        source = self.source(path)
        return source.read(*_range(start, end, source.facts()[1]))

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        """The bytes of many ranges: those of one file are asked for together, files at the same time."""
        starts = list(starts) if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = list(ends) if isinstance(ends, Iterable) else [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError(f"{len(paths)} paths, {len(starts)} starts and {len(ends)} ends")
        by_path: dict[str, list[int]] = defaultdict(list)
        for index, path in enumerate(paths):
            by_path[path].append(index)

        def read(path: str) -> list[bytes]:
            source = self.source(path)
            length = source.facts()[1]
            return source.read_many([_range(starts[index], ends[index], length) for index in by_path[path]])

        found: list[Any] = [b""] * len(paths)
        for path, result in zip(by_path, _at_once(read, list(by_path))):
            if isinstance(result, BaseException) and on_error == "raise":
                raise result
            for place, index in enumerate(by_path[path]):
                found[index] = result if isinstance(result, BaseException) else result[place]
        return found

    def ukey(self, path: str) -> str:
        """Differs when the bytes do."""
        path = self._strip_protocol(path)
        return str(tokenize(path, self.source(path).version))

    def modified(self, path: str) -> datetime:
        """When it was last changed."""
        seconds = self.info(path).get("mtime")
        if seconds is None:
            raise NotImplementedError(f"{path}: nothing says when it was changed")
        return datetime.fromtimestamp(seconds, tz=timezone.utc)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> ForebayFile:
        if mode != "rb":
            raise _read_only(path)
        return ForebayFile(self, path, block_size=block_size, **options)

    def mkdir(self, path: str, *_: Any, **__: Any) -> None:
        """Refused: it is read-only."""
        raise _read_only(path)

    def makedirs(self, path: str, *_: Any, **__: Any) -> None:
        """Refused: it is read-only."""
        raise _read_only(path)

    def rmdir(self, path: str) -> None:
        """Refused: it is read-only."""
        raise _read_only(path)

    def rm_file(self, path: str) -> None:
        """Refused: it is read-only."""
        raise _read_only(path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Refused: it is read-only."""
        raise _read_only(path2)

    def pipe_file(self, path: str, *_: Any, **__: Any) -> None:
        """Refused: it is read-only."""
        raise _read_only(path)

    def put_file(self, lpath: str, rpath: str, *_: Any, **__: Any) -> None:
        """Refused: it is read-only."""
        raise _read_only(rpath)


class ForebayFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a :class:`ForebayFileSystem`, read as any Python file: the bytes of the version that was opened.

    Where requests are cheap, each read goes to the tiers or to the file as it is; where they wait for a server, reads ahead.
    """

    def __init__(
        self, fs: ForebayFileSystem, path: str, *, block_size: int | None = None, cache_type: str | None = None, **options: Any
    ) -> None:
        self._source: RawSource | None = fs.source(path)
        self._details = _file_entry(path, self._source)
        far = self._source.request_bytes
        options.pop("size", None)
        super().__init__(
            fs, path, mode="rb", block_size=block_size or far or "default", size=self._details["size"],
            cache_type=cache_type or ("readahead" if far else "none"), **options,
        )  # fmt: skip

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._source is None:
            raise ValueError("I/O operation on closed file.")
        return self._source.read(*_range(start, end, self.size))

    def close(self) -> None:
        """Ends it; may be called more than once."""
        super().close()
        self._source = None

    def __reduce__(self) -> Any:
        """At its position in another process, where another file in its place is an error."""
        version = self._details["size"], self._details["mtime"]
        options = {**self.kwargs, "block_size": self.blocksize, "cache_type": self.cache.name if self.cache else "none"}
        return _reopened, (self.fs, self.path, self.loc, version, options)


def _reopened(
    fs: ForebayFileSystem, path: str, position: int, version: tuple[int, float | None], options: dict[str, Any]
) -> ForebayFile:
    file = ForebayFile(fs, path, **options)
    if (file._details["size"], file._details["mtime"]) != version:
        file.close()
        raise OSError(errno.ESTALE, "changed since it was opened; open it again", path)
    file.seek(position)
    return file


def _is_url(path: str) -> bool:
    return "://" in path


def _absolute(path: str) -> str:
    if _is_url(path) or not path:
        return path.rstrip("/")
    return os.path.abspath(os.path.expanduser(path))


def _below_target(path: Any, target: str | None) -> Any:
    if isinstance(path, list):
        return [_below_target(one, target) for one in path]
    return path.rstrip("/") if _is_url(path) or not path else f"{target}://{path.strip('/')}"


def _file_entry(path: str, source: RawSource) -> dict[str, Any]:
    _, size, modified = source.facts()
    return {"name": path, "size": size, "type": "file", "mtime": modified, "version": source.version}


def _as_local(error: Exception, path: str) -> Exception:
    """What the local file system raises for ``path``, by which programs tell a folder, and nothing, from a fault."""
    code = None
    if not _is_url(path):
        try:
            code = errno.EISDIR if stat.S_ISDIR(os.stat(path).st_mode) else None
        except OSError as found:
            code = found.errno if isinstance(error, NotFoundError) else None
    if code is None and isinstance(error, NotFoundError):
        code = errno.ENOENT
    return error if code is None else OSError(code, os.strerror(code), path)


def _range(start: int | None, end: int | None, length: int) -> tuple[int, int]:
    """What a slice means, of a file of ``length``."""
    first, last, _ = slice(start, end).indices(length)
    return first, max(first, last)


def _at_once(read: Any, paths: list[str]) -> Iterator[Any]:
    """What ``read`` gives for each path, or the error it raised."""

    def caught(path: str) -> Any:
        try:
            return read(path)
        except Exception as error:
            return error

    if len(paths) < 2:
        return map(caught, paths)
    with ThreadPoolExecutor(min(READ_THREADS, len(paths))) as pool:
        return iter(list(pool.map(caught, paths)))


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, "the file system forebay is read-only", path)
