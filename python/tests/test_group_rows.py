"""Rows of groups as samples, and stores put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import same

import forebay
from forebay import Field, Groups

RANDOM = np.random.default_rng(41)
# Conformations and atoms of each molecule.
SIZES = [(3, 4), (1, 2), (0, 5), (6, 4), (2, 7)]


def write(path: Path, sizes: list[tuple[int, int]] = SIZES, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        for number, (rows, atoms) in enumerate(sizes):
            group = file.create_group(f"mol_{number}")
            chunks = {"chunks": (min(2, rows), atoms, 3), **options} if options and rows else {}
            group.create_dataset("coordinates", data=RANDOM.random((rows, atoms, 3)).astype("f4"), **chunks)
            group["energy"] = RANDOM.random(rows)
            group["species"] = RANDOM.integers(1, 9, atoms)
            group["cell"] = RANDOM.random((3, 3))
            group.create_dataset("name", data=f"molecule {number}", dtype=h5py.string_dtype())
    return path


def expected(paths: list[Path]) -> list[dict[str, Any]]:
    """Each row of each group, as h5py reads it."""
    rows = []
    for path in paths:
        with h5py.File(path) as file:
            for name in sorted(file):
                group = file[name]
                whole = {member: group[member][()] for member in ("species", "cell")}
                whole["name"] = group["name"].asstr()[()]
                rows += [
                    {"coordinates": group["coordinates"][row], "energy": group["energy"][row], **whole}
                    for row in range(len(group["energy"]))
                ]
    return rows


def opened(paths: list[Path], **options: Any) -> forebay.Dataset:
    whole = [Field(name, samples=Groups("mol_*")) for name in ("species", "cell", "name")]
    return forebay.open(paths, ["coordinates", *whole], label="energy", samples=Groups("mol_*", rows=True), **options)


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["plain", "gzip"])
@pytest.mark.parametrize("shuffle", ["none", "block", "full"])
def test_rows_of_groups_are_samples_with_what_their_group_has_in_common(tmp_path: Path, options: Any, shuffle: str) -> None:
    paths = [write(tmp_path / "a.h5", **options), write(tmp_path / "b.h5", SIZES[::-1], **options)]
    ds, rows = opened(paths), expected(paths)
    assert len(ds) == len(rows) == 24
    seen = []
    for batch in ds.loader(batch_size=5, shuffle=shuffle, lanes=12 if shuffle == "block" else None):
        pieces = {name: batch.parts(name) for name in batch}
        for at, sample in enumerate(batch.indices.tolist()):
            seen.append(sample)
            assert batch["name"][at] == rows[sample]["name"]
            for name in ("coordinates", "energy", "species", "cell"):
                same(np.asarray(pieces[name][at]), rows[sample][name])
    assert sorted(seen) == list(range(24))
    assert [part.indices.size for part in ds.split([0.5, 0.5], by="file")] == [12, 12]
    same(ds[7]["coordinates"], rows[7]["coordinates"])


def test_members_of_other_numbers_of_rows_are_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        del file["mol_1/energy"]
        file["mol_1/energy"] = [1.0, 2.0]
    with pytest.raises(forebay.InvalidError, match="mol_1/energy.*has 2 rows, 'mol_1/coordinates' 1"):
        opened([path])
    with pytest.raises(forebay.InvalidError, match="comes with every|has others|samples"):
        forebay.open(path, [Field("species", samples=Groups("mol_?"))], label="energy", samples=Groups("mol_*", rows=True))


def filled(count: int, first: int = 0, seed: int = 0) -> tuple[forebay.Store, list[Any]]:
    store = forebay.Store()
    draw = np.random.default_rng(seed)
    lists = [draw.random((2, number % 4)).astype("f4") for number in range(count)]
    store.add("x", np.arange(first, first + count, dtype="i8"))
    store.add("picture", np.arange(count * 6, dtype="u1").reshape(count, 2, 3))
    store.add("edges", lists)
    return store, lists


def test_stores_put_together_give_the_samples_of_each(tmp_path: Path) -> None:
    (one, first), (other, second) = filled(11), filled(7, 11, 1)
    both = forebay.concat(one, other)
    assert len(both) == 18 and both[12]["x"] == 12
    lists = [*first, *second]
    seen = []
    for batch in both.loader(batch_size=4, shuffle="full", seed=5):
        for at, sample in enumerate(batch.indices.tolist()):
            seen.append(sample)
            assert batch["x"][at] == sample
            same(batch["picture"][at], (other if sample > 10 else one)[sample - 11 * (sample > 10)]["picture"])
            same(batch.parts("edges")[at], lists[sample])
    assert sorted(seen) == list(range(18))
    parts = forebay.concat(one.take([5, 3]), other)
    assert [parts[at]["x"] for at in range(3)] == [5, 3, 11]
    padded = list(both.loader(batch_size=5, tail="pad"))[-1]
    assert padded["x"].tolist() == [15, 16, 17, 0, 0] and padded.offsets["edges"][-2:].tolist() == [padded["edges"].shape[1]] * 2
    last = list(both.loader(batch_size=1, tail="pad", rank=3, world=4))[-1]
    assert last.indices.tolist() == [-1] and sorted(last) == ["edges", "picture", "x"], "a batch of nothing but padding"
    both.close()


def test_stores_that_were_put_together_are_put_beside_others(tmp_path: Path) -> None:
    (one, _), (other, _), (third, _) = filled(4), filled(3, 4, 1), filled(5, 7, 2)
    all_of_them = forebay.concat(forebay.concat(one, other), third)
    assert [sample["x"] for sample in (all_of_them[at] for at in range(12))] == list(range(12))
    parts = forebay.concat(all_of_them.take([6, 1]), third)
    assert [parts[at]["x"] for at in range(3)] == [6, 1, 7]
    with pytest.raises(forebay.InvalidError, match="read alone"):
        all_of_them.fill(reader=lambda number: {"x": number}, count=3)
    all_of_them.close()


def test_stores_are_mixed_and_resumed_as_sets_of_files_are() -> None:
    (one, _), (other, _) = filled(12), filled(30, 100, 1)
    mixed = forebay.mix({one: 0.25, other: 0.75})
    loader = mixed.loader(batch_size=8, seed=3)
    batches = [batch["x"].tolist() for batch in loader]
    assert all(sum(x < 100 for x in batch) == 2 for batch in batches) and len(batches) == 5
    again = mixed.loader(batch_size=8, seed=3)
    taken = iter(again)
    next(taken), next(taken)
    state = again.state_dict()
    resumed = forebay.mix({one: 0.25, other: 0.75}).loader(batch_size=8, seed=3)
    resumed.load_state_dict(state)
    assert [batch["x"].tolist() for batch in resumed] == batches[2:]
    with pytest.raises(forebay.InvalidError, match="read alone"):
        forebay.concat(one, other).add("y", np.zeros(12))


def test_stores_of_other_fields_and_sets_of_files_are_refused(tmp_path: Path) -> None:
    one, _ = filled(4)
    other = forebay.Store()
    other.add("x", np.zeros(3))
    with pytest.raises(forebay.InvalidError, match="has the fields"):
        forebay.concat(one, other)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(4)
    with pytest.raises(TypeError, match="fill a store with both"):
        forebay.concat(one, forebay.open(tmp_path / "a.h5", ["x"]))  # type: ignore[call-overload]


def test_a_field_that_comes_along_chooses_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    ds, rows = opened([path]), expected([path])
    chosen = ds.where("name", ("==", "molecule 3")).indices.tolist()
    assert chosen == [number for number, row in enumerate(rows) if row["name"] == "molecule 3"] and len(chosen) == 6
