"""Graphs of a batch, as PyTorch Geometric has them."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from .dataset import Batch

_INFERRED = ("x", "pos", "feat", "node_type", "n_id")
"""Fields of nodes that PyTorch Geometric counts nodes by."""


def graphs(batch: Batch, nodes: str | None = None) -> Any:
    """The samples of ``batch`` as one ``torch_geometric.data.Batch``: fields of nodes and edges are those whose samples differ in
    length.

    >>> loader = forebay.torch.Loader(ds, batch_size=64, map=forebay.torch.graphs)
    >>> for graphs in loader:
    ...     model(graphs.x, graphs.edge_index, graphs.batch)

    It is what ``Batch.from_data_list`` makes of one ``Data`` a sample, without a loop over them: ``ptr`` and ``batch`` say which graph a
    node is of, and fields whose name has ``index`` in it, and ``face``, count the nodes of the whole batch. These are ``int64``, and joined
    along their last axis: such a field of shape (edges, 2) is transposed. A field with one value a sample, such as an energy, has a row a
    graph. Where all graphs have as many nodes, every field whose samples have as many rows is one of nodes. ``graphs[3]`` and
    ``to_data_list`` give the samples. Padding (``tail="pad"``, index -1) is left out: ``num_graphs`` is how many samples there are, which
    may be 0.

    ``nodes`` names a field with a row a node; by default ``x`` or ``pos``, or else one of those that do not have ``edge`` in their name.
    """
    geometric = _torch_geometric()
    if not isinstance(batch, Batch):
        raise TypeError(f"graphs are made of batches of tensors, as forebay.torch.Loader gives them, not of {type(batch).__name__}")
    batch = _without_padding(batch)
    field = _node_field(batch, nodes)
    ptr = batch.offsets[field] if field in batch.offsets else _even_bounds(batch[field])
    made = geometric.Batch(_base_cls=geometric.Data)
    slices: dict[str, Any] = {}
    increments: dict[str, Any] = {}
    for name in batch:
        made[name], slices[name], increments[name] = _joined(batch, name, ptr, field not in batch.offsets)
    counts = ptr.diff()
    if field not in _INFERRED and "node" not in field:
        made._store._num_nodes = counts.tolist()
        made.num_nodes = int(ptr[-1])
    made.batch = _numbers(counts, int(ptr[-1]))
    made.ptr = ptr.clone()
    made._num_graphs, made._slice_dict, made._inc_dict = batch.size, slices, increments
    return made


def _without_padding(batch: Batch) -> Batch:
    """The samples of ``batch``, without slots that stand for none: an empty graph would count in a mean over graphs."""
    indices = torch.as_tensor(batch.indices)
    kept = indices >= 0
    if bool(kept.all()):
        return batch
    slots = kept.nonzero().flatten()
    numbers = slots.tolist()
    made = Batch()
    made.indices = indices[slots]
    for name, values in batch.items():
        if name in batch.offsets:
            # Padding has no rows: only its bounds go.
            bounds = batch.offsets[name]
            made[name], made.offsets[name] = values, torch.cat([bounds[:-1][kept.to(bounds.device)], bounds[-1:]])
        elif isinstance(values, torch.Tensor):
            made[name] = values[slots.to(values.device)]
        else:
            made[name] = [values[number] for number in numbers]
    if hasattr(batch, "_axes"):
        made._axes = batch._axes
    return made


def _joined(batch: Batch, name: str, ptr: torch.Tensor, is_even: bool) -> tuple[Any, torch.Tensor, torch.Tensor | None]:
    """A field of all graphs, which all have as many nodes where ``is_even``; where that of each begins, and what was added to it."""
    if name in ("batch", "ptr", "num_nodes"):
        raise ValueError(f"a field is called {name!r}, as what PyTorch Geometric adds: give it another name, fields={{'of_{name}': {name!r}}}")
    values = batch[name]
    rows = torch.arange(batch.size + 1)
    if not isinstance(values, torch.Tensor):
        return batch.parts(name), rows, None
    none = torch.zeros(batch.size, dtype=torch.int64)
    if name not in batch.offsets:
        if _counts_nodes(name):
            return _counted(values, ptr)
        if is_even and _has_row_a_node(name, values, ptr):
            return values.flatten(0, 1), _even_bounds(values).cpu(), none
        return values, rows, none
    bounds = batch.offsets[name]
    axis, last = batch._ragged_axis(name), values.dim() - 1
    if not _counts_nodes(name):
        return (values if axis == 0 else values.movedim(axis, 0).contiguous()), bounds.cpu(), none
    first = ptr[:-1].repeat_interleave(bounds.diff(), output_size=int(bounds[-1]))
    turned = values if axis == last else values.movedim(axis, last)
    return (turned.to(torch.int64) + first).contiguous(), bounds.cpu(), ptr[:-1].cpu()


def _counted(values: torch.Tensor, ptr: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers of nodes of which all graphs have as many, joined along the last axis."""
    first = ptr[:-1].reshape(-1, *(1 for _ in values.shape[1:]))
    added = values.to(torch.int64) + first
    each = values.shape[-1] if values.dim() > 1 else 1
    joined = added.movedim(0, -2).flatten(-2) if values.dim() > 1 else added
    return joined.contiguous(), torch.arange(len(first) + 1) * each, ptr[:-1].cpu()


def _counts_nodes(name: str) -> bool:
    """Whether PyTorch Geometric takes the values of a field for numbers of nodes."""
    return "index" in name or name == "face"


def _even_bounds(values: torch.Tensor) -> torch.Tensor:
    """Where graphs begin and end of which all have as many nodes."""
    return torch.arange(len(values) + 1, device=values.device) * values.shape[1]


def _has_row_a_node(name: str, values: torch.Tensor, ptr: torch.Tensor) -> bool:
    """Whether a field of samples of one shape has a row for each node."""
    if "edge" in name or values.dim() < 2:
        return False
    return torch.equal(ptr, _even_bounds(values).to(ptr))


def _numbers(counts: torch.Tensor, total: int) -> torch.Tensor:
    """The number of the graph that each node is of."""
    return torch.arange(len(counts), device=counts.device).repeat_interleave(counts, output_size=total)


def _node_field(batch: Batch, nodes: str | None) -> str:
    if nodes is not None:
        values = batch.get(nodes)
        if nodes in batch.offsets or not isinstance(values, torch.Tensor) or values.dim() < 2:
            batch._bounds(nodes)
        return nodes
    found = [name for name in batch.offsets if "edge" not in name and not _counts_nodes(name)]
    for name in _INFERRED:
        if name in found:
            return name
    for name in _INFERRED:
        if isinstance(batch.get(name), torch.Tensor) and batch[name].dim() > 2:
            return name
    if not found:
        raise ValueError(f"no field has a row a node: of those that differ in length there are {', '.join(batch.offsets) or 'none'}")
    for other in found[1:]:
        if not torch.equal(batch.offsets[found[0]], batch.offsets[other]):
            raise ValueError(
                f"fields {found[0]!r} and {other!r} differ in length: say which has a row a node, as in "
                f"functools.partial(forebay.torch.graphs, nodes={found[0]!r})"
            )
    return found[0]


def _torch_geometric() -> Any:
    try:
        return importlib.import_module("torch_geometric.data")
    except ModuleNotFoundError as error:
        if error.name != "torch_geometric":
            raise
        message = "forebay.torch.graphs needs PyTorch Geometric: pip install torch_geometric"
        raise ModuleNotFoundError(message, name="torch_geometric") from None
