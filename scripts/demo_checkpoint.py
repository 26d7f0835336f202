"""Checkpoints of an h5py program on a slow file system, plain and with the variables of the plug-ins: demo_checkpoint.py FOREBAY

Where FUSE cannot be used, the file system is a plain folder, and the times only show that nothing is lost.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).with_name("demo_checkpoint_program.py")
PACE = ["--writable", "--latency", "5ms", "--bandwidth", "100MB/s"]


def run(words, env=None):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: ended with {done.returncode}\n{done.stderr}{done.stdout}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def timed(name, file, below, around, env):
    """Runs the program, says what it took, and compares every value without the plug-ins."""
    said = run([*around, sys.executable, PROGRAM, file], env)
    checked = run([sys.executable, PROGRAM, "check", below / file.name])
    if checked["wrong"]:
        sys.exit(f"{name}: {checked['wrong']} of {checked['values']} values are wrong")
    print(f"  {name:28} waited {said['waited_s']:6.3f} s for its writes, {said['total_s']:.2f} s in all; "
          f"{checked['values']:,} values are right")
    return said


def main():
    forebay = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="forebay-demo-", dir="/var/tmp") as folder:
        below, mount = pathlib.Path(folder, "below"), pathlib.Path(folder, "slow")
        below.mkdir()
        mount.mkdir()
        around = [forebay, "simulate", below, mount, *PACE, "--"]
        if subprocess.run([*map(str, around), "true"], capture_output=True).returncode:
            print("  No file system can be mounted here (it takes FUSE): a plain folder stands in, which is not slow.")
            around, below = [], mount
        wanted = [forebay, "hdf5-env", "--json", "--untried", "--hdf5=vfd", "--hdf5-paths", mount, "--stage", "memory"]
        variables = run(wanted)["variables"]
        for name, value in sorted(variables.items()):
            print(f"  export {name}={value.replace(folder, '…')}")
        plain = timed("plain:", mount / "plain.h5", below, around, None)
        staged = timed("with these variables:", mount / "staged.h5", below, around, os.environ | variables)
        print(f"  The program waited {plain['waited_s'] / staged['waited_s']:.0f} times less, and its file was complete when it closed it.")


if __name__ == "__main__":
    main()
