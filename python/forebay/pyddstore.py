"""The interface of DDStore's ``pyddstore`` over :class:`forebay.Store`, so that programs written for it run unchanged.

    PYTHONPATH=$(python -m forebay.pyddstore) mpirun -n 4 python train.py

``python -m forebay.pyddstore`` prints a folder in which a package ``pyddstore`` stands that is this module, with a
``pyddstore.torch``. Or, in the program::

    from forebay import pyddstore as dds

Rows are read by one-sided gets at any time: ``epoch_begin`` and ``epoch_end`` are not needed around them, and ``get_batch`` is
not collective. The first ``epoch_begin`` seals the store: ``update`` afterwards is an error instead of a race.
"""

from __future__ import annotations

import os
import sys

from ._compat.dist_dataset import DistDataset
from ._compat.pyddstore import PyDDStore
from ._forebay import __version__

__all__ = ["DistDataset", "PyDDStore", "__version__"]


def _main() -> None:
    print(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_pyddstore_path"))


if __name__ == "__main__":
    _main()
    sys.exit(0)
