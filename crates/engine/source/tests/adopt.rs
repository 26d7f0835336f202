//! Descriptors that the caller opened, and origins that never map.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use bytes::Bytes;
use forebay_process::ErrorKind;
use forebay_source::{ByteRange, FileOrigin, Fill, Locator, Origin, Source, SourceExt, check};
use tempfile::TempDir;

fn at(path: &Path) -> Locator {
    Locator::from_path(path)
}

fn adopt(origin: &FileOrigin, path: &Path) -> Arc<dyn Source> {
    origin.adopt(File::open(path).unwrap().into(), at(path)).unwrap()
}

/// The kernel's clock ticks every 4 ms: waits until a change gets another stamp.
fn tick() {
    thread::sleep(Duration::from_millis(20));
}

#[test]
fn an_adopted_descriptor_is_a_source_with_the_id_that_opening_gives() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    let bytes: Bytes =
        (0..100_000_u32).map(|index| index.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    fs::write(&path, &bytes).unwrap();
    for origin in [FileOrigin::new(), FileOrigin::new().without_mapping()] {
        let source = adopt(&origin, &path);
        assert_eq!(source.id(), origin.open(&at(&path)).unwrap().id());
        check::every_source_clause(&*source, &bytes);
    }
}

#[test]
fn a_file_that_the_caller_has_open_is_the_source_that_opening_gives_and_is_opened_when_it_is_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    fs::write(&path, b"0123456789").unwrap();
    let (origin, opened) = (FileOrigin::new().without_mapping(), File::open(&path).unwrap());
    let source = origin.open_as(at(&path), &opened).unwrap();
    assert_eq!(source.id(), origin.open(&at(&path)).unwrap().id());
    check::every_source_clause(&*source, b"0123456789");
    let (other, moved) = (FileOrigin::new(), folder.path().join("moved"));
    let unread = other.open_as(at(&path), &opened).unwrap();
    drop(opened);
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, b"abcdefghij").unwrap();
    let error = unread.fetch_one(ByteRange::at(0, 3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the name leads to another file: {error}");
}

#[test]
fn reading_leaves_the_position_of_an_adopted_descriptor_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    fs::write(&path, b"0123456789").unwrap();
    let mut file = File::open(&path).unwrap();
    file.seek(SeekFrom::Start(3)).unwrap();
    // The same open file description: a position that moved would show here.
    let source = FileOrigin::new().adopt(file.try_clone().unwrap().into(), at(&path)).unwrap();
    assert_eq!(source.fetch_one(ByteRange::at(5, 5)).unwrap(), "56789");
    drop(source);
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "3456789");
}

#[test]
fn an_adopted_file_needs_no_name_and_no_room_in_the_budget() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("f.bin"), vec![7; 50_000]).unwrap();
    fs::write(path("other.bin"), "other").unwrap();
    let origin = FileOrigin::new().with_descriptor_budget(1);
    let source = adopt(&origin, &path("f.bin"));
    let other = origin.open(&at(&path("other.bin"))).unwrap();
    tick();
    fs::remove_file(path("f.bin")).unwrap();
    let mut memory = vec![0; 50_000];
    // A file is mapped at its second read.
    for _ in 0..4 {
        memory.fill(0);
        source.fetch_into(&mut [Fill { range: ByteRange::at(0, 50_000), into: &mut memory }]).unwrap();
        assert!(memory.iter().all(|byte| *byte == 7));
        assert_eq!(other.fetch_one(ByteRange::at(0, 5)).unwrap(), "other");
    }
}

#[test]
fn an_adopted_file_that_changes_is_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    fs::write(&path, vec![1; 100]).unwrap();
    let source = adopt(&FileOrigin::new(), &path);
    tick();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(&[2]).unwrap();
    let error = source.fetch_one(ByteRange::at(0, 100)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().starts_with(&format!("{}: changed since it was opened", path.display())),
        "{error}"
    );
}

#[test]
fn what_cannot_be_read_at_any_place_is_not_adopted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    let write_only = OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    let refused: [(OwnedFd, &str); 3] = [
        (write_only.into(), "is not open for reading"),
        (File::open(folder.path()).unwrap().into(), "is a folder"),
        (File::open("/dev/null").unwrap().into(), "is a device"),
    ];
    for (descriptor, what) in refused {
        let error = FileOrigin::new().adopt(descriptor, Locator::new("given")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(&format!("given: {what}")), "{error}");
    }
}

#[test]
fn an_origin_without_mapping_maps_no_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().canonicalize().unwrap().join("f.bin");
    fs::write(&path, vec![7; 300_000]).unwrap();
    let origin = FileOrigin::new().without_mapping().with_descriptor_budget(2);
    let mut memory = vec![0; 300_000];
    for source in [origin.open(&at(&path)).unwrap(), adopt(&origin, &path)] {
        for _ in 0..20 {
            memory.fill(0);
            source.fetch_into(&mut [Fill { range: ByteRange::at(0, 300_000), into: &mut memory }]).unwrap();
            assert!(memory.iter().all(|byte| *byte == 7));
        }
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    assert!(!maps.lines().any(|line| line.ends_with(path.to_str().unwrap())));
}
