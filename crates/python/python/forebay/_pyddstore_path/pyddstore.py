"""DDStore's module name for :mod:`forebay.pyddstore`: put this folder on ``PYTHONPATH``."""

from forebay.pyddstore import DistDataset, PyDDStore

__all__ = ["DistDataset", "PyDDStore"]
