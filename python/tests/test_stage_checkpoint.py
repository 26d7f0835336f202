"""Folders of checkpoints: what is published, and what an index left by a crash may do. No PyTorch is needed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import forebay
from forebay.stage import _checkpoint


def leave(folder: Path, token: str, files: list[str], *, without: int = 0) -> None:
    """What is in a folder once the files of a save are durable, but for some."""
    folder.mkdir(exist_ok=True)
    for name in files[without:]:
        (folder / name).write_text(token)
    (folder / f".metadata.{token}.tmp").write_text(f"index {token}")
    (folder / f".metadata.{token}.files").write_bytes(_checkpoint.listed(files, token))


def test_the_newest_save_that_is_whole_is_published_and_older_ones_go(tmp_path: Path) -> None:
    folder = tmp_path / "step"
    leave(folder, "01", ["a1", "b1"])
    leave(folder, "02", ["a2", "b2"])
    leave(folder, "03", ["a3", "b3"], without=1)
    assert _checkpoint.publish(folder, latest="latest")
    assert (tmp_path / "latest" / ".metadata").read_text() == "index 02" and os.readlink(tmp_path / "latest") == "step"
    # The one that is not whole may be so later.
    kept = {".metadata", ".metadata.files", "a2", "b2", "b3", ".metadata.03.tmp", ".metadata.03.files"}
    assert set(os.listdir(folder)) == kept
    assert not _checkpoint.publish(folder)
    (folder / "a3").write_text("03")
    assert _checkpoint.publish(folder)
    assert set(os.listdir(folder)) == {".metadata", ".metadata.files", "a3", "b3"}


def test_what_is_published_over_a_checkpoint_of_plain_torch_removes_that_ones_files_only(tmp_path: Path) -> None:
    for name in (".metadata", "__0_0.distcp", "__13_2.distcp", "notes.txt", "__0_0.distcp.bak"):
        (tmp_path / name).write_text("old")
    leave(tmp_path, "0a", ["__0_0a_0.distcp"])
    assert _checkpoint.publish(tmp_path)
    left = {".metadata", ".metadata.files", "__0_0a_0.distcp", "notes.txt", "__0_0.distcp.bak"}
    assert set(os.listdir(tmp_path)) == left


@pytest.mark.parametrize("files", [["../outside"], ["/etc/passwd"], [".."], [""], [7], "a", {"a": 1}, None])
def test_a_list_that_names_files_elsewhere_is_refused_and_removes_nothing(tmp_path: Path, files: object) -> None:
    folder = tmp_path / "step"
    (tmp_path / "outside").write_text("keep")
    leave(folder, "01", [])
    (folder / ".metadata.01.files").write_text(json.dumps({"files": files}))
    with pytest.raises(forebay.UnavailableError, match="no list of files"):
        _checkpoint.publish(folder)
    # As the list of what is there already, it has no say in what is removed.
    (folder / ".metadata.01.files").write_bytes(_checkpoint.listed([], "01"))
    (folder / ".metadata").write_text("old")
    (folder / ".metadata.files").write_text(json.dumps({"files": files}))
    assert _checkpoint.publish(folder)
    assert (tmp_path / "outside").read_text() == "keep"


def test_a_save_that_a_reader_published_is_published(tmp_path: Path) -> None:
    leave(tmp_path, "01", ["a"])
    save = _checkpoint.Publication(str(tmp_path), ".metadata", "01")
    assert not save.is_published(["a"]) and _checkpoint.publish(tmp_path) and save.is_published(["a"])
    save.wait(["a"], 300)
    save.publish(["a"], str(tmp_path / "latest"))
    assert (tmp_path / "latest" / "a").read_text() == "01"
    with pytest.raises(forebay.UnavailableError, match="3 files are not durable"):
        _checkpoint.Publication(str(tmp_path), ".metadata", "02").wait(["b"], 0)


def test_a_save_that_was_begun_earlier_is_not_published_over_a_later_one(tmp_path: Path) -> None:
    leave(tmp_path, "02", ["a2", "b2"])
    assert _checkpoint.publish(tmp_path)
    # Its job was killed, and `forebay recover` brings its files only now.
    leave(tmp_path, "01", ["a1", "b1"])
    assert not _checkpoint.publish(tmp_path)
    assert (tmp_path / ".metadata").read_text() == "index 02"
    assert set(os.listdir(tmp_path)) == {".metadata", ".metadata.files", "a2", "b2"}
    leave(tmp_path, "01", ["a1", "b1"])
    save = _checkpoint.Publication(str(tmp_path), ".metadata", "01")
    save.wait(["a1", "b1"], 300)
    save.publish(["a1", "b1"], str(tmp_path / "latest"))
    assert (tmp_path / ".metadata").read_text() == "index 02" and not (tmp_path / "latest").exists()
    assert set(os.listdir(tmp_path)) == {".metadata", ".metadata.files", "a2", "b2"}


def test_a_save_whose_publication_was_broken_off_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(tmp_path, "01", ["a1"])
    assert _checkpoint.publish(tmp_path)
    leave(tmp_path, "02", ["a2"])
    replace = os.replace

    def replace_index(source: str, target: str) -> None:
        if source.endswith(".files"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_index)
    with pytest.raises(KeyboardInterrupt):
        _checkpoint.publish(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / ".metadata").read_text() == "index 02"
    assert _checkpoint.publish(tmp_path) and not _checkpoint.publish(tmp_path)
    assert set(os.listdir(tmp_path)) == {".metadata", ".metadata.files", "a2"}
    # The next save removes what this one had.
    leave(tmp_path, "03", ["a3"])
    assert _checkpoint.publish(tmp_path)
    assert set(os.listdir(tmp_path)) == {".metadata", ".metadata.files", "a3"}


def test_ranks_that_have_an_index_each_are_all_published(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"a{rank}").write_text("01")
        (tmp_path / f"__{rank}.metadata.0{rank}.tmp").write_text("index")
        (tmp_path / f"__{rank}.metadata.0{rank}.files").write_bytes(_checkpoint.listed([f"a{rank}"], f"0{rank}"))
    assert _checkpoint.publish(tmp_path) and not _checkpoint.publish(tmp_path)
    indexes = {f"__{rank}.metadata{ending}" for rank in range(2) for ending in ("", ".files")}
    assert set(os.listdir(tmp_path)) == indexes | {"a0", "a1"}


def test_a_save_is_later_than_the_one_in_its_folder_whatever_the_clock_says(tmp_path: Path) -> None:
    ahead = f"{2**62:016x}00000000"
    leave(tmp_path, ahead, [f"__0_{ahead}_0.distcp"])
    assert _checkpoint.publish(tmp_path)
    assert _checkpoint.next_token(str(tmp_path), ".metadata") > ahead
    # The lists of earlier versions name the save in the names of its files alone.
    (tmp_path / ".metadata.files").write_text(json.dumps({"files": [f"__0_{ahead}_0.distcp"]}))
    assert _checkpoint.next_token(str(tmp_path), ".metadata") > ahead
    (tmp_path / ".metadata").unlink()
    assert _checkpoint.next_token(str(tmp_path), ".metadata") < ahead


def test_a_link_that_is_moved_is_never_missing(tmp_path: Path) -> None:
    for step in range(3):
        (tmp_path / f"{step}").mkdir()
        _checkpoint.point(str(tmp_path / "latest"), str(tmp_path / f"{step}"))
        assert (tmp_path / "latest").resolve() == tmp_path / f"{step}"
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2", "latest"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        _checkpoint.point(str(tmp_path / "folder"), str(tmp_path / "0"))
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2", "folder", "latest"]
