"""What only DLIO's own environment can say: in_dlio.py versions | libhdf5 | package | formula OUTPUT STATS BATCH | payload FOLDER.

Prints one line of JSON.
"""

import glob
import json
import os
import sys


def versions():
    import importlib.metadata as metadata

    names = ("dlio_benchmark", "torch", "tensorflow", "h5py", "numpy", "mpi4py")
    return {name: metadata.version(name) for name in names}


def libhdf5():
    """The library that this environment's h5py brings."""
    import h5py

    return {"path": glob.glob(os.path.dirname(h5py.__file__) + ".libs/libhdf5-*")[0], "version": h5py.version.hdf5_version}


def package():
    import importlib.util

    return {"path": os.path.dirname(importlib.util.find_spec("dlio_benchmark").origin)}


def formula(output, stats, batch):
    """AU and throughput by DLIO's own function, from the times of each step and the ends of the blocks in files like its own."""
    import datetime

    from dlio_benchmark.utils.statscounter import StatsCounter

    with open(output) as file:
        steps = json.load(file)
    with open(stats) as file:
        ends = json.load(file)
    answer = {}
    for epoch in (key for key in steps if key.isdigit()):
        for block in (name for name in steps[epoch]["load"] if name.startswith("block")):
            counter = object.__new__(StatsCounter)
            counter.batch_size = int(batch)
            counter.output = {epoch: {key: {block: steps[epoch][key][block]} for key in ("proc", "compute")} |
                              {"au": {}, "throughput": {}}}
            times = [datetime.datetime.fromisoformat(ends[epoch][block][end]).timestamp() for end in ("start", "end")]
            counter.start_timestamp, counter.end_timestamp = times
            counter.compute_metrics_train(epoch, block.removeprefix("block"))
            answer[f"{epoch}.{block}"] = {key: float(counter.output[epoch][key][block]) for key in ("au", "throughput")}
    return answer


def payload(folder):
    """Bytes of the tensors of each file that `torch.save` wrote."""
    import torch

    def size(value):
        if isinstance(value, dict):
            return sum(size(part) for part in value.values())
        return value.numel() * value.element_size()

    found = sorted(glob.glob(os.path.join(folder, "**", "*.pt"), recursive=True))
    return {os.path.relpath(path, folder): size(torch.load(path)) for path in found}


if __name__ == "__main__":
    parts = {"versions": versions, "libhdf5": libhdf5, "package": package, "formula": formula, "payload": payload}
    print(json.dumps(parts[sys.argv[1]](*sys.argv[2:])))
