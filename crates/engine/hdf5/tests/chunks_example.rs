//! The example `chunks` says what h5py says of a file: where each chunk lies, and what the first one holds.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Makes a file of three layouts and prints of each what h5py knows of its chunks.
const BY_H5PY: &str = r"
import sys, h5py, numpy as np
path = sys.argv[1]
values = np.random.default_rng(3).normal(size=(37, 50)).round(2)
with h5py.File(path, 'w', libver='latest') as file:
    file.create_dataset('plain', data=values.astype('>f4'), chunks=(10, 20))
    file.create_dataset('packed', data=values.astype('f8'), chunks=(16, 50), compression='gzip', shuffle=True, fletcher32=True)
    file.create_dataset('small', data=np.arange(7, dtype='i2'), chunks=(3,), compression='lzf', maxshape=(None,))
with h5py.File(path) as file:
    for name in ('plain', 'packed', 'small'):
        data = file[name]
        chunks = [data.id.get_chunk_info(index) for index in range(data.id.get_num_chunks())]
        for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_offset):
            at = [int(offset) // length for offset, length in zip(chunk.chunk_offset, data.chunks)]
            print(at, chunk.byte_offset, chunk.size, hex(chunk.filter_mask))
        first = data[tuple(slice(0, length) for length in data.chunks)]
        print(list(first.astype(data.dtype.newbyteorder('<')).tobytes()))
";

fn printed(command: &mut Command) -> String {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The example, which is built beside the tests.
fn example() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().join("examples/chunks")
}

#[test]
fn the_example_agrees_with_h5py() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chunks.h5");
    let python = std::env::var_os("FOREBAY_PYTHON").unwrap_or_else(|| "python3".into());
    let by_h5py = printed(Command::new(python).args(["-c", BY_H5PY]).arg(&file));
    let by_example =
        ["plain", "packed", "small"].map(|name| printed(Command::new(example()).arg(&file).arg(name)));
    assert_eq!(by_example.concat(), by_h5py);
}
