"""``forebay run --stage-writes``: files that programs write go to a staging area first, and get to their destinations whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from run_programs import COMMAND, LIBRARY, LIMIT, Ran, command, environment, noise, plain, python, run, tier_folder

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")

# Nothing is drained before the end of the program, or before somebody has to wait for it.
PAUSED = {"FOREBAY_STAGE_PAUSED": "true"}


@pytest.fixture
def area() -> Iterator[Path]:
    with tier_folder() as folder:
        yield folder


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "set"
    folder.mkdir()
    return folder


def flags(area: Path) -> list[object]:
    return ["--stage-writes", "--stage", area]


def staged(origin: Path, area: Path, *program: object, check: bool = True, cwd: Path | None = None, **more: str) -> Ran:
    settings = {"FOREBAY_STAGE_FREE_FLOOR": "0", **more}
    return run(origin, *program, tiers=[], flags=flags(area), check=check, cwd=cwd, **settings)


def digest(folder: Path) -> dict[str, str]:
    """Every file below a folder, with its mode, times and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = f"{facts.st_mode:o} {facts.st_size} {hashlib.sha256(content).hexdigest()}"
    return found


def recovered(area: Path) -> str:
    done = subprocess.run([*COMMAND, "recover", str(area)], capture_output=True, text=True, timeout=LIMIT, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def items(area: Path) -> list[Path]:
    return list(area.rglob("*.journal"))


SAVE = """
    import os, subprocess, sys
    import numpy as np, torch
    folder = sys.argv[1]
    np.save(f"{folder}/a.npy", np.arange(200_000.0))
    with open(f"{folder}/text", "w") as file:
        print("written", file=file)
        print(os.stat(f"{folder}/text").st_size, os.path.exists(f"{folder}/text"))
    for step in range(3):
        torch.save({"step": step, "w": torch.arange(5000) * step}, f"{folder}/x.tmp")
        os.replace(f"{folder}/x.tmp", f"{folder}/x.pt")
    os.symlink("x.pt", f"{folder}/latest")
    print(np.load(f"{folder}/a.npy").sum(), torch.load(f"{folder}/latest")["step"], open(f"{folder}/text").read())
    print(os.path.getsize(f"{folder}/x.pt"), os.path.exists(f"{folder}/x.tmp"), os.path.realpath(f"{folder}/latest") == f"{folder}/x.pt")
    reader = "import numpy as np, sys; print(np.load(sys.argv[1], mmap_mode='r')[-1])"
    print(subprocess.run([sys.executable, "-c", reader, f"{folder}/a.npy"], capture_output=True, text=True).stdout)
    bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    print("outside", subprocess.run(["ls", folder], env=bare, capture_output=True, text=True).stdout.split())
"""


def test_what_numpy_and_torch_save_is_read_back_in_the_run_and_durable_after_it(origin: Path, area: Path, tmp_path: Path) -> None:
    """Nothing of it is at its destination before the end: the drain is paused."""
    pytest.importorskip("torch")
    (tmp_path / "plain").mkdir()
    expected = plain(*python(SAVE, tmp_path / "plain")).decode().splitlines()
    ran = staged(origin, area, *python(SAVE, origin), **PAUSED)
    told = ran.out.decode().splitlines()
    assert told[:-1] == expected[:-1]
    assert told[-1] == "outside ['latest']", "only the link is at its destination by then"
    assert (ran.count("staged_files"), ran.count("staged_bytes") > 1_600_000) == (3, True), ran.said
    assert sorted(os.listdir(origin)) == ["a.npy", "latest", "text", "x.pt"]
    for name in ("a.npy", "text", "x.pt"):
        assert (origin / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name
    assert items(area) == []


def test_trees_that_cp_and_tar_write_are_those_of_plain_runs(origin: Path, area: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    for number in range(20):
        path = source / "sub" / f"{number}.bin"
        path.write_bytes(noise(1000 * number, number).tobytes())
        path.chmod(0o600 + number)
        os.utime(path, (1000, 5000 + number))
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(source, "tarred")
    ran = staged(origin, area, "cp", "-a", source, origin / "copied")
    assert ran.count("staged_files") == 20, ran.said
    staged(origin, area, "tar", "-xpf", tmp_path / "a.tar", "-C", origin)
    for name in ("copied", "tarred"):
        assert digest(origin / name) == digest(source)
        for path in (source / "sub").iterdir():
            assert (origin / name / "sub" / path.name).stat().st_mtime_ns == path.stat().st_mtime_ns
    staged(origin, area, "sh", "-c", f"rm -r {origin}/copied; cp -r {source} {origin}/copied; ls {origin}/copied/sub | wc -l")
    assert len(list((origin / "copied" / "sub").iterdir())) == 20


def test_calls_on_names_give_what_they_give_without_staging(origin: Path, area: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "calls"
    source = Path(__file__).with_name("staged_calls.c")
    subprocess.run([compiler, "-O2", "-Wno-unused-result", "-o", program, source], check=True, timeout=LIMIT)
    (tmp_path / "plain").mkdir()
    expected = plain(program, cwd=tmp_path / "plain").decode()
    for settings in ({}, PAUSED):
        shutil.rmtree(origin)
        origin.mkdir()
        ran = staged(origin, area, program, cwd=origin, **settings)
        assert ran.out.decode() == expected
        assert digest(origin) == digest(tmp_path / "plain")
        assert ran.count("staged_opens") >= 6, ran.said
    assert items(area) == []


def test_shells_see_what_they_wrote(origin: Path, area: Path, tmp_path: Path) -> None:
    script = """
        cd "$0"; echo one > a; cat a; (echo two; cat a) > b; cat b; mv a c; cat c; test -e a || echo moved
        echo three >> c; cat c; cp c d; ls; rm b; ls; mkdir e; mv c e/c; mv e f; cat f/c; find . -type f | sort
        exec 3> log; echo first >&3; echo second >> log; cat log; echo third >&3; exec 3>&-; wc -c < log
        printf '#!/bin/sh\\necho ran\\n' > run.sh; chmod +x run.sh; sh run.sh; rm -r f; ls
    """
    (tmp_path / "plain").mkdir()
    expected = plain("sh", "-c", script, tmp_path / "plain")
    for settings in ({}, PAUSED):
        shutil.rmtree(origin)
        origin.mkdir()
        assert staged(origin, area, "sh", "-c", script, origin, **settings).out == expected
        assert digest(origin) == digest(tmp_path / "plain")


def test_a_data_base_is_left_where_it_is(origin: Path, area: Path) -> None:
    source = """
        import sqlite3, sys
        base = sqlite3.connect(sys.argv[1]); base.execute("create table t (i integer)")
        with base: base.executemany("insert into t values (?)", ((i,) for i in range(100)))
        other = sqlite3.connect(sys.argv[1])
        print(other.execute("select sum(i) from t").fetchone())
    """
    ran = staged(origin, area, *python(source, origin / "a.sqlite"))
    assert ran.out == b"(4950,)\n"
    base = sqlite3.connect(origin / "a.sqlite")
    assert base.execute("select count(*) from t").fetchone() == (100,)
    base.close()


def test_versions_of_one_file_are_published_in_their_order_and_old_ones_keep_their_modes(origin: Path, area: Path) -> None:
    (origin / "a").write_bytes(b"before")
    (origin / "a").chmod(0o604)
    script = 'for i in $(seq 30); do echo $i > "$0"; done; cat "$0"'
    ran = staged(origin, area, "sh", "-c", script, origin / "a")
    assert (ran.out, (origin / "a").read_bytes()) == (b"30\n", b"30\n")
    assert (origin / "a").stat().st_mode & 0o777 == 0o604


def test_files_that_do_not_fit_go_to_their_destinations(origin: Path, area: Path) -> None:
    source = """
        import sys, time
        for number in range(6):
            with open(f"{sys.argv[1]}/{number}", "wb") as file:
                file.write(bytes([number]) * (2 << 20))
            time.sleep(0.15)
    """
    ran = staged(origin, area, *python(source, origin), FOREBAY_STAGE_QUOTA="7MiB", **PAUSED)
    for number in range(6):
        assert (origin / str(number)).read_bytes() == bytes([number]) * (2 << 20)
    assert 1 <= ran.count("staged_files") < 6, ran.said


def test_a_file_that_finds_no_space_left_goes_on_at_its_destination(origin: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", small], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    source = """
        import os, sys
        with open(sys.argv[1], "w+b") as file:
            for number in range(16):
                file.write(bytes([number]) * (1 << 20))
            file.flush()
            file.seek(3 << 20)
            print(file.read(1), file.tell(), os.stat(sys.argv[1]).st_size)
    """
    try:
        ran = staged(origin, small, *python(source, origin / "a"))
    finally:
        subprocess.run(["umount", small], check=True)
    assert ran.out == b"b'\\x03' 3145729 16777216\n"
    assert (origin / "a").read_bytes() == b"".join(bytes([number]) * (1 << 20) for number in range(16))
    assert (ran.count("staged_opens"), ran.count("staged_files")) == (1, 0), ran.said


def test_without_the_flag_and_outside_of_the_origin_nothing_is_staged(origin: Path, area: Path, tmp_path: Path) -> None:
    ran = run(origin, "sh", "-c", 'echo a > "$0"/a', origin, tiers=[f"{area}:1MiB:free=0"], flags=["--stage", area])
    assert (ran.count("staged_opens"), (origin / "a").read_text()) == (0, "a\n")
    ran = staged(origin, area, "sh", "-c", 'echo b > "$0"/b', tmp_path)
    assert (ran.count("staged_opens"), (tmp_path / "b").read_text()) == (0, "b\n")


KILLED = """
    import os, signal, sys, time
    folder = sys.argv[1]
    for number in range(5):
        with open(f"{folder}/{number}", "wb") as file:
            file.write(bytes([number]) * 300_000)
    log = open(f"{folder}/log", "w")
    log.write("so far")
    log.flush()
    print("ready", flush=True)
    if sys.argv[2] == "kill": os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(300)
"""


def check_killed(origin: Path) -> None:
    for number in range(5):
        assert (origin / str(number)).read_bytes() == bytes([number]) * 300_000
    assert (origin / "log").read_text() == "so far"


def test_a_program_that_is_killed_leaves_what_it_wrote(origin: Path, area: Path) -> None:
    ran = staged(origin, area, *python(KILLED, origin, "kill"), check=False, **PAUSED)
    assert ran.code == -signal.SIGKILL
    check_killed(origin)


def test_recover_finishes_what_a_killed_launcher_left(origin: Path, area: Path) -> None:
    words = command(origin, *python(KILLED, origin, "wait"), tiers=[], flags=flags(area))
    names = environment(FOREBAY_STAGE_FREE_FLOOR="0", **PAUSED)
    launcher = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=names)
    assert launcher.stdout is not None and launcher.stdout.readline() == b"ready\n"
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    launcher.kill()
    launcher.wait(LIMIT)
    assert sorted(os.listdir(origin)) == []
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    deadline = time.monotonic() + LIMIT
    while any(Path(f"/proc/{child}/fd").exists() and is_alive(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    launcher.stdout.close()
    recovered(area)
    check_killed(origin)
    assert items(area) == []


def is_alive(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_destination_that_refuses_is_said_by_the_exit_code_and_loses_nothing(origin: Path, area: Path, tmp_path: Path) -> None:
    source = """
        import os, subprocess, sys
        os.mkdir(f"{sys.argv[1]}/sub")
        open(f"{sys.argv[1]}/sub/a", "w").write("kept")
        bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run(["rmdir", f"{sys.argv[1]}/sub"], env=bare, check=True)
    """
    report = tmp_path / "run.html"
    settings = {"FOREBAY_STAGE_FREE_FLOOR": "0", **PAUSED}
    told = [*flags(area), "--report", report]
    ran = run(origin, *python(source, origin), tiers=[], flags=told, check=False, **settings)
    assert ran.code == 6 and f"forebay recover {area}" in ran.said and "sub/a" in ran.said, ran.said
    assert (ran.count("staged_files"), ran.count("staged_left")) == (1, 1), ran.said
    assert "Staged writes" in report.read_text() and "1 left in the area" in report.read_text()
    listed = subprocess.run([*COMMAND, "stage", "ls", str(area)], capture_output=True, text=True, timeout=LIMIT, env=environment())
    assert "'forebay recover' tries again" in listed.stdout and "stage drain" not in listed.stdout, listed.stdout
    (origin / "sub").mkdir()
    recovered(area)
    assert (origin / "sub" / "a").read_text() == "kept"


def test_a_file_whose_destination_cannot_be_looked_at_stays_in_the_area(origin: Path, area: Path) -> None:
    source = """
        import os, subprocess, sys
        os.chdir(sys.argv[1])
        os.mkdir("sub")
        open("sub/a", "w").write("kept")
        bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run(["sh", "-c", "rmdir sub && touch sub"], env=bare, check=True)
    """
    ran = staged(origin, area, *python(source, origin), check=False)
    assert ran.code == 6 and f"forebay recover {area}" in ran.said and "sub/a" in ran.said, ran.said
    (origin / "sub").unlink()
    (origin / "sub").mkdir()
    recovered(area)
    assert (origin / "sub" / "a").read_text() == "kept"


def test_owners_and_the_times_of_folders_are_those_of_plain_runs(origin: Path, area: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    script = """
        cd "$0"; echo o > f; chown 1234:4321 f; stat -c '%u %g' f; echo old > g; chown 77:78 g; sync g; echo new > g; stat -c '%u %g' g
        mkdir -p a/b; echo 1 > a/b/1; touch -d 2020-01-01 a/b; cp -a a c; stat -c %Y a/b c/b
    """
    (tmp_path / "plain").mkdir()
    expected = plain("sh", "-c", script, tmp_path / "plain")
    for settings in ({}, PAUSED):
        shutil.rmtree(origin)
        origin.mkdir()
        assert staged(origin, area, "sh", "-c", script, origin, **settings).out == expected
        for name in ("f", "g"):
            ours, theirs = (origin / name).stat(), (tmp_path / "plain" / name).stat()
            assert (ours.st_uid, ours.st_gid) == (theirs.st_uid, theirs.st_gid), name
        for name in ("a/b", "c/b", "c/b/1"):
            assert int((origin / name).stat().st_mtime) // 3600 == int((tmp_path / "plain" / name).stat().st_mtime) // 3600, name


def test_a_file_that_is_begun_as_the_run_ends_is_at_its_destination(origin: Path, area: Path) -> None:
    script = 'cd "$0"; echo a > a; (for i in $(seq 200); do echo $i > bg$i; done) >/dev/null 2>&1 & '
    for _ in range(5):
        staged(origin, area, "sh", "-c", script, origin)
        until = time.monotonic() + 60
        while not (origin / "bg200").exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        assert {number: (origin / f"bg{number}").read_text() for number in range(1, 201)} == {
            number: f"{number}\n" for number in range(1, 201)
        }
        assert items(area) == []
        shutil.rmtree(origin)
        origin.mkdir()


def test_recover_leaves_a_file_that_a_program_still_writes(origin: Path, area: Path) -> None:
    source = """
        import sys, time
        file = open(sys.argv[1], "w"); file.write(sys.argv[2]); file.flush(); print("ready", flush=True); time.sleep(600)
    """
    programs = []
    for text in ("first", "second"):
        words = command(origin, *python(source, origin / "f", text), tiers=[], flags=flags(area))
        launcher = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(FOREBAY_STAGE_FREE_FLOOR="0"))
        assert launcher.stdout is not None and launcher.stdout.readline() == b"ready\n"
        child = int(Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()[0])
        launcher.kill()
        launcher.wait()
        if text == "first":
            os.kill(child, signal.SIGKILL)
            time.sleep(0.5)
        programs.append(child)
    done = subprocess.run([*COMMAND, "recover", str(area)], capture_output=True, text=True, timeout=LIMIT, env=environment())
    assert done.returncode != 0 and "still open for writing" in done.stdout + done.stderr, done
    assert (origin / "f").read_text() == "first"
    os.kill(programs[1], signal.SIGKILL)
    time.sleep(0.5)
    recovered(area)
    assert (origin / "f").read_text() == "second" and items(area) == []


def test_many_processes_write_many_files(origin: Path, area: Path) -> None:
    source = """
        import os, sys
        from concurrent.futures import ProcessPoolExecutor
        folder = sys.argv[1]
        def work(rank):
            for number in range(40):
                path = f"{folder}/{rank}-{number}"
                with open(path + ".part", "wb") as file: file.write(path.encode() * 100)
                os.rename(path + ".part", path)
            return len([name for name in os.listdir(folder) if name.startswith(f"{rank}-") and not name.endswith(".part")])
        if __name__ == "__main__":
            import multiprocessing
            with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
                print(list(pool.map(work, range(4))))
    """
    ran = staged(origin, area, *python(source, origin))
    assert ran.out == b"[40, 40, 40, 40]\n"
    names = os.listdir(origin)
    assert len(names) == 160 and all((origin / name).read_bytes() == f"{origin}/{name}".encode() * 100 for name in names)


def test_what_cannot_be_staged_is_said(origin: Path) -> None:
    for place, why in ((origin / "area", "lies under the origin"), ("memory", "no staging area in memory")):
        words = command(origin, "echo", "ran", tiers=[], flags=["--stage-writes", "--stage", place])
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, env=environment())
        assert done.returncode == 2 and why in done.stderr and "ran" not in done.stdout, done
