//! What a schedule says will be asked for, and what a loader asks for.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use forebay_loader::{
    AxisLen, AxisName, Boundary, Convert, FieldSpec, FilesAxis, IndexAccess, Leads, Loader, Offsets, Options,
    SampleSet, SampleSpec, Schedule, ScheduledRead, SeriesSpec,
};
use forebay_plan::{Shard, Shuffle, Tail};
use forebay_process::Result;
use forebay_source::{ByteRange, Fill, Locator, Origin, Source, SourceId, Trust};
use made::{Made, Rows, make, make_plain, memory, opened, opened_as_one, without_spill};

/// What was asked for: of which source, and which bytes.
type Ask = (Locator, ByteRange);

/// An origin that notes every range it is asked for.
#[derive(Debug)]
struct Noting {
    inner: Arc<dyn Origin>,
    asks: Arc<Mutex<Vec<Ask>>>,
    request_bytes: u64,
}

#[derive(Debug)]
struct NotingSource {
    inner: Arc<dyn Source>,
    asks: Arc<Mutex<Vec<Ask>>>,
    request_bytes: u64,
}

impl Origin for Noting {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let (inner, asks) = (self.inner.open(at)?, Arc::clone(&self.asks));
        Ok(Arc::new(NotingSource { inner, asks, request_bytes: self.request_bytes }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.inner.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.inner.survey(under)
    }
}

impl NotingSource {
    fn note(&self, ranges: impl Iterator<Item = ByteRange>) {
        let asks = ranges.filter(|range| !range.is_empty()).map(|range| (self.id().locator.clone(), range));
        self.asks.lock().unwrap().extend(asks);
    }
}

impl Source for NotingSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.note(ranges.iter().copied());
        self.inner.fetch(ranges)
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        self.note(fills.iter().map(|fill| fill.range));
        self.inner.copy_into(fills)
    }

    fn verify(&self) -> Result<()> {
        self.inner.verify()
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn will_read(&self, _: ByteRange) {}
}

/// What lies in the files, and what of it is a sample.
struct Case {
    name: &'static str,
    files: Vec<Made>,
    fields: Vec<FieldSpec>,
    /// True when the files are the sources of one virtual data set.
    is_virtual: bool,
}

const ROWS: Rows = Rows { count: 300, row_len: 16, chunk: 7 };

fn field(samples: Boundary) -> FieldSpec {
    FieldSpec { samples, ..FieldSpec::new("x") }
}

fn lens(lens: [u64; 2]) -> Vec<AxisLen> {
    let axes = lens.into_iter().enumerate();
    axes.map(|(axis, len)| AxisLen { axis: AxisName::Index(axis), len }).collect()
}

fn cases() -> Vec<Case> {
    let contiguous = || make(Rows { chunk: 0, ..ROWS });
    let rows = || vec![field(Boundary::default())];
    let windows =
        || vec![field(Boundary::Windows { size: lens([9, 5]), stride: lens([4, 3]), step: vec![] })];
    let series = |files: Option<FilesAxis>, size: u64, is_target| {
        let row = |len| vec![AxisLen { axis: AxisName::Index(0), len }];
        let leads = Leads { axis: AxisName::Index(0), after: vec![1, 2, 9] };
        let (size, stride, targets) = (row(size), row(4), Some(leads));
        field(Boundary::Series(SeriesSpec { size, stride, step: vec![], files, targets, is_target }))
    };
    let over = || Some(FilesAxis { axis: AxisName::Index(0), crosses_gaps: false });
    let (joined, targets) = (|| vec![series(over(), 9, false)], || vec![series(over(), 9, true)]);
    let short = || make(Rows { count: 5, chunk: 0, ..ROWS });
    let listed: Vec<[u64; 3]> =
        (0..2).flat_map(|file| (0..60).map(move |at| [file, at * 4, at * 4 + at % 6])).collect();
    let ragged = || vec![field(Boundary::Ragged { offsets: Offsets::Listed(listed.clone()), axis: 0 })];
    // Four lines of 60 numbers.
    let lines = |chunk| Rows { count: 4, row_len: 60, chunk };
    let cut: Vec<[u64; 3]> =
        (0..2).flat_map(|file| (0..20).map(move |at| [file, at * 3, at * 3 + at % 4])).collect();
    let cut_inside = || vec![field(Boundary::Ragged { offsets: Offsets::Listed(cut.clone()), axis: 1 })];
    let turned = FieldSpec {
        convert: Convert { scale: Some(2.0), ..Convert::default() },
        ..field(Boundary::Fixed { rows: 2 })
    };
    let case = |name, files, fields| Case { name, files, fields, is_virtual: false };
    let virtual_case = |name, files, fields| Case { name, files, fields, is_virtual: true };
    let sources = || (0..9).map(|_| make(Rows { count: 33, chunk: 0, ..ROWS })).collect();
    let listed_in_one: Vec<[u64; 3]> = listed.iter().filter(|entry| entry[0] == 0).copied().collect();
    let ragged_in_one = field(Boundary::Ragged { offsets: Offsets::Listed(listed_in_one), axis: 0 });
    vec![
        case("contiguous", vec![contiguous()], rows()),
        case("two files", vec![contiguous(), contiguous()], rows()),
        case("plain chunks", vec![make_plain(ROWS), make_plain(ROWS)], vec![turned]),
        case("gzip chunks", vec![make(ROWS), make(ROWS)], rows()),
        case("ragged", vec![contiguous(), contiguous()], ragged()),
        case("ragged in plain chunks", vec![make_plain(ROWS), make_plain(ROWS)], ragged()),
        case("ragged in gzip chunks", vec![make(ROWS), make(ROWS)], ragged()),
        case("ragged along axis 1", vec![make(lines(0)), make(lines(0))], cut_inside()),
        case("ragged along axis 1 in chunks", vec![make_plain(lines(1)), make(lines(1))], cut_inside()),
        case("ragged along axis 1, one in chunks", vec![make(lines(0)), make(lines(2))], cut_inside()),
        case("windows", vec![contiguous()], windows()),
        case("windows of plain chunks", vec![make_plain(ROWS)], windows()),
        case("windows of gzip chunks", vec![make(ROWS)], windows()),
        case("series", vec![contiguous(), short(), contiguous()], joined()),
        case("series of plain chunks", vec![make_plain(ROWS), short(), make_plain(ROWS)], joined()),
        case("series of gzip chunks", vec![make(ROWS), make(ROWS)], joined()),
        case("targets", vec![contiguous(), short(), contiguous()], targets()),
        case("targets of gzip chunks", vec![make(ROWS), make(ROWS)], targets()),
        case("series of each file", vec![make(ROWS), contiguous()], vec![series(None, 3, false)]),
        case("whole files", (0..30).map(|_| contiguous()).collect(), vec![field(Boundary::Whole)]),
        virtual_case("virtual", sources(), rows()),
        virtual_case("virtual of plain chunks", vec![make_plain(ROWS), make_plain(ROWS)], rows()),
        virtual_case("virtual of gzip chunks", vec![make(ROWS), make(ROWS)], rows()),
        virtual_case("virtual and ragged", sources(), vec![ragged_in_one]),
        virtual_case("virtual windows", sources(), windows()),
    ]
}

fn set_on(case: &Case, request_bytes: u64) -> (Arc<SampleSet>, Arc<Mutex<Vec<Ask>>>) {
    let asks = Arc::default();
    let origin: Arc<dyn Origin> =
        Arc::new(Noting { inner: Arc::new(memory(&case.files)), asks: Arc::clone(&asks), request_bytes });
    let spec = SampleSpec { fields: case.fields.clone() };
    let files = match case.is_virtual {
        true => vec![opened_as_one(&case.files, &origin)],
        false => opened(&case.files, &origin),
    };
    let set = SampleSet::new(spec, &[files]).unwrap();
    (Arc::new(set), asks)
}

fn options(shuffle: Shuffle, shard: Shard) -> Options {
    without_spill(Options {
        batch_size: 8,
        shuffle,
        shard,
        tail: Some(if shard.world > 1 { Tail::Pad } else { Tail::Short }),
        read_threads: Some(1),
        memory: Some(64 << 20),
        ..Options::default()
    })
}

/// What the schedule says of one epoch, batch by batch, each range at its first use.
fn foreseen(schedule: &Schedule) -> Vec<Ask> {
    let epoch = schedule.epoch(0, 0).unwrap();
    let (mut slots, mut asked, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..epoch.step_count() {
        epoch.batch(step, &mut slots);
        schedule.batch(&slots, IndexAccess::Read, &mut asked);
        let once: HashSet<&ScheduledRead> = asked.iter().collect();
        assert_eq!(once.len(), asked.len(), "each range once in a batch");
        let named = |asked: &ScheduledRead| (schedule.sources()[asked.source].locator.clone(), asked.range);
        all.extend(asked.iter().map(named));
    }
    first_uses(all)
}

fn first_uses(asks: Vec<Ask>) -> Vec<Ask> {
    let mut seen = HashSet::new();
    asks.into_iter().filter(|ask| seen.insert(ask.clone())).collect()
}

/// How far the same things are from each other in two lists.
fn displacement(one: &[Ask], other: &[Ask]) -> usize {
    let places: std::collections::HashMap<_, _> =
        other.iter().enumerate().map(|(at, ask)| (ask, at)).collect();
    one.iter().enumerate().map(|(at, ask)| at.abs_diff(places[ask])).max().unwrap_or(0)
}

#[test]
fn a_loader_asks_for_just_what_was_foreseen_and_in_nearly_that_order() {
    for case in cases() {
        for request_bytes in [0, 1000, 1 << 20] {
            for shuffle in [Shuffle::None, Shuffle::Full, Shuffle::Block { lanes: 6, window: 1 }] {
                for world in [1, 3] {
                    let (set, asks) = set_on(&case, request_bytes);
                    let loader = Loader::new(set, options(shuffle, Shard { rank: 0, world })).unwrap();
                    let schedule = loader.schedule().unwrap();
                    assert!(schedule.keeps_units());
                    let expected = foreseen(&schedule);
                    asks.lock().unwrap().clear();
                    loader.batches().unwrap().for_each(|batch| drop(batch.unwrap()));
                    let asked = first_uses(std::mem::take(&mut asks.lock().unwrap()));
                    let at = format!("{}, {shuffle:?}, {request_bytes}, {world} ranks", case.name);
                    let (left, right): (HashSet<_>, HashSet<_>) =
                        (asked.iter().collect(), expected.iter().collect());
                    assert_eq!(left, right, "{at}");
                    assert!(!asked.is_empty(), "{at}");
                    assert!(displacement(&asked, &expected) <= 8 * 9, "{at}");
                }
            }
        }
    }
}

/// Every case, and some with fields of different sizes and chunks that make several groups.
fn cases_of_groups() -> Vec<Case> {
    let rows = Rows { count: 600, row_len: 4096, chunk: 20 };
    let again = FieldSpec { name: "again".into(), ..field(Boundary::default()) };
    let larger =
        |name, files| Case { name, files, fields: vec![field(Boundary::default())], is_virtual: false };
    let rows_of_files = (0..30).map(|_| make(Rows { count: 20, chunk: 0, ..rows })).collect();
    let mut cases = cases();
    cases.extend([
        larger("larger rows", vec![make(Rows { chunk: 0, ..rows })]),
        larger("larger gzip chunks", vec![make(rows), make(Rows { count: 130, ..rows })]),
        larger("larger plain chunks", vec![make_plain(rows)]),
        larger("gzip chunks of a sample", vec![make(Rows { chunk: 1, ..rows })]),
        Case { is_virtual: true, ..larger("larger virtual", rows_of_files) },
        Case { is_virtual: true, ..larger("larger virtual of gzip chunks", vec![make(rows), make(rows)]) },
        Case { fields: vec![field(Boundary::default()), again], ..larger("two fields", vec![make(rows)]) },
    ]);
    cases
}

#[test]
fn the_order_does_not_depend_on_where_the_files_lie() {
    for case in cases_of_groups() {
        for shuffle in [Shuffle::None, Shuffle::Full, Shuffle::BLOCK, Shuffle::Block { lanes: 6, window: 2 }]
        {
            for transfer_size in [None, Some(1 << 14)] {
                let orders = [0, 1 << 20, 4 << 20].map(|request_bytes| {
                    let (set, _) = set_on(&case, request_bytes);
                    let options = Options { transfer_size, ..options(shuffle, Shard::default()) };
                    let schedule = Schedule::new(&set, &options).unwrap();
                    let epoch = schedule.epoch(1, 0).unwrap();
                    let (mut slots, mut order) = (Vec::new(), Vec::new());
                    for step in 0..epoch.step_count() {
                        epoch.batch(step, &mut slots);
                        order.extend(slots.iter().flatten().copied());
                    }
                    order
                });
                assert_eq!(orders[0], orders[1], "{}, {shuffle:?}, 1 MiB", case.name);
                assert_eq!(orders[0], orders[2], "{}, {shuffle:?}, 4 MiB", case.name);
            }
        }
    }
}

#[test]
fn a_block_shuffle_far_away_decodes_each_chunk_once_in_little_memory() {
    // 40 MiB once decoded, in chunks of 80 KiB.
    let case = || Case {
        name: "far chunks",
        files: vec![make(Rows { count: 2560, row_len: 4096, chunk: 5 })],
        fields: vec![field(Boundary::default())],
        is_virtual: false,
    };
    for request_bytes in [0, 1 << 20, 4 << 20] {
        let (set, _) = set_on(&case(), request_bytes);
        let shuffle = Shuffle::Block { lanes: 12, window: 1 };
        let options = Options { memory: Some(16 << 20), ..options(shuffle, Shard::default()) };
        let loader = Loader::new(set, options).unwrap();
        loader.batches().unwrap().for_each(|batch| drop(batch.unwrap()));
        assert_eq!(loader.stats().decoded_again, 0, "requests of {request_bytes}");
    }
}

#[test]
fn the_samples_of_a_batch_one_by_one_need_what_it_needs() {
    for case in cases() {
        for request_bytes in [0, 1000] {
            let (set, _) = set_on(&case, request_bytes);
            let schedule = Schedule::new(&set, &options(Shuffle::Full, Shard::default())).unwrap();
            let epoch = schedule.epoch(2, 0).unwrap();
            let (mut slots, mut together, mut alone) = (Vec::new(), Vec::new(), Vec::new());
            for step in 0..epoch.step_count() {
                epoch.batch(step, &mut slots);
                schedule.batch(&slots, IndexAccess::Read, &mut together);
                let mut singly = HashSet::new();
                for sample in slots.iter().flatten() {
                    assert_eq!(epoch.step_of(*sample), Some(step));
                    schedule.bytes(*sample, IndexAccess::Read, &mut alone);
                    singly.extend(alone.iter().copied());
                }
                assert_eq!(singly, together.iter().copied().collect(), "{}", case.name);
            }
        }
    }
}
