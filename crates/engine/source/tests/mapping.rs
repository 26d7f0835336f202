//! Copies from a mapping: the same bytes as any other read, and an error where the file changes under them.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use forebay_process::ErrorKind;
use forebay_source::{ByteRange, FileOrigin, Fill, Locator, Origin, Source, SourceExt, Trust};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

/// No whole number of pages.
const LEN: usize = 300_001;

/// Bytes that differ from place to place and are never 0, as those of a page that vanished are.
fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|index| ((index / 7 + index * index / 13 + seed) % 255).to_le_bytes()[0] + 1).collect()
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().canonicalize().unwrap().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn is_mapped(path: &Path) -> bool {
    fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| line.ends_with(path.to_str().unwrap()))
}

fn fill(source: &dyn Source, start: usize, into: &mut [u8]) -> forebay_process::Result<()> {
    let range = ByteRange::at(start as u64, into.len() as u64);
    source.fetch_into(&mut [Fill { range, into }])
}

/// Opens and reads until the file is mapped.
fn mapped(origin: &FileOrigin, path: &Path) -> Arc<dyn Source> {
    let source = origin.open(&Locator::new(path.to_str().unwrap())).unwrap();
    for _ in 0..2 {
        fill(&*source, 0, &mut [0; 100]).unwrap();
    }
    assert!(is_mapped(path), "{} is not mapped", path.display());
    source
}

/// The kernel's clock ticks every 4 ms: waits until a change gets another stamp.
fn tick() {
    thread::sleep(Duration::from_millis(20));
}

struct Model {
    bytes: Vec<u8>,
    source: Arc<dyn Source>,
    _folder: TempDir,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let (folder, bytes) = (TempDir::new().unwrap(), bytes(LEN, 0));
    let source = mapped(&FileOrigin::new(), &file(&folder, "f.bin", &bytes));
    Model { bytes, source, _folder: folder }
});

proptest! {
    #[test]
    fn fills_from_a_mapping_are_what_a_plain_buffer_has(
        ranges in vec((0..=LEN, prop_oneof![0..300_usize, 0..20_000_usize]), 0..40),
    ) {
        let ends: Vec<_> = ranges.iter().map(|(start, len)| (*start, (start + len).min(LEN))).collect();
        let mut memory: Vec<_> = ends.iter().map(|(start, end)| vec![0; end - start]).collect();
        let pairs = ends.iter().zip(&mut memory);
        let range = |(start, end): &(usize, usize)| ByteRange { start: *start as u64, end: *end as u64 };
        let mut fills: Vec<_> = pairs.map(|(ends, into)| Fill { range: range(ends), into }).collect();
        MODEL.source.fetch_into(&mut fills).unwrap();
        for ((start, end), read) in ends.iter().zip(&memory) {
            prop_assert_eq!(&read[..], &MODEL.bytes[*start..*end]);
        }
    }
}

/// Changes a mapped file while two threads copy from it: each copy is right, or an error and the last.
fn changes_are_noticed(rounds: usize, change: impl Fn(&Path)) {
    let folder = TempDir::new().unwrap();
    let copied = AtomicUsize::new(0);
    for round in 0..rounds {
        let expected = bytes(LEN, round);
        let path = file(&folder, &format!("{round}.bin"), &expected);
        let source = mapped(&FileOrigin::new(), &path);
        tick();
        let copies = |seed: usize| {
            let (mut memory, mut at) = (vec![0; 50_000], seed);
            loop {
                at = (at * 7919 + 104_729) % (LEN - memory.len());
                let error = match fill(&*source, at, &mut memory) {
                    Ok(()) => {
                        assert!(memory == expected[at..at + memory.len()], "wrong bytes at {at}");
                        copied.fetch_add(1, Relaxed);
                        continue;
                    }
                    Err(error) => error,
                };
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
                break;
            }
            fill(&*source, 0, &mut [0; 9]).expect_err("changed for good");
        };
        thread::scope(|scope| {
            let threads = [scope.spawn(|| copies(round)), scope.spawn(|| copies(round + 1000))];
            thread::sleep(Duration::from_micros(500 + 37 * round as u64));
            change(&path);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
    assert!(copied.load(Relaxed) > rounds, "hardly anything was copied");
}

fn set_len(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn a_file_cut_to_nothing_under_its_copiers_is_an_error_and_never_zeros() {
    changes_are_noticed(60, |path| set_len(path, 0));
}

#[test]
fn a_file_cut_within_a_page_under_its_copiers_is_an_error_and_never_zeros() {
    changes_are_noticed(60, |path| set_len(path, 123_457));
    changes_are_noticed(20, |path| set_len(path, LEN as u64 - 1));
}

#[test]
fn a_file_cut_and_grown_again_under_its_copiers_is_an_error_and_never_zeros() {
    changes_are_noticed(60, |path| {
        set_len(path, 10_000);
        set_len(path, LEN as u64);
    });
}

#[test]
fn a_file_replaced_under_its_copiers_is_an_error_and_never_a_mix() {
    changes_are_noticed(30, |path| {
        let next = path.with_extension("next");
        fs::write(&next, bytes(LEN, 77)).unwrap();
        fs::rename(next, path).unwrap();
    });
}

#[test]
fn a_file_rewritten_in_place_under_its_copiers_is_an_error_and_never_a_mix() {
    changes_are_noticed(30, |path| {
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(&bytes(LEN, 77), 0).unwrap();
    });
}

#[test]
fn a_cut_file_is_an_error_that_names_file_and_offset() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "f.bin", &bytes(LEN, 0));
    let source = mapped(&FileOrigin::new(), &path);
    set_len(&path, 6000);
    let error = fill(&*source, 0, &mut [0; 20_000]).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: byte 6000: ends here", path.display())), "{error}");
    let error = fill(&*source, 0, &mut [0; 100]).unwrap_err().to_string();
    assert!(error.contains("changed since it was opened"), "{error}");
}

#[test]
fn fifty_mapped_files_are_read_through_two_descriptors_and_unmapped_in_the_end() {
    let folder = TempDir::new().unwrap();
    let origin = FileOrigin::new().with_descriptor_budget(2);
    let paths: Vec<_> =
        (0..50).map(|index| file(&folder, &format!("{index}.bin"), &bytes(9000, index))).collect();
    let sources: Vec<_> = paths.iter().map(|path| mapped(&origin, path)).collect();
    let descriptor_count = || {
        let links =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.filter(|target| paths.contains(target)).count()
    };
    let mut memory = vec![0; 8000];
    for round in 0..20 {
        for (source, index) in sources.iter().zip(0..) {
            fill(&**source, round * 50, &mut memory).unwrap();
            assert!(memory == bytes(9000, index)[round * 50..][..8000]);
        }
        assert!(descriptor_count() <= 2);
    }
    assert!(paths.iter().all(|path| is_mapped(path)));
    // Replaced while it has no descriptor: noticed by its path.
    tick();
    fs::write(folder.path().join("next"), bytes(9000, 0)).unwrap();
    fs::rename(folder.path().join("next"), &paths[0]).unwrap();
    assert_eq!(fill(&*sources[0], 0, &mut memory).unwrap_err().kind(), ErrorKind::Unavailable);
    fs::remove_file(&paths[1]).unwrap();
    let error = fill(&*sources[1], 0, &mut memory).unwrap_err();
    assert!(error.to_string().contains("since it was opened"), "{error}");
    drop(sources);
    assert!(!paths.iter().any(|path| is_mapped(path)));
}

#[test]
fn opens_of_one_file_share_its_mapping() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "f.bin", &bytes(LEN, 0));
    let origin = FileOrigin::new();
    let _sources = [mapped(&origin, &path), mapped(&origin, &path)];
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert_eq!(maps.lines().filter(|line| line.ends_with(path.to_str().unwrap())).count(), 1);
}

#[test]
fn a_file_that_is_not_in_the_page_cache_is_mapped_once_it_is() {
    const LEN: usize = 8 << 20;
    let folder = TempDir::new().unwrap();
    let expected = bytes(LEN, 3);
    let path = file(&folder, "f.bin", &expected);
    let opened = File::open(&path).unwrap();
    opened.sync_all().unwrap();
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let source = FileOrigin::new().open(&Locator::new(path.to_str().unwrap())).unwrap();
    let mut memory = vec![0; 1 << 20];
    for at in [0, 5 << 20] {
        fill(&*source, at, &mut memory[..100]).unwrap();
    }
    if is_mapped(&path) {
        // A file system in memory keeps all.
        return;
    }
    for round in 0..20 {
        let at = (round % 8) << 20;
        fill(&*source, at, &mut memory).unwrap();
        assert!(memory == expected[at..at + memory.len()]);
    }
    assert!(is_mapped(&path));
}

#[test]
fn a_copy_is_unverified_until_the_file_is_asked_and_a_read_is_verified_at_once() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.bin", &bytes(LEN, 1));
    let origin = FileOrigin::new();
    let copy = |source: &dyn Source, into: &mut [u8]| {
        let range = ByteRange::at(7, into.len() as u64);
        source.copy_into(&mut [Fill { range, into }])
    };
    let source = origin.open(&Locator::new(path.to_str().unwrap())).unwrap();
    let mut into = [0; 1000];
    assert_eq!(copy(&*source, &mut into).unwrap(), Trust::Verified, "the first is a read");
    let source = mapped(&origin, &path);
    assert_eq!(copy(&*source, &mut into).unwrap(), Trust::Unverified);
    assert_eq!(into[..], bytes(LEN, 1)[7..1007]);
    source.verify().unwrap();
    tick();
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0; 10], 5000).unwrap();
    let error = source.verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("a.bin"), "{error}");
}
