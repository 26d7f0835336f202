"""Staged files and processes: exits, Ctrl-C, kills, forks, two processes, users that may not write."""

from __future__ import annotations

import array
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import PROMPT, in_fork

import forebay.stage

# PyTorch and NumPy have threads: Python warns of a fork beside them, which is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

LONG = 300
BEGIN = """
import os, signal, sys, time
from pathlib import Path
import forebay.stage
fast, slow = Path(sys.argv[1]), Path(sys.argv[2])
# What runs in the background of a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    slow = tmp_path / "slow"
    slow.mkdir()
    return tmp_path / "fast", slow


class Child:
    """A program of its own that says ``ready`` and then goes on."""

    def __init__(self, tmp_path: Path, source: str, *arguments: object, **environment: str) -> None:
        script = tmp_path / f"child{time.monotonic_ns()}.py"
        script.write_text(BEGIN + textwrap.dedent(source))
        command = [sys.executable, str(script), *map(str, arguments)]
        pipe = subprocess.PIPE
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_STAGE")}
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env={**inherited, **environment}
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def line(self) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline().rstrip("\n")
        if not said:
            assert self.process.stderr is not None
            pytest.fail(self.process.stderr.read())
        return said

    def go_on(self) -> None:
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)

    def end(self) -> tuple[str, str]:
        said, told = self.process.communicate(timeout=LONG)
        assert self.process.returncode == 0, said + told
        return said, told


def recover(fast: Path) -> dict[str, Any]:
    recovered = forebay.stage.recover(fast, progress=False)
    assert recovered["refused"] == [] and recovered["in_use"] == [], recovered
    return recovered


def test_a_program_that_ends_leaves_its_files_durable(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    source = """
    area = forebay.stage.Area(fast, free_floor=0, paused=True)
    forebay.stage.save(b"x" * 100_000, slow / "a", area=area)
    assert not (slow / "a").exists()
    with forebay.stage.open(slow / "unfinished", area=area) as half:
        half.write(b"half")
        sys.exit(0)
    """
    with Child(tmp_path, source, *folders) as child:
        _, told = child.end()
    assert told == ""
    assert (folders[1] / "a").read_bytes() == b"x" * 100_000 and os.listdir(folders[1]) == ["a"]


def test_a_program_that_waits_long_at_its_end_says_for_what(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    source = """
    area = forebay.stage.Area(fast, free_floor=0, bandwidth="2MB")
    forebay.stage.save(bytes(12_000_000), slow / "a", area=area)
    """
    with Child(tmp_path, source, *folders) as child:
        _, told = child.end()
    assert "waiting for 1 files" in told and f"Ctrl-C leaves them in {folders[0]}" in told, told
    assert (folders[1] / "a").stat().st_size == 12_000_000


def test_the_area_is_that_of_the_environment(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    source = """
    file = forebay.stage.save(b"x", slow / "a")
    assert file.area.path == str(fast), file.area
    file.durable.result(300)
    """
    with Child(tmp_path, source, *folders, FOREBAY_STAGE=str(folders[0]), FOREBAY_STAGE_QUOTA="1GiB") as child:
        child.end()
    assert (folders[1] / "a").read_bytes() == b"x"


def test_without_an_area_files_go_straight_to_their_destinations_and_it_is_told_once(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    source = """
    import warnings
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(3):
            with forebay.stage.open(slow / str(n)) as file:
                file.write(bytes(1_000_000))
            file.durable.result(300)
    assert len(told) == 1 and "FOREBAY_STAGE" in str(told[0].message), told
    assert file.area.stats()["passed_through_bytes"] == 3_000_000, file.area.stats()
    """
    with Child(tmp_path, source, *folders, FOREBAY_CONFIG="none") as child:
        child.end()
    assert [(folders[1] / str(n)).stat().st_size for n in range(3)] == [1_000_000] * 3


def test_a_program_whose_destination_is_gone_says_where_its_file_is(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    fast, slow = folders
    source = """
    area = forebay.stage.Area(fast, free_floor=0, paused=True)
    (slow / "run").mkdir()
    forebay.stage.save(b"x", slow / "run" / "a", area=area).staged.result(300)
    (slow / "run").rmdir()
    """
    with Child(tmp_path, source, *folders) as child:
        _, told = child.end()
    assert str(slow / "run" / "a") in told and f"`forebay recover {fast}` finishes it" in told, told
    (slow / "run").mkdir()
    recover(fast)
    assert (slow / "run" / "a").read_bytes() == b"x"


WAITS: list[Any] = ["area.drain()", "file.durable.result()"]
WAITS += [pytest.param(how, marks=pytest.mark.slow) for how in ("area.close()", "file.durable.exception()")]


@pytest.mark.parametrize("how", WAITS)
def test_ctrl_c_ends_a_wait_within_a_second_and_loses_nothing(
    tmp_path: Path, folders: tuple[Path, Path], how: str
) -> None:
    source = f"""
    area = forebay.stage.Area(fast, free_floor=0, bandwidth="100kB")
    file = forebay.stage.save(bytes(12_000_000), slow / "a", area=area)
    file.staged.result(300)
    print("ready", flush=True)
    try:
        {how}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.stdin.readline()
        os._exit(0)
    """
    with Child(tmp_path, source, *folders) as child:
        assert child.line() == "ready"
        time.sleep(0.5)
        assert child.process.poll() is None, "it did not wait"
        began = time.monotonic()
        child.process.send_signal(signal.SIGINT)
        assert child.line() == "interrupted"
        assert time.monotonic() - began < PROMPT
        child.go_on()
        child.end()
    recover(folders[0])
    assert (folders[1] / "a").read_bytes() == bytes(12_000_000)


def test_ctrl_c_at_the_end_of_a_program_leaves_what_is_staged(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    source = """
    area = forebay.stage.Area(fast, free_floor=0, bandwidth="100kB")
    forebay.stage.save(bytes(12_000_000), slow / "a", area=area)
    """
    with Child(tmp_path, source, *folders) as child:
        assert child.process.stderr is not None
        assert "waiting for 1 files" in child.process.stderr.readline()
        child.process.send_signal(signal.SIGINT)
        _, told = child.process.communicate(timeout=LONG)
    assert f"what is not durable stays in {folders[0]}: `forebay recover" in told, told
    recover(folders[0])
    assert (folders[1] / "a").read_bytes() == bytes(12_000_000)


def test_a_killed_process_loses_what_was_not_sealed_and_nothing_else(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    fast, slow = folders
    (slow / "sealed").write_bytes(b"old")
    source = """
    area = forebay.stage.Area(fast, free_floor=0, paused=True)
    for n in range(5):
        file = forebay.stage.save(bytes([n]) * 1_000_000, slow / f"sealed{n or ''}", area=area, latest="latest")
        file.staged.result(300)
    half = forebay.stage.open(slow / "half", area=area)
    half.write(bytes(5_000_000))
    half.flush()
    print("ready", flush=True)
    time.sleep(600)
    """
    with Child(tmp_path, source, *folders) as child:
        assert child.line() == "ready"
        child.process.kill()
        child.process.wait()
    assert os.listdir(slow) == ["sealed"] and (slow / "sealed").read_bytes() == b"old"
    with forebay.stage.Area(fast, free_floor=0) as area:
        items = area.items()
        assert len(items) >= 5 and all(item["is_deserted"] for item in items)
        # Whose files they are is for `recover` to say: nobody else's drain touches them.
        area.drain()
        assert (slow / "sealed").read_bytes() == b"old"
    planned = forebay.stage.recover(fast, dry_run=True)
    assert (slow / "sealed").read_bytes() == b"old"
    recovered = recover(fast)
    assert [item["destination"] for item in recovered["finished"]] == [
        str(slow / f"sealed{n or ''}") for n in range(5)
    ]
    assert [item["destination"] for item in recovered["discarded"]] == [str(slow / "half")]
    assert {part: len(items) for part, items in planned.items()} == {part: len(i) for part, i in recovered.items()}
    assert not any(recover(fast).values())
    assert sorted(os.listdir(slow)) == ["latest", "sealed", "sealed1", "sealed2", "sealed3", "sealed4"]
    for n in range(5):
        assert (slow / f"sealed{n or ''}").read_bytes() == bytes([n]) * 1_000_000
    with forebay.stage.Area(fast, free_floor=0) as area:
        assert area.items() == []


def test_what_a_lost_machine_has_staged_is_recovered_once_it_is_named(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    fast, slow = folders
    source = """
    area = forebay.stage.Area(fast, free_floor=0, paused=True)
    forebay.stage.save(b"bytes", slow / "file", area=area).staged.result(300)
    print("ready", flush=True)
    time.sleep(600)
    """
    with Child(tmp_path, source, *folders) as child:
        assert child.line() == "ready"
        child.process.kill()
        child.process.wait()
    # As if it had been written by a machine that shares the file system.
    [process] = [found for found in fast.rglob("p-*@*") if found.is_dir()]
    number = process.name.split("@")[0].rsplit("-", 1)[1]
    process.rename(process.with_name(f"p-0123456789abcdef-{number}@elsewhere"))
    left = forebay.stage.recover(fast, progress=False)
    assert [item["destination"] for item in left["in_use"]] == [str(slow / "file")] and not (slow / "file").exists()
    done = forebay.stage.recover(fast, host="elsewhere", progress=False)
    assert [item["destination"] for item in done["finished"]] == [str(slow / "file")]
    assert (slow / "file").read_bytes() == b"bytes"


KILLS = 200 if os.environ.get("FOREBAY_LONG") == "1" else 6


def test_whenever_a_process_is_killed_every_file_is_one_of_its_versions_and_no_older_than_the_last_staged_one(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    fast, slow = folders
    source = """
    import numpy as np
    from itertools import count
    area = forebay.stage.Area(fast, free_floor=0, quota="8MiB")
    print("ready", flush=True)
    for version in count(int(sys.argv[3])):
        with forebay.stage.open(slow / f"{version % 3}", area=area, latest="latest") as file:
            for _ in range(5):
                file.write(np.full(50_000, version, np.int64))
        # The area is full now and then: some of it goes straight to the destination's folder.
        if version % 2:
            file.staged.result(300)
            print(version, flush=True)
    """
    random, version, staged = Random(1), 3, dict.fromkeys(range(3), 0)
    for number in range(3):
        (slow / f"{number}").write_bytes(array.array("q", [0] * 250_000).tobytes())
    for _ in range(KILLS):
        with Child(tmp_path, source, fast, slow, version) as child:
            assert child.line() == "ready"
            time.sleep(random.random() * 0.5)
            child.process.kill()
            said, _ = child.process.communicate(timeout=LONG)
        for line in said.split("\n")[:-1]:
            staged[int(line) % 3] = int(line)
        recover(fast)
        assert set(os.listdir(slow)) <= {"0", "1", "2", "latest"}
        for number in range(3):
            found = array.array("q", (slow / f"{number}").read_bytes())
            assert len(found) == 250_000 and len(set(found)) == 1, "it is a mix"
            assert found[0] in (0, found[0] - found[0] % 3 + number) and found[0] >= staged[number], (found[0], staged)
            version = max(version, found[0] + 1)
        version += -version % 3 + 3


def test_two_processes_share_an_area(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    fast, slow = folders
    source = """
    area = forebay.stage.Area(fast, free_floor=0, paused=True)
    files = [forebay.stage.save(sys.argv[3].encode() * 1000, slow / f"{sys.argv[3]}{n}", area=area) for n in range(20)]
    print("ready", flush=True)
    sys.stdin.readline()
    print(len(area.items()), len({item["pid"] for item in area.items()}), flush=True)
    sys.stdin.readline()
    area.resume()
    for file in files: file.durable.result(300)
    """
    with Child(tmp_path, source, *folders, "a") as one, Child(tmp_path, source, *folders, "b") as other:
        assert one.line() == other.line() == "ready"
        for child in (one, other):
            child.go_on()
            assert child.line() == "40 2"
        one.go_on()
        one.end()
        assert len(os.listdir(slow)) == 20
        other.go_on()
        other.end()
    assert all((slow / f"{who}{n}").read_bytes() == who.encode() * 1000 for who in "ab" for n in range(20))


def test_a_pause_for_everyone_holds_another_process(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    fast, slow = folders
    source = """
    area = forebay.stage.Area(fast, free_floor=0)
    print("ready", flush=True)
    sys.stdin.readline()
    file = forebay.stage.save(b"x", slow / "a", area=area)
    print(file.durable.done(), flush=True)
    sys.stdin.readline()
    file.durable.result(300)
    """
    with Child(tmp_path, source, *folders) as child, forebay.stage.Area(fast, free_floor=0) as area:
        assert child.line() == "ready"
        area.pause(everyone=True)
        child.go_on()
        assert child.line() == "False"
        time.sleep(0.5)
        assert os.listdir(slow) == []
        area.resume(everyone=True)
        child.go_on()
        child.end()
    assert (slow / "a").read_bytes() == b"x"


def test_a_forked_child_has_areas_of_its_own_and_leaves_its_parents_files_alone(folders: tuple[Path, Path]) -> None:
    fast, slow = folders
    with forebay.stage.Area(fast, free_floor=0) as area:
        file = forebay.stage.open(slow / "parent", "w+b", area=area)
        file.write(bytes(300_000))
        file.flush()

        def work() -> None:
            with pytest.raises(forebay.InvalidError, match="forked"):
                file.write(b"x")
            file.close()
            mine = forebay.stage.save(b"child", slow / "child", area=area)
            assert mine.durable.result(60) == str(slow / "child")
            area.drain()

        in_fork(work, timeout=120)
        file.write(b"the end")
        file.close()
        file.durable.result(LONG)
    assert (slow / "parent").read_bytes() == bytes(300_000) + b"the end"
    assert (slow / "child").read_bytes() == b"child"


def write_one(area: forebay.stage.Area, path: Path) -> None:
    forebay.stage.save(os.fsencode(path.name) * 1000, path, area=area)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_of_multiprocessing_drains_when_it_ends(folders: tuple[Path, Path], method: Any) -> None:
    fast, slow = folders
    context = multiprocessing.get_context(method)
    with forebay.stage.Area(fast, free_floor=0) as area:
        workers = [context.Process(target=write_one, args=(area, slow / f"{n}")) for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(LONG)
            assert worker.exitcode == 0
        assert area.items() == []
    assert [(slow / f"{n}").read_bytes() for n in range(2)] == [b"0" * 1000, b"1" * 1000]


def test_a_destination_that_may_not_be_written_is_refused_and_named(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    fast, slow = folders
    (slow / "a").write_bytes(b"old")
    source = """
    if os.getuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    area = forebay.stage.Area(fast, free_floor=0)
    try:
        file = forebay.stage.open(slow / "a", area=area)
        file.write(b"new")
        file.close()
        file.durable.result(300)
    except forebay.DeniedError as error:
        assert str(slow / "a") in str(error) or str(slow) in str(error), error
        assert isinstance(error, PermissionError)
        print("denied", flush=True)
    os._exit(0)
    """
    fast.mkdir()
    fast.chmod(0o777)
    slow.chmod(0o555)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    with Child(tmp_path, source, *folders) as child:
        said, _ = child.end()
    slow.chmod(0o755)
    assert said == "denied\n" and (slow / "a").read_bytes() == b"old"
