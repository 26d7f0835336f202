//! A name space with very many files.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_source::{ByteRange, FileOrigin, Locator, Origin, SourceExt};
use forebay_tier::{Judge, MemoryTier, Placement, Standard, Tier, Tiered};

/// Files of the test: 1,000,000 in `make deep`, where it takes a minute to make them.
fn file_count() -> u64 {
    std::env::var("FOREBAY_MANY").ok().and_then(|count| count.parse().ok()).unwrap_or(50_000)
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_million_files_take_seconds_to_start_and_less_than_200_bytes_each() {
    let count = file_count();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for number in 0..count {
        let inner = folder.path().join(format!("{:04}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir(&inner).unwrap();
        }
        fs::write(inner.join(format!("image_{number:08}.bin")), number.to_le_bytes()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(2100));
    let make =
        || Ok(vec![Arc::new(MemoryTier::new(1 << 20, Judge::new(Standard::FirstFit))) as Arc<dyn Tier>]);
    let (before, began) = (resident_bytes(), Instant::now());
    let tiered = Tiered::new(Arc::new(FileOrigin::new()), make, Placement::default()).unwrap();
    let listed = tiered.list(&Locator::new(folder.path().to_str().unwrap())).unwrap();
    let last = tiered.open(&listed[listed.len() - 1]).unwrap();
    assert_eq!(last.fetch_one(ByteRange { start: 0, end: 8 }).unwrap()[..], (count - 1).to_le_bytes());
    let (took, per_file) = (began.elapsed(), resident_bytes().saturating_sub(before) / count);
    println!("{count} files: {took:?} to start, {per_file} bytes each");
    assert_eq!(listed.len() as u64, count);
    assert!(per_file < 200, "{per_file} bytes for each file");
    assert!(took.as_secs_f64() < 5.0 * (count as f64 / 1e6).max(0.2), "{took:?}");
}
