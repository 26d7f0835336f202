"""Values that change on their way into a batch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import Make, images, same

import forebay
from forebay import Field

TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def values_of(dtype: str, to: str) -> np.ndarray[Any, Any]:
    """Values whose cast NumPy defines: a float beyond an integer's range has no defined one."""
    if not dtype.startswith("float"):
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, info.max // 2 + 1, info.max // 3], dtype)
    if to.startswith("float") or to == "bfloat16":
        return np.array([0.0, -0.0, 1.0, -1.5, 1 / 3, 65504, 1e-7, np.inf, -np.inf, np.nan], dtype)
    return np.array([0.0, 1.0, 1.99, 100.5, 126.9], dtype)


@pytest.mark.parametrize("to", TYPES)
def test_every_pair_of_types_is_cast_as_numpy_does(make: Make, to: str) -> None:
    for dtype in TYPES:
        values = values_of(dtype, to)
        ds = forebay.open(make(x=values), [Field("x", dtype=to)])
        with np.errstate(all="ignore"):
            expected = values.astype(to)
        ours = ds[:]["x"]
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours, expected, err_msg=dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_cast_to_bfloat16_rounds_once(make: Make, dtype: str) -> None:
    values = values_of(dtype, "bfloat16")
    ours = forebay.open(make(x=values), [Field("x", dtype="bfloat16")])[:]["x"]
    assert ours.dtype == ml_dtypes.bfloat16
    # From 64 bits ml_dtypes rounds twice; these values have no halfway case where that shows.
    np.testing.assert_array_equal(ours.astype(np.float32), values.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("dtype", TYPES)
def test_values_are_scaled_in_64_bits_and_rounded_once(make: Make, dtype: str) -> None:
    values = values_of(dtype, "float32")
    ds = forebay.open(make(x=values), [Field("x", dtype="float32", scale=1 / 255, offset=-0.5)])
    with np.errstate(all="ignore"):
        expected = (values.astype(np.float64) * (1 / 255) - 0.5).astype(np.float32)
    np.testing.assert_array_equal(ds[:]["x"], expected)


def test_a_scale_alone_keeps_the_type(make: Make) -> None:
    values = np.array([1.5, -2.0, 3.25], ">f4")
    same(forebay.open(make(x=values), [Field("x", scale=2)])[:]["x"], values * 2)
    same(forebay.open(make(x=values), [Field("x", offset=1)])[:]["x"], values + 1)


@pytest.mark.parametrize("layout", [{}, {"chunks": (3, 4, 4, 2), "compression": "gzip"}], ids=["plain", "gzip"])
@pytest.mark.parametrize("axes", [(2, 0, 1), (0, 2, 1), (1, 0, 2), (0, 1, 2), (2, 1, 0)], ids=str)
def test_axes_change_places(make: Make, axes: tuple[int, ...], layout: dict[str, Any]) -> None:
    values = images()
    path = make(x=(values, layout))
    order = (0, *(axis + 1 for axis in axes))
    expected = np.ascontiguousarray(values.transpose(order))
    same(forebay.open(path, [Field("x", axes=axes)])[:]["x"], expected)
    ds = forebay.open(path, [Field("x", axes=axes, dtype="float32", scale=1 / 255)])
    expected = (expected.astype(np.float64) / 255).astype(np.float32)
    np.testing.assert_allclose(ds[:]["x"], expected, rtol=1e-7)
    assert ds.describe()["fields"]["x"]["shape"] == expected.shape[1:]
    np.testing.assert_allclose(ds[7]["x"], expected[7], rtol=1e-7)


def test_types_are_named_as_frameworks_name_them(make: Make) -> None:
    path = make(x=np.arange(3))
    for dtype in ("float32", np.float32, np.dtype("f4"), "f4", "torch.float32"):
        assert forebay.open(path, [Field("x", dtype=dtype)])[:]["x"].dtype == np.float32
    with pytest.raises(ValueError, match="cannot be cast"):
        forebay.open(path, [Field("x", dtype="S3")])


def test_what_is_no_number_is_not_cast(make: Make) -> None:
    with pytest.raises(forebay.InvalidError, match="no number"):
        forebay.open(make(x=np.array([b"a", b"b"])), [Field("x", dtype="float32")])


def test_axes_that_are_not_there_are_refused(make: Make) -> None:
    for axes in ((0, 1), (0, 1, 3), (0, 0, 1)):
        with pytest.raises(forebay.InvalidError, match="name each axis of one sample once"):
            forebay.open(make(x=images()), [Field("x", axes=axes)])
