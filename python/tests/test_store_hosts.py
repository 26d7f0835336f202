"""Stores whose ranks are on several hosts, which are network namespaces: every byte between them is counted on the wire."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import h5py
import numpy as np
import pytest
from emulated_hosts import EmulatedHosts, emulated_hosts
from test_store_mpi import MPIS, mpi_environment

RANK = """
import os, signal, sys, time
import numpy as np
import forebay

def print(*words):
    # In one piece: what ranks of one host say goes to one place, and must not be mixed.
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())
"""
ROWS, WIDTH = 400, 2048


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hosts") / "set.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(ROWS * WIDTH, dtype=np.int32).reshape(ROWS, WIDTH)
    return path


def script(folder: Path, source: str) -> str:
    file = folder / "rank.py"
    file.write_text(RANK + textwrap.dedent(source))
    return str(file)


def run_on_hosts(hosts: EmulatedHosts, *command: str, **environment: str) -> list[subprocess.CompletedProcess[str]]:
    """What ``command`` ends with, started once on every host; ``{host}`` in it is the host's number."""
    pipe = subprocess.PIPE
    base = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    started = []
    for number in range(len(hosts.names)):
        here = [word.replace("{host}", str(number)) for word in command]
        variables = {name: value.replace("{host}", str(number)) for name, value in base.items()}
        started.append(subprocess.Popen(hosts.on(number, *here), env=variables, stdout=pipe, stderr=pipe, text=True,
                                        start_new_session=True))  # fmt: skip
    done = []
    try:
        for one in started:
            out, err = one.communicate(timeout=300)
            done.append(subprocess.CompletedProcess(one.args, one.returncode, out, err))
    finally:
        for one in started:
            if one.poll() is None:
                # The whole group: what a launcher has started would go on.
                os.killpg(one.pid, signal.SIGKILL)
    return done


# The ranks of one host share memory, those of two do not: the bytes that a rank says came from other hosts crossed the wire.
EPOCHS = """
import torch.distributed
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ds = forebay.open({path!r}, ["x"])
with forebay.Store() as store:
    assert store.world == world == 4
    store.fill(ds)
    for epoch in range(3):
        seen = []
        for batch in store.loader(batch_size=16, shuffle="full", seed=epoch, tail="pad", rank=rank, world=world):
            real = batch.indices[batch.indices >= 0]
            expected = real[:, None] * {width} + np.arange({width})
            assert (batch["x"][batch.indices >= 0] == expected).all()
            seen += real.tolist()
        print("seen", *seen)
    told = store.stats()
    print("from other hosts", told["remote"]["bytes"])
    assert "TCP" in told["transport"], told
# The program's own process group works beside it, before and after.
torch.distributed.init_process_group("gloo")
with forebay.Store() as store:
    store.add("y", np.full((2, 3), rank))
    assert store.get_batch(range(8))["y"][:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
torch.distributed.destroy_process_group()
"""


def test_ranks_that_torchrun_started_on_two_hosts_share_a_store(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with emulated_hosts(2, tmp_path) as hosts:
        program = script(tmp_path, EPOCHS.format(path=str(path), width=WIDTH))
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--node-rank={host}", "--nproc-per-node=2",
                    "--master-addr", hosts.addresses[0], "--master-port=29511"]  # fmt: skip
        before = hosts.received()
        done = run_on_hosts(hosts, *torchrun, program, GLOO_SOCKET_IFNAME="eth0")
        counted = hosts.received() - before
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    told = "".join(one.stdout for one in done)
    lines = [list(map(int, line.split()[1:])) for line in told.splitlines() if line.startswith("seen")]
    assert len(lines) == 12
    assert sorted(number for line in lines for number in line) == sorted(3 * list(range(ROWS)))
    remote = sum(map(int, re.findall(r"from other hosts (\d+)", told)))
    # Half of all samples lie on the other host.
    assert remote > 3 * ROWS * WIDTH * 4 // 3
    assert counted > remote


@pytest.mark.parametrize("on_lost", [pytest.param("raise", marks=pytest.mark.slow), "origin"])
def test_a_rank_that_is_killed_on_another_host_is_named_or_made_up_for(path: Path, tmp_path: Path, on_lost: str) -> None:
    pytest.importorskip("torch")
    source = f"""
    rank = int(os.environ["RANK"])
    store = forebay.Store()
    store.fill(forebay.open({str(path)!r}, ["x"]))
    store._comm.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    loader = store.loader(batch_size=10, shuffle="full", rank=0, world=1, on_lost={on_lost!r})
    try:
        for epoch in range(2):
            seen = []
            for batch in loader:
                assert (batch["x"][:, 0] == batch.indices * {WIDTH}).all()
                seen += batch.indices.tolist()
            assert sorted(seen) == list(range({ROWS}))
        print("whole", round(time.monotonic() - began, 2))
    except forebay.UnavailableError as error:
        assert "rank 1" in str(error), error
        print("named", round(time.monotonic() - began, 2))
    # Rank 0 keeps the values by which ranks found each other: it leaves last.
    sys.stdout.flush()
    time.sleep(1 if rank == 0 else 0)
    os._exit(0)
    """
    with emulated_hosts(3, tmp_path) as hosts:
        # No launcher that ends all ranks when one is lost, and none that keeps values for them.
        done = run_on_hosts(hosts, sys.executable, script(tmp_path, source), RANK="{host}", WORLD_SIZE="3", LOCAL_RANK="0",
                            LOCAL_WORLD_SIZE="1", MASTER_ADDR=hosts.addresses[0], MASTER_PORT="29512")  # fmt: skip
    assert done[1].returncode in (-9, 137), done[1]
    for rank in (0, 2):
        assert done[rank].returncode == 0, done[rank].stderr
        word, took = done[rank].stdout.split()
        assert word == {"raise": "named", "origin": "whole"}[on_lost]
        # Ten seconds is what is promised of an error; whole epochs take what they take.
        assert on_lost == "origin" or float(took) < 10, done[rank].stdout


@pytest.mark.slow
def test_an_attempt_begins_anew_after_a_rank_of_torchrun_failed(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    source = f"""
    rank, marker = int(os.environ["RANK"]), {str(tmp_path)!r} + "/failed"
    with forebay.Store() as store:
        store.fill(forebay.open({str(path)!r}, ["x"]))
        got = store.get_batch(range(0, {ROWS}, 7))["x"][:, 0]
        assert (got == np.arange(0, {ROWS}, 7) * {WIDTH}).all()
        is_first = not os.path.exists(marker)
        store._comm.barrier()
        if is_first and rank == 1:
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        # The agent of this node counts no restart where its own ranks did not fail.
        while is_first:
            time.sleep(0.1)
    print("again", rank)
    """
    with emulated_hosts(2, tmp_path) as hosts:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--node-rank={host}", "--nproc-per-node=1",
                    "--max-restarts=2", "--rdzv-backend=c10d", "--rdzv-id=again",
                    "--rdzv-endpoint", f"{hosts.addresses[0]}:29513"]  # fmt: skip
        done = run_on_hosts(hosts, *torchrun, script(tmp_path, source))
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    assert sorted("".join(one.stdout for one in done).split()) == ["0", "1", "again", "again"]


def launch(name: str, hosts: EmulatedHosts, *command: str) -> subprocess.CompletedProcess[str]:
    """What a rank on every host under the MPI called ``name`` ends with."""
    launcher, _ = MPIS[name]
    environment = mpi_environment(name)
    count = str(len(hosts.names))
    if name.startswith("mpich"):
        where = ["-launcher", "ssh", "-launcher-exec", str(hosts.enter), "-iface", "eth0", "-hosts",
                 ",".join(f"{one}:1" for one in hosts.names)]  # fmt: skip
        environment |= {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
    else:
        where = ["--allow-run-as-root", "--prefix", str(launcher.parent.parent), "--host",
                 ",".join(f"{one}:1" for one in hosts.names), "--map-by", "node",
                 "--mca", "btl_tcp_if_include", "eth0", "--mca", "btl", "self,tcp", "--mca", "pml", "ob1"]  # fmt: skip
        if name == "openmpi4":
            where += ["--mca", "plm_rsh_agent", str(hosts.enter), "--mca", "oob_tcp_if_include", "eth0"]
        else:
            where += ["--prtemca", "plm_ssh_agent", str(hosts.enter), "--prtemca", "oob_tcp_if_include", "eth0"]
        for variable in ("PYTHONPATH", "MPI4PY_MPIABI", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"):
            where += ["-x", variable]
    # A launcher gives all ranks the environment of the first host.
    own_folder = f'XDG_RUNTIME_DIR={hosts.folder}/$(hostname) exec "$@"'
    command = (str(launcher), *where, "-n", count, "bash", "-c", own_folder, "rank", *command)
    return subprocess.run(hosts.on(0, *command), env=environment, capture_output=True, text=True, timeout=300)


COMPUTING = """
import ctypes
from mpi4py import MPI
comm = MPI.COMM_WORLD
assert comm.size == 2
with forebay.Store(comm=comm, data={data!r}) as store:
    print("by", store.stats()["transport"])
    store.add("x", (np.arange(512)[:, None] * 7 + comm.rank * 1000 + np.zeros(2048)).astype(np.float32))
    for sample in (0, 511, 512, 1023):
        assert store.get(sample, "x")[5] == sample % 512 * 7 + sample // 512 * 1000
    comm.Barrier()
    if comm.rank == 1:
        # Without a call of MPI and without the interpreter's lock, as an extension computes.
        end = time.monotonic() + {seconds}
        while time.monotonic() < end:
            np.linalg.qr(np.ones((300, 300)))
    else:
        times, end, n = [], time.monotonic() + {seconds} - 0.5, 0
        while time.monotonic() < end:
            began = time.perf_counter()
            got = store.get(512 + n % 512, "x")
            times.append(time.perf_counter() - began)
            assert got[9] == n % 512 * 7 + 1000
            n += 1
        times.sort()
        print("gets", len(times), "p99", round(times[len(times) * 99 // 100] * 1e3, 3), "ms")
    comm.Barrier()
"""


MPI_NAMES = ["openmpi5", *(pytest.param(name, marks=pytest.mark.slow) for name in ["mpich5", "openmpi4"])]


@pytest.mark.skipif(not MPIS, reason="FOREBAY_MPIS is not set; `make test` installs MPIs and sets it")
@pytest.mark.parametrize("name", MPI_NAMES)
def test_a_rank_of_another_host_that_computes_is_read_whatever_mpi_can_do(name: str, tmp_path: Path) -> None:
    with emulated_hosts(2, tmp_path) as hosts:
        before = hosts.received()
        done = launch(name, hosts, sys.executable, script(tmp_path, COMPUTING.format(data="auto", seconds=5)))
        counted = hosts.received() - before
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"gets (\d+) p99 ([\d.]+) ms", done.stdout)
    assert found, done.stdout
    # A read that waits until the other rank calls MPI takes as long as that computes: there would be few.
    assert int(found[1]) > 50, done.stdout
    assert counted > int(found[1]) * 8192


@pytest.mark.skipif(not MPIS, reason="FOREBAY_MPIS is not set; `make test` installs MPIs and sets it")
@pytest.mark.parametrize("name", MPI_NAMES)
def test_gets_of_mpi_between_hosts_are_right_or_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    source = """
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    try:
        with forebay.Store(comm=comm, data="mpi") as store:
            store.add("x", np.arange(400.0).reshape(100, 4) + comm.rank * 1000)
            samples = np.random.default_rng(comm.rank).integers(0, 200, (50, 32))
            for batch in samples:
                expected = (batch % 100 * 4 + batch // 100 * 1000)[:, None] + np.arange(4)
                assert (store.get_batch(batch)["x"] == expected).all()
            said = f"right {comm.rank}"
    except forebay.ForebayError as error:
        said = f"refused {comm.rank} {error}"
    print(said)
    """
    with emulated_hosts(2, tmp_path) as hosts:
        done = launch(name, hosts, sys.executable, script(tmp_path, source))
    said = re.findall(r"^(right|refused) \d(.*)", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [word for word, _ in said] == 2 * ["right"] or (
        name != "mpich5" and all(word == "refused" and "one-sided" in why for word, why in said) and len(said) == 2
    ), done.stdout + done.stderr
