//! Files made in memory, described by hand: the loader sees no difference.

#![allow(
    dead_code,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "each test uses its own part of this"
)]

use std::sync::Arc;

use forebay_container::{
    ByteOrder, ChunkTable, Container, Dtype, Extent, Extents, Filter, Grid, Heap, HyperslabAxis, Mapping,
    Number, Opaque, SourceIndex, Variable,
};
use forebay_format::Opened;
use forebay_loader::{FieldSpec, Loader, Options, SampleSet, SampleSpec, SpillOptions};
use forebay_source::{
    ByteRange, FaultOrigin, FaultSchedule, Locator, MemoryOrigin, Origin, SmallSourceCache,
};

/// Rows of one variable: `row_len` numbers each, all different.
#[derive(Clone, Copy)]
pub struct Rows {
    pub count: u64,
    pub row_len: u64,
    /// Rows of a chunk; 0 for one that holds all, not encoded.
    pub chunk: u64,
}

impl Rows {
    /// The numbers of row `row`.
    pub fn row(self, row: u64) -> Vec<u32> {
        (0..self.row_len).map(|column| number(row, column)).collect()
    }
}

fn number(row: u64, column: u64) -> u32 {
    u32::try_from((row * 1_000_003 + column * 7) % u64::from(u32::MAX)).expect("within 32 bits")
}

/// A file of one variable, `x`, with its bytes.
pub struct Made {
    pub bytes: Vec<u8>,
    variable: Variable,
}

pub fn make(rows: Rows) -> Made {
    make_as(rows, rows.chunk > 0)
}

/// The same, in chunks that are not encoded.
pub fn make_plain(rows: Rows) -> Made {
    make_as(rows, false)
}

fn make_as(rows: Rows, is_encoded: bool) -> Made {
    let values: Vec<u8> = (0..rows.count).flat_map(|row| rows.row(row)).flat_map(u32::to_le_bytes).collect();
    let shape = vec![rows.count, rows.row_len];
    let mut bytes = vec![0u8; 64];
    let mut pairs = Vec::new();
    let chunk_rows = if rows.chunk == 0 { rows.count.max(1) } else { rows.chunk };
    let chunk_len = usize::try_from(chunk_rows * rows.row_len * 4).expect("small");
    for (number, chunk) in values.chunks(chunk_len).enumerate() {
        let start = bytes.len() as u64;
        let mut whole = chunk.to_vec();
        whole.resize(chunk_len, 0);
        if is_encoded {
            bytes.extend(deflate(&whole));
        } else {
            bytes.extend(whole);
        }
        let range = ByteRange::at(start, bytes.len() as u64 - start);
        pairs.push((number as u64, Extent { source: SourceIndex(0), range, skipped: 0 }));
    }
    let deflated = || Filter::Deflate { level: Some(1) };
    let filters = is_encoded.then(deflated).into_iter().collect();
    let grid = Grid { shape: shape.clone(), chunk: vec![chunk_rows, rows.row_len] };
    let table = ChunkTable::new(pairs, grid.chunk_count()).unwrap();
    let variable = Variable {
        name: "x".into(),
        dtype: Dtype::native(Number::U32),
        max_shape: shape.iter().map(|n| Some(*n)).collect(),
        grid,
        layout: "chunked".into(),
        filters,
        fill: Vec::new(),
        extents: Extents::Chunks(table),
        heap: None,
        attributes: Vec::new(),
        dimensions: vec![],
        type_name: None,
    };
    Made { bytes, variable }
}

/// A file of one variable of texts, in chunks of `chunk` references; 0 for one that holds all, not encoded. Each text lies in a
/// collection of a global heap of its own, as libhdf5 writes long ones.
pub fn make_texts(texts: &[Vec<u8>], chunk: u64) -> Made {
    make_values(texts, chunk, Dtype::VarText { reference_len: 16, utf8: true })
}

/// The same of sequences of big-endian numbers of 32 bits.
pub fn make_sequences(values: &[Vec<u32>], chunk: u64) -> Made {
    let number = Dtype::Number { number: Number::U32, order: ByteOrder::Big };
    let stored: Vec<Vec<u8>> =
        values.iter().map(|one| one.iter().flat_map(|number| number.to_be_bytes()).collect()).collect();
    make_values(&stored, chunk, Dtype::Sequence { reference_len: 16, item: Box::new(number) })
}

/// Texts that the reader called `library` reads, of which only reading shows how long they are; `inner` of them are a row.
pub fn make_unreferenced(rows: u64, inner: &[u64], library: &str) -> Made {
    let shape = [&[rows][..], inner].concat();
    let mut variable = Variable::new("x", Dtype::VarText { reference_len: 16, utf8: true }, shape);
    let (library, name) = (library.to_owned(), "x".to_owned());
    variable.extents =
        Extents::Opaque(Opaque { library, why: "made for a test".into(), name, source: SourceIndex(0) });
    Made { bytes: vec![0; 64], variable }
}

/// `made`, whose description says that it has `shape`.
pub fn of_shape(mut made: Made, shape: &[u64]) -> Made {
    made.variable.grid.shape = shape.to_vec();
    made.variable.grid.chunk.resize(shape.len(), 1);
    made
}

fn make_values(values: &[Vec<u8>], chunk: u64, dtype: Dtype) -> Made {
    let item_len = dtype.values().stored_len();
    let mut bytes = vec![0u8; 64];
    let mut references = Vec::new();
    for value in values {
        let (address, len) = (bytes.len() as u64, value.len() as u64);
        let whole = (len + 48).next_multiple_of(8).max(4096);
        bytes.extend([&b"GCOL\x01\0\0\0"[..], &whole.to_le_bytes()].concat());
        bytes.extend([&[1, 0, 1, 0, 0, 0, 0, 0][..], &len.to_le_bytes(), value].concat());
        bytes.resize(usize::try_from(address + whole).expect("small"), 0);
        let count = u32::try_from(value.len() / item_len).expect("small");
        references.extend([&count.to_le_bytes()[..], &address.to_le_bytes(), &1u32.to_le_bytes()].concat());
    }
    let count = values.len() as u64;
    let chunk_rows = if chunk == 0 { count } else { chunk };
    let mut pairs = Vec::new();
    for (number, rows) in references.chunks(usize::try_from(chunk_rows * 16).expect("small")).enumerate() {
        let mut whole = rows.to_vec();
        whole.resize(usize::try_from(chunk_rows * 16).expect("small"), 0);
        let stored = if chunk == 0 { whole } else { deflate(&whole) };
        let range = ByteRange::at(bytes.len() as u64, stored.len() as u64);
        pairs.push((number as u64, Extent { source: SourceIndex(0), range, skipped: 0 }));
        bytes.extend(stored);
    }
    let mut variable = Variable::new("x", dtype, vec![count]);
    variable.grid.chunk = vec![chunk_rows];
    variable.extents = Extents::Chunks(ChunkTable::new(pairs, variable.grid.chunk_count()).unwrap());
    variable.filters = (chunk > 0).then_some(Filter::Deflate { level: Some(1) }).into_iter().collect();
    variable.heap = Some(Heap { offset_len: 8, length_len: 8, base: 0, source: SourceIndex(0) });
    Made { bytes, variable }
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::fastest());
    let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
    let len = compressor.zlib_compress(bytes, &mut out).unwrap();
    out.truncate(len);
    out
}

impl Made {
    /// Where the stored bytes of chunk `number` lie.
    pub fn chunk(&self, number: u64) -> ByteRange {
        let Extents::Chunks(table) = &self.variable.extents else { panic!("chunks") };
        table.get(number).unwrap().range
    }
}

/// The set of one-row samples of `files`, and the origin it is read from.
pub fn set_on(files: &[Made], schedule: FaultSchedule) -> (Arc<SampleSet>, Arc<FaultOrigin>) {
    let origin = Arc::new(FaultOrigin::new(Arc::new(memory(files)), schedule));
    let spec = SampleSpec { fields: vec![FieldSpec::new("x")] };
    let set = SampleSet::new(spec, &[opened(files, &(Arc::clone(&origin) as _))]).unwrap();
    (Arc::new(set), origin)
}

/// An origin that has `files`.
pub fn memory(files: &[Made]) -> MemoryOrigin {
    let numbered = files.iter().enumerate();
    numbered
        .fold(MemoryOrigin::default(), |origin, (index, file)| origin.with(&name(index), file.bytes.clone()))
}

fn name(index: usize) -> String {
    format!("part{index}.h5")
}

/// The files of `origin`, which has [`memory`] beneath.
pub fn opened(files: &[Made], origin: &Arc<dyn Origin>) -> Vec<Arc<Opened>> {
    let opened = files.iter().enumerate().map(|(index, file)| {
        let container = Container {
            format: "made".into(),
            sources: vec![origin.open(&Locator::new(name(index))).unwrap().id().clone()],
            variables: vec![file.variable.clone()],
            ..Container::default()
        };
        Arc::new(Opened::new(Arc::clone(origin), Arc::new(container)).on_caller_thread())
    });
    opened.collect()
}

/// One file that has the rows of all `files`, one after the other, as a virtual data set.
pub fn opened_as_one(files: &[Made], origin: &Arc<dyn Origin>) -> Arc<Opened> {
    let whole = |len: u64| HyperslabAxis { start: 0, stride: len, count: 1, block: len };
    let (mut sources, mut parts, mut mappings, mut row_count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (index, file) in files.iter().enumerate() {
        sources.push(origin.open(&Locator::new(name(index))).unwrap().id().clone());
        let mut part = file.variable.clone();
        let Extents::Chunks(table) = &part.extents else { panic!("chunks") };
        let source = SourceIndex(u32::try_from(index).expect("few"));
        let moved = table.iter().map(|(number, extent)| (number, Extent { source, ..extent }));
        part.extents = Extents::Chunks(ChunkTable::new(moved.collect(), part.grid.chunk_count()).unwrap());
        let from: Vec<HyperslabAxis> = part.grid.shape.iter().copied().map(whole).collect();
        let mut to = from.clone();
        to[0].start = row_count;
        row_count += part.grid.shape[0];
        mappings.push(Mapping::new(parts.len(), from, to).unwrap());
        parts.push(part);
    }
    let shape = vec![row_count, files[0].variable.grid.shape[1]];
    let mut variable = Variable::new("x", files[0].variable.dtype.clone(), shape);
    variable.extents = Extents::Mapped(mappings.into());
    let container = Container {
        format: "made".into(),
        sources,
        variables: vec![variable],
        parts,
        ..Container::default()
    };
    Arc::new(Opened::new(Arc::clone(origin), Arc::new(container)).on_caller_thread())
}

/// A set whose samples have the same variable twice, under two names, from files that are read whole if small.
pub fn twofold_set_on(files: &[Made], schedule: FaultSchedule) -> (Arc<SampleSet>, Arc<FaultOrigin>) {
    let (set, origin) = set_on(files, schedule);
    let whole: Arc<dyn Origin> = Arc::new(SmallSourceCache::new(Arc::clone(&origin) as _, 1 << 20));
    let opened = set.files().into_iter().map(|file| {
        let container = Arc::new(file.container().clone());
        Arc::new(Opened::new(Arc::clone(&whole), container).on_caller_thread())
    });
    let again = FieldSpec { name: "again".into(), ..FieldSpec::new("x") };
    let spec = SampleSpec { fields: vec![FieldSpec::new("x"), again] };
    (Arc::new(SampleSet::new(spec, &[opened.collect()]).unwrap()), origin)
}

/// The set of one-row samples of `files`, near at hand.
pub fn set(files: &[Made]) -> Arc<SampleSet> {
    set_on(files, FaultSchedule::default()).0
}

/// Options with a spill in `folder`.
pub fn with_spill(options: Options, folder: &std::path::Path) -> Options {
    let spill = SpillOptions { folder: Some(folder.to_owned()), quota: Some(1 << 30), shared: Some(false) };
    Options { spill, ..options }
}

/// Options without a spill.
pub fn without_spill(options: Options) -> Options {
    Options { spill: SpillOptions { quota: Some(0), ..SpillOptions::default() }, ..options }
}

/// The samples of one epoch, in order; each is compared with `rows`, which all files have alike.
pub fn epoch(loader: &Loader, rows: Rows) -> Vec<u64> {
    let mut seen = Vec::new();
    for batch in loader.batches().unwrap() {
        let batch = batch.unwrap();
        check(&batch, rows);
        seen.extend(batch.samples.iter().flatten());
    }
    seen
}

/// Compares the values of `batch` with what its samples are.
pub fn check(batch: &forebay_loader::Batch, rows: Rows) {
    let field = batch.field("x").unwrap();
    let row_bytes = usize::try_from(rows.row_len * 4).expect("small");
    assert_eq!(field.bytes.len(), batch.samples.len() * row_bytes);
    for (sample, bytes) in batch.samples.iter().zip(field.bytes.chunks_exact(row_bytes)) {
        let expected = match sample {
            Some(sample) => rows.row(sample % rows.count),
            None => vec![0; usize::try_from(rows.row_len).expect("small")],
        };
        let got: Vec<u32> =
            bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
        assert!(got == expected, "sample {sample:?} has other values");
    }
}
