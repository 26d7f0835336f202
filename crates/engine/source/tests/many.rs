//! More files than may be mapped at once. By itself, for it leaves no mapping to other tests of its process.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::fs;

use forebay_source::{ByteRange, FileOrigin, Fill, Locator, Origin, SourceExt};
use tempfile::TempDir;

#[test]
fn more_files_than_may_be_mapped_are_all_read() {
    const FILES: usize = 4200;
    let bytes = |index: usize| index.to_le_bytes().repeat(625);
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let origin = FileOrigin::under(&root).with_descriptor_budget(10);
    let open = |index: usize| {
        fs::write(root.join(index.to_string()), bytes(index)).unwrap();
        origin.open(&Locator::new(index.to_string())).unwrap()
    };
    let sources: Vec<_> = (0..FILES).map(open).collect();
    let mut memory = [0; 4000];
    for _ in 0..3 {
        for (source, index) in sources.iter().zip(0..) {
            source.fetch_into(&mut [Fill { range: ByteRange::at(500, 4000), into: &mut memory }]).unwrap();
            assert!(memory == bytes(index)[500..4500]);
        }
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains(root.to_str().unwrap())).count();
    let allowed = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    assert_eq!(mapped, (allowed.trim().parse::<usize>().unwrap() / 16).min(4096));
}
