"""Files that are staged: bytes go to the fast tier now, and to their destination behind the program."""

from __future__ import annotations

import io
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .._forebay import RawStagedFile
from ._future import StageFuture

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from ._area import Area

_PEEK_BYTES = 8192
# To copy fewer bytes is faster than to ask for their address: 0.4 us for 4 KiB against 3 us.
_COPIED_BYTES = 16384


class StagedFile(io.BufferedIOBase):
    """A binary file on its way to its destination; made by :func:`forebay.stage.open`.

    ``close`` seals it; an exception inside ``with``, or :meth:`abandon`, leaves the destination as it was. It may be used by
    several threads, which share its position; a forked child cannot use it.
    """

    __module__ = "forebay.stage"

    def __init__(self, raw: RawStagedFile, path: str, mode: str, area: Area) -> None:
        # First: a file whose making fails is closed when it is dropped.
        self._raw: RawStagedFile | None = raw
        self._path, self._mode, self._area = path, mode, area
        self._owner = os.getpid()
        self._staged, self._durable = StageFuture(path, "staged"), StageFuture(path, "durable")

    @property
    def name(self) -> str:
        """The path of the destination."""
        return self._path

    @property
    def mode(self) -> str:
        """The mode it was opened in."""
        return self._mode

    @property
    def area(self) -> Area:
        """The area it is staged in."""
        return self._area

    @property
    def staged(self) -> StageFuture:
        """Done when the bytes and their checksums are in the area, and a killed process loses none of them."""
        return self._staged

    @property
    def durable(self) -> StageFuture:
        """Done when the destination is the whole file, verified, published and synced."""
        return self._durable

    def readable(self) -> bool:
        """True for modes with ``+``."""
        self._open_raw()
        return "+" in self._mode

    def writable(self) -> bool:
        """True."""
        self._open_raw()
        return True

    def seekable(self) -> bool:
        """True."""
        self._open_raw()
        return True

    def write(self, data: Buffer, /) -> int:
        """Writes all bytes of an object with a contiguous buffer, without a copy in Python; the object is free at return."""
        raw = self._open_raw()
        if type(data) is bytes:
            return raw.write(data)
        with memoryview(data) as view:
            if not view.nbytes:
                return 0
            if not view.c_contiguous:
                raise BufferError(f"{self._path}: the buffer is not C-contiguous: copy it first")
            if view.nbytes < _COPIED_BYTES:
                return raw.write(view.tobytes())
            # NumPy tells the address of any buffer, and holds the buffer meanwhile.
            array = np.frombuffer(view, np.uint8)
            written = raw.write_from(_address(array), array.nbytes)
            del array
        return written

    def readinto(self, buffer: Buffer, /) -> int:
        """Reads into a writable buffer; fewer bytes than it has room for only at the end of the file."""
        raw = self._readable_raw()
        with memoryview(buffer) as view:
            if view.readonly:
                raise TypeError("readinto() needs a buffer that can be written to")
            if not view.nbytes:
                return 0
            if not view.c_contiguous:
                raise BufferError(f"{self._path}: the buffer is not C-contiguous")
            array = np.frombuffer(view, np.uint8)
            read = raw.read_into(_address(array), array.nbytes)
            del array
        return read

    def readinto1(self, buffer: Buffer, /) -> int:
        """As :meth:`readinto`."""
        return self.readinto(buffer)

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to ``size`` bytes, or all that follow; what was written is read back."""
        return self._readable_raw().read(None if size is None or size < 0 else size)

    def read1(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes, or some of those that follow."""
        return self._readable_raw().read(_PEEK_BYTES if size is None or size < 0 else size)

    def peek(self, size: int = 0, /) -> bytes:
        """Some of the bytes that follow; the position stays."""
        raw = self._readable_raw()
        return raw.read_at(raw.tell(), max(size, _PEEK_BYTES))

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position, from the begin (0), from itself (1) or from the end (2), and gives it."""
        return self._open_raw().seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self._open_raw().tell()

    def truncate(self, size: int | None = None, /) -> int:
        """Cuts or lengthens the file, by default to the position, which stays; gives the new length."""
        raw = self._open_raw()
        return raw.truncate(raw.tell() if size is None else size)

    def flush(self) -> None:
        """Hands small writes that were put together to the area. It publishes nothing: :meth:`close` does."""
        # Called by the base's `close` when the compiled file is gone already.
        if self._raw is not None:
            self._raw.flush()
        elif self.closed:
            raise ValueError("I/O operation on closed file")

    def close(self) -> None:
        """Seals the file: no byte can be added, and it goes to its destination; ``staged`` and ``durable`` tell how far it is."""
        if self.closed:
            return
        raw, self._raw = self._raw, None
        if raw is None or os.getpid() != self._owner:
            # A forked child leaves the file to its parent.
            super().close()
            return
        try:
            sealed = raw.seal()
        except BaseException as error:
            self._staged._fail(error)
            self._durable._fail(error)
            raise
        finally:
            super().close()
        self._staged._begin(sealed)
        self._durable._begin(sealed)

    def abandon(self) -> None:
        """Drops the file: the destination stays as it was, and both futures are cancelled. May be called more than once."""
        if self.closed:
            return
        raw, self._raw = self._raw, None
        try:
            if raw is not None and os.getpid() == self._owner:
                raw.abandon()
        finally:
            super().close()
            self._staged._drop()
            self._durable._drop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        # Where making it failed there is nothing to drop.
        if getattr(self, "_raw", None) is None or self.closed:
            return
        if os.getpid() == self._owner:
            warnings.warn(f"{self!r} was neither closed nor abandoned: it is abandoned", ResourceWarning, source=self)
        self.abandon()

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} cannot be pickled: open it in the process that writes it")

    def _open_raw(self) -> RawStagedFile:
        if self._raw is None:
            raise ValueError("I/O operation on closed file")
        return self._raw

    def _readable_raw(self) -> RawStagedFile:
        raw = self._open_raw()
        if "+" not in self._mode:
            raise io.UnsupportedOperation(f"not readable: {self._path} was opened as {self._mode!r}, not as 'w+b'")
        return raw

    def __repr__(self) -> str:
        return f"<forebay.stage.StagedFile {self._path!r} mode={self._mode!r}{' closed' if self.closed else ''}>"


class StagedText(io.TextIOWrapper):
    """A text file over a :class:`StagedFile`, which is its ``buffer``."""

    __module__ = "forebay.stage"

    _file: StagedFile

    def __init__(self, file: StagedFile, encoding: str | None, errors: str | None, newline: str | None) -> None:
        # First: the base's making may fail, and the file must not be sealed then.
        self._file = file
        super().__init__(file, encoding, errors, newline)

    @property
    def staged(self) -> StageFuture:
        """Done when the bytes and their checksums are in the area."""
        return self._file.staged

    @property
    def durable(self) -> StageFuture:
        """Done when the destination is the whole file, verified, published and synced."""
        return self._file.durable

    def abandon(self) -> None:
        """Drops the file: the destination stays as it was."""
        self._file.abandon()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        # Before the base closes, and thereby seals, it.
        self._file.__del__()


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
