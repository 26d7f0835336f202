"""Programs of the Stimulus part, each over a mount: batches to PyTorch by forebay, or the same bytes by plain reads.

  stimulus_reader.py [--transfer SIZE] [--threads N] forebay FRONT PATH [--sample-bytes N] [--batch N] [--steps N] …
  stimulus_reader.py [--transfer SIZE] [--threads N] plain PATH [--bytes N]

Prints one line of JSON: seconds from the start of opening to the last batch, bytes, and a sum of what was read.
"""

import argparse
import json
import os
import threading
import time

#: Transfer sizes of the paper: 4 KiB to 16 MiB, each four times as long as the one before.
SIZES = {f"{size}{unit}": size * scale for unit, scale in (("KiB", 1 << 10), ("MiB", 1 << 20)) for size in (1, 4, 16, 64, 256)}


def by_forebay(args):
    import torch

    import forebay
    import forebay.torch

    torch.set_num_threads(1)
    front = getattr(forebay.torch, args.front)
    # A tier reads ahead of the loader; one of little room does so too.
    quota = max(int(args.share * args.data_bytes), args.tier_bytes)
    tiers = [{"kind": "memory", "quota": quota}] if quota else []
    source = (args.path, "x", None, ("FIXED", args.sample_bytes))
    began = time.perf_counter()
    dataset = front(source, transfer_size=args.transfer, tiers=tiers)
    opened_s, warmed_s = time.perf_counter() - began, 0.0
    if args.share:
        # What was prefetched before is not what is measured.
        dataset.dataset.warm()
        warmed_s = time.perf_counter() - began - opened_s
        began = time.perf_counter()
    loader = forebay.torch.Loader(dataset, batch_size=args.batch, transfer_size=args.transfer, read_threads=args.threads,
                                  memory=args.memory)
    read, total, waited_s = 0, 0.0, 0.0
    asked = time.perf_counter()
    for step, batch in enumerate(loader, 1):
        waited_s += time.perf_counter() - asked
        data = batch["data"]
        read += data.numel() * data.element_size()
        # A value of each batch is looked at: a tensor of nothing would be noticed.
        total += float(data.flatten()[0])
        if args.compute_s:
            time.sleep(args.compute_s)
        if step == args.steps:
            break
        asked = time.perf_counter()
    took = time.perf_counter() - began
    return {"seconds": took, "bytes": read, "sum": total, "opened_s": opened_s, "warmed_s": warmed_s, "waited_s": waited_s}


def plain(args):
    """As IOR does: threads take requests of one length from the file's start to its end."""
    transfer = SIZES[args.transfer]
    began = time.perf_counter()
    file = os.open(args.path, os.O_RDONLY)
    size = args.bytes or os.fstat(file).st_size
    places = iter(range(0, size, transfer))
    lock, read = threading.Lock(), []

    def work():
        buffer, own = bytearray(transfer), 0
        while True:
            with lock:
                at = next(places, None)
            if at is None:
                break
            view = memoryview(buffer)[: min(transfer, size - at)]
            while len(view):
                got = os.preadv(file, [view], at)
                own, at, view = own + got, at + got, view[got:]
        read.append(own)

    threads = [threading.Thread(target=work) for _ in range(args.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(file)
    return {"seconds": time.perf_counter() - began, "bytes": sum(read)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transfer", default="1MiB")
    parser.add_argument("--threads", type=int, default=4)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("forebay")
    one.add_argument("front")
    one.add_argument("path")
    one.add_argument("--sample-bytes", type=int, default=131072)
    one.add_argument("--batch", type=int, default=8)
    one.add_argument("--steps", type=int, default=0)
    one.add_argument("--memory")
    one.add_argument("--share", type=float, default=0.0, help="part of the data that a memory tier has before")
    one.add_argument("--data-bytes", type=int, default=0)
    one.add_argument("--tier-bytes", type=int, default=0, help="room of a memory tier that begins empty")
    one.add_argument("--compute-s", type=float, default=0.0)
    other = kinds.add_parser("plain")
    other.add_argument("path")
    other.add_argument("--bytes", type=int, default=0)
    args = parser.parse_args()
    print(json.dumps(by_forebay(args) if args.kind == "forebay" else plain(args)))


if __name__ == "__main__":
    main()
