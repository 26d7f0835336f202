"""Tables of plain offsets, in shuffled order, that the program `limits` replays."""

import json

import h5py
import numpy as np

SEED = 7
ENTRY = np.dtype([("path", "<u4"), ("len", "<u4"), ("offset", "<u8")])
# Chunks whose samples are mixed with each other in block order.
BLOCK_CHUNKS = 64


def full_order(count):
    return np.random.default_rng(SEED).permutation(count)


def block_order(count, samples_per_chunk):
    """Chunks in random order; the samples of `BLOCK_CHUNKS` of them at a time in random order."""
    random = np.random.default_rng(SEED)
    chunks = random.permutation(count // samples_per_chunk)
    samples = chunks[:, None] * samples_per_chunk + np.arange(samples_per_chunk)
    blocks = [samples[start:start + BLOCK_CHUNKS].ravel() for start in range(0, len(chunks), BLOCK_CHUNKS)]
    return np.concatenate([random.permutation(block) for block in blocks])


def order(workload, shuffle):
    if shuffle == "block":
        return block_order(workload.sample_count, workload.samples_per_chunk)
    return full_order(workload.sample_count)


def _row_len(variable):
    return int(np.prod(variable.shape[1:])) * variable.dtype.itemsize


def _fixed(workload):
    """The pieces of equal samples: per sample one of each variable."""
    names = [*workload.fields] + ([workload.label] if workload.label else [])
    pieces = np.empty((workload.sample_count, len(names)), ENTRY)
    rows = np.arange(workload.samples_per_file)
    for number, path in enumerate(workload.paths):
        part = pieces[number * len(rows):(number + 1) * len(rows)]
        with h5py.File(path) as file:
            for field, name in enumerate(names):
                variable = file[name]
                row_len = variable.nbytes if workload.whole else _row_len(variable)
                part["path"][:, field] = number
                part["len"][:, field] = row_len
                part["offset"][:, field] = variable.id.get_offset() + rows * row_len
    return pieces, [name == workload.label for name in names]


def _ragged(workload):
    """The pieces of ragged samples: of a variable that is cut along axis 1, each line is one of its own."""
    columns = []
    with h5py.File(workload.paths[0]) as file:
        for name, offsets in workload.offsets.items():
            variable, ends = file[name], file[offsets][...]
            axis = workload.axes.get(name, 0)
            row_len = int(np.prod(variable.shape[axis + 1:])) * variable.dtype.itemsize
            for line in range(int(np.prod(variable.shape[:axis]))):
                start = variable.id.get_offset() + line * variable.shape[axis] * row_len
                columns.append((np.diff(ends) * row_len, start + ends[:-1] * row_len))
    pieces = np.empty((workload.sample_count, len(columns)), ENTRY)
    pieces["path"] = 0
    for number, (lens, offsets) in enumerate(columns):
        pieces["len"][:, number], pieces["offset"][:, number] = lens, offsets
    return pieces, [False] * len(columns)


def _chunks(workload):
    chunks = np.empty(workload.sample_count // workload.samples_per_chunk, ENTRY)
    with h5py.File(workload.paths[0]) as file:
        variable = file["x"]
        for number in range(len(chunks)):
            stored = variable.id.get_chunk_info(number)
            if stored.filter_mask:
                raise ValueError(f"chunk {number} of {workload.name} was stored without its filters")
            place = stored.chunk_offset[0] // workload.samples_per_chunk
            chunks[place] = (0, stored.size, stored.byte_offset)
        return chunks, _row_len(variable)


def write(workload, shuffle, path):
    """Writes the table of a workload in the order `shuffle`."""
    header = {"paths": [str(path) for path in workload.paths]}
    numbers = order(workload, shuffle)
    if workload.samples_per_chunk:
        chunks, sample_len = _chunks(workload)
        header |= {"kind": "chunks", "chunks": len(chunks), "samples_per_chunk": workload.samples_per_chunk,
                   "sample_len": sample_len}
        body = chunks.tobytes() + numbers.astype("<u4").tobytes()
    else:
        pieces, small = _ragged(workload) if workload.ragged else _fixed(workload)
        header |= {"kind": "pieces", "small": small}
        body = pieces[numbers].tobytes()
    path.write_bytes(json.dumps(header).encode() + b"\n" + body)
