"""DDStore's module name for :mod:`forebay.pyddstore`: put the folder that this package stands in on ``PYTHONPATH``."""

from forebay.pyddstore import DistDataset, PyDDStore, __version__

__all__ = ["DistDataset", "PyDDStore", "__version__"]
