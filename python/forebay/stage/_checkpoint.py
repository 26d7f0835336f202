"""A folder of a checkpoint whose files are staged: published when all of them are there.

Files of data have names that no other save has, so a file that is there is whole and of this save. What names them
(``.metadata``) is staged beside them as ``.metadata.TOKEN.tmp``, with the list of them as ``.metadata.TOKEN.files``; it gets its own
name when all files of the list are there, whichever node they came from.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time

from .._forebay import UnavailableError

POLL_S = 0.05
_POLL_MOST_S = 1.0
# The token in the name of a file of data; lists of earlier versions have no other.
_IN_NAME = re.compile(r"_([0-9a-f]{24})_\d+\.distcp")
# The first digits of a token: when its save was begun, in nanoseconds since 1970.
_TIME_DIGITS = 16
# What PyTorch's own writer calls its files of data.
_PLAIN = re.compile(r"__\d+_\d+\.distcp")


class Publication:
    """One save into ``folder``, whose index of files is called ``index`` (``.metadata``)."""

    def __init__(self, folder: str, index: str, token: str) -> None:
        self.folder, self.index, self.token = folder, index, token

    @property
    def index_file(self) -> str:
        """Where the index waits."""
        return os.path.join(self.folder, f"{self.index}.{self.token}.tmp")

    @property
    def list_file(self) -> str:
        """Where the list of files waits."""
        return os.path.join(self.folder, f"{self.index}.{self.token}.files")

    @property
    def mark_file(self) -> str:
        """What is there while the index gets its name, and the list after it: a process may be killed between the two."""
        return os.path.join(self.folder, f"{self.index}.{self.token}.publishing")

    def missing(self, names: list[str]) -> list[str]:
        """Files that are not there yet."""
        there = set(os.listdir(self.folder))
        wanted = [*names, os.path.basename(self.index_file), os.path.basename(self.list_file)]
        return [name for name in wanted if name not in there]

    def is_published(self, names: list[str]) -> bool:
        """True when it is, by whichever process: a reader may have been faster."""
        if os.path.exists(self.index_file):
            return False
        try:
            return set(_names(os.path.join(self.folder, f"{self.index}.files"))) == set(names)
        except (OSError, ValueError, UnavailableError):
            return False

    def is_superseded(self) -> bool:
        """True when a save that was begun later is published."""
        return published_token(self.folder, self.index) > self.token

    def wait(self, names: list[str], timeout: float) -> None:
        """Waits until all files are there, or it or a later save is published."""
        until, pause = time.monotonic() + timeout, POLL_S
        while not self.is_published(names) and not self.is_superseded() and (missing := self.missing(names)):
            if time.monotonic() > until:
                raise UnavailableError(
                    f"{self.folder}: {len(missing)} files are not durable, {missing[0]} among them: the checkpoint is not "
                    "published; forebay.stage.dcp.publish does that once they are there"
                )
            time.sleep(pause)
            pause = min(2 * pause, _POLL_MOST_S)

    def publish(self, names: list[str], latest: str | None) -> None:
        """Gives the index its own name, removes files that only the previous save had, and moves the link ``latest``.

        Where a save that was begun later is published, that one stays, and the files of this one are removed.
        """
        previous = _previous(self.folder, self.index)
        if self.is_superseded():
            _remove(self, [name for name in names if name not in previous])
            return
        open(self.mark_file, "wb").close()
        try:
            os.replace(self.index_file, os.path.join(self.folder, self.index))
            self._replace_list()
        except FileNotFoundError:
            # Another process did it, or does it right now: the list comes a moment after the index.
            until = time.monotonic() + _POLL_MOST_S
            while not self.is_published(names):
                if time.monotonic() > until:
                    raise
                time.sleep(POLL_S)
        self._end(names, previous, latest)

    def is_half_published(self) -> bool:
        """True when a process was killed, or is at it, between the names of the index and of the list."""
        return os.path.exists(self.mark_file) and not os.path.exists(self.index_file)

    def finish(self, names: list[str], latest: str | None) -> None:
        """Does the rest for a save that is half published."""
        previous = _previous(self.folder, self.index)
        with contextlib.suppress(FileNotFoundError):
            self._replace_list()
        self._end(names, previous, latest)

    def _replace_list(self) -> None:
        os.replace(self.list_file, os.path.join(self.folder, f"{self.index}.files"))

    def _end(self, names: list[str], previous: set[str], latest: str | None) -> None:
        _sync(self.folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.mark_file)
        if latest is not None:
            point(latest, self.folder)
        for name in previous - set(names):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, name))


def publish(folder: str | os.PathLike[str], latest: str | os.PathLike[str] | None = None) -> bool:
    """Publishes a checkpoint that was staged and is whole by now, as after ``forebay recover``.

    True when something was published. Of several saves the newest that is whole counts, the published one among them, and what older
    ones left is removed.
    """
    path = os.path.abspath(os.fsdecode(folder))
    link = None if latest is None else os.path.join(os.path.dirname(path), os.fsdecode(latest))
    waiting: dict[str, list[str]] = {}
    for name in sorted(os.listdir(path)):
        if found := re.fullmatch(r"(.*\.metadata)\.([0-9a-f]+)\.files", name):
            waiting.setdefault(found[1], []).append(found[2])
    is_any_published = False
    for index, tokens in waiting.items():
        is_published = False
        for token in reversed(tokens):
            save = Publication(path, index, token)
            names = _names(save.list_file)
            if is_published or save.is_superseded():
                _remove(save, [name for name in names if name not in _previous(path, index)])
            elif not save.missing(names):
                save.publish(names, link)
                is_published = True
            elif save.is_half_published():
                save.finish(names, link)
                is_published = True
        is_any_published |= is_published
    return is_any_published


def point(link: str, target: str) -> None:
    """Has the symbolic link ``link`` lead to ``target``, at once."""
    beside = f"{link}.{os.getpid()}.{time.monotonic_ns():x}"
    os.symlink(os.path.relpath(target, os.path.dirname(link)), beside)
    try:
        os.replace(beside, link)
    except OSError:
        os.unlink(beside)
        raise
    _sync(os.path.dirname(link))


def listed(names: list[str], token: str) -> bytes:
    """The list of ``names`` of the save ``token``, as :func:`publish` reads it."""
    return json.dumps({"files": sorted(names), "save": token}).encode()


def published_token(folder: str, index: str) -> str:
    """The token of the save that is published in ``folder``; empty where there is none that says so."""
    if not os.path.exists(os.path.join(folder, index)):
        return ""
    try:
        names, token = _listed_in(os.path.join(folder, f"{index}.files"))
    except (OSError, ValueError, UnavailableError):
        return ""
    return token or max((found[1] for name in names if (found := _IN_NAME.search(name))), default="")


def next_token(folder: str, index: str) -> str:
    """A token that is later than that of the save which is published in ``folder``, whatever the clocks of their nodes say."""
    published = published_token(folder, index)[:_TIME_DIGITS]
    begun = max(time.time_ns(), int(published, 16) + 1 if len(published) == _TIME_DIGITS else 0)
    return f"{begun:0{_TIME_DIGITS}x}{secrets.token_hex(4)}"


def _names(path: str) -> list[str]:
    """The names of a list."""
    return _listed_in(path)[0]


def _listed_in(path: str) -> tuple[list[str], str]:
    """The names of a list and the token of its save; a name that is no plain one of a file in the folder is none of ours."""
    with open(path, "rb") as file:
        found = json.load(file)
    names, token = (found.get("files"), found.get("save", "")) if isinstance(found, dict) else (None, "")
    if not isinstance(names, list) or not all(isinstance(name, str) and _is_plain(name) for name in names):
        raise UnavailableError(f"{path}: no list of files of a checkpoint")
    if not isinstance(token, str) or not re.fullmatch("[0-9a-f]*", token):
        raise UnavailableError(f"{path}: no list of files of a checkpoint")
    return names, token


def _is_plain(name: str) -> bool:
    return bool(name) and os.sep not in name and name not in (".", "..") and "\0" not in name


def _previous(folder: str, index: str) -> set[str]:
    """Files of the checkpoint that is published now."""
    if not os.path.exists(os.path.join(folder, index)):
        return set()
    try:
        return set(_names(os.path.join(folder, f"{index}.files")))
    except FileNotFoundError:
        return {name for name in os.listdir(folder) if _PLAIN.fullmatch(name)}
    except (ValueError, UnavailableError):
        # Whatever wrote it, nothing is removed on its word.
        return set()


def _remove(save: Publication, names: list[str]) -> None:
    files = [save.index_file, save.list_file, save.mark_file]
    for name in [*names, *map(os.path.basename, files)]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(save.folder, name))


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
