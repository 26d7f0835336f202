"""xarray's engine ``"forebay"``: ``xr.open_dataset(path, engine="forebay")``.

It reads every format that forebay reads, locally or by URL, through tiers where they are configured, and leaves decoding (missing
values, scales, times, coordinates) to xarray. xarray finds it by itself once forebay is installed; nothing has to be imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import xarray as xr
from xarray.backends import BackendEntrypoint, StoreBackendEntrypoint

from ._forebay import absolute_path
from ._tiers.tiers import Policy, TierOptions, Tiers
from ._xarray.store import FileStore, OpenedFile

__all__ = ["ForebayBackendEntrypoint"]


class ForebayBackendEntrypoint(BackendEntrypoint):
    """Opens what forebay reads as :class:`xarray.Dataset` and :class:`xarray.DataTree`; it has to be named, and guesses nothing.

    ``group`` chooses a group of the file. ``tiers``, ``policy`` and ``config`` are those of :func:`forebay.open`: by default what
    the environment or ``forebay.toml`` say, and ``tiers=[]`` for none.
    """

    description = "Open HDF5, NetCDF, Zarr, ADIOS2 and other files that forebay reads, through storage tiers"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """False: files are those of other engines unless this one is named."""
        return False

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        tiers: Tiers | None = None,
        policy: Policy | None = None,
        config: str | os.PathLike[str] | None = None,
    ) -> xr.Dataset:
        """One group of a file, lazily."""
        decoding = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        opened = OpenedFile(_name(filename_or_obj), TierOptions(tiers, policy, config))
        return _dataset(opened, group, decoding)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        tiers: Tiers | None = None,
        policy: Policy | None = None,
        config: str | os.PathLike[str] | None = None,
        **decoding: Any,
    ) -> dict[str, xr.Dataset]:
        """All groups of a file, or those below ``group``, by path."""
        opened = OpenedFile(_name(filename_or_obj), TierOptions(tiers, policy, config))
        top = (group or "").strip("/")
        names = [name for name in opened.get().groups if not top or name == top or name.startswith(f"{top}/")]
        if not names:
            opened.close()
            raise OSError(f"{opened.path}: group not found: {group}")
        return {_below(name, top): _dataset(opened, name, decoding) for name in names}

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """The same as a tree."""
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        tree = xr.DataTree.from_dict(groups)
        for path, found in groups.items():
            tree[path].set_close(found._close)
        return tree


def _name(filename_or_obj: Any) -> str:
    if not isinstance(filename_or_obj, (str, os.PathLike)):
        kind = type(filename_or_obj).__name__
        raise TypeError(f'engine="forebay" opens paths and URLs, not {kind}: give the name of the file')
    name = os.fspath(filename_or_obj)
    return absolute_path(name.removeprefix("forebay://") if isinstance(name, str) else os.fsdecode(name))


def _below(name: str, top: str) -> str:
    """The path of the group ``name`` in a tree whose root is ``top``."""
    return "/" + name[len(top) :].strip("/")


def _dataset(opened: OpenedFile, group: str | None, decoding: dict[str, Any]) -> xr.Dataset:
    store = FileStore(opened, group)
    try:
        return StoreBackendEntrypoint().open_dataset(store, **decoding)
    except BaseException:
        store.close()
        raise
