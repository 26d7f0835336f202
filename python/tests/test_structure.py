"""How the modules of the package import each other, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import forebay

PACKAGE = Path(forebay.__file__).parent


def modules() -> dict[str, ast.Module]:
    """The modules of the package by name; what stands under ``_pyddstore_path`` is a package of its own."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] != "_pyddstore_path":
            name = ".".join(("forebay", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found[name] = ast.parse(path.read_text())
    return found


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a module, those inside functions too, but for those that only tools read which check types."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from (one for line in child.orelse for one in imports(line))
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        else:
            yield from imports(child)


def imported(module: str, one: ast.Import | ast.ImportFrom, known: set[str], is_package: bool) -> Iterator[str]:
    """The modules that ``one`` imports into ``module``, with the packages that are run before them."""
    if isinstance(one, ast.Import):
        names = [alias.name for alias in one.names]
    else:
        base = module.split(".") if is_package else module.split(".")[:-1]
        parts = base[: len(base) - one.level + 1] if one.level else []
        start = ".".join([*parts, one.module] if one.module else parts)
        names = [name if (name := f"{start}.{alias.name}") in known else start for alias in one.names]
    for name in names:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            package = ".".join(parts[:end])
            # A package is run before what it holds, whoever imports that: for its own modules it is under way already.
            if package in known and not f"{module}.".startswith(f"{package}."):
                yield package
            elif package == name and package in known and package != module:
                yield package


def graph() -> dict[str, set[str]]:
    found = modules()
    packages = {name for name in found if any(other.startswith(f"{name}.") for other in found)}
    return {
        name: {target for one in imports(tree) for target in imported(name, one, set(found), name in packages)}
        for name, tree in found.items()
    }


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules of which each leads to every other, by Tarjan's algorithm."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        path.append(name)
        for target in arrows[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in path:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = path.index(name)
            group, path[at:] = path[at:], []
            if len(group) > 1 or name in arrows[name]:
                found.append(sorted(group))

    for name in arrows:
        if name not in index:
            visit(name)
    return found


def test_modules_import_each_other_in_no_circle() -> None:
    arrows = graph()
    assert len(arrows) > 60 and arrows["forebay._dataset.dataset"] >= {"forebay._loader.loader", "forebay._dataset.subset"}
    assert circles(arrows) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"e"}}) == [["a", "b", "c"], ["e"]]


def test_rooms_import_each_other_in_no_circle() -> None:
    """As modules do, but with each package as a whole, and modules that stand alone by themselves."""

    def room(name: str) -> str:
        return ".".join(name.split(".")[:2])

    rooms: dict[str, set[str]] = {}
    for name, targets in graph().items():
        rooms.setdefault(room(name), set()).update({room(target) for target in targets} - {room(name), "forebay"})
    rooms.pop("forebay")
    assert circles(rooms) == []
