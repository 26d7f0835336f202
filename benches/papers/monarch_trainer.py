"""A training program of the MONARCH part: three epochs over TFRecord files, with a model that sleeps.

  monarch_trainer.py plain FOLDER [--cache FOLDER]     as tf.data reads; with --cache, epoch 1 writes copies for later ones
  monarch_trainer.py forebay FOLDER [--tier FOLDER --quota N]

Prints one line of JSON: seconds of each epoch, of opening, until the first batch; what arrived at the file system in each epoch.
"""

import argparse
import json
import os
import pathlib
import queue
import random
import struct
import threading
import time

#: What TensorFlow reads TFRecords by, and how many files of a set it reads at once here.
REQUEST = 256 << 10
READERS = 4


def counted(folder):
    """What arrived at the slow file system since the last call; nothing on others."""
    path = pathlib.Path(folder).parent / ".forebay-slow" / "reset.json"
    return json.loads(path.read_text()) if path.exists() else {}


class Plain:
    """Files in shuffled order, some at once, in requests of 256 KiB; records go to the trainer through a queue."""

    def __init__(self, args):
        self.folder, self.cache = pathlib.Path(args.folder), args.cache and pathlib.Path(args.cache)
        self.names = sorted(path.name for path in self.folder.iterdir() if path.suffix == ".tfrecord")
        self.samples = args.samples

    def path(self, name):
        copy = self.cache and self.cache / name
        return copy if copy and copy.exists() else self.folder / name

    def requests(self, name):
        """The bytes of a file; they are also written to the cache, where there is one and it lacks the file."""
        path = self.path(name)
        copy = open(self.cache / f".{name}", "wb") if self.cache and path.parent != self.cache else None
        with open(path, "rb", buffering=0) as file:
            while data := file.read(REQUEST):
                if copy:
                    copy.write(data)
                yield data
        if copy:
            copy.close()
            os.replace(copy.name, self.cache / name)

    def records(self, name):
        """The payloads of a file, by the lengths that stand before them."""
        held = b""
        for data in self.requests(name):
            held += data
            at = 0
            while len(held) - at >= 12:
                (length,) = struct.unpack_from("<Q", held, at)
                if len(held) - at < length + 16:
                    break
                yield held[at + 12:at + 12 + length]
                at += length + 16
            held = held[at:]

    def epoch(self, number, batch):
        names = list(self.names)
        random.Random(number).shuffle(names)
        waiting, done, lock = queue.Queue(4 * batch), object(), threading.Lock()
        left = iter(names)

        def work():
            while True:
                with lock:
                    name = next(left, None)
                if name is None:
                    break
                for record in self.records(name):
                    waiting.put(record)
            waiting.put(done)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(READERS)]
        for thread in threads:
            thread.start()
        ended, batch_now = 0, []
        while ended < READERS:
            record = waiting.get()
            if record is done:
                ended += 1
                continue
            batch_now.append(record)
            if len(batch_now) == batch:
                yield len(batch_now)
                batch_now = []
        if batch_now:
            yield len(batch_now)

    def stats(self):
        return {}


class Forebay:
    """The same files by forebay's loader, through a disk tier."""

    def __init__(self, args):
        import forebay

        tiers = [{"kind": "disk", "path": args.tier, "quota": args.quota}] if args.tier else []
        self.ds = forebay.open(f"{args.folder}/*.tfrecord", fields=["image"], tiers=tiers)
        # Batches and what is read ahead; nothing is kept from one epoch to the next but by the tier.
        self.loader = self.ds.loader(batch_size=args.batch, shuffle="full", seed=7, read_threads=READERS, memory=args.memory,
                                     spill_quota=0)

    def epoch(self, number, batch):
        self.loader.set_epoch(number)
        for made in self.loader:
            yield len(made.indices)

    def stats(self):
        return self.loader.stats().get("tiers") or {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["plain", "forebay"])
    parser.add_argument("folder")
    parser.add_argument("--cache")
    parser.add_argument("--tier")
    parser.add_argument("--quota", type=int, default=0)
    parser.add_argument("--memory", default="64MiB")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--step-s", type=float, default=0.0, help="what a step of the model takes")
    parser.add_argument("--samples", type=int, required=True, help="how many there must be")
    args = parser.parse_args()
    counted(args.folder)
    began = time.perf_counter()
    trainer = (Plain if args.kind == "plain" else Forebay)(args)
    opened_s = time.perf_counter() - began
    first_s, epochs, arrived = None, [], [counted(args.folder)]
    for number in range(args.epochs):
        start, samples = time.perf_counter(), 0
        for count in trainer.epoch(number, args.batch):
            first_s = first_s or time.perf_counter() - began
            samples += count
            time.sleep(args.step_s)
        epochs.append(time.perf_counter() - start)
        arrived.append(counted(args.folder))
        if samples != args.samples:
            raise SystemExit(f"epoch {number + 1} had {samples} samples, and there are {args.samples}")
    print(json.dumps({"opened_s": opened_s, "first_batch_s": first_s, "epochs_s": epochs, "arrived": arrived}))


if __name__ == "__main__":
    main()
