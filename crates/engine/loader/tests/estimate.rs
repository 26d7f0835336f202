//! What is predicted of an epoch is what a run of one thread counts.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use std::{path::PathBuf, process::Command, sync::Arc};

use forebay_batch::LoaderStats;
use forebay_container::Number;
use forebay_format::{Opened, describe};
use forebay_loader::{
    AxisLen, AxisName, Boundary, Convert, EpochCost, Estimate, FieldSpec, FilesAxis, Leads, Loader, Offsets,
    Options, SampleSet, SampleSpec, SeriesSpec, SpillOptions,
};
use forebay_plan::{Shard, Shuffle, Tail};
use forebay_source::{FileOrigin, Locator};

const FILES: &str = "
import h5py, numpy as np, sys
rng = np.random.default_rng(7)
def values(*shape):
    return np.round(rng.random(shape), 2).astype('f4')
with h5py.File(f'{sys.argv[1]}/one.h5', 'w') as file:
    file['plain'] = values(1000, 32)
    file['label'] = np.arange(1000)
    file.create_dataset('rows', data=values(1000, 256), chunks=(16, 256), compression='gzip', shuffle=True)
    file.create_dataset('wide', data=values(1000, 40), chunks=(48, 16), compression='lzf')
    file.create_dataset('few', data=values(1000, 5), chunks=(7, 5), fillvalue=1.0)
    holes = file.create_dataset('holes', (1000, 64), 'f4', chunks=(50, 64), compression='gzip')
    holes[300:400] = 2.0
    file.create_dataset('long', data=values(400, 1024), chunks=(18, 1024), compression='lzf')
    broad = np.repeat(np.arange(4000, dtype='f4')[:, None], 1024, 1)
    file.create_dataset('broad', data=broad, chunks=(16, 1024), compression='lzf')
    file['empty'] = values(400, 0)
    lens = rng.integers(0, 30, 400)
    file['ptr'] = np.concatenate([[0], np.cumsum(lens)])
    file.create_dataset('pos', data=values(lens.sum(), 3), chunks=(500, 3), compression='gzip')
    file['z'] = np.arange(lens.sum(), dtype='u1')
    file['graph'] = np.arange(400)
    file['edge'] = rng.integers(0, 30, (2, lens.sum()))
    file.create_dataset('packed_edge', data=file['edge'][...], chunks=(2, 500), compression='gzip')
for number, count in enumerate([130, 7, 1, 250, 64]):
    with h5py.File(f'{sys.argv[1]}/part{number}.h5', 'w') as file:
        file.create_dataset('image', data=values(count, 256), chunks=(min(16, count), 256), compression='gzip')
        file['label'] = np.arange(count)
        file['frame'] = values(count, 64)
layout = h5py.VirtualLayout((5, 64), 'f4')
packed = h5py.VirtualLayout((5, 256), 'f4')
for number, count in enumerate([130, 7, 1, 250, 64]):
    layout[number] = h5py.VirtualSource(f'part{number}.h5', 'frame', shape=(count, 64))[count // 2]
    packed[number] = h5py.VirtualSource(f'part{number}.h5', 'image', shape=(count, 256))[count // 2]
with h5py.File(f'{sys.argv[1]}/virtual.h5', 'w', libver='latest') as file:
    file.create_virtual_dataset('frame', layout)
    file.create_virtual_dataset('image', packed)
";

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let python = std::env::var_os("FOREBAY_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
        let done = Command::new(python).arg("-c").arg(FILES).arg(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self { folder }
    }

    fn set(&self, names: &[&str], fields: Vec<FieldSpec>) -> Arc<SampleSet> {
        let origin = Arc::new(FileOrigin::under(self.folder.path()));
        let open = |name: &&str| {
            let container = describe(&*origin, &Locator::new(*name)).unwrap();
            let origin = Arc::clone(&origin);
            Arc::new(Opened::new(origin, Arc::new(container)).on_caller_thread())
        };
        let files = vec![names.iter().map(open).collect()];
        Arc::new(SampleSet::new(SampleSpec { fields }, &files).unwrap())
    }
}

fn ragged(name: &str) -> FieldSpec {
    ragged_along(0, name)
}

fn ragged_along(axis: usize, name: &str) -> FieldSpec {
    let offsets = Offsets::Variable("ptr".into());
    FieldSpec { samples: Boundary::Ragged { offsets, axis }, ..FieldSpec::new(name) }
}

fn as_number(name: &str, to: Number) -> FieldSpec {
    FieldSpec { convert: Convert { to: Some(to), ..Convert::default() }, ..FieldSpec::new(name) }
}

/// Three rows every two of files that follow each other, and what comes two and five rows later.
fn series(name: &str, is_target: bool) -> FieldSpec {
    let row = || AxisName::Index(0);
    let series = SeriesSpec {
        size: vec![AxisLen { axis: row(), len: 3 }],
        stride: vec![AxisLen { axis: row(), len: 2 }],
        step: Vec::new(),
        files: Some(FilesAxis { axis: row(), crosses_gaps: false }),
        targets: Some(Leads { axis: row(), after: vec![2, 5] }),
        is_target,
    };
    FieldSpec {
        variable: name.into(),
        samples: Boundary::Series(series),
        ..FieldSpec::new(format!("{name}{is_target}"))
    }
}

/// Every kind of set, by name.
fn sets(files: &Files) -> Vec<(&'static str, Arc<SampleSet>)> {
    let fields = |names: &[&str]| names.iter().map(|name| FieldSpec::new(*name)).collect::<Vec<_>>();
    let parts = ["part0.h5", "part1.h5", "part2.h5", "part3.h5", "part4.h5"];
    vec![
        ("contiguous", files.set(&["one.h5"], fields(&["plain", "label"]))),
        ("chunked", files.set(&["one.h5"], fields(&["rows", "label"]))),
        ("cut along two axes", files.set(&["one.h5"], fields(&["wide", "few"]))),
        ("with chunks that were never written", files.set(&["one.h5"], fields(&["holes"]))),
        ("long chunks", files.set(&["one.h5"], fields(&["long", "empty"]))),
        ("ragged", files.set(&["one.h5"], vec![ragged("pos"), ragged("z"), FieldSpec::new("graph")])),
        ("ragged along axis 1", files.set(&["one.h5"], vec![ragged_along(1, "edge"), ragged("z")])),
        ("ragged along axis 1 in chunks", files.set(&["one.h5"], vec![ragged_along(1, "packed_edge")])),
        ("virtual", files.set(&["virtual.h5"], fields(&["frame"]))),
        ("virtual of compressed sources", files.set(&["virtual.h5"], fields(&["image", "frame"]))),
        ("many files", files.set(&parts, fields(&["image", "label"]))),
        ("cast", files.set(&parts, vec![as_number("image", Number::F64), FieldSpec::new("label")])),
        (
            "series",
            files.set(&parts, vec![series("image", false), series("image", true), series("frame", true)]),
        ),
        (
            "many rows a sample",
            files.set(
                &["one.h5"],
                vec![FieldSpec { samples: Boundary::Fixed { rows: 5 }, ..FieldSpec::new("rows") }],
            ),
        ),
    ]
}

/// A run of an epoch, counted.
fn ran(loader: &Loader) -> LoaderStats {
    let before = loader.stats();
    loader.batches().unwrap().for_each(|batch| drop(batch.unwrap()));
    loader.stats().since(&before)
}

type Counts = [(&'static str, u64); 10];

fn counted(stats: &LoaderStats) -> Counts {
    [
        ("batches", stats.batches),
        ("samples", stats.samples),
        ("delivered", stats.delivered_bytes),
        ("read", stats.read_bytes),
        ("requests", stats.requests),
        ("decoded bytes", stats.decoded_bytes),
        ("decoded units", stats.decoded_units),
        ("decoded again", stats.decoded_again),
        ("spilled", stats.spilled_bytes),
        ("unspilled", stats.unspilled_bytes),
    ]
}

fn predicted(cost: &EpochCost) -> Counts {
    [
        ("batches", cost.batches),
        ("samples", cost.samples),
        ("delivered", cost.delivered_bytes),
        ("read", cost.read_bytes),
        ("requests", cost.requests),
        ("decoded bytes", cost.decoded_bytes),
        ("decoded units", cost.decoded_units),
        ("decoded again", cost.decoded_again),
        ("spilled", cost.spilled_bytes),
        ("unspilled", cost.unspilled_bytes),
    ]
}

/// Holds the prediction for `options` against a run, and gives it.
fn held(case: &str, set: &Arc<SampleSet>, options: Options) -> Estimate {
    let estimate = Estimate::of(set, &options).unwrap_or_else(|error| panic!("{case}: {error}"));
    let memory = options.memory.unwrap();
    let loader = Loader::new(Arc::clone(set), options).unwrap();
    assert_eq!(loader.estimate().unwrap(), estimate, "{case}");
    assert!(estimate.exact, "{case}");
    assert_eq!(predicted(&estimate.first), counted(&ran(&loader)), "{case}, first epoch");
    assert_eq!(predicted(&estimate.later), counted(&ran(&loader)), "{case}, second epoch");
    assert!(estimate.first.peak_memory_bytes <= memory, "{case}: {estimate:?} in {memory}");
    assert!(estimate.later.peak_spill_bytes <= estimate.spill_quota_bytes, "{case}: {estimate:?}");
    estimate
}

fn options(shuffle: Shuffle, memory: u64, quota: u64, files: &Files) -> Options {
    let folder = Some(files.folder.path().to_owned());
    Options {
        batch_size: 24,
        shuffle,
        seed: 3,
        read_threads: Some(1),
        memory: Some(memory),
        spill: SpillOptions { folder, quota: Some(quota), shared: Some(false) },
        ..Options::default()
    }
}

const SHUFFLES: [Shuffle; 3] = [Shuffle::Full, Shuffle::Block { lanes: 4, window: 1 }, Shuffle::None];
const AMPLE: u64 = 64 << 20;
const TIGHT: u64 = 1 << 20;

#[test]
fn with_ample_memory_every_unit_is_decoded_once_as_predicted() {
    let files = Files::new();
    for (name, set) in sets(&files) {
        for shuffle in SHUFFLES {
            let case = format!("{name}, {shuffle:?}");
            let estimate = held(&case, &set, options(shuffle, AMPLE, 0, &files));
            assert_eq!((estimate.first.decoded_again, estimate.later.decoded_units), (0, 0), "{case}");
        }
    }
}

#[test]
fn with_tight_memory_the_spill_takes_what_is_predicted() {
    let files = Files::new();
    let mut spilled = 0;
    for (name, set) in sets(&files) {
        for shuffle in SHUFFLES {
            for quota in [100 << 10, 64 << 20] {
                let case = format!("{name}, {shuffle:?}, spill of {quota}");
                let estimate = held(&case, &set, options(shuffle, TIGHT / 2, quota, &files));
                spilled += estimate.first.spilled_bytes;
                if quota > AMPLE / 2 {
                    assert_eq!(estimate.first.decoded_again, 0, "{case}");
                }
            }
        }
    }
    assert!(spilled > TIGHT, "{spilled} bytes: memory was not tight");
}

#[test]
fn what_goes_into_a_spill_that_others_could_share_is_predicted() {
    let files = Files::new();
    for (name, set) in sets(&files) {
        for shuffle in SHUFFLES {
            let mut options = options(shuffle, TIGHT / 2, 64 << 20, &files);
            options.spill.shared = Some(true);
            let estimate = held(&format!("{name}, {shuffle:?}"), &set, options);
            assert_eq!(estimate.first.decoded_again, 0, "{name}, {shuffle:?}");
        }
    }
}

#[test]
fn without_a_spill_units_are_decoded_again_as_often_as_predicted() {
    let files = Files::new();
    let mut again = [0; 3];
    for (name, set) in sets(&files) {
        for (shuffle, again) in SHUFFLES.into_iter().zip(&mut again) {
            let estimate =
                held(&format!("{name}, {shuffle:?}"), &set, options(shuffle, TIGHT / 2, 0, &files));
            *again += estimate.first.decoded_again;
        }
    }
    // In order, only a unit that two batches share can be lost between them, where not one finds room.
    assert!(
        again[0] > 500 && again[2] < again[0] / 20,
        "{again:?}: it is the full shuffle that decodes again"
    );
}

#[test]
fn what_each_rank_does_is_predicted_padding_and_all() {
    let files = Files::new();
    for (name, set) in sets(&files) {
        for shuffle in [Shuffle::Full, Shuffle::Block { lanes: 6, window: 2 }, Shuffle::None] {
            for (rank, tail) in [(0, Tail::Pad), (1, Tail::Drop), (2, Tail::Wrap), (2, Tail::Pad)] {
                let shard = Shard { rank, world: 3 };
                let options = Options { shard, tail: Some(tail), ..options(shuffle, TIGHT, 0, &files) };
                held(&format!("{name}, {shuffle:?}, rank {rank}, {tail:?}"), &set, options);
            }
        }
    }
}

#[test]
fn the_first_part_of_a_set_tells_about_what_all_of_it_costs() {
    let files = Files::new();
    let set = files.set(&["one.h5"], vec![FieldSpec::new("broad")]);
    for (shuffle, memory) in SHUFFLES.into_iter().flat_map(|shuffle| [(shuffle, AMPLE), (shuffle, 2 * TIGHT)])
    {
        let options = options(shuffle, memory, 0, &files);
        let whole = Estimate::of(&set, &options).unwrap();
        let part = Estimate::within(&set, &options, 2000).unwrap();
        let case = format!("{shuffle:?} in {memory}: {part:?}, in truth {whole:?}");
        assert!(whole.exact && !part.exact, "{case}");
        assert_eq!((part.first.batches, part.first.samples), (whole.first.batches, whole.first.samples));
        let near = |one: u64, other: u64| one.abs_diff(other) * 5 <= other;
        assert!(near(part.first.delivered_bytes, whole.first.delivered_bytes), "{case}");
        assert!(near(part.first.read_bytes, whole.first.read_bytes), "{case}");
        assert!(near(part.first.decoded_units, whole.first.decoded_units), "{case}");
        assert!(near(part.later.decoded_units, whole.later.decoded_units), "{case}");
    }
}
