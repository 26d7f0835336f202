"""DDStore's module name for what :mod:`forebay.pyddstore` has for PyTorch."""

from typing import Any

from forebay._compat.pyddstore_torch import DistDataset, DistDatasetReader, ThreadDataLoader

__all__ = ["DistDataset", "DistDatasetReader", "ThreadDataLoader"]


def __getattr__(name: str) -> Any:
    if name in ("WindowedDataset", "row_of"):
        what = f"forebay has no pyddstore.torch.{name}: give forebay.Store.get_batch the numbers of a window"
        raise ImportError(what, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
