"""The workloads of the loader benchmark: what each set holds, and where its files lie."""

import dataclasses
import pathlib

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Workload:
    """One set of samples and the batches asked of it."""

    name: str
    title: str
    folder: pathlib.Path
    file_count: int
    sample_count: int  # in all files
    sample_shape: tuple  # of the field "x"; of one node where samples are ragged
    batch: int
    fields: tuple = ("x",)
    label: str | None = None
    samples_per_chunk: int | None = None
    # By field of ragged samples, the variable that says where they begin and end, and the axis where it is not 0.
    offsets: dict = dataclasses.field(default_factory=dict)
    axes: dict = dataclasses.field(default_factory=dict)
    whole: bool = False
    # At least so many; more until the time of measure.py has passed. Only W3 has one to a process: what is decoded must
    # not come from the epoch before.
    epochs: int = 2

    @property
    def ragged(self):
        return bool(self.offsets)

    @property
    def takes_fresh_memory(self):
        """True when the epoch that counts, or the first batch, takes much memory that was not used before."""
        return self.epochs == 1 or self.whole

    @property
    def paths(self):
        return [self.folder / f"{self.name.lower()}_{number:04}.h5" for number in range(self.file_count)]

    @property
    def zarr(self):
        return self.folder / f"{self.name.lower()}.zarr"

    @property
    def samples_per_file(self):
        return self.sample_count // self.file_count


def workloads(folder, scale):
    """All workloads, smaller or larger by `scale`; 1.0 gives the sizes that docs/benchmarks.md reports."""
    folder = pathlib.Path(folder) / f"loader-{scale:g}"

    def scaled(count, of=1, least=1):
        return max(round(count * scale / of), least) * of

    def workload(name, title, **what):
        return Workload(name, title, folder / name.lower(), **what)

    return [
        workload("W1", "contiguous 8 KiB samples and a label", file_count=1, sample_count=scaled(131072, 64),
                 sample_shape=(2048,), batch=64, label="label"),
        workload("W2", "contiguous 256 KiB samples", file_count=1, sample_count=scaled(4096, 16),
                 sample_shape=(65536,), batch=16),
        workload("W3", "64 x 64 float32, chunks of 16 samples, gzip 4 + shuffle", file_count=1,
                 sample_count=scaled(16384, 64), sample_shape=(64, 64), batch=64, samples_per_chunk=16,
                 epochs=1),
        workload("W4", "files of 64 samples of 16 KiB, shuffled over all", file_count=scaled(512, least=2),
                 sample_count=scaled(512, least=2) * 64, sample_shape=(4096,), batch=64),
        workload("W5", "ragged graphs of 5 to 71 nodes, edge_index (2, E) cut along axis 1", file_count=1,
                 sample_count=scaled(200_000, 128), sample_shape=(16,), batch=128, fields=("x", "pos", "edge_index"),
                 offsets={"x": "node_ptr", "pos": "node_ptr", "edge_index": "edge_ptr"}, axes={"edge_index": 1}),
        # More epochs: a loader that reuses its buffers has to fill the first ones fresh.
        workload("W6", "64 MiB samples, a file each", file_count=scaled(16, least=4),
                 sample_count=scaled(16, least=4), sample_shape=(4096, 4096), batch=1, whole=True, epochs=4),
    ]
