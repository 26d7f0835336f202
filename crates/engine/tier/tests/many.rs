//! A name space with very many files.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::{ByteRange, FileOrigin, Locator, Origin, SourceExt, SourceId, Version};
use forebay_tier::{
    Admission, BuiltinPolicy, Claim, DiskOptions, DiskTier, MemoryTier, Placement, Ranking, Tier, Tiered,
};

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
    let make = || {
        Ok(vec![Arc::new(MemoryTier::new(1 << 20, Ranking::new(BuiltinPolicy::FirstFit))) as Arc<dyn Tier>])
    };
    let (before, began) = (resident_bytes(), Instant::now());
    let tiered = Tiered::new(Arc::new(FileOrigin::new()), make, Placement::default()).unwrap();
    let listed = tiered.list(&Locator::new(folder.path().to_str().unwrap())).unwrap();
    let last = tiered.open(&listed[listed.len() - 1]).unwrap();
    assert_eq!(last.fetch_one(ByteRange { start: 0, end: 8 }).unwrap()[..], (count - 1).to_le_bytes());
    let (took, per_file) = (began.elapsed(), resident_bytes().saturating_sub(before) / count);
    println!("{count} files: {took:?} to start, {per_file} bytes each");
    assert_eq!(listed.len() as u64, count);
    assert!(per_file < 200, "{per_file} bytes for each file");
    // It takes 0.7 s where nothing else runs, and took 7 s on a machine that was busy.
    assert!(took.as_secs_f64() < 30.0 * (count as f64 / 1e6).max(0.2), "{took:?}");
}

#[test]
fn a_kept_tier_of_very_many_mirrors_is_counted_after_a_kill_while_others_start() {
    let count = file_count() / 10;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let open = || {
        let path = folder.path().to_owned();
        let options = DiskOptions { path, quota: u64::MAX / 2, free: 0, keep: true, block_len: 1000 };
        let began = Instant::now();
        let tier = DiskTier::open(options, Ranking::new(BuiltinPolicy::FirstFit)).unwrap();
        (tier, began.elapsed())
    };
    let (tier, _) = open();
    for number in 0..count {
        let id = SourceId {
            locator: Locator::new(format!("far{number}")),
            len: 3000,
            version: Version::named("v"),
        };
        let Claim::Held(claimed) = tier.copies(&id).unwrap().claim(1, 1000, false) else {
            panic!("no room for {number}")
        };
        assert_eq!(claimed.put(&Bytes::from_static(&[7; 1000])), Admission::Kept);
    }
    let usage = tier.folder().join("usage");
    drop(tier);
    // A process was killed with bytes in its hands.
    let mut killed = fs::read(&usage).unwrap();
    killed[..8].copy_from_slice(&(count * 1000 + 5000).to_le_bytes());
    killed[8] += 1;
    fs::write(&usage, killed).unwrap();
    let ((counting, first), (other, second)) = (open(), open());
    println!("{count} mirrors: {first:?} and {second:?} to start");
    assert!(first.max(second) < Duration::from_secs(20), "{first:?} and {second:?} to start");
    assert!(counting.wait(Instant::now() + Duration::from_secs(600)));
    assert_eq!((counting.usage().used, other.usage().used), (count * 1000, count * 1000));
}
