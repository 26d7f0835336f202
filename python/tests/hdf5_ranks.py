"""Programs of several ranks with parallel HDF5, with and without the connector."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from emulated_hosts import EmulatedHosts
from hdf5_programs import LIMIT, plain, plugins

ROOT = Path(__file__).parents[2]
#: Open MPI runs no ranks as root, and no more of them than processors, unless it is told to.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
#: Ranks of MPICH poll while they wait: with more processes than processors, each has to let the others run.
PATIENT = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "100"}


@cache
def parallel(mpi: str = "mpich5") -> tuple[Path, Path]:
    """The folder of parallel HDF5 with the MPI called ``mpi``, and the launcher of that."""
    made = subprocess.run([ROOT / "scripts/hdf5-parallel.sh", mpi], stdout=subprocess.PIPE, text=True, check=True)
    prefix, launcher, _ = made.stdout.split()
    return Path(prefix), Path(launcher)


def compiled(name: str, folder: Path, mpi: str = "mpich5") -> Path:
    """The program ``tests/hdf5/NAME.c``, made in ``folder``."""
    prefix, launcher = parallel(mpi)
    made = folder / f"{name}-{mpi}"
    source = ROOT / f"tests/hdf5/{name}.c"
    flags = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lhdf5", "-ldl"]
    subprocess.run(
        [launcher.parent / "mpicc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", made, source, *flags], check=True
    )
    return made


def connector(folder: Path, **more: object) -> dict[str, str]:
    """The environment with the connector: files in ``folder`` are managed, staged beside it, and cached in memory."""
    vol = plugins() / "vol"
    variables = {
        "HDF5_PLUGIN_PATH": vol,
        "HDF5_VOL_CONNECTOR": "forebay",
        "FOREBAY_HDF5_PATHS": folder,
        "FOREBAY_STAGE": folder.parent / "fast",
        "FOREBAY_HDF5_CACHE": "memory",
        "FOREBAY_HDF5_UNIT": "4KiB",
        "FOREBAY_HDF5_LEAST": "1",
        # The time of a change of status cannot be set back.
        "FOREBAY_HDF5_CLOCK_GRAIN_MS": "20",
        "CONNECTOR": vol / "libforebay_vol.so",
        "COUNTERS": folder.parent / "counters",
    } | more
    return plain() | {name: str(value) for name, value in variables.items()}


def ranks(count: int, environment: dict[str, str], *command: object, mpi: str = "mpich5") -> list[str]:
    """What the ranks say, in order."""
    words = [str(parallel(mpi)[1]), "-n", str(count), *map(str, command)]
    environment = environment | (OPEN_MPI if mpi.startswith("openmpi") else PATIENT)
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    return sorted(done.stdout.splitlines())


def ranks_on_hosts(
    hosts: EmulatedHosts, each: int, environment: dict[str, str], *command: object, mpi: str = "mpich5"
) -> list[str]:
    """What ``each`` ranks on every host say, in order."""
    _, launcher = parallel(mpi)
    places = ",".join(f"{one}:{each}" for one in hosts.names)
    if mpi.startswith("mpich"):
        where = ["-launcher", "ssh", "-launcher-exec", hosts.enter, "-iface", "eth0", "-hosts", places]
        environment = environment | {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
    else:
        where = ["--prefix", launcher.parent.parent, "--host", places, "--map-by", "node", "--mca", "btl_tcp_if_include",
                 "eth0", "--mca", "btl", "self,tcp,sm", "--mca", "pml", "ob1", "--prtemca", "plm_ssh_agent", hosts.enter,
                 "--prtemca", "oob_tcp_if_include", "eth0"]  # fmt: skip
        environment = environment | OPEN_MPI
        for name in environment:
            if name.startswith(("FOREBAY_", "HDF5_", "OMPI_", "LD_")) or name == "CONNECTOR":
                where += ["-x", name]
    # A launcher gives all ranks the environment of the first host.
    own_folder = f'XDG_RUNTIME_DIR={hosts.folder}/$(hostname) exec "$@"'
    words = [launcher, *where, "-n", len(hosts.names) * each, "bash", "-c", own_folder, "rank", *command]
    done = subprocess.run(
        hosts.on(0, *map(str, words)), env=environment, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())


def make_set(path: Path, mib: int, **layout: Any) -> int:
    """Makes the file that ``parallel_epochs`` reads, old enough to be cached; gives the bytes of its values."""
    index = np.arange((mib << 20) // 4, dtype=np.uint64)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=((index * 2654435761) & 0x7FFFFFFF).astype(np.int32), **layout)
    os.utime(path, (1, 1))
    return len(index) * 4


def told(lines: list[str]) -> dict[str, Any]:
    """What ``parallel_epochs`` says."""
    (line,) = [line for line in lines if line.startswith("{")]
    return json.loads(line)
