"""Files that leave the program at the speed of the fast tier, and reach their destination behind it.

>>> import forebay.stage
>>> with forebay.stage.open("/pfs/run7/step-100.pt", "wb", latest="latest.pt") as file:  # an exception abandons it
...     torch.save(model.state_dict(), file)
>>> file.durable.result()  # here it would be lost with the node; from now on it is not
"""

from __future__ import annotations

import importlib
from typing import Any

from ._area import Area, areas
from ._file import StagedFile, StagedText
from ._future import StageFuture
from ._open import open as open
from ._recover import recover
from ._save import save

# Not `open`: `from forebay.stage import *` must not hide Python's own.
__all__ = ["Area", "StageFuture", "StagedFile", "StagedText", "areas", "drain", "recover", "save"]


def drain(progress: Any = None) -> None:
    """Waits until all that this process sealed, in whichever area, is durable."""
    for area in areas():
        area.drain(progress)


def __getattr__(name: str) -> Any:
    # PyTorch is no dependency: it is imported when it is named.
    if name == "dcp":
        return importlib.import_module(".dcp", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
