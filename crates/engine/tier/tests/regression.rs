//! Faults that were found once stay away.

#![expect(clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Fill, Locator, Origin, Source, SourceExt, SourceId, Trust, Version};
use forebay_tier::{Admission, BuiltinPolicy, Claim, Copies, DiskTier, MemoryTier, Ranking, Tier, Tiered};
use made::{disk_options, pattern, placement};

fn put(copies: &Arc<dyn Copies>, block: u64, bytes: &[u8]) {
    let Claim::Held(claimed) = Arc::clone(copies).claim(block, bytes.len() as u64, true) else {
        panic!("no room")
    };
    assert_eq!(claimed.put(&Bytes::copy_from_slice(bytes)), Admission::Kept);
}

#[test]
fn a_mirror_that_was_removed_and_begun_anew_is_not_taken_for_the_whole_one() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 2000));
    let open = || {
        DiskTier::open(disk_options(folder.path(), 1 << 20, 1000), Ranking::new(BuiltinPolicy::Lru)).unwrap()
    };
    let id = SourceId { locator: Locator::new("far"), len: 2000, version: Version::named("v") };
    let (first, reader, other) = (open(), open(), open());
    let filled = first.copies(&id).unwrap();
    put(&filled, 0, &bytes[..1000]);
    put(&filled, 1, &bytes[1000..]);
    let read = reader.copies(&id).unwrap();
    assert_eq!(read.get(0).unwrap()[..], bytes[..1000]);
    assert_eq!(other.clear(|_| true), 2000);
    put(&other.copies(&id).unwrap(), 0, &bytes[..1000]);
    // The reader still holds the old mirror, of which it now knows all blocks.
    assert_eq!(read.get(1).unwrap()[..], bytes[1000..]);
    if let Some(whole) = read.whole() {
        assert_eq!(whole.source().fetch_one(ByteRange { start: 0, end: 2000 }).unwrap()[..], bytes[..]);
    }
}

#[test]
fn bytes_that_a_killed_process_had_taken_come_back_though_another_left_in_order() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 2000));
    let open = || {
        DiskTier::open(disk_options(folder.path(), 1 << 20, 1000), Ranking::new(BuiltinPolicy::Lru)).unwrap()
    };
    let id = SourceId { locator: Locator::new("far"), len: 2000, version: Version::named("v") };
    let survivor = open();
    put(&survivor.copies(&id).unwrap(), 0, &bytes[..1000]);
    // What a process leaves behind that is killed while it fetches: it is counted in, and so is its room.
    let usage = survivor.folder().join("usage");
    let mut left = std::fs::read(&usage).unwrap();
    left[..8].copy_from_slice(&2000_u64.to_le_bytes());
    left[8] += 1;
    std::fs::write(&usage, left).unwrap();
    assert_eq!(survivor.usage().used, 2000);
    drop(survivor);
    assert_eq!(open().usage().used, 1000);
    assert_eq!(open().usage().used, 1000, "it stays so");
}

/// An origin whose disk is slow to say that it is broken.
#[derive(Debug, Default)]
struct Broken(Arc<AtomicU64>);

#[derive(Debug)]
struct BrokenSource(SourceId, Arc<AtomicU64>);

const EIO: i32 = 5;

impl Origin for Broken {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let id = SourceId { locator: at.clone(), len: 1000, version: Version::named("v") };
        Ok(Arc::new(BrokenSource(id, Arc::clone(&self.0))))
    }

    fn list(&self, _: &Locator) -> Result<Vec<Locator>> {
        Ok(Vec::new())
    }

    fn survey(&self, _: &Locator) -> Result<Vec<SourceId>> {
        Ok(Vec::new())
    }
}

impl Source for BrokenSource {
    fn id(&self) -> &SourceId {
        &self.0
    }

    fn fetch(&self, _: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.1.fetch_add(1, Relaxed);
        // Until all who read the block wait for it.
        thread::sleep(Duration::from_millis(300));
        let error = Error::from_io(io::Error::from_raw_os_error(EIO)).hint("mount it again");
        Err(error.at("byte 0").at(&self.0.locator))
    }

    fn copy_into(&self, _: &mut [Fill<'_>]) -> Result<Trust> {
        self.fetch(&[]).map(|_| Trust::Verified)
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn request_bytes(&self) -> u64 {
        1 << 20
    }

    fn will_read(&self, _: ByteRange) {}
}

#[test]
fn all_who_wait_for_a_block_that_cannot_be_read_get_the_whole_error() {
    let origin = Arc::new(Broken::default());
    let make =
        || Ok(vec![Arc::new(MemoryTier::new(1 << 20, Ranking::new(BuiltinPolicy::Lru))) as Arc<dyn Tier>]);
    let tiered = Tiered::new(Arc::clone(&origin) as Arc<dyn Origin>, make, placement(1000)).unwrap();
    let source = tiered.open(&Locator::new("a.h5")).unwrap();
    let errors: Vec<Error> = thread::scope(|scope| {
        let readers: Vec<_> = (0..8)
            .map(|start| {
                scope.spawn({
                    let source = &source;
                    move || source.fetch_one(ByteRange::at(start, 9))
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap().unwrap_err()).collect()
    });
    assert!(origin.0.load(Relaxed) < 8, "nobody waited for another");
    for error in errors {
        assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::Io, Some(EIO)), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("a.h5: byte 0: ") && text.ends_with("; mount it again"), "{text}");
        assert_eq!(text.matches("a.h5").count(), 1, "{text}");
    }
}
