//! Hostile bytes: every truncation and many flips of small files of the AI formats give values or an error.

use std::sync::Arc;

use forebay_container::Selection;
use forebay_format::{Csv, Format, Found, Images, Indexed, Npy, NpyFolder, Npz, Opened, TfRecord};
use forebay_source::{Locator, MemoryOrigin};

/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 1 << 20;

/// Describes and reads `bytes` under the name `name`; what comes out has the shape that was described, or is an error.
fn try_bytes(format: &dyn Format, name: &str, bytes: Vec<u8>) -> bool {
    let origin = Arc::new(MemoryOrigin::default().with(name, bytes));
    try_at(format, origin, name)
}

fn try_at(format: &dyn Format, origin: Arc<MemoryOrigin>, name: &str) -> bool {
    let at = Locator::new(name);
    let found = Found::look(&*origin, &at).expect("it is there");
    let _ = format.probe(&found).expect("a look costs nothing");
    let Ok(container) = format.describe(&found) else { return false };
    let saved = forebay_container::save(&container).expect("a container can be saved");
    assert_eq!(forebay_container::load(&saved).expect("what was described is sound"), container);
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES).on_caller_thread();
    let mut is_read = true;
    for variable in opened.container().variables.iter().take(16) {
        match opened.read(variable, &Selection::all(&variable.grid.shape)) {
            Ok(array) => assert_eq!(array.shape, variable.grid.shape),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                is_read = false;
            }
        }
    }
    is_read
}

/// Every truncation, and every byte changed in three ways.
fn attack(format: &dyn Format, name: &str, whole: &[u8]) {
    assert!(try_bytes(format, name, whole.to_vec()), "the file itself is read");
    for end in 0..whole.len() {
        try_bytes(format, name, whole[..end].to_vec());
    }
    for at in 0..whole.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = whole.to_vec();
            bytes[at] ^= change;
            try_bytes(format, name, bytes);
        }
    }
}

fn npy(header: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{header}\n");
    let len = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), values].concat()
}

fn turned() -> Vec<u8> {
    npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", &[1; 12])
}

#[test]
fn npy_files_that_lie() {
    attack(&Npy, "a.npy", &turned());
    attack(
        &Npy,
        "a.npy",
        &npy("{'descr': [('a','|S2'),('b','>f4',(2,))], 'fortran_order': False, 'shape': (2,)}", &[7; 20]),
    );
    let vast = npy("{'descr': '<f8', 'fortran_order': True, 'shape': (99999999999, 99999999999), }", &[]);
    assert!(!try_bytes(&Npy, "a.npy", vast));
}

/// A zip file of one member.
fn zip(name: &str, data: &[u8], is_deflated: bool) -> Vec<u8> {
    let stored = if is_deflated {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut out = vec![0; compressor.deflate_compress_bound(data.len())];
        let len = compressor.deflate_compress(data, &mut out).expect("there is room");
        out.truncate(len);
        out
    } else {
        data.to_vec()
    };
    let small = |n: usize| u32::try_from(n).expect("a small file").to_le_bytes();
    let name_len = u16::try_from(name.len()).expect("a short name").to_le_bytes();
    let method = if is_deflated { 8u16 } else { 0 }.to_le_bytes();
    let mut common = Vec::new();
    common.extend([0; 2]);
    common.extend(method);
    common.extend([0; 4]);
    common.extend(libdeflater::crc32(data).to_le_bytes());
    common.extend(small(stored.len()));
    common.extend(small(data.len()));
    common.extend(name_len);
    common.extend([0; 2]);
    let mut file = [b"PK\x03\x04\x14\x00", &common[..], name.as_bytes(), &stored].concat();
    let directory_at = file.len();
    file.extend(b"PK\x01\x02\x14\x00\x14\x00");
    file.extend(&common);
    file.extend([0; 14]);
    file.extend(name.as_bytes());
    let directory_len = file.len() - directory_at;
    file.extend(b"PK\x05\x06\0\0\0\0\x01\x00\x01\x00");
    file.extend(small(directory_len));
    file.extend(small(directory_at));
    file.extend([0; 2]);
    file
}

/// Two members of one name refused the whole file.
#[test]
fn two_members_of_one_name_refuse_that_name_and_not_the_file() {
    let one = zip("x.npy", &turned(), false);
    let directory_at = one.windows(4).position(|four| four == b"PK\x01\x02").expect("a directory");
    let end_at = one.windows(4).position(|four| four == b"PK\x05\x06").expect("its end");
    let entry = &one[directory_at..end_at];
    let other = [&entry[..entry.len() - 5], b"y.npy"].concat();
    let mut file = [&one[..directory_at], entry, entry, &other, &one[end_at..]].concat();
    // The local header says the name again.
    let end = file.len() - 22;
    file[end + 8..end + 12].copy_from_slice(&[3, 0, 3, 0]);
    let len = u32::try_from(3 * entry.len()).expect("a small file").to_le_bytes();
    file[end + 12..end + 16].copy_from_slice(&len);
    let origin = MemoryOrigin::default().with("a.npz", file);
    let container = forebay_format::describe(&origin, &Locator::new("a.npz")).expect("a container");
    assert!(container.variable("y").is_ok(), "{:?}", container.refused);
    let error = container.variable("x").expect_err("which is meant?");
    assert!(error.to_string().contains("two members"), "{error}");
}

#[test]
fn npz_files_that_lie() {
    attack(&Npz, "a.npz", &zip("x.npy", &turned(), false));
    attack(&Npz, "a.npz", &zip("x.npy", &turned(), true));
}

fn record(payload: &[u8]) -> Vec<u8> {
    let masked =
        |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let len = (payload.len() as u64).to_le_bytes();
    [&len[..], &masked(&len), payload, &masked(payload)].concat()
}

fn long(field: u8, payload: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2, u8::try_from(payload.len()).expect("a short payload")][..], payload].concat()
}

fn example(len: usize) -> Vec<u8> {
    let feature =
        |name: &[u8], kind: u8, list: &[u8]| long(1, &[long(1, name), long(2, &long(kind, list))].concat());
    let features = [
        feature(b"raw", 1, &long(1, &vec![7; len])),
        feature(b"f", 2, &long(1, &[0; 40])),
        feature(b"i", 3, &long(1, &[1, 0x96, 1, 3, 4, 5])),
        feature(b"label", 3, &[0x08, 5]),
    ];
    long(1, &features.concat())
}

#[test]
fn tfrecord_files_that_lie() {
    let file = [record(&example(3)), record(&example(4))].concat();
    attack(&TfRecord::default(), "a", &file);
    attack(&TfRecord::checking(), "a", &file);
    // Flips inside payloads, under a right frame.
    let payload = example(3);
    for at in 0..payload.len() {
        for change in [0x01, 0x04, 0x80, 0xff] {
            let mut bytes = payload.clone();
            bytes[at] ^= change;
            try_bytes(&TfRecord::default(), "a", [record(&payload), record(&bytes)].concat());
        }
    }
}

#[test]
fn tables_that_lie() {
    attack(&Csv, "a.csv", b"x,\"y z\",t\n1,2.5,a\n3,,b\n-4,1e3,\"c\nd\"\n");
}

#[test]
fn pictures_that_lie() {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 5, 4);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[9; 60]).unwrap();
    attack(&Images, "a.png", &file);
    let jpeg = include_bytes!("data/small.jpg");
    attack(&Images, "a.jpg", jpeg);
}

#[test]
fn indexes_that_lie() {
    for (starts, sizes) in [
        (vec![0u64, 8], vec![8u64, 8]),
        (vec![0, 8], vec![8, 9]),
        (vec![0, u64::MAX], vec![8, 8]),
        (vec![0], vec![8, 8]),
        (vec![], vec![]),
    ] {
        let bytes = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let origin = MemoryOrigin::default()
            .with("a", vec![1; 16])
            .with("a.off.idx", bytes(&starts))
            .with("a.sz.idx", bytes(&sizes));
        let is_right =
            starts.iter().zip(&sizes).all(|(at, len)| at.checked_add(*len).is_some_and(|end| end <= 16));
        assert_eq!(try_at(&Indexed, Arc::new(origin), "a"), is_right && starts.len() == sizes.len());
    }
}

#[test]
fn folders_that_lie() {
    let whole = turned();
    for end in [0, 5, 9, whole.len() - 1, whole.len()] {
        let origin =
            MemoryOrigin::default().with("d/a.npy", whole.clone()).with("d/b.npy", whole[..end].to_vec());
        assert_eq!(try_at(&NpyFolder, Arc::new(origin), "d"), end == whole.len());
    }
}
