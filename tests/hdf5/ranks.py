"""Four ranks of a parallel HDF5 that is not thread safe write and read by the connector: every value must be right, and the file
the same as without it. Then they read a set in epochs, each unit of which must come from the file once.

    ranks.py --plugins FOLDER --prefix HDF5 --launcher MPIEXEC --program PARALLEL_ROUNDS [--layout NAME] [--ranks N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

#: A run that hangs is ended; none takes nearly as long.
PATIENCE_S = 300
#: Open MPI runs no ranks as root, and no more of them than processors, unless it is told to; MPICH does not look at these.
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1"}
HERE = Path(__file__).parent
SET_MIB = 32


def run(args: argparse.Namespace, file: Path, collective: int, env: dict[str, str]) -> dict:
    words = [args.launcher, "-n", args.ranks, args.program, file, "--rounds", 3, "--mib", 2, "--epochs", 2,
             "--layout", args.layout, "--collective", collective]
    done = subprocess.run([str(word) for word in words], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: ended with {done.returncode}\n{done.stderr[-3000:]}{done.stdout[-1000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def environments(plugins: Path, folder: Path) -> dict[str, dict[str, str]]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "HDF5_"))} | OPEN_MPI
    managed = plain | {"HDF5_PLUGIN_PATH": str(plugins / "vol"), "HDF5_VOL_CONNECTOR": "forebay", "FOREBAY_CONFIG": os.devnull,
                       "FOREBAY_HDF5_PATHS": str(folder)}
    (folder / "stage").mkdir(mode=0o700)
    return {
        "native": plain,
        "passed through": managed | {"FOREBAY_HDF5_PATHS": "/nonexistent"},
        "staged in memory": managed | {"FOREBAY_STAGE": "memory"},
        "staged on disk, cached": managed | {"FOREBAY_STAGE": str(folder / "stage"), "FOREBAY_HDF5_CACHE": "memory"},
    }


def make_set(file: Path, layout: str) -> int:
    """Makes the file that parallel_epochs reads; gives the bytes of its values."""
    index = np.arange((SET_MIB << 20) // 4, dtype=np.uint64)
    options = {} if layout == "contiguous" else {"chunks": (1 << 17,)}
    if layout == "gzip":
        options |= {"compression": "gzip", "compression_opts": 1}
    with h5py.File(file, "w") as opened:
        opened.create_dataset("x", data=((index * 2654435761) & 0x7FFFFFFF).astype(np.int32), **options)
    return len(index) * 4


def epochs(args: argparse.Namespace, folder: Path) -> int:
    """Reads a set in epochs, by whichever ranks want which part; gives how much is wrong."""
    program, whole, wrong = folder / "parallel_epochs", make_set(folder / "set.h5", args.layout), 0
    flags = [f"-I{args.prefix}/include", f"-L{args.prefix}/lib", f"-Wl,-rpath,{args.prefix}/lib", "-lhdf5", "-ldl"]
    subprocess.run([Path(args.launcher).parent / "mpicc", "-O2", "-o", program, HERE / "parallel_epochs.c", *flags], check=True)
    time.sleep(2.5)
    connector = args.plugins / "vol" / "libforebay_vol.so"
    env = environments(args.plugins, folder)["passed through"] | {
        "FOREBAY_HDF5_PATHS": str(folder), "FOREBAY_HDF5_CACHE": "memory", "FOREBAY_HDF5_CACHE_QUOTA": "64MiB", "CONNECTOR": str(connector)}
    for words in (["--how", "parts"], ["--how", "everything"], ["--how", "uneven"], ["--collective", "1"], ["--reopen", "1"]):
        command = [args.launcher, "-n", str(args.ranks), program, folder / "set.h5", *words]
        done = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}: ended with {done.returncode}\n{done.stderr[-3000:]}{done.stdout[-1000:]}")
        said = json.loads(done.stdout.strip().splitlines()[-1])
        once = said["shared_bytes"] == whole or ("uneven" in words and said["shared_bytes"] < whole)
        wrong += said["wrong"] + (not once)
        print(f"{args.ranks} ranks read epochs, {args.layout}, {' '.join(words)}: {said['wrong']} values wrong, units read "
              f"{'once' if once else 'MORE THAN ONCE'}, {', '.join(f'{took:.2f}' for took in said['epochs_s'])} s")
    return wrong


def contents(file: Path) -> dict[str, np.ndarray]:
    with h5py.File(file) as opened:
        return {name: opened[name][:] for name in opened}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugins", type=Path, required=True)
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--layout", default="contiguous")
    parser.add_argument("--ranks", type=int, default=4)
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="forebay-ranks-") as temporary:
        # HDF5 refuses independent writes through filters.
        for collective in (1,) if args.layout == "gzip" else (0, 1):
            folder, expected = Path(temporary, str(collective)), None
            folder.mkdir()
            for name, env in environments(args.plugins, folder).items():
                file = folder / "p.h5"
                file.unlink(missing_ok=True)
                said = run(args, file, collective, env)
                found = contents(file)
                expected = expected or found
                same = found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in found)
                wrong += said["wrong"] + (not same)
                print(f"{args.ranks} ranks, {args.layout}, {'collective' if collective else 'independent'}, {name}: "
                      f"{said['wrong']} values wrong, file {'the same' if same else 'ANOTHER'}, H5Dwrite {said['write_s']:.3f} s")
        folder = Path(temporary, "epochs")
        folder.mkdir()
        wrong += epochs(args, folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
