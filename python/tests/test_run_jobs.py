"""Launchers of jobs and ``forebay run`` in either order: one summary for each node, and each byte is read from the origin once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_programs import LIBRARY, LIMIT, command, environment, noise, plain, run, run_words, summaries, tier_folder

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")

RANKS = 2
# Slurm itself is not there: what it gives two tasks of one step, side by side on a node, is the environment of each.
SRUN = f"""#!/bin/sh
export SLURM_JOB_ID=$$ SLURM_JOBID=$$ SLURM_STEP_ID=0 SLURM_NTASKS={RANKS} SLURM_NNODES=1 SLURM_NODEID=0 SLURM_TASKS_PER_NODE={RANKS}
tasks=
for number in $(seq 0 {RANKS - 1}); do
    SLURM_PROCID=$number SLURM_LOCALID=$number setsid --wait "$@" &
    tasks="$tasks $!"
done
code=0
for task in $tasks; do wait "$task" || code=$?; done
exit $code
"""
# Every rank waits until all are there, so that all of them read at once; a rank that does not come ends the others too.
READER = r"""
touch "$2/$$"
tries=0
while [ "$(ls "$2" | wc -l)" -lt "$3" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 6000 ] || exit 9
    sleep 0.02
done
find "$1" -type f | sort | xargs cat | sha256sum
"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin").resolve()
    for number in range(3):
        (folder / f"{number}.bin").write_bytes(noise((2 << 20) + 1000 * number, number).tobytes())
    time.sleep(2.1)
    return folder


@pytest.fixture
def tier() -> Iterator[str]:
    with tier_folder() as folder:
        yield f"{folder}:64MiB:free=0"


def size_of(origin: Path) -> int:
    return sum(path.stat().st_size for path in origin.iterdir())


def reader(origin: Path, meeting: Path, ranks: int = RANKS) -> list[str]:
    meeting.mkdir()
    # A file: torchrun takes a dollar in what it is told for a variable of its own.
    script = meeting.with_suffix(".sh")
    script.write_text(READER)
    return ["sh", str(script), str(origin), str(meeting), str(ranks)]


def launcher(name: str, folder: Path) -> list[str]:
    """The words before a program by which so many ranks of it are started."""
    if name == "srun":
        script = folder / "srun"
        script.write_text(SRUN)
        script.chmod(0o755)
        return [str(script)]
    if name == "torchrun":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "--no-python"]
    mpirun = shutil.which("mpirun")
    assert mpirun, "scripts/setup.sh installs one"
    return [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS)]


@pytest.mark.parametrize("name", ["srun", "torchrun", "mpirun"])
def test_a_launcher_of_ranks_goes_inside_and_outside(origin: Path, tier: str, tmp_path: Path, name: str) -> None:
    ranks = launcher(name, tmp_path)
    expected = plain(*reader(origin, tmp_path / "plain", 1)).splitlines() * RANKS
    inside = run(origin, *ranks, *reader(origin, tmp_path / "inside"), tiers=[tier])
    outside = run_words([*ranks, *command(origin, *reader(origin, tmp_path / "outside"), tiers=[tier])])
    for ran in (inside, outside):
        assert ran.out.splitlines() == expected, ran.said
        assert len(summaries(ran.said)) == 1, ran.said
        assert ran.count("opens_managed") == RANKS * len(list(origin.iterdir())), ran.said
        assert ran.count("origin_bytes") <= 1.05 * size_of(origin), ran.said
    assert inside.leftovers() == []


# What each scheduler or launcher gives the ranks of one job, with the job in place of a star. Those of MPICH know their parent alone.
JOBS = {
    "Slurm": {"SLURM_JOB_ID": "*", "SLURM_STEP_ID": "0"},
    "PBS": {"PBS_JOBID": "*.server"},
    "LSF": {"LSB_JOBID": "*"},
    "torchrun": {"TORCHELASTIC_RUN_ID": "*", "MASTER_PORT": "29500"},
    "Open MPI": {"PMIX_NAMESPACE": "prterun-*@1"},
    "MPICH": {"PMI_RANK": "0", "PMI_SIZE": "2"},
    "by hand": {"MASTER_PORT": "*"},
}


def run_beside(words: list[list[str]], variables: list[dict[str, str]]) -> list[tuple[int, bytes, str]]:
    """Runs command lines at once, each with variables of its own; their exit codes, outputs and what they said."""
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(each, stdout=pipe, stderr=pipe, env=environment(**more)) for each, more in zip(words, variables, strict=True)
    ]
    ended = []
    for process in started:
        try:
            out, said = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
        ended.append((process.returncode, out, said.decode(errors="replace")))
    return ended


def job_of(number: int) -> str:
    """A job that no other test has."""
    return f"{os.getpid()}{number}"


@pytest.mark.parametrize("scheduler", JOBS)
def test_launchers_of_one_job_share_one_run(origin: Path, tier: str, tmp_path: Path, scheduler: str) -> None:
    job = job_of(list(JOBS).index(scheduler))
    variables = {name: value.replace("*", job) for name, value in JOBS[scheduler].items()}
    expected = plain(*reader(origin, tmp_path / "plain", 1))
    words = command(origin, *reader(origin, tmp_path / "meeting"), tiers=[tier])
    ended = run_beside([words] * RANKS, [variables] * RANKS)
    assert [(code, out) for code, out, _ in ended] == [(0, expected)] * RANKS, ended
    told = [summary for _, _, said in ended for summary in summaries(said)]
    assert len(told) == 1, ended
    assert told[0]["counters"]["opens_managed"] == RANKS * len(list(origin.iterdir()))
    assert told[0]["counters"]["origin_bytes"] <= 1.05 * size_of(origin), told
    user = os.geteuid()
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"forebay-run-{user}-") and job in name]


@pytest.mark.parametrize(
    "variables", [{"SLURM_JOB_ID": "*"}, {"TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "*"}, {}], ids=["Slurm", "torchrun without a name", "none"]
)
def test_launchers_of_two_jobs_have_a_summary_each(origin: Path, tier: str, tmp_path: Path, variables: dict[str, str]) -> None:
    expected = plain(*reader(origin, tmp_path / "plain", 1))
    words = command(origin, *reader(origin, tmp_path / "meeting"), tiers=[tier])
    jobs = [{name: value.replace("*", job_of(100 + number)) for name, value in variables.items()} for number in range(RANKS)]
    ended = run_beside([words] * RANKS, jobs)
    assert [(code, out) for code, out, _ in ended] == [(0, expected)] * RANKS, ended
    told = [summaries(said) for _, _, said in ended]
    assert [len(each) for each in told] == [1] * RANKS, ended
    assert sum(each[0]["counters"]["opens_managed"] for each in told) == RANKS * len(list(origin.iterdir()))
