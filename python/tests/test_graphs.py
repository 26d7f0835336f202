"""Graphs of PyTorch Geometric: a batch is what its own `Batch.from_data_list` makes of the same graphs."""

from __future__ import annotations

import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import forebay
import forebay.torch
from forebay import Field, Ragged

geometric = pytest.importorskip("torch_geometric.data")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def write(path: Path, sizes: list[int], seed: int = 0, index: str = "i8") -> list[dict[str, Any]]:
    """Graphs with nodes, edges and what each has one of; gives them one by one."""
    random = np.random.default_rng(seed)
    graphs = []
    for size in sizes:
        edges = int(random.integers(0, 2 * size + 1)) if size else 0
        graphs.append(
            {
                "x": random.normal(size=(size, 3)).astype("f4"),
                "z": random.integers(1, 9, size),
                "edge_index": random.integers(0, max(size, 1), (2, edges)).astype(index),
                "edge_attr": random.normal(size=(edges, 2)),
                "energy": np.float32(random.normal()),
                "dipole": random.normal(size=3),
            }
        )
    with h5py.File(path, "w") as file:
        for name in ("x", "z", "edge_attr"):
            file[name] = np.concatenate([graph[name] for graph in graphs])
        file["edge_index"] = np.concatenate([graph["edge_index"] for graph in graphs], axis=1)
        file["pairs"] = file["edge_index"][:].T
        for name in ("energy", "dipole"):
            file[name] = np.stack([graph[name] for graph in graphs])
        file["nodes"] = np.concatenate([[0], np.cumsum([len(graph["x"]) for graph in graphs])])
        file["edges"] = np.concatenate([[0], np.cumsum([len(graph["edge_attr"]) for graph in graphs])])
    return graphs


OFFSETS = {"x": "nodes", "z": "nodes", "edge_index": "edges", "edge_attr": "edges"}
NAMES = ["x", "z", "edge_index", "edge_attr", "energy", "dipole"]


def opened(path: Path, names: list[str] = NAMES) -> forebay.Dataset:
    return forebay.open(path, names, samples=Ragged(offsets=OFFSETS, axis={"edge_index": 1}))


def theirs(graphs: list[dict[str, Any]], names: list[str] = NAMES, **more: Any) -> Any:
    """What PyTorch Geometric makes of the graphs; a vector of each is a row, as it wants it."""
    made = []
    for graph in graphs:
        fields = {name: torch.from_numpy(np.asarray(graph[name])) for name in names}
        fields["edge_index"] = fields["edge_index"].long()
        if "dipole" in names:
            fields["dipole"] = fields["dipole"][None]
        if "x" not in names:
            fields["num_nodes"] = len(graph["z"])
        made.append(geometric.Data(**fields, **more))
    return geometric.Batch.from_data_list(made)


def alike(ours: Any, other: Any) -> None:
    """Two batches, or graphs, have the same bits under the same names."""
    assert type(ours) is type(other) and sorted(ours.keys()) == sorted(other.keys())
    for name in other.keys():
        mine, expected = ours[name], other[name]
        if not isinstance(expected, torch.Tensor):
            assert mine == expected
            continue
        assert mine.dtype == expected.dtype and mine.shape == expected.shape, name
        assert torch.equal(mine, expected), name


def same_batch(ours: Any, expected: Any) -> None:
    alike(ours, expected)
    assert all(value.is_contiguous() for _, value in ours if isinstance(value, torch.Tensor))
    assert ours.num_graphs == expected.num_graphs and ours.num_nodes == expected.num_nodes
    for name, slices in expected._slice_dict.items():
        assert torch.equal(ours._slice_dict[name], slices), name
        assert torch.equal(ours._inc_dict[name], expected._inc_dict[name]), name
    for mine, graph in zip(ours.to_data_list(), expected.to_data_list(), strict=True):
        alike(mine, graph)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=12), seed=st.integers(0, 99), asked=st.data())
def test_a_batch_is_that_of_from_data_list(tmp_path: Path, sizes: list[int], seed: int, asked: st.DataObject) -> None:
    graphs = write(tmp_path / "graphs.h5", sizes, seed)
    numbers = asked.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=6))
    batch = forebay.torch.Dataset(opened(tmp_path / "graphs.h5")).__getitems__(numbers)
    same_batch(forebay.torch.graphs(forebay.torch.collate(batch)), theirs([graphs[number] for number in numbers]))


@pytest.mark.parametrize("names", [NAMES, ["z", "edge_index", "energy"]])
def test_padding_is_no_graph(tmp_path: Path, names: list[str]) -> None:
    graphs = write(tmp_path / "graphs.h5", [3, 0, 5, 2, 4])
    loader = forebay.torch.Loader(
        opened(tmp_path / "graphs.h5", names), batch_size=3, rank=1, world=2, tail="pad", check_ranks=False, map=forebay.torch.graphs
    )
    (made,) = loader
    expected = [number for number in next(iter(opened(tmp_path / "graphs.h5").loader(batch_size=3, rank=1, world=2, tail="pad"))).indices if number >= 0]
    assert len(expected) == 2
    same_batch(made, theirs([graphs[number] for number in expected], names))


def test_a_batch_of_nothing_but_padding_has_no_graphs(tmp_path: Path) -> None:
    write(tmp_path / "graphs.h5", [3, 0])
    loader = forebay.torch.Loader(
        opened(tmp_path / "graphs.h5"), batch_size=2, rank=1, world=2, tail="pad", check_ranks=False, map=forebay.torch.graphs
    )
    made = [one.num_graphs for one in loader]
    other = forebay.torch.Loader(
        opened(tmp_path / "graphs.h5"), batch_size=2, rank=0, world=2, tail="pad", check_ranks=False, map=forebay.torch.graphs
    )
    assert sum(made) + sum(one.num_graphs for one in other) == 2


def test_graphs_of_as_many_nodes_each_lose_their_padding_too(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "even.h5", "w") as file:
        file["x"], file["energy"] = np.arange(5 * 4 * 2.0).reshape(5, 4, 2), np.arange(5.0)
    loader = forebay.torch.Loader(
        forebay.open(tmp_path / "even.h5", ["x", "energy"]), batch_size=3, tail="pad", map=forebay.torch.graphs
    )
    assert [(one.num_graphs, one.num_nodes, one.energy.tolist()) for one in loader] == [(3, 12, [0, 1, 2]), (2, 8, [3, 4])]


def test_a_loader_makes_graphs_ahead_and_nodes_are_counted_by_the_field_that_is_named(tmp_path: Path) -> None:
    graphs = write(tmp_path / "graphs.h5", [3, 0, 5, 2, 4, 1, 3], index="i4")
    names = ["z", "edge_index", "energy"]
    ds = opened(tmp_path / "graphs.h5", names)
    plain = [batch.indices.tolist() for batch in ds.loader(batch_size=3, shuffle="full", seed=4)]
    for make in (forebay.torch.graphs, partial(forebay.torch.graphs, nodes="z")):
        loader = forebay.torch.Loader(ds, batch_size=3, shuffle="full", seed=4, map=make, map_threads=2)
        for made, numbers in zip(loader, plain, strict=True):
            same_batch(made, theirs([graphs[number] for number in numbers], names))


def test_edges_that_lie_in_rows_are_turned(tmp_path: Path) -> None:
    graphs = write(tmp_path / "graphs.h5", [3, 2, 4])
    fields = {"x": "x", "edge_index": Field("pairs", samples=Ragged(offsets="edges"))}
    ds = forebay.open(tmp_path / "graphs.h5", fields, samples=Ragged(offsets={"x": "nodes"}))
    (batch,) = forebay.torch.Loader(ds, batch_size=3)
    same_batch(forebay.torch.graphs(batch), theirs(graphs, ["x", "edge_index"]))


def test_edges_of_which_each_graph_has_as_many_are_joined(tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 2, (3, 2, 4))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["n"], file["edge_index"] = np.ones((7, 1), "f4"), [2, 3, 2], edges
        file["root_index"] = [1, 0, 1]
    ds = forebay.open(tmp_path / "a.h5", ["x", "edge_index", "root_index"], samples=Ragged(lengths={"x": "n"}))
    (batch,) = forebay.torch.Loader(ds, batch_size=3)
    parts = zip((2, 3, 2), edges, (1, 0, 1))
    graphs = [
        geometric.Data(x=torch.ones(n, 1), edge_index=torch.from_numpy(e), root_index=torch.tensor(r)) for n, e, r in parts
    ]
    same_batch(forebay.torch.graphs(batch), geometric.Batch.from_data_list(graphs))


def test_nodes_of_which_each_graph_has_as_many_are_joined(tmp_path: Path) -> None:
    graphs = write(tmp_path / "graphs.h5", [3] * 5)
    with h5py.File(tmp_path / "graphs.h5", "a") as file:
        for name in ("x", "z"):
            even = np.stack([graph[name] for graph in graphs])
            del file[name]
            file[name] = even
        file["bond"] = file["edge_attr"][:]
    offsets = {"edge_index": "edges", "bond": "edges"}
    names = ["x", "z", "edge_index", "bond", "energy"]
    ds = forebay.open(tmp_path / "graphs.h5", names, samples=Ragged(offsets=offsets, axis={"edge_index": 1}))
    (batch,) = forebay.torch.Loader(ds, batch_size=5)
    theirs_of = [{**graph, "bond": graph["edge_attr"]} for graph in graphs]
    same_batch(forebay.torch.graphs(batch), theirs(theirs_of, names))


def test_the_axis_of_edges_is_known_of_parts_of_a_set_and_of_batches_of_workers(tmp_path: Path) -> None:
    # Two edges: an array of 2 by 2, of which either axis may be that of the edges.
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["edge_index"], file["ptr"] = np.ones((4, 1), "f4"), [[0, 1], [1, 0]], [0, 1, 2]
        file["nodes"] = [0, 2, 4]
    offsets = {"x": "nodes", "edge_index": "ptr"}
    ds = forebay.open(tmp_path / "a.h5", ["x", "edge_index"], samples=Ragged(offsets=offsets, axis={"edge_index": 1}))
    expected = [[0, 3], [1, 2]]
    part = ds.take([0, 1])
    assert [one.tolist() for one in part[:].parts("edge_index")] == [[[0], [1]], [[1], [0]]]
    data = forebay.torch.Dataset(ds)
    assert forebay.torch.graphs(forebay.torch.collate(data.__getitems__([0, 1]))).edge_index.tolist() == expected
    workers = DataLoader(data, batch_size=2, num_workers=1, collate_fn=forebay.torch.collate, multiprocessing_context="fork")
    for batch in (*workers, *forebay.torch.Loader(part, batch_size=2)):
        assert forebay.torch.graphs(batch).edge_index.tolist() == expected
        assert forebay.torch.graphs(pickle.loads(pickle.dumps(batch))).edge_index.tolist() == expected


def test_what_are_no_graphs_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "graphs.h5", [3, 2, 4])
    ds = opened(tmp_path / "graphs.h5")
    (batch,) = forebay.torch.Loader(ds, batch_size=3)
    with pytest.raises(TypeError, match=r"forebay\.torch\.Loader"):
        forebay.torch.graphs(ds[:])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'energy' do not differ in length"):
        forebay.torch.graphs(batch, nodes="energy")
    edges = opened(tmp_path / "graphs.h5", ["edge_index", "energy"])
    with pytest.raises(ValueError, match="no field has a row a node: .*edge_index"):
        forebay.torch.graphs(next(iter(forebay.torch.Loader(edges, batch_size=3))))
    both = forebay.open(
        tmp_path / "graphs.h5", {"z": "z", "bond": "edge_attr"}, samples=Ragged(offsets={"z": "nodes", "bond": "edges"})
    )
    with pytest.raises(ValueError, match=r"'z' and 'bond' differ in length.*nodes='z'"):
        forebay.torch.graphs(next(iter(forebay.torch.Loader(both, batch_size=3))))
    named = forebay.open(tmp_path / "graphs.h5", {"x": "x", "batch": "energy"}, samples=Ragged(offsets={"x": "nodes"}))
    with pytest.raises(ValueError, match="'batch'.*give it another name"):
        forebay.torch.graphs(next(iter(forebay.torch.Loader(named, batch_size=3))))


def test_without_the_package_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "graphs.h5", [3, 2])
    (batch,) = forebay.torch.Loader(opened(tmp_path / "graphs.h5"), batch_size=2)
    for name in [name for name in sys.modules if name.split(".")[0] == "torch_geometric"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Missing("torch_geometric"), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="pip install torch_geometric"):
        forebay.torch.graphs(batch)


class _Missing:
    """Finds no module of one name, as where it is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_dataset_of_graphs_gives_each_as_pytorch_geometric_has_it(tmp_path: Path) -> None:
    graphs = write(tmp_path / "a.h5", [3, 1, 5, 2, 7, 4])
    ds = forebay.open(tmp_path / "a.h5", NAMES, samples=Ragged(offsets=OFFSETS, axis={"edge_index": 1}))
    store = forebay.Store()
    store.fill(ds)
    for source in (ds, store, ds.take(slice(0, 6))):
        dataset = forebay.torch.GraphDataset(source, dataset_name="small")
        assert dataset.len() == len(dataset) == 6 and isinstance(dataset, torch.utils.data.Dataset)
        for number, (graph, expected) in enumerate(zip(dataset, graphs, strict=True)):
            assert isinstance(graph, geometric.Data) and graph.dataset_name == "small"
            assert graph.num_nodes == len(expected["x"]) and graph.num_edges == expected["edge_index"].shape[1]
            for name, values in expected.items():
                found = dataset.get(number)[name]
                np.testing.assert_array_equal(found.reshape(values.shape).numpy(), values)
        with pytest.raises(NotImplementedError, match="transform="):
            dataset.apply(lambda one: None)
        assert dataset[-1].num_nodes == 4 and [one.num_nodes for one in dataset.map(lambda one: one)] == [3, 1, 5, 2, 7, 4]
    with pytest.raises(IndexError):
        dataset.get(6)
    store.close()


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
def test_a_loader_of_pytorch_geometric_reads_the_graphs_of_a_batch_together(tmp_path: Path) -> None:
    from torch.utils.data.distributed import DistributedSampler
    from torch_geometric.loader import DataLoader as GraphLoader

    graphs = write(tmp_path / "a.h5", [3, 1, 5, 2, 7, 4])
    ds = forebay.open(tmp_path / "a.h5", NAMES, samples=Ragged(offsets=OFFSETS, axis={"edge_index": 1}))
    dataset = forebay.torch.GraphDataset(ds, transform=lambda one: geometric.Data(x=one.x, edge_index=one.edge_index, y=one.energy))
    seen = []
    for rank in range(2):
        sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, seed=3)
        for batch in GraphLoader(dataset, batch_size=2, sampler=sampler):
            assert batch.num_graphs <= 2 and batch.ptr[-1] == len(batch.x) and len(batch.y) == batch.num_graphs
            seen += batch.y.tolist()
    assert sorted(seen) == sorted(float(graph["energy"]) for graph in graphs)
