//! The memory tier takes few of the mappings that a process may have.

#![cfg(target_os = "linux")]
use std::{fs, sync::Arc};

use forebay_source::{ByteRange, FileOrigin, Locator, Origin, SourceExt};
use forebay_tier::{Admission, BuiltinPolicy, Claim, MemoryTier, Ranking, Tier};

#[test]
fn blocks_in_memory_cost_no_mapping_each() {
    let (folder, len) = (tempfile::tempdir().unwrap(), 256u64 << 10);
    let path = folder.path().join("zeros.bin");
    fs::File::create(&path).unwrap().set_len(400 * len).unwrap();
    let source = FileOrigin::new().open(&Locator::new(path.to_str().unwrap())).unwrap();
    let tier = MemoryTier::new(1 << 30, Ranking::new(BuiltinPolicy::Lru));
    let copies = tier.copies(source.id()).unwrap();
    let mappings = || fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let before = mappings();
    let mut others = Vec::new();
    for block in 0..200 {
        let fetched = source.fetch_one(ByteRange::at(2 * block * len, len)).unwrap();
        let Claim::Held(claimed) = Arc::clone(&copies).claim(block, len, true) else { unreachable!() };
        assert_eq!(claimed.put(&fetched), Admission::Kept);
        others.push(source.fetch_one(ByteRange::at((2 * block + 1) * len, len)).unwrap());
    }
    // Neighbours are one mapping, until what lay between them is given back.
    drop(others);
    let more = mappings().saturating_sub(before);
    assert!(more < 20, "{more} mappings for 200 blocks");
    assert_eq!(copies.get(199).unwrap().len() as u64, len);
}
