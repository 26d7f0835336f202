"""Writes orders.json: what NumPy's own shuffle and a plain reading of the loaders' rules give. Run with any NumPy.

    python crates/bench/workload/tests/make_orders.py > crates/bench/workload/tests/orders.json
"""

import json
import math

import numpy as np

CASES = [
    # loader, files, samples per file, batch, ranks, threads, file shuffle, sample shuffle, seed changes, like DLIO
    ("pytorch", 6, 4, 5, 1, 0, False, False, True, False),
    ("pytorch", 7, 3, 2, 2, 3, False, True, True, False),
    ("pytorch", 5, 4, 3, 2, 2, True, True, False, False),
    ("pytorch", 8, 4, 2, 2, 4, True, True, True, True),
    ("tensorflow", 6, 4, 2, 2, 2, True, False, True, False),
    ("tensorflow", 6, 4, 2, 2, 3, True, True, True, False),
    ("tensorflow", 8, 2, 2, 2, 2, True, True, True, True),
    ("tensorflow", 9, 2, 2, 1, 0, False, False, True, False),
]


def shuffled(items, seed):
    np.random.seed(seed)
    np.random.shuffle(items)


def files_of_epoch(case, epoch):
    loader, files, _, _, _, _, file_shuffle, _, changes, like = case
    order = list(range(files))
    if file_shuffle and not (like and loader == "pytorch"):
        for past in range(1, epoch + 1):
            shuffled(order, 123 + (past if changes else 0))
    return order


def samples_of_rank(case, epoch, rank):
    loader, files, per_file, _, ranks, _, _, sample_shuffle, changes, like = case
    total = files * per_file
    share = math.ceil(total / ranks)
    numbers = list(range(rank * share, min((rank + 1) * share, total)))
    order = files_of_epoch(case, epoch)
    if sample_shuffle and not (like and loader == "pytorch"):
        shuffled(numbers, 123 + (epoch if changes else 0))
    if like and loader == "tensorflow":
        found, file = [], rank * ((files // ranks) % files)
        for position, number in enumerate(numbers):
            found.append(order[file] * per_file + number % per_file)
            file = ((position + 1) // per_file) % files
        return found
    return [order[number // per_file] * per_file + number % per_file for number in numbers]


def batches_of_rank(case, epoch, rank):
    loader, files, per_file, batch, ranks, threads = case[:6]
    numbers = samples_of_rank(case, epoch, rank)
    steps = files * per_file // batch // ranks
    workers = max(threads, 1)
    if loader == "pytorch":
        cut = [numbers[at : at + batch] for at in range(0, len(numbers) - batch + 1, batch)]
        found = [[step % workers, part] for step, part in enumerate(cut)]
    else:
        parts = [[] for _ in range(workers)]
        for position, number in enumerate(numbers):
            parts[(position // (len(numbers) // workers)) % workers].append(number)
        queues = [[part[at : at + batch] for at in range(0, len(part), batch)] for part in parts]
        found = []
        while any(queues):
            for worker, queue in enumerate(queues):
                if queue:
                    found.append([worker, queue.pop(0)])
    return found[:steps]


def main():
    written = []
    for case in CASES:
        loader, files, per_file, batch, ranks, threads, file_shuffle, sample_shuffle, changes, like = case
        written.append(
            {
                "loader": loader,
                "files": files,
                "samples_per_file": per_file,
                "batch": batch,
                "ranks": ranks,
                "threads": threads,
                "file_shuffle": file_shuffle,
                "sample_shuffle": sample_shuffle,
                "seed_change_epoch": changes,
                "like_dlio": like,
                "epochs": [[batches_of_rank(case, epoch, rank) for rank in range(ranks)] for epoch in (1, 2, 3)],
            }
        )
    print("[\n" + ",\n".join(json.dumps(case) for case in written) + "\n]")


if __name__ == "__main__":
    main()
