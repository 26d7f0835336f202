"""Cells of AnnData: what ``convention="anndata"`` makes of names as AnnData has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._file.values import attribute_of, values_of
from .._forebay import FileReader, InvalidError, NotFoundError, UnsupportedError, expanded_files
from .._samples import Field, Paths, Ragged, Sparse

_NO_CELLS = ("var", "varm", "varp", "uns")
_NULLABLE = ("nullable-integer", "nullable-boolean", "nullable-string-array")
_MOST_NAMED = 12
_READERS = 16
"""Files whose genes are read at a time: reading them is waiting for requests."""


def cell_fields(named: Mapping[str, Field], files: list[str], paths: Callable[[Paths], list[str]]) -> dict[str, Field]:
    """The fields ``named``, each made of what AnnData stores it as in the first of its files.

    ``files`` are those of all fields that name none of their own, which ``paths`` makes a list of.
    """
    opened: dict[tuple[str, ...], _CellFiles] = {}
    found: dict[str, Field] = {}
    for name, field in named.items():
        if field.samples is not None or field.sparse is not None:
            # The user says himself what a cell is.
            found[name] = field
            continue
        patterns = tuple(files if field.files is None else paths(field.files))
        if patterns not in opened:
            opened[patterns] = _CellFiles(expanded_files(list(patterns)))
        for suffix, one in opened[patterns].stored(field).items():
            if name + suffix in found or (suffix and name + suffix in named):
                raise ValueError(f"two fields are called {name + suffix!r}: give one of them another name")
            found[name + suffix] = one
    return found


class _CellFiles:
    """Files whose cells are one set: the first of them says how elements are stored."""

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self._first = _CellFile(files[0])
        self._checked: set[str] = set()

    def stored(self, field: Field) -> dict[str, Field]:
        """What ``field`` is read from: by what is added to its name, a field."""
        stored = self._first.stored(field)
        genes = self._first.genes_of(field.variable)
        if genes is not None and genes not in self._checked:
            self._check_genes(genes)
            self._checked.add(genes)
        return stored

    def _check_genes(self, group: str) -> None:
        """Refuses files whose genes are others than those of the first: column 7 would mean two things."""
        expected = self._first.genes(group) if len(self._files) > 1 else None
        if expected is None:
            return
        others = self._files[1:]
        with ThreadPoolExecutor(min(len(others), _READERS)) as threads:
            named = threads.map(lambda path: _CellFile(path).genes(group), others)
            for path, genes in zip(others, named):
                if genes is not None and genes != expected:
                    raise InvalidError(
                        f"{path}: its genes ({group}) are others, or in another order, than those of {self._files[0]}\n"
                        "  hint: write them in one order: adata[:, names].copy().write_h5ad(…)"
                    )


class _CellFile:
    """An AnnData file or store that says how its elements are stored."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._reader = FileReader(path)
        self._groups = set(self._reader.group_names())

    def stored(self, field: Field) -> dict[str, Field]:
        """What ``field`` is read from: by what is added to its name, a field."""
        name = self._path(field.variable)
        if name.split("/")[0] in _NO_CELLS:
            raise InvalidError(
                f"{self.path}: {name!r} has no row for each cell\n  hint: read it by itself: forebay.read({self.path!r}, …)"
            )
        if name not in self._groups:
            return {"": self._variable(field, name)}
        encoding = self._encoding(name)
        if encoding in ("csr_matrix", "csc_matrix", "csr", "csc"):
            whole, rows = Sparse(f"{name}/indices"), Ragged(offsets=f"{name}/indptr")
            return {"": dataclasses.replace(field, variable=f"{name}/data", sparse=whole, samples=rows)}
        if encoding == "categorical":
            return {"": dataclasses.replace(field, variable=f"{name}/codes")}
        if encoding in _NULLABLE and field.variable.strip("/") == "obs_names":
            # No name is missing.
            return {"": dataclasses.replace(field, variable=f"{name}/values")}
        if encoding in _NULLABLE:
            mask = Field(f"{name}/mask", files=field.files)
            return {"": dataclasses.replace(field, variable=f"{name}/values"), "_mask": mask}
        raise self._unsupported(name, encoding)

    def genes_of(self, variable: str) -> str | None:
        """The group of the genes that the rows of ``variable`` run along, if they do."""
        first, *rest = self._path(variable).split("/")
        if first == "X" or (first == "layers" and rest):
            return "var"
        return "raw/var" if [first, *rest][:2] == ["raw", "X"] else None

    def genes(self, group: str) -> list[Any] | None:
        """The names of the genes, where the file has some."""
        if group not in self._groups:
            return None
        index = f"{group}/{self._attributes(group).get('_index')}"
        # Texts that may be missing are a group.
        index = f"{index}/values" if index in self._groups else index
        try:
            names: list[Any] = values_of(self._reader.read(index, "")).tolist()
        except NotFoundError:
            return None
        return names

    def _path(self, name: str) -> str:
        """``name`` in the file: a column of ``obs`` is named by itself."""
        name = name.strip("/")
        if name == "obs_names":
            return f"obs/{self._attributes('obs').get('_index', '_index')}"
        if "/" not in name and name != "X":
            column = f"obs/{name}"
            if column in self._groups or self._has(column):
                return column
        if name not in self._groups and not self._has(name):
            raise NotFoundError(f"{self.path}: cells have no {name!r}\n  hint: there are {self._elements()}")
        return name

    def _variable(self, field: Field, name: str) -> Field:
        """A field of the variable ``name``: the values and columns of a sparse matrix have their rows."""
        group, _, last = name.rpartition("/")
        if last in ("data", "indices") and group in self._groups and self._encoding(group) in ("csr_matrix", "csr"):
            return dataclasses.replace(field, variable=name, samples=Ragged(offsets=f"{group}/indptr"))
        return dataclasses.replace(field, variable=name)

    def _unsupported(self, name: str, encoding: Any) -> Exception:
        inside = sorted(one.removeprefix(f"{name}/").split("/")[0] for one in self._members(name))
        if encoding in ("dataframe", "dict", None) and inside:
            return InvalidError(f"{self.path}: {name!r} holds several elements\n  hint: name one of them: {name}/{_some(inside)}")
        return UnsupportedError(f"{self.path}: {name!r} is of AnnData's encoding {encoding!r}, which is not read by cells")

    def _elements(self) -> str:
        elements = ["X"] if "X" in self._groups or self._has("X") else []
        for group in ("layers", "obsm", "obsp", "raw"):
            names = {one.split("/")[1] for one in self._members(group)}
            elements += [f"{group}/{name}" for name in sorted(names) if (group, name) not in (("raw", "var"), ("raw", "varm"))]
        columns = {one.split("/")[1] for one in self._members("obs")}
        return f"{_some(elements)}, and of obs {_some(sorted(columns - {'__categories'}))}"

    def _members(self, group: str) -> list[str]:
        return [one for one in [*self._reader.names(), *self._groups] if one.startswith(f"{group}/")]

    def _has(self, name: str) -> bool:
        try:
            self._reader.find(name)
        except NotFoundError:
            return False
        return True

    def _encoding(self, group: str) -> Any:
        attributes = self._attributes(group)
        return attributes.get("encoding-type", attributes.get("h5sparse_format"))

    def _attributes(self, group: str) -> dict[str, Any]:
        rows = self._reader.group_attributes(group) or []
        return {name: attribute_of(value) for name, value in rows}


def _some(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:_MOST_NAMED]) + (", …" if len(unique) > _MOST_NAMED else "")
