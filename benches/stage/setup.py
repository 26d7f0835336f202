"""What the parts of the benchmark share: runs on an emulated parallel file system, through the plug-ins, and a report."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
MIB = 1 << 20
#: What the original, HDF5's Cache VOL, was measured on: 5 ms for each request of up to 1 MiB, a line of 100 MB/s that all share.
PACE = ("--latency", "5ms", "--bandwidth", "100MB/s", "--request-size", "1MiB")
#: A program of a run ends by itself; this only keeps one that hangs from being waited for.
PATIENCE_S = 600


class Bench:
    """Folders of a run, and the environments of its contestants."""

    def __init__(self, args):
        self.args = args
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="forebay-stage-", dir=args.disk))
        self.below, self.mount, self.fast = (self.work / name for name in ("below", "slow", "fast"))
        for folder in (self.below, self.mount, self.fast):
            folder.mkdir()

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def clear(self):
        """Empties what earlier runs left on either side."""
        for folder in (self.below, self.fast):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def plain(self):
        """The environment of a program without forebay."""
        return {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "HDF5_"))}

    def managed(self, plugins, **settings):
        """The environment of a program through the plug-ins named, `vfd`, `vol` or both; settings are those of forebay."""
        folders = [str(self.args.plugins / name) for name in ("vfd", "vol") if name in plugins]
        added = {"HDF5_PLUGIN_PATH": ":".join(folders), "FOREBAY_HDF5_PATHS": str(self.mount), "FOREBAY_CONFIG": os.devnull}
        if "vfd" in plugins:
            added["HDF5_DRIVER"] = "forebay"
        if "vol" in plugins:
            added["HDF5_VOL_CONNECTOR"] = "forebay"
        return self.plain() | added | {f"FOREBAY_{name.upper()}": str(value) for name, value in settings.items()}

    def stage(self, place, plugins=("vfd",), **settings):
        """An environment in which writes are staged, in `memory` or on the `disk`."""
        where = {"memory": "memory", "disk": self.fast / "stage"}[place]
        if place == "disk":
            where.mkdir(exist_ok=True)
        return self.managed(plugins, stage=where, stage_memory="2GiB", **settings)

    def python(self, script, *words):
        return [sys.executable, str(HERE / script), *map(str, words)]

    def on_slow(self, command, env, pace=PACE):
        """Runs a program over the slow mount; gives what it printed, and what arrived at the file system."""
        outer = [self.args.forebay, "simulate", "--json", self.below, self.mount, "--writable", *pace, "--", *command]
        done = self.run(outer, env)
        return last_json(done.stdout), last_json(done.stderr)

    def directly(self, command, env=None):
        """Runs a program without a slow mount."""
        return last_json(self.run(command, env or self.plain()).stdout)

    def run(self, command, env):
        command = [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=env)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stderr[-4000:]}{done.stdout[-2000:]}")
        warnings = [line for line in done.stderr.splitlines() if line.startswith("forebay")]
        if warnings:
            print("\n".join(warnings), file=sys.stderr)
        return done


def last_json(text):
    """The last line of JSON in what a program said."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"no line of JSON in what was said:\n{text[-2000:]}")
    return json.loads(lines[-1])


class Report:
    """Figures, each beside what it must be."""

    def __init__(self):
        self.rows = []

    def add(self, part, what, figure, bound=None, reached=None, value=None):
        row = {"part": part, "what": what, "figure": figure, "bound": bound, "reached": reached, "value": value}
        self.rows.append(row)
        print(f"{part}  {what}: {figure}  {bound or ''}  {mark(reached)}", file=sys.stderr, flush=True)

    def compare(self, part, what, value, bound, *, most=False, unit="", digits=2):
        """A row with a bound: at least `bound`, or with `most` at most."""
        reached = value <= bound if most else value >= bound
        sign = "<=" if most else ">="
        self.add(part, what, f"{value:.{digits}f}{unit}", f"{sign} {bound:g}{unit}", reached, value)

    def same_values(self, part, what, wrong):
        self.add(part, f"{what}: values that are wrong", str(wrong), "0", wrong == 0, wrong)

    @property
    def missed(self):
        return sum(row["reached"] is False for row in self.rows)

    def markdown(self):
        lines = ["| | what | measured | must be | |", "|---|---|--:|--:|---|"]
        for row in self.rows:
            lines.append(f"| {row['part']} | {row['what']} | {row['figure']} | {row['bound'] or ''} | {mark(row['reached'])} |")
        return "\n".join(lines)


def write_between(path, name, text):
    """Replaces what stands between the marks of `name` in a Markdown file."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def mark(reached):
    return "" if reached is None else ("reached" if reached else "**not reached**")
