//! Any sequence of operations on tiers gives what the plain origin gives.

mod made;

use std::{
    fs,
    num::{NonZeroU64, NonZeroUsize},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use forebay_source::{ByteRange, FaultOrigin, FaultSchedule, Fill, Origin, Source, SourceExt, SourceId};
use forebay_tier::{
    BuiltinPolicy, DiskTier, MemoryTier, Placement, Policy, SourceKey, Tier, Tiered, UpcomingRead,
    UpcomingReads, warm,
};
use made::{disk_options, name, origin, placement, ranking};
use proptest::prelude::*;

const SOURCES: usize = 4;
const LEN: u64 = 9_000;
const BLOCK: u64 = 1024;

#[derive(Clone, Debug)]
enum Step {
    /// Reads ranges of a source, into the caller's memory or lent.
    Read { source: usize, ranges: Vec<(u64, u64)>, lent: bool },
    /// Waits until all is placed.
    Wait,
    /// Begins anew on the same folder.
    Reopen { memory: u64, disk: u64, policy: usize, whole_file: bool },
    /// Copies everything.
    Warm,
    /// Fetches ahead what these are.
    LookAhead(Vec<(usize, u64, u64)>),
    /// Somebody changes a byte of a file of the tier, which is closed meanwhile.
    Flip { file: usize, at: u64 },
    /// Somebody removes a file of the tier, while it is open.
    Remove { file: usize },
    /// Somebody cuts a file of the tier, which is closed meanwhile.
    Cut { file: usize, len: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..LEN, 0..4000u64).prop_map(|(start, len)| (start, len.min(LEN - start)));
    let ranges = prop::collection::vec(range.clone(), 1..5);
    prop_oneof![
        8 => (0..SOURCES, ranges, any::<bool>()).prop_map(|(source, ranges, lent)| Step::Read { source, ranges, lent }),
        1 => Just(Step::Wait),
        1 => (0..12_000u64, 0..40_000u64, 0..6usize, any::<bool>())
            .prop_map(|(memory, disk, policy, whole_file)| Step::Reopen { memory, disk, policy, whole_file }),
        1 => Just(Step::Warm),
        1 => prop::collection::vec((0..SOURCES, range), 1..20)
            .prop_map(|coming| Step::LookAhead(coming.into_iter().map(|(source, (at, len))| (source, at, len)).collect())),
        1 => (0..8usize, 0..LEN).prop_map(|(file, at)| Step::Flip { file, at }),
        1 => (0..8usize).prop_map(|file| Step::Remove { file }),
        1 => (0..8usize, 0..LEN).prop_map(|(file, len)| Step::Cut { file, len }),
    ]
}

#[derive(Debug)]
struct Named(std::vec::IntoIter<UpcomingRead>);

impl UpcomingReads for Named {
    fn next(&mut self) -> Option<UpcomingRead> {
        self.0.next()
    }
}

/// An origin through a memory tier over a disk tier.
fn tiers(
    inner: &Arc<FaultOrigin>,
    folder: &Path,
    memory: u64,
    disk: u64,
    policy: BuiltinPolicy,
    whole_file: bool,
) -> Tiered {
    let placement = Placement {
        whole_file,
        evicts_for_prefetch: !policy.newcomers_compete(),
        ahead: 8_000,
        ..placement(BLOCK)
    };
    let (foresight, options) = (placement.foresight.clone(), disk_options(folder, disk, BLOCK));
    let make = move || {
        let memory = MemoryTier::new(memory, ranking(policy, &foresight));
        let disk = DiskTier::open(options.clone(), ranking(policy, &foresight))?;
        Ok(vec![Arc::new(memory) as Arc<dyn Tier>, Arc::new(disk)])
    };
    Tiered::new(Arc::clone(inner) as Arc<dyn Origin>, make, placement).expect("tiers")
}

/// The files of the tier, in an order that stays.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("map" | "bytes") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn read(source: &dyn Source, ranges: &[(u64, u64)], lent: bool) -> forebay_process::Result<Vec<Vec<u8>>> {
    let ranges: Vec<_> = ranges.iter().map(|(start, len)| ByteRange::at(*start, *len)).collect();
    if lent {
        return Ok(source.fetch(&ranges)?.iter().map(|bytes| bytes.to_vec()).collect());
    }
    let mut memory: Vec<Vec<u8>> =
        ranges.iter().map(|range| vec![0xee; usize::try_from(range.len()).expect("short")]).collect();
    let mut fills: Vec<_> =
        memory.iter_mut().zip(&ranges).map(|(into, range)| Fill { range: *range, into }).collect();
    source.fetch_into(&mut fills)?;
    Ok(memory)
}

fn run(steps: Vec<Step>, fail_every: Option<NonZeroU64>) -> Result<(), TestCaseError> {
    let len = usize::try_from(LEN).expect("short");
    let (inner, contents) =
        origin(SOURCES as u64, len, FaultSchedule { fail_every, ..FaultSchedule::default() });
    let folder = tempfile::tempdir().expect("a folder");
    let mut how = (5_000, 20_000, BuiltinPolicy::FirstFit, true);
    let make =
        |how: (u64, u64, BuiltinPolicy, bool)| tiers(&inner, folder.path(), how.0, how.1, how.2, how.3);
    let mut tiered = make(how);
    let ids: Vec<SourceId> =
        (0..SOURCES).map(|index| inner.open(&name(index)).expect("opens").id().clone()).collect();
    for step in steps {
        match step {
            Step::Read { source, ranges, lent } => {
                let opened = tiered.open(&name(source)).expect("opens");
                match read(&*opened, &ranges, lent) {
                    Ok(found) => {
                        for (found, (start, len)) in found.iter().zip(&ranges) {
                            let (start, len) = (
                                usize::try_from(*start).expect("short"),
                                usize::try_from(*len).expect("short"),
                            );
                            prop_assert!(found[..] == contents[source][start..start + len], "wrong bytes");
                        }
                    }
                    Err(error) => prop_assert!(fail_every.is_some(), "{error}"),
                }
            }
            Step::Wait => drop(tiered.wait(Duration::from_secs(30))),
            Step::Reopen { memory, disk, policy, whole_file } => {
                how = (memory, disk, BuiltinPolicy::ALL[policy], whole_file);
                drop(tiered);
                tiered = make(how);
            }
            Step::Warm => {
                let all: Vec<_> = (0..SOURCES).map(name).collect();
                let warmed = warm(&tiered, &all, NonZeroUsize::MIN, |_| true);
                prop_assert!(warmed.is_ok() || fail_every.is_some());
            }
            Step::LookAhead(coming) => {
                let coming: Vec<_> = coming
                    .into_iter()
                    .map(|(source, at, len)| UpcomingRead {
                        source: SourceKey::of(&ids[source]),
                        range: ByteRange::at(at, len),
                    })
                    .collect();
                tiered.look_ahead(Some(Box::new(Named(coming.into_iter()))));
            }
            Step::Flip { file, at } => {
                drop(tiered);
                if let Some(path) = files(folder.path()).get(file) {
                    // Two changes within a tick of the clock leave one stamp.
                    std::thread::sleep(Duration::from_millis(12));
                    let mut bytes = fs::read(path).expect("a file");
                    if let Some(at) = usize::try_from(at).expect("short").checked_rem(bytes.len()) {
                        bytes[at] ^= 0x21;
                    }
                    fs::write(path, bytes).expect("a file");
                }
                tiered = make(how);
            }
            Step::Remove { file } => {
                if let Some(path) = files(folder.path()).get(file) {
                    let _ = fs::remove_file(path);
                }
            }
            Step::Cut { file, len } => {
                drop(tiered);
                if let Some(path) = files(folder.path()).get(file) {
                    std::thread::sleep(Duration::from_millis(12));
                    let cut = fs::OpenOptions::new().write(true).open(path).expect("a file");
                    let len = len.min(cut.metadata().expect("facts").len());
                    cut.set_len(len).expect("cut");
                }
                tiered = make(how);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_on_tiers_equals_the_plain_origin(steps in prop::collection::vec(step(), 1..40)) {
        run(steps, None)?;
    }

    #[test]
    fn with_an_origin_that_fails_every_read_is_right_or_an_error(
        steps in prop::collection::vec(step(), 1..40),
        every in 2..9u64,
    ) {
        run(steps, NonZeroU64::new(every))?;
    }
}
