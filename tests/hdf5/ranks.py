"""Four ranks of a parallel HDF5 that is not thread safe write and read by the connector: every value must be right, and the file
the same as without it.

    ranks.py --plugins FOLDER --launcher MPIEXEC --program PARALLEL_ROUNDS [--layout NAME] [--ranks N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

#: A run that hangs is ended; none takes nearly as long.
PATIENCE_S = 300


def run(args: argparse.Namespace, file: Path, collective: int, env: dict[str, str]) -> dict:
    words = [args.launcher, "-n", args.ranks, args.program, file, "--rounds", 3, "--mib", 2, "--epochs", 2,
             "--layout", args.layout, "--collective", collective]
    done = subprocess.run([str(word) for word in words], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: ended with {done.returncode}\n{done.stderr[-3000:]}{done.stdout[-1000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def environments(plugins: Path, folder: Path) -> dict[str, dict[str, str]]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "HDF5_"))}
    managed = plain | {"HDF5_PLUGIN_PATH": str(plugins / "vol"), "HDF5_VOL_CONNECTOR": "forebay", "FOREBAY_CONFIG": os.devnull,
                       "FOREBAY_HDF5_PATHS": str(folder)}
    (folder / "stage").mkdir(mode=0o700)
    return {
        "native": plain,
        "passed through": managed | {"FOREBAY_HDF5_PATHS": "/nonexistent"},
        "staged in memory": managed | {"FOREBAY_STAGE": "memory"},
        "staged on disk, cached": managed | {"FOREBAY_STAGE": str(folder / "stage"), "FOREBAY_HDF5_CACHE": "memory"},
    }


def contents(file: Path) -> dict[str, np.ndarray]:
    with h5py.File(file) as opened:
        return {name: opened[name][:] for name in opened}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugins", type=Path, required=True)
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--layout", default="contiguous")
    parser.add_argument("--ranks", type=int, default=4)
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="forebay-ranks-") as temporary:
        for collective in (0, 1):
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
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
