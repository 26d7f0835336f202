"""Stores of jobs that a real MPI started: mpi4py's communicators, DDStore's interface, and the example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What scripts/mpi.sh printed: a name, a launcher and a library in each line.
MPIS = dict(
    (name, (Path(launcher), Path(library)))
    for name, launcher, library in (line.split("\t") for line in os.environ.get("FOREBAY_MPIS", "").splitlines())
)

pytestmark = pytest.mark.skipif(not MPIS, reason="FOREBAY_MPIS is not set; `make test` installs MPIs and sets it")


def mpi_environment(name: str) -> dict[str, str]:
    """The environment of programs of the MPI called ``name``, in which mpi4py is found."""
    _, library = MPIS[name]
    # It stands in an environment with its MPI: packages of one of its own there would come before those of the tests.
    folder = "mpich" if name.startswith("mpich") else "openmpi"
    packages = library.parent / Path(sysconfig.get_path("purelib")).relative_to(Path(sys.prefix) / "lib")
    paths = [os.environ.get("PYTHONPATH", ""), str(packages)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "MPI4PY_MPIABI": folder,
        "LD_LIBRARY_PATH": str(library.parent),
        "OMP_NUM_THREADS": "1",
    }


def mpirun(name: str, ranks: int, *command: str) -> str:
    """What ranks under the MPI called ``name`` printed; all of them must succeed."""
    launcher, _ = MPIS[name]
    launch = [str(launcher), "-n", str(ranks)]
    if name.startswith("openmpi"):
        launch += ["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1"]
    done = subprocess.run([*launch, *command], env=mpi_environment(name), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_ranks(name: str, ranks: int, source: str, tmp_path: Path) -> str:
    script = tmp_path / "rank.py"
    script.write_text(textwrap.dedent(source))
    return mpirun(name, ranks, sys.executable, str(script))


@pytest.mark.parametrize("name", ["mpich5", "openmpi5"])
def test_a_store_takes_communicators_of_mpi4py(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(60.0).reshape(20, 3))
    said = run_ranks(
        name,
        3,
        f"""
        from mpi4py import MPI
        import numpy as np, forebay
        world = MPI.COMM_WORLD
        assert world.size == 3
        whole = np.load({str(path)!r})
        ds = forebay.open({str(path)!r}, ["data"])
        with forebay.Store(comm=world) as store:
            assert (store.rank, store.world, store.width) == (world.rank, 3, 3)
            store.fill(ds)
            for data in ("loader", "get"):
                np.testing.assert_array_equal(store.get_batch(range(20))["data"], whole)
            mine = [i for batch in store.loader(batch_size=4, shuffle="full", tail="pad") for i in batch.indices if i >= 0]
            every = sorted(sum(world.allgather(mine), []))
            assert every == list(range(20)), every
            assert "MPI" in store.stats()["transport"], store.stats()
        # A part of the ranks, whose messages do not meet those of the program.
        part = world.Split(world.rank % 2)
        with forebay.Store(comm=part) as store:
            store.add("x", np.full((2, 4), world.rank))
            got = store.get_batch(range(2 * part.size))["x"][::2, 0]
            np.testing.assert_array_equal(got, [rank for rank in range(3) if rank % 2 == world.rank % 2])
        print("done", world.rank)
        """,
        tmp_path,
    )
    assert sorted(re.findall(r"done (\d)", said)) == ["0", "1", "2"]


def test_a_program_of_ddstore_runs_under_mpi(tmp_path: Path) -> None:
    run_ranks(
        "mpich5",
        2,
        """
        from mpi4py import MPI
        import numpy as np
        from forebay import pyddstore as dds
        comm = MPI.COMM_WORLD
        store = dds.PyDDStore(comm)
        store.add("x", np.full((4, 8), comm.rank, np.float32))
        store.epoch_begin()
        got = np.zeros((1, 8), np.float32)
        for sample in range(8):
            store.get("x", got, sample)
            assert (got == sample // 4).all(), (sample, got)
        store.epoch_end()
        store.free()
        """,
        tmp_path,
    )


def test_the_example_learns_under_mpirun() -> None:
    pytest.importorskip("torch")
    said = mpirun("mpich5", 4, sys.executable, str(EXAMPLES / "mpi_molecules.py"))
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", said)]
    assert errors[-1] < errors[0] / 4, errors
    assert "600 molecules in 4 ranks" in said, said
