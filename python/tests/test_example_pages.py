"""The pages of docs/examples: what they show is in the programs they name, and what the migration table says can be done."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import forebay
import forebay.torch

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "examples").glob("*.md"))
COUNT = 26


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def shown(program: str, block: str) -> bool:
    """Whether the lines of ``block`` follow each other in ``program``, at any depth."""
    wanted = block.strip("\n").split("\n")
    lines = program.split("\n")
    for start in range(len(lines) - len(wanted) + 1):
        if textwrap.dedent("\n".join(lines[start : start + len(wanted)])) == "\n".join(wanted):
            return True
    return False


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_what_a_page_shows_is_in_a_program_that_it_links_to(page: Path) -> None:
    if page.stem == "dataloader":
        return
    programs = [(page.parent / link).read_text() for link in re.findall(r"\(([./]*examples/\w+\.py)\)", page.read_text())]
    assert programs
    for block in blocks(page):
        assert any(shown(program, block) for program in programs), block


def test_every_page_and_program_is_in_the_list_of_examples() -> None:
    listed = (ROOT / "docs" / "examples" / "README.md").read_text()
    assert set(re.findall(r"\]\((\w+)\.md\)", listed)) == {page.stem for page in PAGES} - {"README"}
    everywhere = listed + "".join((ROOT / "docs" / name).read_text() for name in ("formats.md", "python.md"))
    for program in (ROOT / "examples").glob("*.py"):
        assert program.name in everywhere, program.name


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "docs" / "README.md"]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), (page.name, link)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the code of the migration page uses."""
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["x"], file["y"] = np.arange(COUNT * 3, dtype="f4").reshape(COUNT, 3), np.arange(COUNT)
    monkeypatch.chdir(tmp_path)
    ds = forebay.open("train.h5", ["x"], label="y")
    scope: dict[str, Any] = {"forebay": forebay, "torch": torch, "h5py": h5py, "Loader": forebay.torch.Loader, "ds": ds}
    scope["weights"], scope["numbers"], scope["lengths"] = np.arange(COUNT) + 1.0, [3, 1, 4], np.arange(COUNT) % 5
    scope["augment"] = lambda sample: sample
    return scope


def expressions(page: Path) -> Iterator[str]:
    """What the right column of the table says in code, where it can be evaluated by itself."""
    for row in re.findall(r"^\|.*\|(.*)\|$", page.read_text(), re.MULTILINE):
        for code in re.findall(r"`([^`]+)`", row):
            if code.startswith(("Loader(", "ds.", "forebay.")):
                yield code


def test_each_row_of_the_migration_table_can_be_done(names: dict[str, Any]) -> None:
    page = ROOT / "docs" / "examples" / "dataloader.md"
    codes = list(expressions(page))
    assert len(codes) > 18
    for code in codes:
        ast.parse(code, mode="eval")
        made = eval(code, names)
        assert made is not None, code
        if isinstance(made, forebay.torch.Loader):
            assert len(list(made)) in (len(made), 3 * len(made)), code


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
def test_the_loaders_of_the_migration_page_give_the_same_samples(names: dict[str, Any]) -> None:
    theirs, ours, mapped, iterable = blocks(ROOT / "docs" / "examples" / "dataloader.md")
    for number, code in enumerate((theirs.replace("num_workers=2", "num_workers=0"), ours, mapped, iterable)):
        exec(compile(code, "docs/examples/dataloader.md", "exec"), names)
        seen, lens = [], []
        for batch in names["loader"]:
            assert isinstance(batch["x"], torch.Tensor) and (batch["x"][:, 0] == 3 * batch["y"]).all()
            seen += batch["y"].tolist()
            lens.append(len(batch["x"]))
        assert lens[:-1] == [4] * (len(lens) - 1) and len(set(seen)) == len(seen)
        assert seen != sorted(seen) and len(seen) == (24 if number == 3 else COUNT)
