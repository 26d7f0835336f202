"""What forebay must reach, and whether it does."""

import dataclasses

from contestants import limit, of_forebay, reference

MIB = 1 << 20
LEAST_RATIO = {"W1": 0.8, "W2": 0.9, "W3": 0.9, "W4": 0.8, "W5": 0.5, "W6": 0.9}
FIRST_BATCH_S = 0.05
TWO_THREADS, SIXTEEN_THREADS = 1.8, 12.0
# Of W2 with more threads, against as many that copy from a mapping.
MORE_THREADS, MORE_THREADS_RATIO = (4, 8), 0.8
SMALL_MEMORY, SMALL_MEMORY_RATIO, SMALL_MEMORY_LEN = "64MiB", 0.6, 80 * MIB


@dataclasses.dataclass(frozen=True)
class Verdict:
    workload: str
    contestant: str
    what: str
    value: float
    bound: float
    passed: bool


def _at_least(workload, contestant, what, value, bound):
    return Verdict(workload.name, contestant, what, value, bound, value >= bound)


def _at_most(workload, contestant, what, value, bound):
    return Verdict(workload.name, contestant, what, value, bound, value <= bound)


def verdicts(workload, results):
    """Verdicts on what has run: `results` has the best of each contestant by its name."""
    found = []

    def ratio(contestant, other, bound):
        if contestant in results and other in results:
            value = results[contestant]["samples_per_s"] / results[other]["samples_per_s"]
            found.append(_at_least(workload, contestant, f"of '{other}'", value, bound))

    orders = ("full", "block") if workload.samples_per_chunk else ("full",)
    for order in orders:
        one = of_forebay(order, 1)
        ratio(one, reference(workload, order, 1), LEAST_RATIO[workload.name])
        if workload.samples_per_chunk:
            ratio(of_forebay(order, 2), one, TWO_THREADS)
            ratio(of_forebay(order, 16), one, SIXTEEN_THREADS)
        elif workload.name == "W2":
            for count in MORE_THREADS:
                ratio(of_forebay(order, count), reference(workload, order, count), MORE_THREADS_RATIO)
    one, small = of_forebay("full", 1), of_forebay("full", 1, SMALL_MEMORY)
    if one in results:
        found.append(_at_most(workload, one, "s to the first batch", results[one]["first_batch_s"], FIRST_BATCH_S))
    if small in results:
        ratio(small, limit("inflate, full", 1), SMALL_MEMORY_RATIO)
        value = results[small]["rss_above_start"] / MIB
        found.append(_at_most(workload, small, "MiB above the start", value, SMALL_MEMORY_LEN / MIB))
    return found
