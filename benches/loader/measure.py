"""Times the epochs of one contestant in this process, and what they cost."""

import mmap
import multiprocessing
import pathlib
import resource
import time

STATUS = pathlib.Path("/proc/self/status")
# Memory is looked at between batches, not more often than this: a look takes some 30 us.
LOOK_SECONDS = 0.02
# As much as the loaders take at most; the program `limits` does the same.
WARM_BYTES = 512 << 20
# Epochs follow each other for so long, from the opening of the files on: what opening, first batches and the turn from one
# epoch to the next cost is in the figure.
SUSTAINED_SECONDS = 2.0


def _status_len(name):
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _warm_memory():
    """Touches memory and gives it back, so that all contestants find it alike.

    Hosts of virtual machines take back what lies idle for seconds. To touch 64 MiB then takes 0.1 s instead of 0.02 s,
    which whoever takes more than the one before would pay for.
    """
    with mmap.mmap(-1, WARM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        memory[::4096] = bytes(WARM_BYTES // 4096)


def _forget_peak():
    """Makes the peak begin here: what imports needed does not count."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def _cpu_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _worker_len():
    """Memory that belongs to the workers alone."""
    total = 0
    for child in multiprocessing.active_children():
        for line in pathlib.Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Private_"):
                total += int(line.split()[1]) * 1024
    return total


def touch(array):
    """What every consumer does with every field of every batch."""
    return array[(0,) * array.ndim].item()


def run(open_contestant, workload):
    """Runs all epochs. A contestant yields, batch by batch, how many samples it holds and the arrays of its fields."""
    _warm_memory()
    _forget_peak()
    rss_start, anon_start = _status_len("VmRSS"), _status_len("RssAnon")
    anon_peak, first_batch, looked = anon_start, None, 0.0
    epoch_s = []
    cpu_start, start = _cpu_seconds(), time.perf_counter()
    contestant = open_contestant()
    number = 0
    while number < workload.epochs or (workload.epochs > 1 and time.perf_counter() - start < SUSTAINED_SECONDS):
        began, sample_count = time.perf_counter(), 0
        for count, arrays in contestant.epoch(number):
            for array in arrays:
                touch(array)
            sample_count += count
            now = time.perf_counter()
            if first_batch is None:
                first_batch = now - start
            if now - looked > LOOK_SECONDS:
                anon_peak, looked = max(anon_peak, _status_len("RssAnon")), now
        epoch_s.append(time.perf_counter() - began)
        if sample_count != workload.sample_count:
            raise ValueError(f"{sample_count} samples came in an epoch, and there are {workload.sample_count}")
        number += 1
    total_s = time.perf_counter() - start
    rss_peak, worker_len = _status_len("VmHWM"), _worker_len()
    # Workers that end here are counted.
    contestant.close()
    return {
        "samples": workload.sample_count,
        "epoch_s": epoch_s,
        "total_s": total_s,
        "first_batch_s": first_batch,
        "cpu_s": _cpu_seconds() - cpu_start,
        "rss_start": rss_start,
        "rss_peak": rss_peak,
        "anon_start": anon_start,
        "anon_peak": anon_peak,
        "workers_private": worker_len,
    }
