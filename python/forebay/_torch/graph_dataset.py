"""Graphs by number, as HydraGNN's data sets give them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .dataset import Dataset
from .graphs import graphs


class GraphDataset(Dataset):
    """Graphs of a set by number: each a ``torch_geometric.data.Data``, made as :func:`graphs` makes batches of them.

    It has what HydraGNN asks of a data set (its ``AbstractBaseDataset``): ``len()``, ``get(number)``, indexing, iteration,
    ``dataset_name``. Over a :class:`forebay.Store` it takes the place of HydraGNN's ``DistDataset``: graphs lie in the memory of all ranks,
    in as many copies as the store has replica groups. PyTorch's ``DataLoader``, and that of PyTorch Geometric, ask for the graphs of a
    batch together, and they are read together.

    Args:
        dataset: a data set, a store, or a part of one, whose samples are graphs.
        nodes: a field with a row a node, as of :func:`graphs`.
        transform: is called with every graph, and gives the graph.
        dataset_name: what graphs have as ``dataset_name``, if it is given.
    """

    __module__ = "forebay.torch"

    def __init__(
        self,
        dataset: Any,
        *,
        nodes: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        dataset_name: Any = None,
    ) -> None:
        super().__init__(dataset)
        self._nodes, self._transform = nodes, transform
        self.dataset_name = dataset_name

    def len(self) -> int:
        """How many graphs there are, on all ranks."""
        return len(self)

    def get(self, number: int) -> Any:
        """One graph."""
        return self[number]

    def __getitem__(self, number: int) -> Any:
        return self.__getitems__([operator.index(number)])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """The graphs ``numbers``, read together."""
        made: list[Any] = graphs(self._batch(numbers), self._nodes).to_data_list() if len(numbers) else []
        for number, graph in enumerate(made):
            if self.dataset_name is not None:
                graph.dataset_name = self.dataset_name
            if self._transform is not None:
                made[number] = self._transform(graph)
        return made

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def map(self, function: Callable[[Any], Any]) -> Iterator[Any]:
        """What ``function`` makes of each graph."""
        return (function(graph) for graph in self)

    def apply(self, function: Callable[[Any], Any]) -> None:
        """Refused: HydraGNN's changes the graphs that a data set holds, and here every graph is made when it is asked for."""
        raise NotImplementedError(
            "graphs are made when they are asked for, so that what apply() changes in them would be lost: give the function as transform=, "
            "or read what it makes of each graph from map()"
        )
