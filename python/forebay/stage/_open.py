"""Opening files that are staged."""

from __future__ import annotations

import builtins
import errno
import operator
import os
from typing import IO, Any, Literal, TypeAlias, overload

from .._forebay import ForebayError
from ._area import Area, area_of
from ._file import StagedFile, StagedText

BinaryMode: TypeAlias = Literal["wb", "bw", "w+b", "wb+", "xb", "bx", "x+b", "xb+"]
TextMode: TypeAlias = Literal["w", "wt", "tw", "w+", "w+t", "wt+", "x", "xt", "tx", "x+", "x+t", "xt+"]

_MODES = "'wb', 'xb', 'w+b', 'x+b', the same without 'b' for text, or 'rb' and 'r'"
# How often a reader looks whether what is sealed is staged by now.
_LOOK_S = 0.02


@overload
def open(
    path: str | os.PathLike[str],
    mode: BinaryMode = "wb",
    *,
    area: Area | str | os.PathLike[str] | None = None,
    priority: int = 0,
    latest: str | os.PathLike[str] | None = None,
) -> StagedFile: ...


@overload
def open(
    path: str | os.PathLike[str],
    mode: TextMode,
    *,
    area: Area | str | os.PathLike[str] | None = None,
    priority: int = 0,
    latest: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> StagedText: ...


@overload
def open(
    path: str | os.PathLike[str],
    mode: str,
    *,
    area: Area | str | os.PathLike[str] | None = None,
    priority: int = 0,
    latest: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Any: ...


def open(
    path: str | os.PathLike[str],
    mode: str = "wb",
    *,
    area: Area | str | os.PathLike[str] | None = None,
    priority: int = 0,
    latest: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Any:
    """Opens a new file that is staged: ``path`` becomes the whole of it, by a rename, once it is durable.

    :param mode: as Python's own ``open``: ``"wb"`` (the default), ``"xb"`` (there must be no such file; an
        empty one keeps the name until it is durable), ``"w+b"`` (what was
        written can be read back), or text. ``"rb"`` and ``"r"`` read what is staged on this node for ``path``, or else what is there.
    :param area: an :class:`Area`, a folder, or ``"memory"``; by default the one of the configuration.
    :param priority: files of higher priority go to their destinations first.
    :param latest: a symbolic link that is moved to ``path`` once that is durable, by a name beside ``path`` or a path.

    An exception inside ``with`` abandons the file; ``close`` seals it. ``file.staged.result()`` waits until a killed process loses
    none of it, ``file.durable.result()`` until it is at its destination.
    """
    letters = set(mode)
    kinds = letters & set("rwxa")
    if letters - set("rwxab+t") or len(mode) != len(letters) or len(kinds) != 1 or {"b", "t"} <= letters:
        raise ValueError(f"mode {mode!r} is none: give {_MODES}")
    if "a" in kinds or ("r" in kinds and "+" in letters):
        raise ValueError(f"mode {mode!r}: only whole new files are staged: give {_MODES}")
    is_binary = "b" in letters
    text = {"encoding": encoding, "errors": errors, "newline": newline}
    if is_binary and (stray := [name for name, value in text.items() if value is not None]):
        raise ValueError(f"{stray[0]}= is for text, and mode {mode!r} is binary")
    path = os.path.abspath(os.fsdecode(path))
    if "r" in kinds:
        return _open_to_read(path, mode, area_of(area), **text)
    chosen = area_of(area)
    file = create(path, mode, chosen, priority, latest)
    return file if is_binary else StagedText(file, **text)


def create(
    path: str, mode: str, area: Area, priority: int = 0, latest: str | os.PathLike[str] | None = None
) -> StagedFile:
    """A file at the absolute ``path``, staged in ``area``."""
    link = None if latest is None else os.path.join(os.path.dirname(path), os.fsdecode(latest))
    try:
        file = area._create(path, operator.index(priority), link, "x" in mode)
    except ForebayError as error:
        if "x" in mode and getattr(error, "errno", None) == errno.EEXIST:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
        raise
    return StagedFile(file, path, mode, area)


def _open_to_read(path: str, mode: str, area: Area, **text: Any) -> IO[Any]:
    """The staged image of ``path`` where there is one that is not durable yet, else what is there."""
    while (image := area._raw.open_staged(path)) is None:
        # It is sealed a moment ago and not staged yet, or parts of it went straight to the destination.
        if area._raw.wait_for(path, _LOOK_S):
            return builtins.open(path, mode, **text)
    return builtins.open(image, mode, **text)
