"""Feeds AI training from scientific data, in place.

>>> import forebay
>>> ds = forebay.open("train/*.h5", fields=["image"], label="label")  # axis 0 = samples
>>> for batch in ds.loader(batch_size=64, shuffle="full", seed=7):
...     batch["image"], batch["label"]  # NumPy arrays over forebay's memory, no copy
"""

from __future__ import annotations

import importlib
from typing import Any

from ._batch import Batch
from ._loader.collate import Sample
from ._concat import concat, mix
from ._dataset.dataset import Dataset
from ._dataset.opening import open as open
from ._dates import cftime_dates
from ._forebay import (
    BlockFacts,
    BugError,
    CorruptError,
    DeniedError,
    ForebayError,
    ForebayWarning,
    FullError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    __version__,
)
from ._forebay import SystemError as SystemError
from ._file.file import File, FileVariable
from ._loader.loader import Loader
from ._own_format import Variable, register_format
from ._file.read import inspect, read
from ._samples import Along, Centres, Constant, Field, Fixed, Groups, Ragged, Sparse, Whole, Windows
from ._statistics import FieldStatistics, Statistics
from ._store.store import Store
from ._dataset.subset import Subset
from ._warming import Warming
from . import transforms as transforms

# Not `open` nor `SystemError`: `from forebay import *` must not hide Python's own.
__all__ = [
    "Along",
    "Batch",
    "BlockFacts",
    "BugError",
    "Centres",
    "Constant",
    "CorruptError",
    "Dataset",
    "DeniedError",
    "Field",
    "FieldStatistics",
    "File",
    "FileVariable",
    "Fixed",
    "ForebayError",
    "ForebayWarning",
    "FullError",
    "Groups",
    "InvalidError",
    "Loader",
    "NotFoundError",
    "Ragged",
    "Sample",
    "Sparse",
    "Statistics",
    "Store",
    "Subset",
    "UnavailableError",
    "UnsupportedError",
    "Variable",
    "Warming",
    "Whole",
    "Windows",
    "__version__",
    "cftime_dates",
    "concat",
    "inspect",
    "mix",
    "read",
    "register_format",
    "transforms",
]


def __getattr__(name: str) -> Any:
    # Frameworks, xarray and fsspec are no dependencies: each is imported when it is named. Most programs stage nothing.
    if name in ("fsspec", "jax", "ray", "stage", "tensorflow", "torch", "xarray"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
