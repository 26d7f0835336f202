//! What a disk tier does when its disk fails, and with very many sources.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::{Locator, SourceId, Version};

use super::{
    DiskOptions, DiskTier,
    mirror::Mirror,
    mirror_copies::MirrorCopies,
    name::MirrorName,
    open_mirrors::OpenMirrors,
    read_run::PieceRun,
    writeback::{DiskSync, Writeback},
};
use crate::{
    block::{SourceBlocks, SourceKey},
    policy::{BuiltinPolicy, Ranking},
    tier::{Admission, BlockPiece, Claim, Copies, Tier},
};

const SOUND: DiskSync =
    DiskSync { sync: |_| Ok(()), sync_all: |_| Ok(()), can_ask: |_| true, ask: |_| Writeback::Sound };

fn tier(folder: &Path, disk: DiskSync) -> (DiskTier, Arc<dyn Copies>) {
    let options =
        DiskOptions { path: folder.to_owned(), quota: 1 << 20, free: 0, keep: true, block_len: 1000 };
    let tier = DiskTier::open_with(options, Ranking::new(BuiltinPolicy::FirstFit), disk).unwrap();
    let id = SourceId { locator: Locator::new("far"), len: 2000, version: Version::named("v") };
    let copies = tier.copies(&id).unwrap();
    (tier, copies)
}

fn put(copies: &Arc<dyn Copies>, block: u64) {
    let Claim::Held(claimed) = Arc::clone(copies).claim(block, 1000, false) else { panic!("no room") };
    assert_eq!(claimed.put(&Bytes::from(vec![7; 1000])), Admission::Kept);
}

/// Fills `into` with the bytes of `block` from `from` on; false when they are not there.
fn read_piece(copies: &dyn Copies, block: u64, from: u64, into: &mut [u8]) -> bool {
    let mut piece = BlockPiece { block, from, into, is_filled: false };
    copies.read_many(std::slice::from_mut(&mut piece), None);
    piece.is_filled
}

fn settled(tier: &DiskTier) -> bool {
    tier.wait(Instant::now() + Duration::from_secs(60))
}

/// What memory forgets and the disk does not have.
fn lose_pages(tier: &DiskTier) {
    let mut folders = vec![tier.folder().to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "bytes") {
                File::options().write(true).open(path).unwrap().write_all_at(&[0; 2000], 0).unwrap();
            }
        }
    }
}

#[test]
fn a_mirror_that_did_not_reach_the_disk_is_removed_and_never_read_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, copies) =
        tier(folder.path(), DiskSync { sync: |_| Err(io::ErrorKind::Other.into()), ..SOUND });
    put(&copies, 0);
    put(&copies, 1);
    assert!(settled(&tier));
    assert!(copies.whole().is_none() && !copies.has(0));
    assert_eq!((tier.mirrors().len(), tier.usage().used, tier.usage().faults), (0, 0, 1));
}

#[test]
fn a_mirror_is_read_as_a_whole_once_it_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, copies) = tier(folder.path(), SOUND);
    put(&copies, 0);
    put(&copies, 1);
    assert!(settled(&tier));
    assert!(copies.whole().is_some());
    assert_eq!(tier.usage().faults, 0);
}

#[test]
fn a_source_that_is_closed_before_its_mirror_is_settled_is_whole_for_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, copies) = tier(folder.path(), SOUND);
    // The settle waits behind another job while the last user of the source leaves.
    let (go_on, gate) = mpsc::channel::<()>();
    tier.shared.worker.push(Box::new(move || {
        let _ = gate.recv();
    }));
    put(&copies, 0);
    put(&copies, 1);
    drop(copies);
    drop(go_on);
    assert!(settled(&tier));
    let id = SourceId { locator: Locator::new("far"), len: 2000, version: Version::named("v") };
    let whole = tier.copies(&id).unwrap().whole();
    assert!(whole.is_some_and(|whole| whole.descriptor().is_some()));
    assert!(tier.shared.open_sources().is_empty(), "and nothing is held once it is settled");
}

#[test]
fn pieces_side_by_side_are_one_request_once_their_blocks_are_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, _) = tier(folder.path(), SOUND);
    // Never whole, so that it is read block by block.
    let id = SourceId { locator: Locator::new("long"), len: 5000, version: Version::named("v") };
    let copies = tier.copies(&id).unwrap();
    (0..3).for_each(|block| put(&copies, block));
    let name = MirrorName { key: SourceKey::of(&id), block_len: 1000 };
    let mirror = tier.shared.lock_open().get(name).unwrap();
    let mirrors = MirrorCopies { shared: Arc::clone(&tier.shared), mirror };
    let opened = mirrors.opened().unwrap();
    let mut memory = [[0; 400]; 6];
    let mut pieces: Vec<_> = memory
        .iter_mut()
        .zip([(0, 600), (1, 0), (1, 500), (2, 100), (2, 600), (2, 0)])
        .map(|(into, (block, from))| BlockPiece { block, from, into, is_filled: false })
        .collect();
    assert_eq!(mirrors.next_run(&opened, &pieces), (1, PieceRun::Unsynced));
    opened.sync(false).unwrap();
    // 600..1000 and 1000..1400 are side by side, 1500..1900 is not.
    assert_eq!(mirrors.next_run(&opened, &pieces), (2, PieceRun::Durable));
    assert_eq!(mirrors.next_run(&opened, &pieces[2..]), (1, PieceRun::Durable));
    copies.read_many(&mut pieces, None);
    assert!(pieces.iter().all(|piece| piece.is_filled && piece.into.iter().all(|byte| *byte == 7)));
    assert_eq!(mirrors.next_run(&opened, &pieces), (1, PieceRun::PassedOver));
}

#[test]
fn many_mirrors_are_synced_together_and_each_is_asked_whether_it_was_lost() {
    static ALONE: AtomicU32 = AtomicU32::new(0);
    static TOGETHER: AtomicU32 = AtomicU32::new(0);
    let count = |counter: &'static AtomicU32| counter.load(Relaxed);
    let disk = DiskSync {
        sync: |_| {
            ALONE.fetch_add(1, Relaxed);
            Ok(())
        },
        sync_all: |_| {
            TOGETHER.fetch_add(1, Relaxed);
            Ok(())
        },
        ..SOUND
    };
    let folder = tempfile::tempdir().unwrap();
    let (tier, _) = tier(folder.path(), disk);
    // While one is synced, the others queue up.
    let (go_on, gate) = mpsc::channel::<()>();
    tier.shared.worker.push(Box::new(move || {
        let _ = gate.recv();
    }));
    let all: Vec<_> = (0..100)
        .map(|number| {
            let locator = Locator::new(format!("far{number}"));
            let copies = tier.copies(&SourceId { locator, len: 1000, version: Version::named("v") }).unwrap();
            put(&copies, 0);
            copies
        })
        .collect();
    thread::sleep(Duration::from_millis(5));
    drop(go_on);
    assert!(settled(&tier));
    assert!(all.iter().all(|copies| copies.whole().is_some()));
    assert!(count(&TOGETHER) >= 1 && count(&TOGETHER) + count(&ALONE) < 30, "{TOGETHER:?} {ALONE:?}");
}

#[test]
fn where_the_disk_does_not_say_a_block_is_compared_on_every_read_until_it_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, copies) = tier(folder.path(), DiskSync { can_ask: |_| false, ..SOUND });
    put(&copies, 0);
    let mut read = [0; 10];
    assert!(read_piece(&*copies, 0, 5, &mut read) && read == [7; 10]);
    lose_pages(&tier);
    assert!(!read_piece(&*copies, 0, 5, &mut read), "zeros are no bytes of it");
    assert_eq!((tier.usage().faults, tier.usage().used), (1, 0));
}

#[test]
fn a_write_back_that_failed_before_a_read_makes_it_a_miss_and_removes_the_mirror() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, copies) = tier(folder.path(), DiskSync { ask: |_| Writeback::Failed, ..SOUND });
    put(&copies, 0);
    lose_pages(&tier);
    assert!(!read_piece(&*copies, 0, 5, &mut [0; 10]));
    assert_eq!((tier.mirrors().len(), tier.usage().faults), (0, 1));
}

#[test]
fn opening_many_sources_looks_at_each_a_few_times_and_not_once_for_every_other() {
    const COUNT: usize = 20_000;
    let (mut in_use, mut held, mut looked_at) = (OpenMirrors::default(), Vec::new(), 0);
    for number in 0..COUNT {
        let id =
            SourceId { locator: Locator::new(format!("far{number}")), len: 1, version: Version::named("v") };
        let mirror = Mirror::new(id, SourceBlocks::new(1, 1000));
        looked_at += in_use.insert(&mirror);
        held.push(mirror);
    }
    assert!(looked_at < 4 * COUNT, "{looked_at} for {COUNT}");
    drop(held);
    in_use.sweep_at = 0;
    let id = SourceId { locator: Locator::new("last"), len: 1, version: Version::named("v") };
    in_use.insert(&Mirror::new(id, SourceBlocks::new(1, 1000)));
    assert_eq!(in_use.mirrors.len(), 1, "those that nobody uses are gone");
}
