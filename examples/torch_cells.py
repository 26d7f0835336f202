"""Single cells: a classifier of cell types over AnnData files as they are, sparse rows included.

Usage: python torch_cells.py [FILES...]   # .h5ad files with sparse X (CSR) and a categorical column "cell_type"
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> list[str]:
    """Two files of cells that count their types in different orders."""
    import anndata
    import numpy as np
    import pandas
    import scipy.sparse

    random = np.random.default_rng(0)
    types, genes = np.array(["B", "NK", "T"]), 60
    levels = random.gamma(0.3, 4.0, (len(types), genes))
    paths = []
    for number, order in enumerate((["B", "NK", "T"], ["T", "NK", "B"])):
        kind = random.integers(0, len(types), 400)
        counts = scipy.sparse.csr_matrix(random.poisson(levels[kind]).astype("f4"))
        names = np.array([f"cell{number}_{cell}" for cell in range(400)])
        obs = pandas.DataFrame({"cell_type": pandas.Categorical(types[kind], categories=order)}, index=names)
        var = pandas.DataFrame(index=np.array([f"gene{gene}" for gene in range(genes)]))
        path = folder / f"donor{number}.h5ad"
        anndata.AnnData(counts, obs=obs, var=var).write_h5ad(path, compression="gzip")
        paths.append(str(path))
    return paths


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    ds = forebay.open(files, fields=["X"], label="cell_type", convention="anndata")
    types = ds.categories["cell_type"]
    print(f"{ds}, types {types}")
    train, valid = ds.split([0.9, 0.1], seed=1)
    loader = forebay.torch.Loader(train, batch_size=32, shuffle="block", seed=2)
    genes = ds.describe()["fields"]["X"]["shape"][0]
    model = nn.Linear(genes, len(types))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(3):
        for batch in loader:
            # A row is one cell with all its genes; the label one code for all files.
            loss = nn.functional.cross_entropy(model(batch["X"].log1p()), batch["cell_type"].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        cells = valid[:]
        guess = model(torch.from_numpy(cells["X"]).log1p()).argmax(1).numpy()
        print(f"epoch {epoch}: {(guess == cells['cell_type']).mean():.0%} right")
    sparse(files, genes)


def sparse(files: list[str], genes: int) -> None:
    """The stored values and columns of the rows alone, as a sparse tensor over the same memory."""
    rows = forebay.open(files, fields=["X/data", forebay.Field("X/indices", dtype="int64")], convention="anndata")
    for batch in forebay.torch.Loader(rows, batch_size=100):
        ends = batch.offsets["X/data"]
        matrix = torch.sparse_csr_tensor(ends, batch["X/indices"], batch["X/data"], (batch.size, genes))
    print(f"the last batch has {matrix.values().numel()} values of {batch.size * genes}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
