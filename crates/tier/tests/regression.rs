//! Faults that were found once stay away.

#![expect(clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::sync::Arc;

use bytes::Bytes;
use forebay_source::{ByteRange, Locator, SourceExt, SourceId, Version};
use forebay_tier::{Admission, Claim, Copies, DiskTier, Judge, Standard, Tier};
use made::{disk_options, pattern};

fn put(copies: &Arc<dyn Copies>, block: u64, bytes: &[u8]) {
    let Claim::Held(claimed) = Arc::clone(copies).claim(block, bytes.len() as u64, true) else {
        panic!("no room")
    };
    assert_eq!(claimed.put(&Bytes::copy_from_slice(bytes)), Admission::Kept);
}

#[test]
fn a_mirror_that_was_removed_and_begun_anew_is_not_taken_for_the_whole_one() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 2000));
    let open =
        || DiskTier::open(disk_options(folder.path(), 1 << 20, 1000), Judge::new(Standard::Lru)).unwrap();
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
        assert_eq!(whole.fetch_one(ByteRange { start: 0, end: 2000 }).unwrap()[..], bytes[..]);
    }
}

#[test]
fn bytes_that_a_killed_process_had_taken_come_back_though_another_left_in_order() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 2000));
    let open =
        || DiskTier::open(disk_options(folder.path(), 1 << 20, 1000), Judge::new(Standard::Lru)).unwrap();
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
