//! Every origin keeps the contract of `Source` and `Origin`.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{fs, sync::Arc, time::Duration};

use bytes::Bytes;
use forebay_source::{
    FaultOrigin, FaultSchedule, FileOrigin, Locator, MemoryOrigin, Origin, SmallSourceCache, TraceRing,
    TracedOrigin, check,
};
use tempfile::TempDir;

/// Names under `d`, in no order, with lengths around a page and around the gap that is read over.
fn expected() -> Vec<(Locator, Bytes)> {
    let named =
        [("d/z.bin", 100_003), ("d/a/b.bin", 8192), ("d/a.bin", 1), ("d/empty.bin", 0), ("d/a/c/d.bin", 17)];
    named.into_iter().map(|(name, len)| (Locator::new(name), bytes(len))).collect()
}

fn bytes(len: u32) -> Bytes {
    (0..len).map(|index| index.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

fn memory() -> MemoryOrigin {
    expected()
        .into_iter()
        .fold(MemoryOrigin::default(), |origin, (at, bytes)| origin.with(at.as_str(), bytes))
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (at, bytes) in expected() {
        let path = folder.path().join(at.as_str());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

fn keeps_the_contract(origin: &dyn Origin, expected: &[(Locator, Bytes)], under: &Locator) {
    for (at, bytes) in expected {
        check::every_source_clause(&*origin.open(at).unwrap(), bytes);
        check::reopening_gives_an_equal_id(origin, at);
    }
    check::what_is_missing_is_not_found(origin, &Locator::new(format!("{under}/missing.bin")));
    check::a_list_is_sorted_and_every_name_opens(origin, under, expected);
}

#[test]
fn memory_keeps_the_contract() {
    keeps_the_contract(&memory(), &expected(), &Locator::new("d"));
}

#[test]
fn files_under_a_folder_keep_the_contract() {
    let folder = folder();
    keeps_the_contract(&FileOrigin::under(folder.path()), &expected(), &Locator::new("d"));
}

#[test]
fn files_named_by_path_keep_the_contract() {
    let folder = folder();
    let absolute = |at: &str| Locator::new(folder.path().join(at).to_str().unwrap());
    let expected: Vec<_> = expected().into_iter().map(|(at, bytes)| (absolute(at.as_str()), bytes)).collect();
    keeps_the_contract(&FileOrigin::new(), &expected, &absolute("d"));
}

#[test]
fn files_under_a_budget_of_one_descriptor_keep_the_contract() {
    let folder = folder();
    let origin = FileOrigin::under(folder.path()).with_descriptor_budget(1);
    keeps_the_contract(&origin, &expected(), &Locator::new("d"));
}

#[test]
fn a_fault_origin_without_faults_keeps_the_contract() {
    let origin = FaultOrigin::new(Arc::new(memory()), FaultSchedule::default());
    keeps_the_contract(&origin, &expected(), &Locator::new("d"));
}

#[test]
fn a_traced_origin_keeps_the_contract() {
    let origin = TracedOrigin::new(Arc::new(memory()), Arc::new(TraceRing::new(10)));
    keeps_the_contract(&origin, &expected(), &Locator::new("d"));
}

#[test]
fn small_sources_read_whole_keep_the_contract() {
    let delay = Duration::from_micros(1);
    for budget_bytes in [1 << 20, 9000, 0] {
        let far = FaultOrigin::new(Arc::new(memory()), FaultSchedule { delay, ..FaultSchedule::default() });
        let origin = SmallSourceCache::new(Arc::new(far), budget_bytes);
        keeps_the_contract(&origin, &expected(), &Locator::new("d"));
    }
}

#[test]
fn near_sources_ask_for_no_large_requests_and_slow_ones_do() {
    let folder = folder();
    let at = Locator::new("d/z.bin");
    let files: Arc<dyn Origin> = Arc::new(FileOrigin::under(folder.path()));
    let request_bytes = |origin: &dyn Origin| origin.open(&at).unwrap().request_bytes();
    assert_eq!(request_bytes(&memory()), 0);
    // What the tests write to is a local file system.
    assert_eq!(request_bytes(&*files), 0);
    let with =
        |delay| FaultOrigin::new(Arc::clone(&files), FaultSchedule { delay, ..FaultSchedule::default() });
    assert_eq!(request_bytes(&with(Duration::ZERO)), 0);
    assert_eq!(request_bytes(&with(Duration::from_millis(1))), 1 << 20);
}
