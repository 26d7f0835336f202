"""Tables of text, held against NumPy and the standard library's writer; and records with an index beside them."""

from __future__ import annotations

import csv
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import forebay

@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_tables(forebay_command: Any, tmp_path: Path, delimiter: str, header: bool) -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(-1000, 1000, 5000)
    real = rng.normal(size=5000)
    names = ["count", "real value", "name"]
    with open(tmp_path / "a.csv", "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        if header:
            writer.writerow(names)
        for index, (i, f) in enumerate(zip(whole, real)):
            writer.writerow([i, repr(float(f)), f'text "{index}", more\nlines' if index % 3 else "short"])
    path = tmp_path / "a.csv"
    if not header:
        names = ["column_0", "column_1", "column_2"]
    forebay_command.same(path, names[0], whole)
    forebay_command.same(path, names[1], real)
    forebay_command.same(path, "data", np.stack([whole.astype(float), real], axis=1))
    assert "texts" in forebay_command.refuses(path, names[2])


def test_what_numpy_writes(forebay_command: Any, tmp_path: Path) -> None:
    array = np.random.default_rng(1).normal(size=(3000, 7))
    array[5, 3], array[6, 2] = np.nan, np.inf
    np.savetxt(tmp_path / "a.csv", array, delimiter=",", fmt="%.17g")
    forebay_command.same(tmp_path / "a.csv", "data", array)


def test_rows_longer_than_a_first_look(forebay_command: Any, tmp_path: Path) -> None:
    array = np.random.default_rng(1).integers(0, 256, (9, 20_000))
    np.savetxt(tmp_path / "a.csv", array, delimiter=",", fmt="%d")
    forebay_command.same(tmp_path / "a.csv", "data", array.astype("<f8"))
    assert set(forebay_command.inspect(tmp_path / "a.csv")["variables"]) == {"data"}


def test_a_bad_cell_is_named(forebay_command: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n5,oops\n")
    for name in ("y", "data"):
        error = forebay_command.refuses(tmp_path / "a.csv", name)
        assert "line 4" in error and "'y'" in error and "oops" in error
    forebay_command.same(tmp_path / "a.csv", "x", np.array([1, 3, 5]))
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n" * 40 + "3\n")
    assert "line 42" in forebay_command.refuses(tmp_path / "a.csv", "x")


def test_empty_cells_are_nan(forebay_command: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\r\n1,2\r\n,4\r\n")
    found = np.frombuffer(forebay_command.dump(tmp_path / "a.csv", "x"), "<f8")
    assert found[0] == 1 and np.isnan(found[1])


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("columns", [None, [1990, 1991, 1992]], ids=["numbers", "years"])
def test_columns_that_pandas_names_by_numbers(forebay_command: Any, tmp_path: Path, index: bool, columns: Any) -> None:
    frame = pandas.DataFrame(np.random.default_rng(3).normal(size=(40, 3)), columns=columns)
    frame.to_csv(tmp_path / "a.csv", index=index)
    # By default pandas before 3 rounds the last digits.
    read = pandas.read_csv(tmp_path / "a.csv", float_precision="round_trip")
    forebay_command.same(tmp_path / "a.csv", "data", read.to_numpy(dtype="<f8"))
    for name in frame.columns:
        forebay_command.same(tmp_path / "a.csv", str(name), read[str(name)].to_numpy())


def test_words_for_what_is_missing_are_nan_as_in_pandas(forebay_command: Any, tmp_path: Path) -> None:
    words = ["", "NA", "N/A", "n/a", "null", "NULL", "None", "<NA>", "#N/A", "nan", "NaN", "-nan"]
    rows = "".join(f"{number},{word}\n" for number, word in enumerate(words))
    (tmp_path / "a.csv").write_text("x,y\n7,1.5\n" + rows)
    read = pandas.read_csv(tmp_path / "a.csv")
    found = np.frombuffer(forebay_command.dump(tmp_path / "a.csv", "y"), "<f8")
    np.testing.assert_array_equal(found, read["y"].to_numpy())
    assert np.isnan(found[1:]).all() and len(found) == len(words) + 1
    (tmp_path / "b.csv").write_text("x,y\n1,-\n2,3\n")
    np.testing.assert_array_equal(np.frombuffer(forebay_command.dump(tmp_path / "b.csv", "y"), "<f8"), [np.nan, 3])


def test_the_header_is_shown_and_can_be_set(
    forebay_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def header() -> str:
        return str(forebay_command.inspect(tmp_path / "a.csv")["groups"])

    (tmp_path / "a.csv").write_text("0,1\n7,8\n")
    assert "first row" in header() and "guessed" in header()
    assert "the first row names the columns (guessed" in forebay_command("inspect", tmp_path / "a.csv").stdout.decode()
    forebay_command.same(tmp_path / "a.csv", "data", np.array([[7.0, 8]]))
    monkeypatch.setenv("FOREBAY_CSV_HEADER", "no")
    assert "no header" in header() and "set by" in header()
    forebay_command.same(tmp_path / "a.csv", "data", np.array([[0.0, 1], [7, 8]]))
    monkeypatch.setenv("FOREBAY_CSV_HEADER", "perhaps")
    assert "yes, no or auto" in forebay_command.refuses(tmp_path / "a.csv", "data")


def test_text_that_is_no_table_is_not_taken(forebay_command: Any, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("1,2\n3,4\n")
    assert "not a file of a format" in forebay_command.refuses(tmp_path / "b.txt", "data")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("words, and\nmore words, here\n", "its first 2 rows have no number"),
        ('{"a": 1,\n"b": 2}', "it begins with {"),
        ("# station 7\na,b\n1,2\n", "remove its comment lines"),
        ("a,b\n1,2,3\n", "line 2 has 3 cells, line 1 has 2"),
        ("a;b\n", "it has one row, and that names the columns"),
        ("a,b\x00\n1,2\n", "it is not text"),
    ],
)
def test_a_file_named_csv_that_is_no_table_is_told_why(forebay_command: Any, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    refusal = forebay_command.refuses(path, "data")
    assert "named as CSV, but no table of numbers" in refusal and why in refusal
    with pytest.raises(forebay.UnsupportedError, match="no table of numbers"):
        forebay.open(path, ["data"])


def test_indexed_records(forebay_command: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(2).integers(0, 256, (6, 50), dtype="u1")
    path = tmp_path / "img_0_of_1.indexed_binary"
    path.write_bytes(rows.tobytes())
    offsets, sizes = Path(f"{path}.off.idx"), Path(f"{path}.sz.idx")
    offsets.write_bytes(struct.pack("6Q", *range(0, 300, 50)))
    sizes.write_bytes(struct.pack("6Q", *[50] * 6))
    assert forebay_command.inspect(path)["format"] == "indexed"
    forebay_command.same(path, "record", rows)
    offsets.write_bytes(struct.pack("3Q", 0, 100, 40))
    sizes.write_bytes(struct.pack("3Q", 7, 0, 20))
    flat = rows.reshape(-1)
    forebay_command.same(path, "record", np.concatenate([flat[:7], flat[40:60]]))
    forebay_command.same(path, "record@offsets", np.array([0, 7, 7, 27]))
    sizes.write_bytes(struct.pack("3Q", 7, 0, 2000))
    assert "record 2" in forebay_command.refuses(path, "record")


def test_of_columns_of_one_name_the_first_is_read_and_the_others_are_refused(forebay_command: Any, tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("t,a,b,a\nx,1,2,3\ny,4,5,6\n")
    shown = forebay_command("inspect", path).stdout.decode()
    assert "a <i8 (2,)" in shown and "refused: another variable has this name; read it as column 2 of `data`" in shown
    assert forebay.read(path, "a").tolist() == [1, 4]
    assert forebay.read(path, "data").tolist() == [[1, 2, 3], [4, 5, 6]]
