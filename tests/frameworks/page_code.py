"""The programs of a page of the guide, which run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

DOCS = Path(__file__).parents[2] / "docs"


def make_files(folder: Path) -> None:
    """What the pages speak of: images of four classes in ``train``, and small molecules."""
    random = np.random.default_rng(0)
    (folder / "train").mkdir()
    for number in range(2):
        with h5py.File(folder / "train" / f"{number}.h5", "w") as file:
            images = random.integers(0, 255, (150, 16, 16), np.uint8)
            file.create_dataset("image", data=images, chunks=(16, 16, 16), compression="gzip")
            file["label"] = random.integers(0, 4, 150)
    with h5py.File(folder / "molecules.h5", "w") as file:
        lens = random.integers(1, 20, 40)
        file["ptr"] = np.concatenate([[0], np.cumsum(lens)])
        file["x"] = random.random((int(lens.sum()), 4), np.float32)
        file["y"] = random.random(40, np.float32)


def run_page(name: str, module: str = "page") -> dict[str, Any]:
    """Runs all programs of the page ``name`` one after another, in one namespace, which it returns; as ``"__main__"`` with what is for a
    program alone."""
    page = (DOCS / name).read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert programs
    namespace: dict[str, Any] = {"__name__": module}
    for number, program in enumerate(programs):
        exec(compile(program, f"{name}, program {number}", "exec"), namespace)
    return namespace
