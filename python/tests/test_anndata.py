"""Cells of AnnData: what AnnData writes is read as AnnData, h5py and SciPy read it, bit for bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import same

import forebay
from forebay import Field

anndata = pytest.importorskip("anndata")
import pandas  # noqa: E402
import scipy.sparse  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*Zarr:UserWarning", "ignore::DeprecationWarning")

GENES = 40
TYPES = ["B", "NK", "T", "mast"]


def cells(count: int = 70, seed: int = 0, types: list[str] = TYPES, dtype: str = "f4") -> Any:
    """Cells with everything that a cell may have one row of."""
    random = np.random.default_rng(seed)
    counts = random.poisson(0.7, (count, GENES))
    counts[3] = 0
    matrix = scipy.sparse.csr_matrix(counts.astype(dtype))
    codes = random.integers(-1, len(types), count)
    obs = pandas.DataFrame(
        {
            "cell_type": pandas.Categorical.from_codes(codes, types),
            "age": random.integers(0, 90, count),
            "quality": random.random(count),
            "is_doublet": random.random(count) < 0.2,
            "donor": [f"donor {number % 5}" for number in range(count)],
            "day": pandas.array([None if number % 3 else number for number in range(count)], "Int64"),
            "treated": pandas.array([None if number % 4 else number % 8 == 0 for number in range(count)], "boolean"),
        },
        index=[f"cell {seed} {number}" for number in range(count)],
    )
    made = anndata.AnnData(
        matrix,
        obs=obs,
        var=pandas.DataFrame(index=[f"gene {number}" for number in range(GENES)]),
        layers={"counts": scipy.sparse.csr_matrix(counts), "dense": counts.astype("f8")},
        obsm={"X_pca": random.normal(size=(count, 6))},
        obsp={"near": scipy.sparse.csr_matrix(np.eye(count, dtype="f4"))},
    )
    made.raw = made.copy()
    return made


def write(path: Path, made: Any) -> Path:
    write = made.write_zarr if path.suffix == ".zarr" else made.write_h5ad
    write(path, convert_strings_to_categoricals=False)
    return path


FIELDS = ["X", "layers/counts", "layers/dense", "raw/X", "obsm/X_pca", "obsp/near", "age", "quality", "obs/is_doublet"]


@pytest.mark.parametrize("name", ["a.h5ad", "a.zarr"])
def test_every_element_that_has_a_row_a_cell_is_that_of_anndata(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, cells())
    read = (anndata.read_zarr if name.endswith("zarr") else anndata.read_h5ad)(path)
    ds = forebay.open(path, FIELDS, label="cell_type", convention="anndata")
    expected = {
        "X": read.X.toarray(),
        "layers/counts": read.layers["counts"].toarray(),
        "layers/dense": read.layers["dense"],
        "raw/X": read.raw.X.toarray(),
        "obsm/X_pca": read.obsm["X_pca"],
        "obsp/near": read.obsp["near"].toarray(),
        "age": read.obs["age"].to_numpy(),
        "quality": read.obs["quality"].to_numpy(),
        "obs/is_doublet": read.obs["is_doublet"].to_numpy(),
        "cell_type": read.obs["cell_type"].cat.codes.to_numpy(),
    }
    assert ds.fields == list(expected) and ds.label == "cell_type"
    assert ds.categories == {"cell_type": dict(zip(read.obs["cell_type"].cat.categories, range(len(TYPES))))}
    for batch in (ds[:], *ds.loader(batch_size=11, shuffle="full"), *ds.loader(batch_size=11, shuffle="block")):
        for field, values in expected.items():
            same(batch[field], values[batch.indices])
    part = ds.split([0.5, 0.5])[1]
    same(part[:]["X"], expected["X"][part.indices])
    assert part.categories == ds.categories and pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint


def test_the_stored_values_and_columns_of_rows_are_those_of_scipy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5ad", cells())
    matrix = anndata.read_h5ad(path).X
    ds = forebay.open(path, ["X/data", "X/indices"], label="cell_type", convention="anndata")
    for batch in ds.loader(batch_size=16, shuffle="full"):
        ends = batch.offsets["X/data"]
        rows = matrix[batch.indices]
        same(batch["X/data"], rows.data)
        same(batch["X/indices"], rows.indices)
        assert ends.tolist() == rows.indptr.tolist() == batch.offsets["X/indices"].tolist()
        made = scipy.sparse.csr_matrix((batch["X/data"], batch["X/indices"], ends), (batch.size, GENES))
        assert (made != rows).nnz == 0


def test_nullable_columns_come_with_their_masks(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5ad", cells())
    read = anndata.read_h5ad(path).obs
    batch = forebay.open(path, ["day", Field("treated", name="t")], convention="anndata")[:]
    assert list(batch) == ["day", "day_mask", "t", "t_mask"]
    for name, column in (("day", read["day"]), ("t", read["treated"])):
        missing = column.isna().to_numpy()
        same(batch[f"{name}_mask"], missing)
        assert batch[name][~missing].tolist() == column.dropna().tolist()


def test_x_is_what_comes_if_nothing_is_named_and_a_field_says_what_it_is_cast_to(tmp_path: Path) -> None:
    made = cells()
    path = write(tmp_path / "a.h5ad", made)
    same(forebay.open(path, convention="anndata")[:]["X"], made.X.toarray())
    cast = forebay.open(path, {"x": Field("X", dtype="float64", scale=0.5)}, convention="anndata")
    same(cast[:]["x"], made.X.toarray().astype("f8") * 0.5)
    assert list(forebay.open(path, label="cell_type", convention="anndata")[0]) == ["X", "cell_type"]


def test_cells_of_many_files_have_one_table_of_types(tmp_path: Path) -> None:
    sets = [cells(20, 1, ["B", "T"]), cells(30, 2, ["T", "mast", "B"]), cells(10, 3, ["NK"])]
    for number, made in enumerate(sets):
        write(tmp_path / f"{number}.h5ad", made)
    for files in (tmp_path / "*.h5ad", tmp_path, [tmp_path / f"{number}.h5ad" for number in range(3)]):
        ds = forebay.open(files, ["X"], label="cell_type", convention="anndata")
        batch = ds[:]
        same(batch["X"], np.concatenate([made.X.toarray() for made in sets]))
        names = {code: name for name, code in ds.categories["cell_type"].items()}
        expected = [name if isinstance(name, str) else None for made in sets for name in made.obs["cell_type"]]
        assert [names.get(code) for code in batch["cell_type"].tolist()] == expected


def test_files_whose_genes_differ_are_refused_by_name(tmp_path: Path) -> None:
    first, other = cells(8), cells(8, 1)
    write(tmp_path / "a.h5ad", first)
    write(tmp_path / "b.h5ad", other[:, ::-1].copy())
    files = [tmp_path / "a.h5ad", tmp_path / "b.h5ad"]
    for field in ("X", "layers/dense", "X/data"):
        with pytest.raises(forebay.InvalidError, match=r"b\.h5ad.*genes.*a\.h5ad"):
            forebay.open(files, [field], convention="anndata")
    # Names that may be missing are stored as a group.
    for file in files:
        with h5py.File(file, "a") as opened:
            names = opened["var/_index"][...]
            del opened["var/_index"]
            opened["var/_index/values"], opened["var/_index/mask"] = names, np.zeros(len(names), bool)
            opened["var/_index"].attrs["encoding-type"] = "nullable-string-array"
    with pytest.raises(forebay.InvalidError, match=r"b\.h5ad.*genes.*a\.h5ad"):
        forebay.open(files, ["X"], convention="anndata")
    # What does not run along genes is of no concern.
    assert len(forebay.open(files, ["raw/X", "cell_type"], convention="anndata")) == 16


def test_what_is_not_there_is_named_with_what_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5ad", cells())
    with pytest.raises(forebay.NotFoundError, match=r"a\.h5ad.*'nothing'(?s:.*)X, layers/counts.*obsm/X_pca.*of obs .*cell_type"):
        forebay.open(path, ["nothing"], convention="anndata")
    for name in ("var/_index", "uns", "varm"):
        with pytest.raises(forebay.InvalidError, match="no row for each cell"):
            forebay.open(path, [name], convention="anndata")
    for name in ("obs", "layers"):
        with pytest.raises(forebay.InvalidError, match=f"'{name}' holds several.*(?s:.*)name one of them: {name}/"):
            forebay.open(path, [name], convention="anndata")
    with pytest.raises(ValueError, match="there is 'anndata'"):
        forebay.open(path, ["X"], convention="loom")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a sample is a cell"):
        forebay.open(path, ["X"], samples=forebay.Fixed(2), convention="anndata")


def test_a_matrix_that_is_stored_by_columns_is_refused(tmp_path: Path) -> None:
    made = cells()
    made.X = made.X.tocsc()
    path = write(tmp_path / "a.h5ad", made)
    with pytest.raises(forebay.UnsupportedError, match=r"by columns \(CSC\).*tocsr"):
        forebay.open(path, ["X"], convention="anndata")


def test_columns_of_older_files_are_found(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = "csr", (3, 4)
        group["data"], group["indices"] = np.array([1, 2, 3], "f4"), np.array([0, 3, 1], "i4")
        group["indptr"] = np.array([0, 1, 1, 3], "i4")
        file["obs/kind"] = np.array([1, 0, -1], "i1")
        file["obs/__categories/kind"] = np.array(["B", "T"], h5py.string_dtype())
    ds = forebay.open(tmp_path / "old.h5ad", ["X"], label="kind", convention="anndata")
    same(ds[:]["X"], np.array([[1, 0, 0, 0], [0, 0, 0, 0], [0, 3, 0, 2]], "f4"))
    same(ds[:]["kind"], np.array([1, 0, -1], "i1"))
    assert ds.categories == {"kind": {"B": 0, "T": 1}}
