"""``torch.distributed.checkpoint`` through a staging area.

>>> from torch.distributed import checkpoint
>>> import forebay.stage.dcp
>>> writer = forebay.stage.dcp.StagedWriter("/pfs/run7/step-100", latest="latest")
>>> checkpoint.save(state_dict, storage_writer=writer)  # or async_save; returns when all is staged
>>> writer.durable.result()  # from now on any reader, PyTorch's own too, sees the whole checkpoint

The folder is what ``FileSystemWriter`` makes: ``FileSystemReader`` reads it. ``.metadata`` appears when the files of all ranks are
durable, and a checkpoint that was there before stays whole until then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

# Before PyTorch: an environment without it should say so in its own words.
from .._forebay import ForebayError
from . import _checkpoint
from ._area import Area, area_of, at_exit
from ._checkpoint import Publication, publish
from ._file import StagedFile
from ._open import create
from ._open import open as open_staged

from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter  # isort: skip

__all__ = ["StagedReader", "StagedWriter", "publish"]

_TMP = ".metadata.tmp"


class _StagedFileSystem(FileSystem):
    """Files of a checkpoint, written through an area; the index is published by its writer."""

    def __init__(self, area: Area, priority: int) -> None:
        self.area, self.priority = area, priority
        self._lock = threading.Lock()
        self.begin("")

    def begin(self, token: str) -> None:
        """Begins a save whose files are told from others by ``token``."""
        self.token = token
        self.files: list[StagedFile] = []
        self.index: str | None = None

    def wait_staged(self) -> None:
        """Waits until all files of the save are staged: a killed process loses none of them."""
        for file in self.files:
            file.staged.result()

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        name = os.path.abspath(os.fspath(path))
        if mode != "wb":
            with open_staged(name, mode, area=self.area) as stream:
                yield stream
            return
        if name.endswith(_TMP):
            name = f"{name.removesuffix('.tmp')}.{self.token}.tmp"
        with create(name, mode, self.area, self.priority) as file:
            yield file
        with self._lock:
            self.files.append(file)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        # Not before all is durable.
        self.index = os.path.basename(os.fspath(new_path))

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        # The index that is there is replaced, when the new one is durable.
        pass


class StagedWriter(FileSystemWriter):
    """A ``FileSystemWriter`` whose files are staged.

    It takes what that takes, and ``area``, ``priority`` and ``latest`` (a link that leads to the newest durable checkpoint) as
    :func:`forebay.stage.open` does. ``timeout`` is how many seconds the files of other ranks may take to become durable.
    """

    __module__ = "forebay.stage.dcp"

    fs: _StagedFileSystem

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        area: Area | str | os.PathLike[str] | None = None,
        priority: int = 0,
        latest: str | os.PathLike[str] | None = None,
        timeout: float = 3600.0,
        **options: Any,
    ) -> None:
        # The area syncs; `fsync` of PyTorch would find no descriptor.
        super().__init__(path, **{**options, "sync_files": False})
        self.fs = _StagedFileSystem(area_of(area), priority)
        self._latest = None if latest is None else os.fsdecode(latest)
        self._timeout = timeout
        self._is_coordinator = True
        self._durable: Future[str] = Future()
        self._begin()

    @property
    def durable(self) -> Future[str]:
        """Done when the checkpoint of the last save is published; on ranks that do not coordinate, when their files are durable."""
        return self._durable

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins another save."""
        super().reset(checkpoint_id)
        self._begin()

    def _begin(self) -> None:
        # Later saves come later in the order of names.
        self.fs.begin(_checkpoint.next_token(os.path.abspath(os.fspath(self.path)), ".metadata"))
        self._durable = Future()

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **options: Any) -> None:
        """Says whether this rank publishes."""
        super().set_up_storage_writer(is_coordinator, *args, **options)
        # Without rank coordination every rank has an index of its own.
        self._is_coordinator = is_coordinator or not options.get("use_collectives", True)

    def prepare_local_plan(self, plan: Any) -> Any:
        """Gives files of data names that no other save has, where ranks do not coordinate."""
        return self._named(super().prepare_local_plan(plan))

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        """Gives files of data names that no other save has."""
        return [self._named(plan) for plan in super().prepare_global_plan(plans)]

    def _named(self, plan: Any) -> Any:
        prefix = plan.storage_data
        if prefix is None or self.fs.token in prefix.prefix:
            return plan
        named = dataclasses.replace(prefix, prefix=f"{prefix.prefix}{self.fs.token}_")
        return dataclasses.replace(plan, storage_data=named)

    def write_data(self, plan: Any, planner: Any) -> Any:
        """Stages the data of this rank."""
        written = super().write_data(plan, planner)
        self.fs.wait_staged()
        if not self._is_coordinator:
            _Finishing(self.fs, self._durable, os.fspath(self.path), None).start()
        return written

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        """Stages the index, and has it published when the files of all ranks are durable."""
        super().finish(metadata, results)
        names = sorted({result.storage_data.relative_path for rank in results for result in rank})
        folder = os.path.abspath(os.fspath(self.path))
        save = Publication(folder, self.fs.index or ".metadata", self.fs.token)
        with create(save.list_file, "wb", self.fs.area, self.fs.priority) as file:
            file.write(_checkpoint.listed(names, self.fs.token))
        self.fs.files.append(file)
        self.fs.wait_staged()
        link = None if self._latest is None else os.path.join(os.path.dirname(folder), self._latest)
        _Finishing(self.fs, self._durable, folder, (save, names, link, self._timeout)).start()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_durable": None, "fs": (self.fs.area, self.fs.priority)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.fs = _StagedFileSystem(*state["fs"])
        self._begin()


class _Finishing:
    """A thread that waits until a save is durable, and publishes it where this rank coordinates."""

    _order = threading.Lock()
    """Saves of a process are published one after the other, in the order of their finishing."""

    def __init__(
        self,
        fs: _StagedFileSystem,
        durable: Future[str],
        folder: str,
        publication: tuple[Publication, list[str], str | None, float] | None,
    ) -> None:
        self._files, self._durable, self._folder, self._publication = list(fs.files), durable, folder, publication
        self._thread = threading.Thread(target=self._finish, name="forebay-checkpoint", daemon=True)

    def start(self) -> None:
        self._durable.set_running_or_notify_cancel()
        _finishing.append(self)
        self._thread.start()

    def _finish(self) -> None:
        try:
            for file in self._files:
                file.durable.result()
            if self._publication is not None:
                save, names, link, timeout = self._publication
                save.wait(names, timeout)
                with self._order:
                    save.publish(names, link)
        except BaseException as error:
            self._durable.set_exception(error)
        else:
            self._durable.set_result(self._folder)
        finally:
            with contextlib.suppress(ValueError):
                _finishing.remove(self)

    def join(self, timeout: float | None = None) -> None:
        """Waits until it is over; Ctrl-C ends the wait."""
        self._thread.join(timeout)


_finishing: list[_Finishing] = []


def _wait_all(folder: str | None = None) -> None:
    """Waits for saves of this process, of all folders or of one."""
    for finishing in list(_finishing):
        if folder is None or finishing._folder == folder:
            finishing.join()


def _after_fork() -> None:
    """Threads are the parent's."""
    _finishing.clear()


at_exit(_wait_all)
os.register_at_fork(after_in_child=_after_fork)


class StagedReader(FileSystemReader):
    """A ``FileSystemReader`` that waits for what this process has staged, and reads what the node has staged."""

    __module__ = "forebay.stage.dcp"

    def __init__(
        self, path: str | os.PathLike[str], *, area: Area | str | os.PathLike[str] | None = None, **options: Any
    ) -> None:
        super().__init__(path, **options)
        self.fs = _StagedFileSystem(area_of(area), 0)

    def read_metadata(self, *args: Any, **options: Any) -> Any:
        """The index, once saves of this process into the folder are over; one that was left unpublished is published first."""
        folder = os.path.abspath(os.fspath(self.path))
        _wait_all(folder)
        # What cannot be published is no reason not to read what is there.
        with contextlib.suppress(OSError, ForebayError):
            publish(folder)
        return super().read_metadata(*args, **options)
