"""forebay, as its guide says."""

import forebay


class Contestant:
    def __init__(self, workload, shuffle, threads, memory=None):
        self.workload = workload
        how = {}
        if workload.label:
            how["label"] = workload.label
        if workload.ragged:
            how["samples"] = forebay.Ragged(offsets=workload.offsets, axis=workload.axes)
        if workload.whole:
            how["samples"] = forebay.Whole()
        paths = [str(path) for path in workload.paths]
        ds = forebay.open(paths if len(paths) > 1 else paths[0], fields=list(workload.fields), **how)
        budget = {"memory": memory} if memory else {}
        self.loader = ds.loader(batch_size=workload.batch, shuffle=shuffle, seed=7, read_threads=threads, **budget)

    def epoch(self, number):
        names = [*self.workload.fields] + ([self.workload.label] if self.workload.label else [])
        self.loader.set_epoch(number)
        for batch in self.loader:
            yield len(batch.indices), [batch[name] for name in names]

    def close(self):
        self.loader.close()
