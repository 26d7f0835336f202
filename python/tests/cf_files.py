"""What the tests of CF conventions share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np


def write(path: Path, variables: dict[str, tuple[np.ndarray[Any, Any], dict[str, Any]]]) -> Path:
    with h5py.File(path, "w") as file:
        for name, (values, attributes) in variables.items():
            dataset = file.create_dataset(name, data=values)
            for key, value in attributes.items():
                dataset.attrs[key] = value
    return path


def same_bits(ours: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], what: object) -> None:
    assert ours.dtype == expected.dtype, (what, ours.dtype, expected.dtype)
    if expected.dtype.kind == "f":
        # Which of the NaNs it is, NumPy itself does not promise.
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected), err_msg=str(what))
        ours, expected = np.nan_to_num(ours, nan=0), np.nan_to_num(expected, nan=0)
    assert ours.tobytes() == expected.tobytes(), (what, ours, expected)
