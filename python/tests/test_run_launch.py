"""The launcher of ``forebay run``: what the program is given, its signals and its end, the summary, what is left behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_programs import COMMAND, LIBRARY, LIMIT, LONG, command, environment, plain, python, run, tier_folder

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin").resolve()
    (folder / "a.txt").write_text("alpha\n")
    # Files that changed a moment ago are not copied.
    time.sleep(2.1)
    return folder


@pytest.fixture
def tier() -> Iterator[str]:
    with tier_folder() as folder:
        yield f"{folder}:64MiB:free=0"


def test_the_program_gets_the_library_behind_its_own_and_the_settings(origin: Path, tier: str) -> None:
    shown = 'echo "$LD_PRELOAD|$FOREBAY_ORIGIN|$FOREBAY_TIERS|$FOREBAY_POLICY"; stat -c %a "$FOREBAY_RUN"'
    ran = run(origin, "sh", "-c", shown, tiers=["mem:8MiB", tier], flags=["--policy", "first-fit"])
    words, mode = ran.out.decode().splitlines()
    assert words == f"{LIBRARY}|{origin}|disk:/dev/shm:8MiB,disk:{tier}|first-fit"
    assert mode == "700"
    other = next(path for path in Path("/lib").rglob("libm.so.6"))
    ran = run(origin, "sh", "-c", 'echo "$LD_PRELOAD"', tiers=[tier], LD_PRELOAD=str(other))
    assert ran.out.decode().strip() == f"{other}:{LIBRARY}"


def test_a_configuration_file_is_enough(origin: Path, tier: str, tmp_path: Path) -> None:
    path, quota, _ = tier.split(":")
    text = f'[origin]\npath = "{origin}"\n[[tier]]\nkind = "disk"\npath = "{path}"\nquota = "{quota}"\nfree = 0\n'
    (tmp_path / "forebay.toml").write_text(text)
    words = [*COMMAND, "run", "--json", "--", "cat", str(origin / "a.txt")]
    names = {name: value for name, value in environment().items() if name != "FOREBAY_CONFIG"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path, env=names)
    assert (done.returncode, done.stdout) == (0, "alpha\n"), done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["counters"]["opens_managed"] == 1


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code_is_the_programs(origin: Path, tier: str, code: int) -> None:
    ran = run(origin, "sh", "-c", f"exit {code}", tiers=[tier], check=False)
    assert (ran.code, ran.summary["exit_code"]) == (code, code)


def test_a_program_that_a_signal_ended_ends_the_command_by_the_same(origin: Path, tier: str) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        ran = run(origin, "sh", "-c", f"kill -{int(number)} $$", tiers=[tier], check=False)
        assert ran.code == -number
        assert ran.summary["signal"] == number


def test_an_alarm_that_was_set_before_ends_the_program(origin: Path, tier: str) -> None:
    program = [str(word) for word in command(origin, "sleep", "300", tiers=[tier])]
    source = f"import os, signal; signal.alarm(2); os.execvp({program[0]!r}, {program!r})"
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, timeout=LIMIT, env=environment())
    assert ended.returncode == -signal.SIGALRM, ended.stderr


def test_a_program_that_is_not_there_is_127_and_leaves_nothing(origin: Path, tier: str) -> None:
    for program, code in (("forebay-no-such-program", 127), ("/dev/null", 126)):
        ran = run(origin, program, tiers=["mem:8MiB", tier], check=False)
        assert (ran.code, ran.leftovers()) == (code, [])


def start(origin: Path, tier: str, source: str, **options: Any) -> subprocess.Popen[str]:
    words = command(origin, *python(source), tiers=[tier])
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=environment(), **options)


def test_signals_sent_to_the_command_reach_the_program_once(origin: Path, tier: str) -> None:
    names = "SIGINT SIGTERM SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGVTALRM SIGPROF SIGXCPU SIGWINCH SIGRTMIN SIGRTMAX".split()
    numbers = sorted(int(getattr(signal, name)) for name in names)
    source = f"""
        import signal, sys, time
        seen = []
        for number in {numbers}:
            signal.signal(number, lambda number, frame: seen.append(number))
        print("ready", flush=True)
        until = time.monotonic() + 300
        while len(seen) < {len(numbers)} and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        print(sorted(seen))
    """
    process = start(origin, tier, source)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for number in numbers:
        process.send_signal(number)
    out, said = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (0, f"{numbers}\n"), said


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def until(state_of: Callable[[], str], wanted: str) -> None:
    limit = time.monotonic() + LIMIT
    while state_of() != wanted and time.monotonic() < limit:
        time.sleep(0.01)
    assert state_of() == wanted


def test_a_program_that_stops_stops_the_command_and_both_go_on(origin: Path, tier: str) -> None:
    source = """
        import os, sys
        print(os.getpid(), flush=True)
        sys.stdin.readline()
        print("went on")
    """
    # A group of its own: the kernel does not stop those whose parents are all elsewhere.
    process = start(origin, tier, source, stdin=subprocess.PIPE, process_group=0)
    assert process.stdout is not None and process.stdin is not None
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGTSTP)
    until(lambda: state(process.pid) + state(child), "TT")
    process.send_signal(signal.SIGCONT)
    until(lambda: state(process.pid) + state(child), "SS")
    process.stdin.write("\n")
    out, said = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (0, "went on\n"), said


def test_the_terminals_interrupt_arrives_once_and_the_end_is_the_programs(origin: Path, tier: str) -> None:
    """As Ctrl-C has it: the kernel sends the signal to the whole foreground group."""
    source = """
        import signal, time
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        print("ready", flush=True)
        until = time.monotonic() + 300
        while not seen and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        print(f"interrupted {len(seen)}", flush=True)
        raise SystemExit(3)
    """
    words = command(origin, *python(source), tiers=[tier])
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(words[0], words, environment())
    said = b""
    while b"ready" not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3, said
    assert b"interrupted 1\r\n" in said, said


def test_one_summary_unless_it_is_unwanted_and_nothing_on_standard_output(origin: Path, tier: str) -> None:
    words = command(origin, "cat", origin / "a.txt", tiers=[tier])
    words.remove("--json")
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, env=environment())
    assert done.stdout == "alpha\n"
    assert f"forebay: 1 open under {origin}" in done.stderr and re.search(r"; \d+ origin reads? saved; waited", done.stderr)
    quiet = [*words[: words.index("run") + 1], "--quiet", *words[words.index("run") + 1 :]]
    done = subprocess.run(quiet, capture_output=True, text=True, timeout=LIMIT, env=environment())
    assert (done.stdout, done.stderr) == ("alpha\n", "")


def test_the_report_is_one_page_that_needs_nothing_else(origin: Path, tier: str, tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    run(origin, "sh", "-c", f"cat {origin}/a.txt; sleep 0.3", tiers=[tier], flags=["--report", report])
    page = report.read_text()
    assert "<!DOCTYPE html>" in page and "forebay run" in page and "opens managed" in page and "<svg" in page
    # The name of SVG's namespace is no address that anything is fetched from.
    assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "") and "<script" not in page


def test_a_run_within_a_run_joins_it(origin: Path, tier: str) -> None:
    inner = command(origin, "cat", origin / "a.txt", tiers=[tier])
    ran = run(origin, *inner, tiers=[tier])
    assert ran.out == b"alpha\n" and ran.said.count('{"program"') == 1
    assert ran.summary["counters"]["opens_managed"] == 1


def test_nothing_is_left_behind_unless_it_is_kept(origin: Path) -> None:
    with tier_folder() as folder:
        # What it is compared with is there while the program runs.
        shown = 'cat "$0"; basename "$FOREBAY_RUN"; ls /dev/shm/forebay-tier-"$(id -u)"'
        ran = run(origin, "sh", "-c", shown, origin / "a.txt", tiers=["mem:8MiB", f"{folder}:8MiB:free=0"])
        words, user = ran.out.decode().split(), os.geteuid()
        for begin in (f"forebay-run-{user}-{ran.process}-", f"job-{user}_{ran.process}_"):
            assert any(word.startswith(begin) for word in words), words
        assert list(folder.iterdir()) == []
        assert ran.leftovers() == []
        run(origin, "cat", origin / "a.txt", tiers=[f"{folder}:8MiB:free=0:keep"])
        assert list(folder.rglob("kept"))


def test_a_killed_command_leaves_the_program_right_and_the_next_one_clears_up(origin: Path, tier: str) -> None:
    source = f"""
        import os, sys, time
        # Asked before the command can be killed: the parent is another one then.
        parent, until = os.getppid(), time.monotonic() + 300
        print(os.environ["FOREBAY_RUN"], os.getpid(), flush=True)
        while os.getppid() == parent and time.monotonic() < until:
            time.sleep(0.01)
        with open({str(origin / "a.txt")!r}) as file:
            print(file.read(), end="", flush=True)
    """
    process = start(origin, tier, source)
    assert process.stdout is not None
    folder, child = process.stdout.readline().split()
    process.kill()
    assert process.stdout.read() == "alpha\n"
    process.wait(timeout=LIMIT)
    limit = time.monotonic() + LIMIT
    while Path(f"/proc/{child}").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    # Another run at the same time may be the next one, and be at it.
    run(origin, "true", tiers=[tier])
    while Path(folder).exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not Path(folder).exists()


STATIC = r"""
#include <fcntl.h>
#include <unistd.h>
int main(int count, char **words) {
    char bytes[64];
    ssize_t len = read(open(words[1], O_RDONLY), bytes, sizeof bytes);
    return write(1, bytes, len) < 0;
}
"""


def test_a_static_program_is_told_before_it_runs_and_after(origin: Path, tier: str, tmp_path: Path) -> None:
    (tmp_path / "static.c").write_text(STATIC)
    built = subprocess.run(["gcc", "-static", "-o", tmp_path / "static", tmp_path / "static.c"], capture_output=True)
    if built.returncode:
        pytest.skip("no static C library")
    (tmp_path / "script").write_text(f"#!{tmp_path}/static\n")
    (tmp_path / "script").chmod(0o755)
    ran = run(origin, tmp_path / "static", origin / "a.txt", tiers=[tier])
    assert ran.out == b"alpha\n"
    assert "reads without tiers: it is a static program" in ran.said, ran.said
    assert any("bypasses the C library" in note for note in ran.summary["notes"])
    script = run(origin, tmp_path / "script", tiers=[tier])
    assert f"{tmp_path}/static reads without tiers" in script.said


def test_a_program_that_opens_nothing_there_is_told(origin: Path, tier: str) -> None:
    ran = run(origin, "true", tiers=[tier])
    assert any(f"no open under {origin} was seen" in note for note in ran.summary["notes"]), ran.said


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--tier", "{origin}/copies"], "lies under the origin"),
        (["--tier", "memory", "--stage", "/dev/shm", "--stage-writes"], "--stage-writes was removed"),
        ([], "--tier"),
        (["--hdf5", "--stage", "{origin}/a.txt"], "a.txt is not a folder; name a folder by --stage"),
    ],
)
def test_what_cannot_be_is_said_before_the_program_runs(origin: Path, flags: list[str], why: str) -> None:
    told = [flag.format(origin=origin) for flag in flags]
    words = [*COMMAND, "run", "--origin", str(origin), *told, "--", "echo", "ran"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, env=environment())
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr, done.stderr


def test_short_lived_children_leave_nothing(origin: Path) -> None:
    """A child each, one after the other and a few at a time; the tier outlives them all."""
    count = 1000 if LONG else 60
    script = f'for i in $(seq {count // 4}); do for j in 1 2 3 4; do cat "$0" & done; wait; done'
    expected = plain("sh", "-c", script, origin / "a.txt")
    ran = run(origin, "sh", "-c", script, origin / "a.txt", tiers=["mem:8MiB"])
    assert ran.out == expected == b"alpha\n" * count
    assert ran.summary["counters"]["opens_managed"] == count
    assert ran.summary["counters"]["origin_bytes"] <= 4 * len("alpha\n"), ran.said
    assert ran.leftovers() == []
