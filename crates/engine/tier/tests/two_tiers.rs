//! Memory over a disk, and memory over memory: no tier evicts while a lower one has room, what leaves a tier goes to the
//! next, and the forecast says the same.

#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

mod made;

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use forebay_source::{ByteRange, FaultOrigin, FaultSchedule, Origin, Source, SourceExt};
use forebay_tier::{
    BlockUse, BuiltinPolicy, DiskTier, ForecastTier, Foresight, MemoryTier, Placement, Policy, SourceKey,
    Tier, Tiered, forecast,
};
use made::{disk_options, name, origin, placement, ranking};

const LONG: Duration = Duration::from_secs(60);
const BLOCK: u64 = 1000;

/// What a tier is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Disk,
}

fn tiers(
    inner: &Arc<FaultOrigin>,
    folder: &Path,
    kinds: &[(Kind, u64)],
    policy: BuiltinPolicy,
    whole_file: bool,
) -> Tiered {
    let placement =
        Placement { whole_file, evicts_for_prefetch: !policy.newcomers_compete(), ..placement(BLOCK) };
    let (foresight, folder, kinds) = (placement.foresight.clone(), folder.to_owned(), kinds.to_vec());
    let make = move || {
        let one = |(kind, blocks): &(Kind, u64)| -> forebay_process::Result<Arc<dyn Tier>> {
            Ok(match kind {
                Kind::Memory => Arc::new(MemoryTier::new(blocks * BLOCK, ranking(policy, &foresight))),
                Kind::Disk => Arc::new(DiskTier::open(
                    disk_options(&folder, blocks * BLOCK, BLOCK),
                    ranking(policy, &foresight),
                )?),
            })
        };
        kinds.iter().map(one).collect()
    };
    Tiered::new(Arc::clone(inner) as Arc<dyn Origin>, make, placement).expect("tiers")
}

/// Blocks in an order that is known to its end.
#[derive(Debug)]
struct Known {
    order: HashMap<(SourceKey, u64), Vec<u64>>,
    now: AtomicU64,
    /// The first use that counts as the next: 0 for the one that is just being made, as where blocks are fetched ahead of
    /// it; 1 for the one after it.
    first: u64,
}

impl Foresight for Known {
    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64> {
        let now = self.now.load(Relaxed) + self.first;
        let next = |uses: &Vec<u64>| uses.iter().copied().find(|time| *time >= now);
        match block {
            Some(block) => self.order.get(&(source, block)).and_then(next),
            None => self
                .order
                .iter()
                .filter(|((of, _), _)| *of == source)
                .filter_map(|(_, uses)| next(uses))
                .min(),
        }
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.order.keys().any(|(of, _)| *of == source)
    }
}

/// A set of sources, and the order in which their blocks are read.
struct Run {
    tiered: Tiered,
    counted: Arc<FaultOrigin>,
    contents: Vec<Vec<u8>>,
    sources: Vec<Arc<dyn Source>>,
    known: Arc<Known>,
    blocks_per_source: u64,
    _folder: tempfile::TempDir,
}

impl Run {
    fn new(
        kinds: &[(Kind, u64)],
        policy: BuiltinPolicy,
        (source_count, blocks_per_source): (u64, u64),
        epochs: &[Vec<u64>],
        (whole_file, first): (bool, u64),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let len = usize::try_from(blocks_per_source * BLOCK).unwrap();
        let (counted, contents) = origin(source_count, len, FaultSchedule::default());
        let tiered = tiers(&counted, folder.path(), kinds, policy, whole_file);
        let sources: Vec<_> = (0..contents.len()).map(|index| tiered.open(&name(index)).unwrap()).collect();
        let mut order: HashMap<_, Vec<u64>> = HashMap::new();
        for (time, item) in (0..).zip(epochs.iter().flatten()) {
            let source = usize::try_from(item / blocks_per_source).unwrap();
            let key = SourceKey::of(sources[source].id());
            order.entry((key, item % blocks_per_source)).or_default().push(time);
        }
        let known = Arc::new(Known { order, now: AtomicU64::new(0), first });
        tiered.foresight().set(Some(Arc::clone(&known) as Arc<dyn Foresight>));
        Self { tiered, counted, contents, sources, known, blocks_per_source, _folder: folder }
    }

    /// Reads the blocks `items`, each whole, and gives the bytes that the origin was asked for.
    fn epoch(&self, items: &[u64]) -> u64 {
        let before = self.counted.counters().bytes;
        for item in items {
            let source = usize::try_from(item / self.blocks_per_source).unwrap();
            let range = ByteRange::at(item % self.blocks_per_source * BLOCK, BLOCK);
            let found = self.sources[source].fetch_one(range).unwrap();
            let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
            assert_eq!(found[..], self.contents[source][start..end], "block {item}");
            // What was fetched has its place before the next is read, as the forecast has it.
            assert!(self.tiered.wait(LONG));
            self.known.now.fetch_add(1, Relaxed);
        }
        self.counted.counters().bytes - before
    }
}

fn forecast_bytes(
    kinds: &[(Kind, u64)],
    policy: BuiltinPolicy,
    per_source: u64,
    epochs: &[Vec<u64>],
) -> Vec<u64> {
    let tiers: Vec<_> = kinds
        .iter()
        .map(|(kind, blocks)| ForecastTier { quota: blocks * BLOCK, evicts_sources: *kind == Kind::Disk })
        .collect();
    let short = |number: u64| u32::try_from(number).unwrap();
    let used = |item: &u64| BlockUse {
        source: short(item / per_source),
        block: short(item % per_source),
        len: short(BLOCK),
        asked: short(BLOCK),
    };
    let epochs: Vec<Vec<BlockUse>> = epochs.iter().map(|epoch| epoch.iter().map(used).collect()).collect();
    forecast(&tiers, &policy, &epochs).iter().map(|epoch| epoch.bytes).collect()
}

/// `count` numbers, each once, in an order that differs by `seed`.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut items: Vec<u64> = (0..count).collect();
    // A generator that mixes each number with the seed.
    items.sort_by_key(|item| {
        (item + 31 * seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xd134_2543_de82_ef95)
    });
    items
}

#[test]
fn a_disk_below_a_full_memory_tier_is_used_and_a_second_pass_is_served_without_the_origin() {
    let kinds = [(Kind::Memory, 3), (Kind::Disk, 100)];
    for policy in BuiltinPolicy::ALL {
        for (layout, whole_file) in [((1, 20), false), ((20, 1), false), ((4, 5), true), ((20, 1), true)] {
            let epochs = [shuffled(20, 1), shuffled(20, 2)];
            let run = Run::new(&kinds, policy, layout, &epochs, (whole_file, 0));
            let said = format!("{policy:?}, {layout:?}, whole files {whole_file}");
            assert_eq!(run.epoch(&epochs[0]), 20 * BLOCK, "{said}");
            let used: Vec<u64> = run.tiered.stats().tiers.iter().map(|tier| tier.used).collect();
            assert_eq!(used, [3 * BLOCK, 17 * BLOCK], "{said}");
            assert_eq!(run.epoch(&epochs[1]), 0, "{said}");
        }
    }
}

#[test]
fn a_block_that_leaves_memory_goes_to_the_tier_below_and_no_further_block_is_lost_for_it() {
    for below in [Kind::Memory, Kind::Disk] {
        for policy in [BuiltinPolicy::Lru, BuiltinPolicy::Fifo] {
            let kinds = [(Kind::Memory, 3), (below, 3)];
            let first: Vec<u64> = (0..7).collect();
            let run = Run::new(&kinds, policy, (7, 1), &[first.clone(), vec![0]], (false, 0));
            assert_eq!(run.epoch(&first), 7 * BLOCK);
            let stats = run.tiered.stats();
            assert_eq!(stats.demoted, 1, "{policy:?} {below:?}: block 0 left for block 6");
            assert_eq!(stats.tiers.iter().map(|tier| tier.used).sum::<u64>(), 6 * BLOCK);
            assert_eq!(run.epoch(&[0, 1, 2, 6]), 0, "{policy:?} {below:?}");
        }
    }
}

#[test]
fn the_forecast_of_two_tiers_is_what_they_read() {
    let (memory_over_disk, memory_twice) =
        ([(Kind::Memory, 3), (Kind::Disk, 10)], [(Kind::Memory, 3), (Kind::Memory, 10)]);
    let epochs = |count| vec![shuffled(count, 1), shuffled(count, 2), shuffled(count, 3)];
    let mut cases = Vec::new();
    // While all fits, the times of files on a disk, which are coarse, decide nothing.
    cases.extend(BuiltinPolicy::ALL.map(|policy| (memory_over_disk, policy, (13, 1), epochs(13))));
    cases.extend(BuiltinPolicy::ALL.map(|policy| (memory_over_disk, policy, (1, 13), epochs(13))));
    for policy in [BuiltinPolicy::FirstFit, BuiltinPolicy::Clairvoyant] {
        cases.push((memory_over_disk, policy, (1, 20), epochs(20)));
        cases.push((memory_over_disk, policy, (4, 5), epochs(20)));
    }
    // Least often used: ties are anybody's.
    for policy in [
        BuiltinPolicy::FirstFit,
        BuiltinPolicy::Clairvoyant,
        BuiltinPolicy::Lru,
        BuiltinPolicy::Fifo,
        BuiltinPolicy::Lifo,
    ] {
        cases.push((memory_twice, policy, (4, 5), epochs(20)));
        cases.push((memory_twice, policy, (20, 1), epochs(20)));
    }
    for (kinds, policy, layout, epochs) in cases {
        let run = Run::new(&kinds, policy, layout, &epochs, (false, 1));
        let read: Vec<u64> = epochs.iter().map(|epoch| run.epoch(epoch)).collect();
        assert_eq!(
            forecast_bytes(&kinds, policy, layout.1, &epochs),
            read,
            "{policy:?}, {kinds:?}, {layout:?}"
        );
    }
}

#[test]
fn a_reader_finds_a_block_that_is_between_two_tiers_and_the_quota_below_holds() {
    let (counted, contents) = origin(8, 4000, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    let tiered =
        tiers(&counted, folder.path(), &[(Kind::Memory, 4), (Kind::Disk, 12)], BuiltinPolicy::Lru, true);
    let sources: Vec<_> = (0..8).map(|index| tiered.open(&name(index)).unwrap()).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (sources, contents, tiered) = (&sources, &contents, &tiered);
            scope.spawn(move || {
                for step in 0..200 {
                    let (source, block) = ((step * 5 + thread * 3) % 8, (step * 3 + thread) % 4);
                    let source = usize::try_from(source).unwrap();
                    let found = sources[source].fetch_one(ByteRange::at(block * BLOCK, BLOCK)).unwrap();
                    let start = usize::try_from(block * BLOCK).unwrap();
                    assert_eq!(found[..], contents[source][start..start + 1000]);
                    assert!(tiered.stats().tiers.iter().all(|tier| tier.used <= tier.quota));
                }
            });
        }
    });
    // Copies are made behind the readers, who may have been through before any was: one more pass waits for each.
    for (source, block) in (0..8usize).flat_map(|source| (0..4).map(move |block| (source, block))) {
        sources[source].fetch_one(ByteRange::at(block * BLOCK, BLOCK)).unwrap();
        assert!(tiered.wait(LONG));
    }
    assert!(tiered.stats().demoted > 0);
}
