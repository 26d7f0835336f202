//! forebay's own reader for files whose samples differ in size: each sample is read by itself, and handed on in one length.
//!
//! DLIO hands its trainer an array of one size whatever was read; so does this.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use forebay::{
    Error, ErrorKind, Opened, Origins, Result, Selection,
    batch::{Arena, MakerThreads},
};

use super::{
    StepBatch, StepReader, StepRequest,
    forebay_plan::{ForebayPlan, SampleAxis, counted_bytes},
};
use crate::{
    reading::sample_reader::SampleTimes,
    workers::worker::{BatchTimes, monotonic_ns},
};

/// Descriptions of files that are kept: they take a few kilobytes each.
const MOST_KEPT: usize = 4096;

/// Reads each sample by itself.
#[derive(Debug)]
pub(crate) struct EachFileReader {
    plan: ForebayPlan,
    files: Vec<String>,
    origins: Origins,
    /// What files are read through once they are described, where these are others.
    value_origins: Option<Origins>,
    arena: Arc<Arena>,
    /// Files that were read, by their number.
    opened: Mutex<HashMap<usize, Arc<Opened>>>,
}

impl EachFileReader {
    /// A reader of the files of `plan`, none of which is opened yet.
    pub(crate) fn new(plan: &ForebayPlan, files: Vec<String>, origins: &Origins) -> Self {
        let (plan, origins, arena) = (plan.clone(), origins.clone(), Arena::new(plan.memory));
        Self { plan, files, origins, value_origins: None, arena, opened: Mutex::default() }
    }

    /// The same, with values read through `origins`.
    pub(crate) fn reading_values_through(self, origins: Origins) -> Self {
        Self { value_origins: Some(origins), ..self }
    }

    fn open(&self, file: usize) -> Result<Arc<Opened>> {
        // Entries are put in and taken out as wholes.
        let known = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = known().get(&file) {
            return Ok(Arc::clone(opened));
        }
        let name = self.files.get(file).ok_or_else(|| Error::new(ErrorKind::Bug, "no such file"))?;
        let at = self.origins.locate(name)?;
        let opened = match &self.value_origins {
            None => forebay::open(Arc::clone(self.origins.of(&at)), &at, None)?,
            Some(origins) => {
                let container = forebay::describe(&**self.origins.of(&at), &at)?;
                Opened::new(Arc::clone(origins.of(&at)), Arc::new(container))
            }
        };
        let opened = Arc::new(opened.on_caller_thread());
        let mut known = known();
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(file, Arc::clone(&opened));
        Ok(opened)
    }

    /// Reads one sample into `into`: as much as fits, zeros after it.
    fn read_sample(&self, sample: u64, into: &mut [u8], spare: &mut Vec<u8>) -> Result<SampleTimes> {
        let began = Instant::now();
        let file = usize::try_from(sample / self.plan.samples_per_file).unwrap_or(usize::MAX);
        let record = sample % self.plan.samples_per_file;
        let opened = self.open(file)?;
        let (mut filled, mut times) = (0, SampleTimes::default());
        let (names, axis) = self.plan.variables()?;
        let described = began.elapsed();
        for name in &names {
            let variable = opened.variable(name)?;
            let selection = selection(&variable.grid.shape, record, axis)
                .map_err(|error| error.at(format!("variable '{name}'")).at(&self.files[file]))?;
            let len = selection.element_count().saturating_mul(variable.dtype.native_len() as u64);
            spare.resize(usize::try_from(len).map_err(|_| Error::invalid("a sample is too long"))?, 0);
            opened.read_into(variable, &selection, spare).map_err(|error| error.at(&self.files[file]))?;
            let part = spare.len().min(into.len() - filled);
            into[filled..filled + part].copy_from_slice(&spare[..part]);
            filled += part;
            times.bytes += len;
        }
        into[filled..].fill(0);
        times.bytes = counted_bytes(self.plan.format, times.bytes);
        times.metadata_ns = nanoseconds(described);
        times.read_ns = nanoseconds(began.elapsed()).saturating_sub(times.metadata_ns);
        Ok(times)
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Sample `record` of an array of `shape`.
fn selection(shape: &[u64], record: u64, axis: SampleAxis) -> Result<Selection> {
    let at = match axis {
        SampleAxis::First => 0,
        SampleAxis::Last => shape.len().saturating_sub(1),
    };
    let count = shape.get(at).copied().unwrap_or(0);
    if record >= count {
        let what = format!("{count} samples are there, and sample {record} is asked for");
        return Err(Error::new(ErrorKind::NotFound, what)
            .hint("generate the files anew, or ask for fewer samples per file"));
    }
    let ranges = shape.iter().enumerate().map(|(number, len)| match number == at {
        true => record..record + 1,
        false => 0..*len,
    });
    Ok(Selection::from_ranges(&ranges.collect::<Vec<_>>()))
}

impl StepReader for EachFileReader {
    fn threads(&self) -> MakerThreads {
        if self.plan.threads == 0 { MakerThreads::Caller } else { MakerThreads::Any }
    }

    fn read(&self, request: &StepRequest<'_>) -> Result<StepBatch> {
        let (count, sample_len) = (request.samples.len() as u64, self.plan.sample_len.max(1));
        let len = usize::try_from(count * sample_len).map_err(|_| Error::invalid("a batch is too long"))?;
        let mut bytes = self.arena.take(len)?;
        let mut times = BatchTimes { began_ns: monotonic_ns(), ..BatchTimes::default() };
        let mut spare = Vec::new();
        let slots = bytes.chunks_exact_mut(usize::try_from(sample_len).unwrap_or(usize::MAX));
        for (number, (sample, into)) in request.samples.iter().zip(slots).enumerate() {
            times.samples.push(self.read_sample(*sample, into, &mut spare)?);
            times.preprocess_s += request.preprocess.of(number);
        }
        Ok(StepBatch::of_records(bytes, [count, sample_len], times))
    }

    fn describe(&self) -> String {
        format!("forebay {}, sample by sample", env!("CARGO_PKG_VERSION"))
    }
}
