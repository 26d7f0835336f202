"""Who takes part in which workload, and one of them alone in a process: contestants.py FOLDER SCALE THREADS WORKLOAD NAME."""

import dataclasses
import json
import sys

CACHE_LEN = 1 << 30


@dataclasses.dataclass(frozen=True)
class Contestant:
    group: str  # what --contestants names
    name: str
    how: dict
    limit: str | None = None  # the limit it is held against


def _limits(workload, counts):
    if workload.samples_per_chunk:
        # Room for all that is decoded is taken within the epoch: small pages would make a limit of that. Forebay keeps
        # all where there is room, so that the next epoch decodes nothing; the limit it is held against does so too.
        modes = [(f"inflate, {order}", {"mode": "inflate", "shuffle": order, "pages": "large", "keep": True}, counts)
                 for order in ("full", "block")]
        modes.append(("inflate, block, not kept", {"mode": "inflate", "shuffle": "block", "pages": "large"}, counts))
    else:
        copy = {"shuffle": "full", "pages": "small"}
        modes = [(mode, copy | {"mode": mode}, counts) for mode in ("pread", "mapped")]
        modes += [(f"{mode}, large pages", copy | {"mode": mode, "pages": "large"}, (1,))
                  for mode in ("pread", "mapped")]
    if workload.whole:
        modes.append(("pread, fresh", copy | {"mode": "pread", "fresh": True}, (1,)))
    for title, how, numbers in modes:
        for threads in numbers:
            yield Contestant("limit", limit(title, threads), how | {"threads": threads})


def limit(title, threads):
    return f"limit, {title}, {threads} thread{'s' * (threads > 1)}"


def of_forebay(shuffle, threads, memory=None):
    budget = f", {memory}" if memory else ""
    return f"forebay, {shuffle}, {threads} thread{'s' * (threads > 1)}{budget}"


def reference(workload, shuffle, threads):
    """The limit that a loader is held against."""
    if workload.samples_per_chunk:
        return limit(f"inflate, {shuffle}", threads)
    return limit("pread" if workload.whole else "mapped", threads)


def _forebay(workload, counts):
    for shuffle in ("full", "block"):
        for threads in counts:
            yield Contestant("forebay", of_forebay(shuffle, threads), {"shuffle": shuffle, "threads": threads},
                             reference(workload, shuffle, threads))
    if workload.samples_per_chunk:
        how = {"shuffle": "full", "threads": 1, "memory": "64MiB"}
        yield Contestant("forebay", of_forebay(*how.values()), how, reference(workload, "full", 1))


def _peers(workload):
    one = reference(workload, "full", 1)
    for workers in (0, 2):
        yield Contestant("h5py", f"h5py + DataLoader, {workers} workers", {"workers": workers}, one)
    if workload.whole:
        yield Contestant("h5py", "h5py alone, fresh array", {"reuse": False}, one)
        yield Contestant("h5py", "h5py alone, reused array", {"reuse": True}, one)
    elif workload.samples_per_chunk:
        yield Contestant("h5py", "h5py + DataLoader, 0 workers, 1 GiB chunk cache",
                         {"workers": 0, "chunk_cache": CACHE_LEN}, one)
        for shuffle in ("full", "block"):
            for title, cache in (("", 0), (", 1 GiB cache", CACHE_LEN)):
                yield Contestant("tensorstore", f"tensorstore on zarr, {shuffle}{title}",
                                 {"shuffle": shuffle, "cache": cache}, reference(workload, shuffle, 1))
    else:
        yield Contestant("memmap", "NumPy memmap", {}, one)


def contestants(workload, counts):
    """All of them; forebay and the limits with each of `counts` threads."""
    return [*_limits(workload, counts), *_forebay(workload, counts), *_peers(workload)]


def thread_counts(text):
    return tuple(int(count) for count in text.split(","))


def _opener(workload, contestant):
    how = contestant.how
    if contestant.group == "forebay":
        import by_forebay
        return lambda: by_forebay.Contestant(workload, **how)
    if contestant.group == "memmap":
        import by_memmap
        return lambda: by_memmap.Contestant(workload)
    if contestant.group == "tensorstore":
        import by_tensorstore
        return lambda: by_tensorstore.Contestant(workload, **how)
    import by_h5py
    kind = by_h5py.Direct if "reuse" in how else by_h5py.Loaded
    return lambda: kind(workload, **how)


def main(folder, scale, threads, workload_name, name):
    import measure
    from workloads import workloads

    workload = next(one for one in workloads(folder, float(scale)) if one.name == workload_name)
    contestant = next(one for one in contestants(workload, thread_counts(threads)) if one.name == name)
    print(json.dumps(measure.run(_opener(workload, contestant), workload)))


if __name__ == "__main__":
    main(*sys.argv[1:])
