//! Every format, as the libraries that users have read it.

use std::{path::Path, process::Command};

use forebay_workload::ElementType;

use super::*;

fn file(folder: &Path, name: &str) -> GeneratedFile {
    GeneratedFile {
        path: folder.join("train").join(name),
        number: 3,
        samples: 3,
        shape: vec![64, 64],
        element: ElementType::UInt8,
        seed: 7,
        compress_ratio: 2.0,
    }
}

fn setup(folder: &Path, format: FileFormat, compression: Compression) -> GenerateSetup {
    let storage =
        Hdf5Storage { records: vec!["records".into()], labels: "labels".into(), ..Hdf5Storage::default() };
    GenerateSetup { format, storage, compression, level: 4, index_folder: folder.join("index") }
}

/// Runs `script` with the folder as its argument.
fn python(script: &str, folder: &Path) {
    let python = std::env::var_os("FOREBAY_PYTHON").unwrap_or_else(|| "python3".into());
    let done =
        Command::new(python).arg("-c").arg(script).arg(folder).output().expect("FOREBAY_PYTHON is a Python");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The bytes that the file's samples have, one after another.
fn bytes(file: &GeneratedFile) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.data_len()).unwrap()];
    file.content().fill(&mut bytes);
    bytes
}

#[test]
fn files_of_every_format_are_read_by_other_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let formats = [
        (FileFormat::Npy, "a.npy"),
        (FileFormat::Npz, "a.npz"),
        (FileFormat::Csv, "a.csv"),
        (FileFormat::Png, "a.png"),
        (FileFormat::Jpeg, "a.jpeg"),
        (FileFormat::TfRecord, "a.tfrecord"),
        (FileFormat::IndexedBinary, "a.indexed_binary"),
        (FileFormat::NetCdf, "a.nc"),
        (FileFormat::Zarr, "a.zarr"),
    ];
    for (format, name) in formats {
        let file = file(folder, name);
        let setup = setup(folder, format, Compression::None);
        assert_eq!(setup.state(&file).unwrap(), GeneratedState::Missing);
        FileWriter::new(setup.clone()).unwrap().write(&file).unwrap();
        assert_eq!(setup.state(&file).unwrap(), GeneratedState::Present, "{name}");
    }
    let zipped = setup(folder, FileFormat::Npz, Compression::Zip);
    FileWriter::new(zipped).unwrap().write(&file(folder, "zip.npz")).unwrap();
    let zipped = setup(folder, FileFormat::Zarr, Compression::Gzip);
    FileWriter::new(zipped).unwrap().write(&file(folder, "zip.zarr")).unwrap();
    fs::write(folder.join("bytes"), bytes(&file(folder, "bytes"))).unwrap();
    python(READ_BACK, folder);
}

const READ_BACK: &str = "
import os, struct, sys
import numpy as np
os.chdir(sys.argv[1] + '/train')
data = np.fromfile('../bytes', 'u1')
assert (np.load('a.npy') == data.reshape(64, 64, 3)).all()
for name in ['a.npz', 'zip.npz']:
    with np.load(name) as file:
        assert (file['x'] == data.reshape(64, 64, 3)).all() and file['y'].tolist() == [0, 0, 0]
assert os.path.getsize('zip.npz') < 0.8 * os.path.getsize('a.npz')
rows = np.loadtxt('a.csv', delimiter=',', skiprows=1)
assert (rows[:, 0] == [0, 1, 2]).all() and (rows[:, 1:] == data.reshape(3, 4096)).all()
assert open('a.csv').readline().startswith(',0,1,2,')
assert (np.fromfile('a.indexed_binary', 'u1') == data).all()
assert np.fromfile('a.indexed_binary.off.idx', '<u8').tolist() == [0, 4096, 8192]
assert np.fromfile('a.indexed_binary.sz.idx', '<u8').tolist() == [4096] * 3
raw = open('a.tfrecord', 'rb').read()
lines = [list(map(int, line.split())) for line in open('../index/train/a.tfrecord.idx')]
assert sum(length for _, length in lines) == len(raw) and len(lines) == 3
for number, (offset, length) in enumerate(lines):
    assert struct.unpack('<Q', raw[offset:offset + 8])[0] + 16 == length
    assert data[4096 * number:4096 * number + 4096].tobytes() in raw[offset:offset + length]
try:
    from PIL import Image
except ImportError:
    pass
else:
    assert (np.asarray(Image.open('a.png')) == data[:4096].reshape(64, 64)).all()
    seen = np.asarray(Image.open('a.jpeg')).astype(int)
    assert seen.shape == (64, 64) and np.abs(seen - data[:4096].reshape(64, 64)).mean() < 25
try:
    import netCDF4
except ImportError:
    pass
else:
    with netCDF4.Dataset('a.nc') as file:
        assert (file['records'][:] == data.reshape(3, 64, 64)).all() and file['labels'][:].tolist() == [0, 0, 0]
try:
    import zarr
except ImportError:
    pass
else:
    for name in ['a.zarr', 'zip.zarr']:
        group = zarr.open(name, mode='r')
        assert (group['records'][:] == data.reshape(3, 64, 64)).all() and group['labels'][:].tolist() == [0, 0, 0]
";

#[test]
fn a_tfrecord_holds_examples_that_forebay_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), "a.tfrecord");
    FileWriter::new(setup(folder.path(), FileFormat::TfRecord, Compression::None))
        .unwrap()
        .write(&file)
        .unwrap();
    let opened = forebay::open_file(file.path.to_str().unwrap()).unwrap();
    let names: Vec<&str> =
        opened.container().variables.iter().map(|variable| variable.name.as_str()).collect();
    assert!(names.contains(&"image") && names.contains(&"size"), "{names:?}");
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = file(folder.path(), "a.jpeg");
    file.shape = vec![1 << 20, 1 << 20];
    let error =
        FileWriter::new(setup(folder.path(), FileFormat::Jpeg, Compression::None)).unwrap().write(&file);
    assert!(error.unwrap_err().to_string().contains("65535"));
    assert_eq!(fs::read_dir(folder.path().join("train")).unwrap().count(), 0);
}
