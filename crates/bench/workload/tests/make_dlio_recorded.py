"""Makes dlio_recorded.json: timings of a run of DLIO, and what DLIO's own functions say of them.

  make_dlio_recorded.py OUTPUT_FOLDER BATCH BATCH_EVAL > dlio_recorded.json

Runs where `dlio_benchmark` can be imported (scripts/dlio.sh). Times are rounded to microseconds first, so that both sides compute
from the same numbers. Timings of the file: `batch_size` 4, evaluation 2, a checkpoint every 5 steps, 2 epochs.
"""

import datetime
import importlib.metadata
import json
import pathlib
import sys

import numpy as np
from dlio_benchmark.utils.statscounter import StatsCounter


def counter_of(steps, times, batches):
    counter = object.__new__(StatsCounter)
    counter.batch_size, counter.batch_size_eval = batches
    counter.start_timestamp, counter.end_timestamp = times
    counter.output = {1: {key: {name: steps[key] for name in ("block1", "eval")} for key in ("proc", "compute")} |
                      {"au": {}, "throughput": {}}}
    return counter


def block(epoch, stats, name, batches):
    steps = {key: [round(value, 6) for value in epoch[key][name]] for key in ("proc", "compute")}
    times = [round(datetime.datetime.fromisoformat(stats[name][end]).timestamp() % 1000, 6) for end in ("start", "end")]
    counter = counter_of(steps, times, batches)
    if name == "eval":
        counter.compute_metrics_eval(1)
    else:
        counter.compute_metrics_train(1, 1)
    key = "eval" if name == "eval" else "block1"
    said = {what: float(counter.output[1][what][key]) for what in ("au", "throughput")}
    return {"start": times[0], "end": times[1], **steps, **said}


def main(folder, *batches):
    folder, batches = pathlib.Path(folder), [int(one) for one in batches]
    output = json.loads((folder / "0_output.json").read_text())
    stats = json.loads((folder / "per_epoch_stats.json").read_text())
    epochs = []
    for number in (key for key in output if key.isdigit()):
        names = [name for name in output[number]["proc"] if name != "eval"]
        blocks = [block(output[number], stats[number], name, batches) for name in names]
        weights = np.array([len(one["proc"]) for one in blocks])
        # As `end_train` weighs them.
        means = {what: float(np.sum(np.array([one[what] for one in blocks]) * weights) / weights.sum())
                 for what in ("au", "throughput")}
        epochs.append({"blocks": blocks, "eval": block(output[number], stats[number], "eval", batches), **means})
    print(json.dumps({"dlio": importlib.metadata.version("dlio_benchmark"), "batch_size": batches[0],
                      "batch_size_eval": batches[1], "epochs": epochs}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
