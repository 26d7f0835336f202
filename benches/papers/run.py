"""The evaluations of Stimulus and MONARCH at the size of one machine, theirs beside ours. See --help.

Every run is a process of its own, over an emulated parallel file system of its own; tiers begin empty.
"""

import argparse
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "stage"))

import monarch  # noqa: E402
import stimulus  # noqa: E402
from setup import Bench, last_json, write_between  # noqa: E402  of the benchmark of staging
from paper_tables import Tables  # noqa: E402

PARTS = {
    "formats": stimulus.formats,
    "transfer": stimulus.transfer_sizes,
    "prefetch": stimulus.prefetched,
    "cosmoflow": stimulus.cosmoflow,
    "monarch": monarch.fits,
    "monarch-larger": monarch.larger,
}


class PaperBench(Bench):
    """Runs a program over a folder that the slow file system shows."""

    def plain(self):
        # Saved indexes of earlier runs would spare this one the description of its files.
        index = tempfile.mkdtemp(dir=self.work)
        return super().plain() | {"FOREBAY_CACHE": index, "FOREBAY_CONFIG": "/dev/null", "OMP_NUM_THREADS": "1",
                                  "PYTHONPATH": self.args.site}

    def over(self, folder, pace, program, *words, writable=False):
        """What a program of this folder said, and what arrived at the file system, which shows `folder` at `self.mount`."""
        command = [sys.executable, HERE / program, *words]
        outer = [self.args.forebay, "simulate", "--json", folder, self.mount, *(["--writable"] if writable else []), *pace,
                 "--", *command]
        done = self.run(outer, self.plain())
        return last_json(done.stdout), last_json(done.stderr)

    def local(self, program, *words):
        return last_json(self.run([sys.executable, HERE / program, *words], self.plain()).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forebay", required=True, help="the command")
    parser.add_argument("--site", required=True, help="folder with the Python package")
    parser.add_argument("--disk", default="/var/tmp", help="where tiers lie [/var/tmp]")
    parser.add_argument("--repeat", type=int, default=3, help="rounds of which the best counts, where bandwidth is compared [3]")
    parser.add_argument("--scale", type=float, default=1.0, help="smaller or larger sets [1]")
    parser.add_argument("--only", help=f"parts to run, with commas: {', '.join(PARTS)}")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the tables to this file, between their marks")
    args = parser.parse_args()
    bench, tables = PaperBench(args), Tables()
    try:
        for name in args.only.split(",") if args.only else PARTS:
            PARTS[name](bench, tables)
    finally:
        bench.close()
    print(tables.markdown())
    if args.json:
        args.json.write_text(json.dumps(tables.tables, indent=1))
    if args.markdown:
        write_between(args.markdown, "papers", tables.markdown())
    return 1 if tables.missed else 0


if __name__ == "__main__":
    sys.exit(main())
