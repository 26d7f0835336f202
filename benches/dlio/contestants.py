"""Who runs the workloads: DLIO, DLIO without its quadratic debug line, forebay's engines, and a bare loop in C."""

import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
#: A program of a run ends by itself; this only keeps one that hangs from being waited for.
PATIENCE_S = 600
#: Of every sample DLIO formats a text of all samples, which nobody sees unless it is asked for.
QUADRATIC = 'logging.debug(f"{self.global_index_map}")'


@dataclasses.dataclass(frozen=True)
class Workload:
    """A workload in DLIO's terms, without simulated computation unless it is given."""

    name: str
    files: int
    eval_files: int = 0
    samples: int = 4
    record_bytes: int = 65536
    batch: int = 1
    steps: int = -1
    epochs: int = 1
    threads: int = 0
    compute_s: float = 0.0
    checkpoint: dict | None = None

    @property
    def side(self):
        return int(self.record_bytes**0.5)

    @property
    def steps_per_epoch(self):
        return self.steps if self.steps > 0 else self.files * self.samples // self.batch

    def yaml(self, data, output, *, generate=False, train=True):
        """The same text for both: JSON is YAML, and keys are those that DLIO 2.0.0 and later ones read."""
        workflow = {"generate_data": generate, "train": train, "evaluation": self.eval_files > 0,
                    "checkpoint": bool(self.checkpoint)}
        dataset = {"data_folder": str(data), "format": "hdf5", "num_files_train": self.files,
                   "num_files_eval": self.eval_files, "num_samples_per_file": self.samples,
                   "record_length": self.record_bytes,
                   # Without this DLIO draws 2 GiB of noise for every file that it generates.
                   "generation_buffer_size": self.record_bytes * self.samples}
        reader = {"data_loader": "pytorch", "batch_size": self.batch, "batch_size_eval": self.batch,
                  "read_threads": self.threads}
        train_section = {"epochs": self.epochs, "total_training_steps": self.steps, "computation_time": self.compute_s}
        all_sections = {"model": self.name, "framework": "pytorch", "workflow": workflow, "dataset": dataset, "reader": reader,
                        "train": train_section, "evaluation": {"eval_time": 0.0}, "output": {"folder": str(output)}}
        if self.checkpoint:
            all_sections["checkpoint"] = self.checkpoint
        return json.dumps(all_sections, indent=1)


@dataclasses.dataclass
class Ran:
    """One process: seconds of all of it, of its CPUs, of its training; what it left."""

    wall_s: float
    cpu_s: float
    train_s: float
    output: pathlib.Path
    said: str


class Bench:
    """Folders of a run, and its contestants."""

    def __init__(self, args):
        self.args = args
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="forebay-dlio-", dir=args.disk))
        self.dlio = pathlib.Path(args.dlio)
        self.libhdf5 = self.ask("libhdf5")["path"]
        self.versions = self.ask("versions")
        self.runs = 0

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def ask(self, *words):
        """What `in_dlio.py` answers, in DLIO's environment."""
        done = self.run([self.dlio, HERE / "in_dlio.py", *words], self.dlio_env())
        return json.loads(done.said.strip().splitlines()[-1])

    def dlio_env(self, patched=False, traced=True):
        """Its tracer is on unless it is switched off."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "HDF5_", "PYTHON"))}
        env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
        env |= {} if traced else {"DFTRACER_ENABLE": "0"}
        return env | ({"PYTHONPATH": str(self.patched())} if patched else {})

    def patched(self):
        """A copy of DLIO without the debug line, made once."""
        folder = self.work / "patched"
        if not folder.exists():
            package = pathlib.Path(self.ask("package")["path"])
            shutil.copytree(package, folder / package.name)
            reader = folder / package.name / "reader" / "reader_handler.py"
            text = reader.read_text()
            if text.count(QUADRATIC) != 1:
                raise SystemExit(f"{reader}: the debug line of all samples is not there once: is this another release?")
            reader.write_text(text.replace(QUADRATIC, "pass"))
        return folder

    def fresh(self):
        """A folder that no other run has written to."""
        self.runs += 1
        folder = self.work / f"run-{self.runs}"
        folder.mkdir()
        return folder

    def run_dlio(self, workload, data, *, patched=False, traced=True, generate=False, train=True):
        folder = self.fresh()
        (folder / "workload").mkdir()
        config = folder / "workload" / f"{workload.name}.yaml"
        config.write_text(workload.yaml(data, folder / "output", generate=generate, train=train))
        command = [self.dlio.parent / "dlio_benchmark", f"workload={workload.name}", f"hydra.run.dir={folder / 'output'}",
                   f"--config-dir={folder}"]
        ran = self.run(command, self.dlio_env(patched, traced), cwd=folder)
        ran.output = folder / "output"
        ran.train_s = training_seconds(ran.output / "per_epoch_stats.json") if train else 0.0
        return ran

    def run_forebay(self, workload, data, *engines, generate=False, train=True, layout="dlio2408"):
        folder = self.fresh()
        config = folder / "workload.yaml"
        config.write_text(workload.yaml(data, folder / "output", generate=generate, train=train))
        words = [word for engine in engines for word in ("--engine", engine)]
        env = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_")}
        env |= {"FOREBAY_LIBHDF5": self.libhdf5, "FOREBAY_CONFIG": os.devnull, "FOREBAY_CACHE": str(folder / "index")}
        ran = self.run([self.args.forebay, "bench", config, "--json", "--layout", layout, *words], env)
        ran.output = folder / "output"
        answer = json.loads(ran.said.strip().splitlines()[-1])
        if train and len(answer["runs"]) == 1:
            ran.train_s = training_seconds(ran.output / "0_per_epoch_stats.json")
        return ran

    def run_c(self, workload, data):
        """The bare loop: what it said of itself."""
        program = self.work / "read_samples"
        if not program.exists():
            self.run(["cc", "-O2", "-Wall", "-Werror", "-o", program, HERE / "read_samples.c", "-ldl"], os.environ)
        train = sorted((data / "train").iterdir())
        files = train + sorted((data / "valid").iterdir())
        command = [program, self.libhdf5, "records", workload.samples, workload.side, workload.steps_per_epoch, workload.epochs,
                   len(train), *files]
        ran = self.run(command, os.environ)
        return json.loads(ran.said) | {"wall_s": ran.wall_s, "process_cpu_s": ran.cpu_s}

    def run(self, command, env, cwd=None):
        command = [str(word) for word in command]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            began = time.perf_counter()
            process = subprocess.Popen(command, stdout=out, stderr=err, env=env, cwd=cwd or self.work)
            try:
                status, used = wait(process)
            except BaseException:
                process.kill()
                raise
            wall_s = time.perf_counter() - began
            out.seek(0)
            err.seek(0)
            said, told = out.read(), err.read()
        if status:
            raise SystemExit(f"{' '.join(command)}\nended with {status}\n{told[-4000:]}{said[-2000:]}")
        return Ran(wall_s, used.ru_utime + used.ru_stime, 0.0, self.work, said)


def wait(process):
    """Waits for a process; the CPU time of children that it waited for is with its own."""
    guard = threading.Timer(PATIENCE_S, process.kill)
    guard.start()
    try:
        _, status, used = os.wait4(process.pid, 0)
    finally:
        guard.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used


def training_seconds(stats):
    """The time of all training blocks, by the timestamps that both write alike."""
    epochs = json.loads(pathlib.Path(stats).read_text())
    blocks = [value for epoch in epochs.values() for name, value in epoch.items() if name.startswith("block")]
    if not blocks:
        raise SystemExit(f"{stats} has no training")
    return sum((moment(block["end"]) - moment(block["start"])).total_seconds() for block in blocks)


def moment(text):
    return datetime.datetime.fromisoformat(text)


if __name__ == "__main__":
    sys.exit("this is a part of run.py")
