"""Reads a file with forebay and with its own library, and counts what is the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import forebay

from . import design, reference
from .compare import difference
from .tally import Tally, grouped
from .unpacked import check_unpacked


class Checker:
    """Checks each version of each file once; ``cf`` also compares unpacked values with those of xarray."""

    def __init__(self, tally: Tally, cf: bool) -> None:
        self.tally = tally
        self.cf = cf
        self.busy = False
        self.seen: set[Any] = set()

    def check(self, path: Any, shown: str | None = None) -> None:
        """Compares the file or store at ``path``; a file that is not there, or was checked before, is passed over."""
        # The libraries that we compare with close files too.
        if self.busy or os.getpid() != self.tally.process or not isinstance(path, (str, bytes, os.PathLike)):
            return
        path = os.path.abspath(os.fsdecode(path))
        self.busy = True
        try:
            if not os.path.exists(path) or (path, version := reference.stamp(path)) in self.seen:
                return
            self.seen.add((path, version))
            self._check(path, shown or path)
        except Exception as error:
            # Those of ours may be of the system too, and a file that was read before does not vanish.
            if isinstance(error, OSError) and not isinstance(error, forebay.ForebayError):
                self.tally.count("not compared", f"vanished: {type(error).__name__}")
                return
            # A fault of the comparison must not change the outcome of their test, nor be overlooked.
            self.tally.add_wrong(path, "", f"comparison ended by {type(error).__name__}: {error}", shown or path)
        finally:
            self.busy = False

    def _check(self, path: str, shown: str) -> None:
        try:
            with forebay.File(path) as file:
                kind = file.format
        except forebay.ForebayError as error:
            self._refused_file(path, shown, error)
            return
        self.tally.count("files")
        self._check_stored(path, shown, kind)
        if self.cf and kind in ("netcdf3", "netcdf4", "zarr"):
            check_unpacked(self.tally, path, shown, kind)

    def _refused_file(self, path: str, shown: str, error: forebay.ForebayError) -> None:
        """A file that is refused as a whole: right where its own library refuses it too."""
        kind = "zarr" if Path(path).is_dir() else "hdf5"
        try:
            with reference.variables(path, kind) as found:
                count = len(found)
        except Exception:
            self.tally.count("not compared", f"refused by both: {grouped(str(error), path)}")
            return
        if error.kind == "unsupported" or not count:
            self.tally.count("refused", grouped(str(error), path))
        else:
            self.tally.add_wrong(path, "", f"error of kind {error.kind}: {error}", shown)

    def _check_stored(self, path: str, shown: str, kind: str) -> None:
        try:
            opened = reference.variables(path, kind)
            theirs = opened.__enter__()
        except Exception as error:
            self.tally.count("not compared", f"{kind} library: {grouped(str(error), path)}")
            return
        try:
            with forebay.File(path) as file:
                refused = forebay.inspect(path)["refused"]
                one = Variables(self.tally, path, shown, kind)
                for name in theirs:
                    one.check(name, file, theirs[name], refused)
                for name in set(file) - set(theirs):
                    one.check_extra(name, file, theirs)
        finally:
            opened.__exit__(None, None, None)


class Variables:
    """The comparison of single variables of one file."""

    def __init__(self, tally: Tally, path: str, shown: str, kind: str) -> None:
        self.tally, self.path, self.shown, self.kind = tally, path, shown, kind

    def wrong(self, name: str, what: str) -> None:
        self.tally.add_wrong(self.path, name, what, self.shown)

    def check(self, name: str, file: forebay.File, read_theirs: Any, refused: dict[str, str]) -> None:
        """Compares the variable ``name``, which its own library reads by ``read_theirs``."""
        ours = self._ours(name, file, refused)
        try:
            theirs = read_theirs()
        except reference.TooLarge as error:
            self.tally.count("not compared", str(error))
            return
        except Exception as error:
            if not isinstance(ours, Exception):
                what = f"{type(error).__name__}: {grouped(str(error), self.path)}"
                self.tally.count("not compared", f"{self.kind} library: {what}")
            else:
                self.tally.count("not compared", f"refused by both: {grouped(str(ours), self.path)}")
            return
        if isinstance(ours, Exception):
            self._refused(name, ours)
            return
        found = difference(ours, design.as_stored(theirs, ours, self.kind))
        if found is None:
            self.tally.count("matched")
        elif self.kind == "netcdf4" and design.is_unset_memory(self.path, name, ours):
            self.tally.count("by design", design.UNSET_MEMORY)
        else:
            self.wrong(name, found)

    def _ours(self, name: str, file: forebay.File, refused: dict[str, str]) -> Any:
        try:
            if name in refused:
                return forebay.UnsupportedError(refused[name])
            variable = file[design.our_name(name, file)]
            if np.prod(variable.shape, dtype=float) * 8 > 8 * reference.LARGEST_BYTES:
                return None
            return variable[...]
        except (forebay.ForebayError, KeyError) as error:
            return error

    def _refused(self, name: str, error: Exception) -> None:
        """A refusal says that it is one: anything else, of a value its own library reads, is a fault."""
        if isinstance(error, forebay.UnsupportedError):
            self.tally.count("refused", grouped(str(error), self.path))
        else:
            self.wrong(name, f"{type(error).__name__}: {error}")

    def check_extra(self, name: str, file: forebay.File, theirs: reference.Variables) -> None:
        """A variable that forebay lists and the walk did not meet: behind links, or not there at all."""
        if design.is_known_extra(name, self.kind):
            return
        try:
            read_theirs = theirs[name]
        except KeyError:
            self.wrong(name, "its own library has no such variable")
        else:
            self.check(name, file, read_theirs, {})
