"""Integers that stand for names: a set of many files has one table of them, joined by name."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from conftest import Make, same

import forebay
from forebay import Field

CODES = "obs/cell_type/codes"


def annotate(path: Path, categories: Any, codes: Any, dtype: str = "i1") -> Path:
    """A column of categories as AnnData writes it."""
    with h5py.File(path, "w") as file:
        group = file.create_group("obs/cell_type")
        group.attrs["encoding-type"] = "categorical"
        group.attrs["ordered"] = False
        group["codes"] = np.array(codes, dtype)
        is_text = len(categories) == 0 or isinstance(categories[0], str)
        group.create_dataset("categories", data=list(categories), dtype=h5py.string_dtype() if is_text else None)
    return path


def names_of(ds: forebay.Dataset, field: str, values: Any) -> list[str | None]:
    """What the integers of a batch stand for, by the table of the set."""
    named = {code: name for name, code in ds.describe()["fields"][field]["categories"].items()}
    return [named.get(int(value)) for value in values]


TABLES: list[tuple[list[str], list[int]]] = [
    (["B", "T"], [0, 1, 0, -1]),
    (["T", "B"], [0, 1, 0, 1]),
    (["NK", "T", "mast"], [2, 1, 0, -1]),
]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 1, 0), (0, 0)])
def test_categories_of_many_files_are_joined_by_name(tmp_path: Path, order: tuple[int, ...]) -> None:
    tables = [TABLES[number] for number in order]
    files = [annotate(tmp_path / f"{at}.h5ad", *table) for at, table in enumerate(tables)]
    ds = forebay.open(files, [CODES])
    expected = [names[code] if code >= 0 else None for names, codes in tables for code in codes]
    assert names_of(ds, CODES, ds[:][CODES]) == expected
    assert ds[:][CODES].dtype == np.int8
    for shuffle in ("none", "full", "block"):
        for batch in ds.loader(batch_size=3, shuffle=shuffle):
            assert names_of(ds, CODES, batch[CODES]) == [expected[number] for number in batch.indices]
    # The first file's own codes stay, what others have besides follows: as pandas unites categories.
    united = list(dict.fromkeys(name for names, _ in tables for name in names))
    assert list(ds.describe()["fields"][CODES]["categories"].items()) == list(zip(united, range(len(united))))
    assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint


def test_a_field_whose_values_are_all_missing_has_an_empty_table(tmp_path: Path) -> None:
    files = [annotate(tmp_path / f"{at}.h5ad", np.array([], object), [-1, -1]) for at in range(2)]
    for path in (files, files[0]):
        ds = forebay.open(path, [CODES])
        assert ds.categories == {CODES: {}} and ds.describe()["fields"][CODES]["categories"] == {}
        assert (ds[:][CODES] == -1).all()


def test_joined_codes_are_cast_as_asked_and_widened_where_names_are_many(tmp_path: Path) -> None:
    first = annotate(tmp_path / "a.h5ad", [f"a{number}" for number in range(100)], range(100))
    second = annotate(tmp_path / "b.h5ad", [f"b{number}" for number in range(100)], range(100))
    third = annotate(tmp_path / "c.h5ad", ["b7", "a3"], [0, 1, -1], "i2")
    ds = forebay.open([first, second, third], [CODES])
    same(ds[:][CODES], np.array([*range(200), 107, 3, -1], "i2"))
    cast = forebay.open([first, second, third], [Field(CODES, dtype="float32", scale=2.0)])
    same(cast[:][CODES], np.array([*range(200), 107, 3, -1], "f4") * 2)


def test_categories_that_are_numbers_and_those_of_older_files_are_joined_too(tmp_path: Path) -> None:
    numbers = [annotate(tmp_path / "a.h5ad", [3, 5], [0, 1]), annotate(tmp_path / "b.h5ad", [5, 9], [0, 1])]
    ds = forebay.open(numbers, [CODES])
    assert names_of(ds, CODES, ds[:][CODES]) == ["3", "5", "5", "9"]
    for name, categories in (("c.h5ad", ["B", "T"]), ("d.h5ad", ["T", "B"])):
        with h5py.File(tmp_path / name, "w") as file:
            file["obs/kind"] = np.array([0, 1], "i1")
            file["obs/__categories/kind"] = np.array(categories, h5py.string_dtype())
    old = forebay.open([tmp_path / "c.h5ad", tmp_path / "d.h5ad"], ["obs/kind"])
    same(old[:]["obs/kind"], np.array([0, 1, 1, 0], "i1"))


def test_a_file_that_has_codes_without_names_is_refused_among_others(tmp_path: Path) -> None:
    first = annotate(tmp_path / "a.h5ad", ["B", "T"], [0, 1])
    with h5py.File(tmp_path / "b.h5ad", "w") as file:
        file[CODES] = np.array([0, 1], "i1")
    for files in ([first, tmp_path / "b.h5ad"], [tmp_path / "b.h5ad", first]):
        with pytest.raises(forebay.InvalidError, match=r"b\.h5ad.*plain integers, .*a\.h5ad names"):
            forebay.open(files, [CODES])


def test_codes_whose_names_cannot_be_read_are_refused_among_several_files(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.h5ad", "b.h5ad")]
    for path, names in zip(files, (["B", "T"], ["T", "B"]), strict=True):
        with h5py.File(path, "w") as file:
            file[CODES] = np.array([0, 1], "i1")
            group = file.create_group(CODES.replace("codes", "categories"))
            group["values"], group["mask"] = names, np.zeros(2, bool)
    assert list(forebay.open(files[0], [CODES])[:][CODES]) == [0, 1]
    with pytest.raises(forebay.UnsupportedError, match="no list of names"):
        forebay.open(files, [CODES])


def test_a_code_that_has_no_name_is_an_error_where_codes_are_joined(tmp_path: Path) -> None:
    files = [annotate(tmp_path / "a.h5ad", ["B", "T"], [0]), annotate(tmp_path / "b.h5ad", ["T", "B"], [0, 7])]
    ds = forebay.open(files, [CODES])
    assert ds[1][CODES] == 1
    with pytest.raises(forebay.CorruptError, match=r"b\.h5ad.*code 7"):
        ds[2]


def enumeration(make: Make, name: str, members: dict[str, int], values: Any, base: str = "i1") -> Path:
    return make(name, e=(np.array(values, base), {"dtype": h5py.enum_dtype(members, basetype=base)}))


def test_enumerations_are_joined_by_name(make: Make) -> None:
    files = [
        enumeration(make, "a.h5", {"A": 0, "B": 1}, [0, 1]),
        enumeration(make, "b.h5", {"A": 1, "B": 0}, [0, 1]),
        enumeration(make, "c.h5", {"B": 1, "C": 0, "D": 40}, [1, 0, 40], "i2"),
    ]
    ds = forebay.open(files, ["e"])
    batch = ds[:]["e"]
    assert names_of(ds, "e", batch) == ["A", "B", "B", "A", "B", "C", "D"]
    assert batch.dtype == np.int16 and batch[:2].tolist() == [0, 1]
    assert ds.describe()["fields"]["e"]["categories"] == {"A": 0, "B": 1, "C": 2, "D": 40}


@pytest.mark.parametrize("cf", [True, "mask"])
def test_missing_values_of_enumerations_that_count_otherwise_are_not_lost(tmp_path: Path, cf: Any) -> None:
    members = [{"clear": 0, "cloud": 1, "none": 9}, {"cloud": 0, "clear": 1, "none": 9}]
    files = [tmp_path / "a.nc", tmp_path / "b.nc"]
    for path, names in zip(files, members):
        with netCDF4.Dataset(path, "w") as file:
            kind = file.createEnumType("u1", "kind", names)
            file.createDimension("n", 3)
            file.createVariable("e", kind, ("n",), fill_value=9)[:] = np.array([0, 1, 9], "u1")
    assert np.isnan(forebay.open(files[0], ["e"], cf=True)[:]["e"]).tolist() == [False, False, True]
    with pytest.raises(forebay.UnsupportedError, match=r"\.nc: variable '/?e': .*missing.*cf=False"):
        forebay.open(files, ["e"], cf=cf)
    ds = forebay.open(files, ["e"])
    assert names_of(ds, "e", ds[:]["e"]) == ["clear", "cloud", "none", "cloud", "clear", "none"]


def test_enumerations_that_agree_stay_as_they_are(make: Make) -> None:
    files = [enumeration(make, f"{at}.h5", {"A": 0, "B": 1}, [at, 1]) for at in range(2)]
    ds = forebay.open(files, ["e"])
    same(ds[:]["e"], np.array([0, 1, 1, 1], "i1"))
    assert ds.describe()["fields"]["e"]["categories"] == {"A": 0, "B": 1}
    truths = [make(f"t{at}.h5", t=np.array([True, False])) for at in range(2)]
    plain = forebay.open(truths, ["t"])
    same(plain[:]["t"], np.array([True, False] * 2))
    assert "categories" not in plain.describe()["fields"]["t"]
