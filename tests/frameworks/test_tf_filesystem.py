"""Paths under ``forebay://``: what TensorFlow reads through them is what it reads without, and comes from tiers.

scripts/test-frameworks.sh runs this file on a second, older TensorFlow, too, where FOREBAY_LONG is set.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import forebay
from forebay import tensorflow as ours

ROOT = Path(__file__).parents[2]
LIMIT = 300
RECORDS = 400
IS_LONG = bool(os.environ.get("FOREBAY_LONG") or os.environ.get("FOREBAY_SLOW"))


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    """One configuration for the process, as a process has one: that of the page of TensorFlow, which runs in it too."""
    ours.register_filesystem("memory:1GiB")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that TensorFlow knows how to read, and a folder inside."""
    folder = tmp_path_factory.mktemp("set")
    random = np.random.default_rng(4)
    for name in ("a.tfrecord", "b.tfrecord"):
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for _ in range(RECORDS):
                writer.write(random.integers(0, 256, int(random.integers(1, 3000)), np.uint8).tobytes())
    (folder / "numbers.bin").write_bytes(random.integers(0, 256, 300_001, np.uint8).tobytes())
    (folder / "empty").touch()
    (folder / "inner").mkdir()
    (folder / "inner" / "text.txt").write_text("one\ntwo\n")
    return folder


@pytest.fixture
def uri(folder: Path) -> str:
    return f"forebay://{folder}"


def stats() -> dict[str, Any]:
    found = ours.filesystem_stats()
    assert found is not None
    return found


def test_the_declarations_are_those_of_the_header_that_is_installed(tmp_path: Path) -> None:
    lines = ["#include <cstddef>", '#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"']
    for row in (ROOT / "crates/tensorflow/layout.txt").read_text().splitlines():
        name, member, number = row.split()
        fact = {"sizeof": f"sizeof({name})", "value": name}.get(member, f"offsetof({name}, {member})")
        lines.append(f'static_assert({fact} == {number}, "{row}");')
    assert len(lines) > 60
    source = tmp_path / "layout.cpp"
    source.write_text("\n".join(lines))
    command = ["c++", "-std=c++17", "-fsyntax-only", f"-I{tf.sysconfig.get_include()}", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    source.write_text("\n".join(lines).replace("TF_FilesystemOps, init) == 0", "TF_FilesystemOps, init) == 8"))
    assert subprocess.run(command, capture_output=True, timeout=LIMIT).returncode != 0


def test_the_plugin_shows_what_tensorflow_and_the_package_call() -> None:
    listed = subprocess.run(["nm", "-D", "--defined-only", ours.filesystem_library()], capture_output=True, text=True, check=True)
    shown = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert shown == {"TF_InitPlugin", "forebay_tensorflow_open", "forebay_tensorflow_stats"}


@pytest.mark.parametrize("name", ["numbers.bin", "empty", "inner/text.txt"])
def test_a_file_has_the_same_bytes(folder: Path, uri: str, name: str) -> None:
    expected = (folder / name).read_bytes()
    with tf.io.gfile.GFile(f"{uri}/{name}", "rb") as file:
        assert file.read() == expected and file.size() == len(expected)
    assert tf.io.read_file(f"{uri}/{name}").numpy() == expected


def test_any_part_of_a_file_can_be_read(folder: Path, uri: str) -> None:
    expected = (folder / "numbers.bin").read_bytes()
    random = np.random.default_rng(5)
    with tf.io.gfile.GFile(f"{uri}/numbers.bin", "rb") as file:
        for _ in range(50):
            offset, length = int(random.integers(0, len(expected) + 100)), int(random.integers(0, 70_000))
            file.seek(min(offset, len(expected)))
            assert file.read(length) == expected[offset : offset + length]
    with tf.io.gfile.GFile(f"{uri}/inner/text.txt") as file:
        assert file.readlines() == ["one\n", "two\n"]


def test_a_file_in_memory_is_the_whole_file(folder: Path, uri: str) -> None:
    read = tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[300_001], memory_region_name=f"{uri}/numbers.bin")
    assert read.numpy().tobytes() == (folder / "numbers.bin").read_bytes()


def test_names_and_folders_are_those_of_the_machine(folder: Path, uri: str) -> None:
    gfile = tf.io.gfile
    assert sorted(gfile.listdir(uri)) == sorted(os.listdir(folder))
    assert gfile.glob(f"{uri}/*.tfrecord") == [f"{uri}/a.tfrecord", f"{uri}/b.tfrecord"]
    assert gfile.isdir(uri) and gfile.isdir(f"{uri}/inner") and not gfile.isdir(f"{uri}/empty") and not gfile.isdir(f"{uri}/none")
    assert gfile.exists(f"{uri}/empty") and not gfile.exists(f"{uri}/none")
    walked = [(top, folders, sorted(files)) for top, folders, files in gfile.walk(uri)]
    assert [(top.rstrip("/"), folders) for top, folders, _ in walked] == [(uri, ["inner"]), (f"{uri}/inner", [])]
    assert walked[1][2] == ["text.txt"]
    found, there = gfile.stat(f"{uri}/numbers.bin"), (folder / "numbers.bin").stat()
    assert (found.length, found.mtime_nsec, found.is_directory) == (there.st_size, there.st_mtime_ns, False)
    assert gfile.stat(uri).is_directory


def test_a_file_is_copied_out_by_tensorflow(folder: Path, uri: str, tmp_path: Path) -> None:
    tf.io.gfile.copy(f"{uri}/numbers.bin", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == (folder / "numbers.bin").read_bytes()


@pytest.mark.parametrize(
    ("path", "error", "part"),
    [
        ("{uri}/none", tf.errors.NotFoundError, "none"),
        ("{uri}/inner", tf.errors.FailedPreconditionError, "inner"),
        ("{uri}/empty/below", tf.errors.NotFoundError, "below"),
        ("forebay://data/train", tf.errors.InvalidArgumentError, "three slashes"),
    ],
)
def test_what_cannot_be_read_is_named(uri: str, path: str, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=re.escape(part)):
        tf.io.read_file(path.format(uri=uri))


def _write(path: str, mode: str) -> None:
    with tf.io.gfile.GFile(path, mode) as file:
        file.write("text")


CHANGES: dict[str, Callable[[str], Any]] = {
    "write": lambda uri: _write(f"{uri}/new", "w"),
    "append": lambda uri: _write(f"{uri}/inner/text.txt", "a"),
    "make a folder": lambda uri: tf.io.gfile.mkdir(f"{uri}/new"),
    "make folders": lambda uri: tf.io.gfile.makedirs(f"{uri}/new/inner"),
    "remove": lambda uri: tf.io.gfile.remove(f"{uri}/empty"),
    "remove a tree": lambda uri: tf.io.gfile.rmtree(f"{uri}/inner"),
    "rename": lambda uri: tf.io.gfile.rename(f"{uri}/empty", f"{uri}/full"),
    "copy": lambda uri: tf.io.gfile.copy(f"{uri}/empty", f"{uri}/full"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_can_be_changed(folder: Path, uri: str, change: str) -> None:
    before = sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))
    with pytest.raises(tf.errors.OpError) as refused:
        CHANGES[change](uri)
    if change != "remove a tree":  # TensorFlow counts what is left, in its own words.
        assert "are read only" in str(refused.value)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*")) == before


def records(names: list[str], **options: Any) -> list[bytes]:
    return [record.numpy() for record in tf.data.TFRecordDataset(names, **options)]


def test_records_come_from_the_tier_once_they_were_read(folder: Path, uri: str) -> None:
    plain = records([str(folder / "a.tfrecord"), str(folder / "b.tfrecord")])
    assert len(plain) == 2 * RECORDS
    names = [f"{uri}/a.tfrecord", f"{uri}/b.tfrecord"]
    length = sum((folder / name).stat().st_size for name in ("a.tfrecord", "b.tfrecord"))
    # No copy is kept of a file that was written just now: it may still change within the grain of its clock.
    for _ in range(100):
        before = stats()
        assert records(names) == plain
        after = stats()
        if after["origin"] == before["origin"] and after["tiers"][0]["bytes"] - before["tiers"][0]["bytes"] >= length:
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"{length} bytes were not read from the tier: {after}")
    assert sorted(records(names, num_parallel_reads=2)) == sorted(plain) and stats()["origin"] == after["origin"]


def test_many_threads_read_the_same_files(folder: Path, uri: str) -> None:
    files = tf.data.Dataset.list_files(f"{uri}/*.tfrecord", shuffle=False).repeat(4)
    read = files.interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=8)
    plain = records([str(folder / "a.tfrecord"), str(folder / "b.tfrecord")])
    assert sorted(record.numpy() for record in read) == sorted(4 * plain)


def test_a_file_that_is_replaced_is_read_as_it_is_when_it_is_opened(tmp_path: Path) -> None:
    path, uri = tmp_path / "a.bin", f"forebay://{tmp_path}/a.bin"
    for content in (b"first" * 1000, b"second" * 3000, b""):
        part = tmp_path / "part"
        part.write_bytes(content)
        part.rename(path)
        assert tf.io.read_file(uri).numpy() == content


def test_a_second_registration_has_to_ask_for_the_same() -> None:
    ours.register_filesystem("memory:1GiB")
    with pytest.raises(forebay.ForebayError, match="other tiers already"):
        ours.register_filesystem("memory:32MiB", config="none")
    with pytest.raises(TypeError, match="by its name"):
        ours.register_filesystem(policy=lambda block: 0.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="peers"):
        ours.register_filesystem("peers:1GiB", config="none")


def run_program(body: str, *words: object, **variables: str) -> str:
    """Runs a program of its own, which registers the plug-in as programs without Python's front do."""
    source = "import os, sys\nimport tensorflow as tf\nregister = tf.experimental.register_filesystem_plugin\n" + textwrap.dedent(body)
    command = [sys.executable, "-c", source, str(ours.filesystem_library()), *map(str, words)]
    environment = os.environ | {"FOREBAY_CONFIG": "none", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_environment_says_which_tiers_there_are_and_no_program_hangs_at_its_end(folder: Path, tmp_path: Path) -> None:
    # It leaves in the middle of an iteration, with threads that read.
    body = """
        import ctypes, json
        try:
            register(sys.argv[1])
        except tf.errors.OpError as error:
            print(error)
        os.environ["FOREBAY_TIERS"] = sys.argv[3]
        register(sys.argv[1])
        read = tf.data.Dataset.from_tensor_slices([sys.argv[2]] * 50).interleave(
            tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=8).repeat().prefetch(100)
        for number, record in enumerate(read):
            if number == 3000:
                break
        library, text = ctypes.CDLL(sys.argv[1]), ctypes.create_string_buffer(10000)
        library.forebay_tensorflow_stats.restype = ctypes.c_size_t
        assert 0 < library.forebay_tensorflow_stats(text, ctypes.c_size_t(len(text))) <= len(text)
        print(text.value.decode())
    """
    # A tier keeps no copies of what lies on its own disk.
    origin = Path("/dev/shm") if os.stat("/dev/shm").st_dev != os.stat(tmp_path).st_dev else folder
    with tempfile.TemporaryDirectory(dir=origin) as made:
        shutil.copy(folder / "a.tfrecord", made)
        words = [f"forebay://{made}/a.tfrecord", f"disk:{tmp_path}/tier:64MiB:keep"]
        said = [run_program(body, *words, FOREBAY_TIERS="disk:").splitlines() for _ in range(2 if IS_LONG else 1)]
    assert all("FOREBAY_TIERS" in refused for refused, _ in said)
    found = [json.loads(text) for _, text in said]
    assert all(stats["tiers"][0]["left_out"] is None for stats in found)
    if IS_LONG:
        assert found[1]["origin"]["bytes"] == 0 < found[1]["tiers"][0]["bytes"]
