//! Classic NetCDF files that lie: whatever the bytes, the answer is a value or an error, soon, and in bounded memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "support/corpus.rs"]
mod corpus;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use forebay_container::{Container, Selection, Span, Values};
use forebay_format::{Opened, describe};
use forebay_process::{ErrorKind, Result};
use forebay_source::{
    ByteRange, Fill, Locator, MemoryOrigin, Origin, Source, SourceId, Trust, fill_by_fetching,
};

/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 1 << 20;

/// A header, written field by field.
struct Written {
    bytes: Vec<u8>,
    /// CDF-5 has counts of 8 bytes.
    wide: bool,
}

impl Written {
    fn new(flavour: u8) -> Self {
        Self { bytes: vec![b'C', b'D', b'F', flavour], wide: flavour == 5 }
    }

    fn word(mut self, value: u32) -> Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    fn count(mut self, value: u64) -> Self {
        let bytes = value.to_be_bytes();
        self.bytes.extend(if self.wide { &bytes[..] } else { &bytes[4..] });
        self
    }

    fn name(mut self, name: &str) -> Self {
        self = self.count(name.len() as u64);
        self.bytes.extend(name.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    fn offset(mut self, value: u64) -> Self {
        let bytes = value.to_be_bytes();
        self.bytes.extend(if self.bytes[3] == 1 { &bytes[4..] } else { &bytes[..] });
        self
    }

    /// A list of dimensions: `(name, length)`.
    fn dimensions(self, all: &[(&str, u64)]) -> Self {
        let start = self.word(10).count(all.len() as u64);
        all.iter().fold(start, |to, (name, len)| to.name(name).count(*len))
    }

    /// An empty list of attributes.
    fn no_attributes(self) -> Self {
        self.word(0).count(0)
    }

    /// A variable without attributes.
    fn variable(self, name: &str, axes: &[u64], kind: u32, begin: u64) -> Self {
        let start = self.name(name).count(axes.len() as u64);
        axes.iter().fold(start, |to, axis| to.count(*axis)).no_attributes().word(kind).count(0).offset(begin)
    }
}

/// Two records of `a` (3 shorts, padded to 8 bytes) and `b` (a double), and a fixed `c` (3 bytes).
fn small(flavour: u8, record_count: u64) -> Vec<u8> {
    let header = |begin: u64| {
        Written::new(flavour)
            .count(record_count)
            .dimensions(&[("t", 0), ("x", 3)])
            .no_attributes()
            .word(11)
            .count(3)
            .variable("a", &[0, 1], 3, begin + 4)
            .variable("b", &[0], 6, begin + 12)
            .variable("c", &[1], 1, begin)
            .bytes
    };
    let mut bytes = header(header(0).len() as u64);
    bytes.extend([1, 2, 3, 0]);
    for record in 0..2u8 {
        bytes.extend([0, record, 0, 10 + record, 0, 20 + record, 0, 0]);
        bytes.extend(f64::from(record).to_be_bytes());
    }
    bytes
}

fn described(bytes: Vec<u8>) -> (Arc<MemoryOrigin>, Result<Container>) {
    let origin = Arc::new(MemoryOrigin::default().with("f.nc", bytes));
    let container = describe(&*origin, &Locator::new("f.nc"));
    (origin, container)
}

/// Describes `bytes`, saves and loads the description, and reads every variable: how many gave values.
fn read_all(bytes: Vec<u8>) -> usize {
    let (origin, Ok(container)) = described(bytes) else { return 0 };
    let saved = forebay_container::save(&container).unwrap();
    assert_eq!(forebay_container::load(&saved).unwrap(), container);
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES);
    let read = |variable| opened.read(variable, &Selection::all(&variable.grid.shape));
    opened.container().variables.iter().filter(|variable| read(variable).is_ok()).count()
}

fn values(bytes: Vec<u8>, name: &str) -> Result<Vec<u8>> {
    let (origin, container) = described(bytes);
    let opened = Opened::new(origin, Arc::new(container?));
    let variable = opened.variable(name)?;
    match opened.read(variable, &Selection::all(&variable.grid.shape))?.values {
        Values::Fixed(bytes) => Ok(bytes),
        Values::Variable { bytes, .. } => Ok(bytes),
    }
}

#[test]
fn every_truncation_gives_errors_for_what_is_gone_and_values_for_the_rest() {
    for flavour in [1, 2, 5] {
        let good = small(flavour, 2);
        assert_eq!(read_all(good.clone()), 3);
        for len in 0..good.len() {
            let cut = good[..len].to_vec();
            let missing = good.len() - len;
            let (a, b) = (values(cut.clone(), "a"), values(cut.clone(), "b"));
            // The last bytes are a record of b, those before it the filling of a's record and a's record itself.
            assert_eq!(a.is_ok(), missing <= 10, "CDF-{flavour}, {missing} bytes missing");
            assert!(b.is_err());
            read_all(cut);
        }
    }
}

#[test]
fn every_flip_of_every_byte_gives_values_or_errors() {
    for flavour in [1, 2, 5] {
        let good = small(flavour, 2);
        for at in 0..good.len() {
            for bad in [0x00, 0x01, 0x7f, 0x80, 0xff, good[at] ^ 1, good[at] ^ 0x10, good[at].wrapping_add(1)]
            {
                let mut bytes = good.clone();
                bytes[at] = bad;
                read_all(bytes);
            }
        }
    }
}

#[test]
fn the_fuzzers_seeds_and_their_truncations_never_harm() {
    for (_, damaged) in corpus::found("netcdf3") {
        read_all(damaged);
    }
    let seeds = corpus::seeds("netcdf3");
    assert!(seeds.len() >= 9);
    for (_, good) in seeds {
        assert!(read_all(good.clone()) > 0);
        (0..good.len()).step_by(3).for_each(|len| {
            read_all(good[..len].to_vec());
        });
    }
}

#[test]
fn a_file_that_does_not_say_how_many_records_it_has_is_as_long_as_it_is() {
    for (flavour, unknown) in [(1, u64::from(u32::MAX)), (2, u64::from(u32::MAX)), (5, u64::MAX)] {
        let streamed = small(flavour, unknown);
        assert_eq!(values(streamed.clone(), "a").unwrap(), values(small(flavour, 2), "a").unwrap());
        // Half a record at the end is none.
        let cut = streamed[..streamed.len() - 1].to_vec();
        assert_eq!(values(cut, "b").unwrap(), 0f64.to_ne_bytes());
    }
}

#[test]
fn what_is_cut_off_is_named_with_its_place() {
    let good = small(1, 3);
    let error = values(good.clone(), "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    let end = format!("{:#x}", good.len());
    assert!(text.starts_with("f.nc: variable 'b': values at 0x"), "{text}");
    assert!(text.contains(&end) && text.contains("cut short"), "{text}");
    assert_eq!(values(good, "c").unwrap(), [1, 2, 3]);
}

#[test]
fn counts_far_beyond_the_file_are_refused_before_memory_is_taken() {
    let most = u64::MAX / 2;
    for flavour in [1, 5] {
        let dimensions = Written::new(flavour).count(0).word(10).count(most).name("x").count(1).bytes;
        let name = Written::new(flavour).count(0).word(10).count(1).count(most).bytes;
        let axes = Written::new(flavour)
            .count(0)
            .dimensions(&[("x", most)])
            .no_attributes()
            .word(11)
            .count(1)
            .name("v")
            .count(most)
            .bytes;
        for bytes in [dimensions, name, axes] {
            assert_eq!(described(bytes).1.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
    let product = Written::new(5)
        .count(0)
        .dimensions(&[("x", most), ("y", 4)])
        .no_attributes()
        .word(11)
        .count(1)
        .variable("v", &[0, 1], 6, 200)
        .bytes;
    let error = values(product, "v").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn a_long_name_said_a_thousand_times_is_refused() {
    let name = "n".repeat(1 << 20);
    let axes = vec![0; 100_000];
    let bytes = Written::new(1)
        .count(0)
        .dimensions(&[(&name, 1)])
        .no_attributes()
        .word(11)
        .count(1)
        .variable("v", &axes, 1, 0)
        .bytes;
    let error = described(bytes).1.unwrap_err();
    assert!(error.to_string().contains("names of axes"), "{error}");
}

#[test]
fn an_axis_that_grows_is_the_first_or_the_file_is_corrupt() {
    let bytes = Written::new(1)
        .count(1)
        .dimensions(&[("x", 2), ("t", 0)])
        .no_attributes()
        .word(11)
        .count(1)
        .variable("v", &[0, 1], 1, 200)
        .bytes;
    let error = values(bytes, "v").unwrap_err();
    assert!(error.to_string().contains("'t' grows"), "{error}");
}

#[test]
fn values_inside_the_header_and_two_variables_of_one_name_are_refused() {
    let variable = |begin| {
        Written::new(1)
            .count(0)
            .dimensions(&[("x", 2)])
            .no_attributes()
            .word(11)
            .count(1)
            .variable("v", &[0], 1, begin)
            .bytes
    };
    let error = values(variable(8), "v").unwrap_err();
    assert!(error.to_string().contains("inside the header"), "{error}");
    let twice = Written::new(1)
        .count(0)
        .dimensions(&[("x", 2)])
        .no_attributes()
        .word(11)
        .count(2)
        .variable("v", &[0], 1, 200)
        .variable("v", &[0], 1, 208)
        .bytes;
    let error = values(twice, "v").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("two variables"), "{error}");
}

/// Each of these refused the whole file.
#[test]
fn a_variable_that_cannot_be_made_out_refuses_itself_and_not_the_file() {
    let file = |wrong: &dyn Fn(Written) -> Written| {
        let header = |begin: u64| {
            let start = Written::new(1).count(1).dimensions(&[("t", 0), ("x", 3)]).no_attributes();
            let bad = wrong(start.word(11).count(4));
            bad.variable("fixed", &[1], 1, begin).variable("record", &[0], 6, begin + 4).bytes
        };
        let mut bytes = header(header(0).len() as u64);
        bytes.extend([1, 2, 3, 0]);
        bytes.extend(1.5f64.to_be_bytes());
        bytes
    };
    let twice = |to: Written| to.variable("bad", &[1], 1, 200).variable("bad", &[1], 1, 200);
    let no_such_type = |to: Written| to.variable("bad", &[1], 77, 200).variable("other", &[], 1, 200);
    for bytes in [file(&twice), file(&no_such_type)] {
        assert_eq!(values(bytes.clone(), "fixed").unwrap(), [1, 2, 3]);
        assert_eq!(values(bytes.clone(), "record").unwrap(), 1.5f64.to_le_bytes());
        assert_eq!(values(bytes, "bad").unwrap_err().kind(), ErrorKind::Corrupt);
    }
    // Where it may be part of the records, they cannot be found; what is not in records can.
    let no_such_axis = |to: Written| to.variable("bad", &[9], 1, 200).variable("other", &[], 1, 200);
    let grows_inside = |to: Written| to.variable("bad", &[0, 0], 1, 200).variable("other", &[], 1, 200);
    for bytes in [file(&no_such_axis), file(&grows_inside)] {
        assert_eq!(values(bytes.clone(), "fixed").unwrap(), [1, 2, 3]);
        let error = values(bytes, "record").unwrap_err().to_string();
        assert!(error.contains("'bad'"), "{error}");
    }
}

/// Ranges that were asked for.
type Log = Arc<Mutex<Vec<ByteRange>>>;

/// An origin in memory that notes what is asked of it.
#[derive(Debug)]
struct Noting(MemoryOrigin, Log);

#[derive(Debug)]
struct NotingSource(Arc<dyn Source>, Log);

impl Origin for Noting {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(NotingSource(self.0.open(at)?, Arc::clone(&self.1))))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.0.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.0.survey(under)
    }
}

impl Source for NotingSource {
    fn id(&self) -> &SourceId {
        self.0.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.1.lock().unwrap().extend(ranges);
        self.0.fetch(ranges)
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        fill_by_fetching(self, fills)
    }

    fn verify(&self) -> Result<()> {
        self.0.verify()
    }

    fn request_bytes(&self) -> u64 {
        0
    }

    fn will_read(&self, _: ByteRange) {}
}

/// A file of `count` records of a double and an int.
fn records(count: u32) -> Vec<u8> {
    let header = |begin: u64| {
        Written::new(2)
            .count(count.into())
            .dimensions(&[("t", 0)])
            .no_attributes()
            .word(11)
            .count(2)
            .variable("a", &[0], 6, begin)
            .variable("b", &[0], 4, begin + 8)
            .bytes
    };
    let mut bytes = header(header(0).len() as u64);
    for record in 0..count {
        bytes.extend(f64::from(record).to_be_bytes());
        bytes.extend(record.to_be_bytes());
    }
    bytes
}

#[test]
fn tiny_records_are_read_by_few_requests_and_asked_tells_which() {
    const COUNT: u32 = 1_000_000;
    let log = Log::default();
    let origin = Arc::new(Noting(MemoryOrigin::default().with("f.nc", records(COUNT)), Arc::clone(&log)));
    let container = describe(&*origin, &Locator::new("f.nc")).unwrap();
    let opened = Opened::new(origin, Arc::new(container)).on_caller_thread();
    let variable = opened.variable("a").unwrap();
    let all = Selection::all(&variable.grid.shape);
    for selection in [&all, &Selection::new(vec![Span::range(5..900_000)])] {
        log.lock().unwrap().clear();
        let array = opened.read(variable, selection).unwrap();
        let Values::Fixed(bytes) = array.values else { return };
        let first = selection.spans()[0].start as f64;
        let rising = bytes.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes));
        assert!(rising.zip(0..).all(|(value, row)| value == first + f64::from(row)));
        let read = log.lock().unwrap().clone();
        assert!(read.len() < 4, "{} requests", read.len());
        let mut asked = Vec::new();
        opened.plan(variable, selection, &mut |_, range| asked.push(range)).unwrap();
        assert_eq!(asked, read);
    }
}

#[test]
fn rows_in_any_order_are_read_by_one_call_and_each_for_itself() {
    let log = Log::default();
    let origin = Arc::new(Noting(MemoryOrigin::default().with("f.nc", records(1000)), Arc::clone(&log)));
    let container = describe(&*origin, &Locator::new("f.nc")).unwrap();
    let opened = Opened::new(origin, Arc::new(container));
    let variable = opened.variable("b").unwrap();
    let rows = [999, 0, 500, 0];
    let mut out = [0; 16];
    log.lock().unwrap().clear();
    opened.read_rows(variable, &rows, &mut out).unwrap();
    let values: Vec<u64> = out.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes).into()).collect();
    assert_eq!(values, rows);
    assert_eq!(log.lock().unwrap().iter().map(|range| range.len()).collect::<Vec<_>>(), [4; 4]);
}
