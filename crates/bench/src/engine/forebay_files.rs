//! forebay's own reader: files are described once, and batches made from where their bytes lie.

use std::{path::PathBuf, sync::Arc, time::Instant};

use forebay::{
    Error, Loader, Options, Origins, Result, SampleSpec, SetSpec,
    loader::{AxisName, BatchMaker, BatchRequest, Boundary, FieldSpec, MakerThreads},
    open_named_set,
    plan::{Epoch, Groups, Plan, PlanSpec, Shard, Shuffle, Tail},
};
use forebay_workload::FileFormat;

use super::{
    StepBatch, StepReader, StepRequest,
    each_file::{EachFileReader, SampleAxis},
};
use crate::{
    sample_reader::SampleTimes,
    worker::{BatchTimes, monotonic_ns, preprocess},
};

/// How the samples of a split are read by forebay.
#[derive(Clone, Debug)]
pub(crate) struct ForebayPlan {
    /// All files, in order.
    pub(crate) files: Vec<PathBuf>,
    /// Their format.
    pub(crate) format: FileFormat,
    /// The data sets of records of HDF5 files.
    pub(crate) records: Vec<String>,
    /// Samples of each file.
    pub(crate) samples_per_file: u64,
    /// The axes of a sample.
    pub(crate) sample_ndim: usize,
    /// Samples of a batch.
    pub(crate) batch_size: u64,
    /// Threads that read; 0 to read on the rank's own.
    pub(crate) threads: u32,
    /// Bytes of a request.
    pub(crate) transfer_size: Option<u64>,
    /// True where samples differ in size from file to file.
    pub(crate) sizes_differ: bool,
    /// Bytes that the trainer is handed of each sample, where sizes differ.
    pub(crate) sample_len: u64,
    /// Bytes of batches that may wait, where sizes differ.
    pub(crate) memory: u64,
}

/// Reads by forebay.
#[derive(Debug)]
pub(crate) struct ForebayStepReader {
    maker: Arc<dyn BatchMaker>,
    plan: Plan,
    batch_size: u64,
    threads: MakerThreads,
    format: FileFormat,
}

/// The reader of `plan`, whose files are found through `origins`: by the loader, or sample by sample where sizes differ.
pub(crate) fn open_reader(plan: &ForebayPlan, origins: &Origins) -> Result<Arc<dyn StepReader>> {
    let name = |path: &PathBuf| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::invalid("a path that is not UTF-8").at(path.display()))
    };
    let files = plan.files.iter().map(name).collect::<Result<Vec<_>>>()?;
    let files = files.iter().map(|file| origins.absolute(file)).collect::<Result<Vec<_>>>()?;
    plan.variables()?;
    Ok(match plan.sizes_differ {
        true => Arc::new(EachFileReader::new(plan, files, origins)),
        false => Arc::new(ForebayStepReader::open(plan, files, origins)?),
    })
}

impl ForebayStepReader {
    /// Opens `files`, which are those of `plan`, through `origins`.
    fn open(plan: &ForebayPlan, files: Vec<String>, origins: &Origins) -> Result<Self> {
        let spec = SetSpec { files: vec![files], fields: plan.fields()? };
        let (set, _) = open_named_set(origins, spec, forebay::NameKind::Files, None)?;
        let expected = plan.files.len() as u64 * plan.samples_per_file;
        if set.len() != expected {
            let what = format!("{} samples are there, and {expected} are asked for", set.len());
            return Err(Error::new(forebay::ErrorKind::NotFound, what).hint("generate the files anew"));
        }
        let options = Options {
            batch_size: plan.batch_size,
            read_threads: Some(plan.threads.max(1) as usize),
            transfer_size: plan.transfer_size,
            tail: Some(Tail::Short),
            ..Options::default()
        };
        let loader = Loader::new(Arc::new(set), options)?;
        let maker = Arc::clone(loader.maker());
        let identity = maker.set();
        let groups = Groups::new(&identity.part_lens, identity.group_len)?;
        let spec = PlanSpec {
            shuffle: Shuffle::None,
            seed: 0,
            batch: plan.batch_size,
            shard: Shard::default(),
            tail: Some(Tail::Short),
        };
        let threads = if plan.threads == 0 { MakerThreads::Caller } else { MakerThreads::Any };
        let plan_of_files = Plan::new(spec, Arc::new(groups))?;
        Ok(Self { maker, plan: plan_of_files, batch_size: plan.batch_size, threads, format: plan.format })
    }

    /// The epoch as the files' own numbers of samples count it: its next uses are right where samples are read in order.
    fn epoch_of(&self, asked: &Epoch) -> Result<Epoch> {
        self.plan.epoch(asked.number(), 0)
    }
}

impl ForebayPlan {
    /// The variables that samples are in, and which of their axes counts them.
    pub(super) fn variables(&self) -> Result<(Vec<String>, SampleAxis)> {
        let first = |name: &str| (vec![name.to_owned()], SampleAxis::First);
        Ok(match self.format {
            FileFormat::Hdf5 => (self.records.clone(), SampleAxis::First),
            FileFormat::NetCdf | FileFormat::Zarr => first("records"),
            FileFormat::Npz => (vec!["x".to_owned()], SampleAxis::Last),
            FileFormat::Npy => (vec!["data".to_owned()], SampleAxis::Last),
            FileFormat::TfRecord => first("image"),
            FileFormat::Csv => first("data"),
            FileFormat::IndexedBinary | FileFormat::MmapIndexedBinary => first("record"),
            FileFormat::Jpeg | FileFormat::Png if self.samples_per_file > 1 => {
                let what = format!("a file of format {} is one sample", self.format);
                return Err(Error::invalid(what).hint("set num_samples_per_file to 1"));
            }
            FileFormat::Jpeg | FileFormat::Png => first("image"),
            format => {
                let what = format!("engine forebay does not read files of format {format}");
                return Err(Error::unsupported(what).hint("use a format that is stored in files"));
            }
        })
    }

    /// What a sample is in files of this format.
    fn fields(&self) -> Result<SampleSpec> {
        let (names, axis) = self.variables()?;
        let samples = match axis {
            SampleAxis::First => Boundary::default(),
            SampleAxis::Last => Boundary::Along { axis: AxisName::Index(self.sample_ndim), rows: 1 },
        };
        let field = |name: &String| FieldSpec { samples: samples.clone(), ..FieldSpec::new(name) };
        Ok(SampleSpec { fields: names.iter().map(field).collect() })
    }
}

/// Bytes that a sample counts as, of which `read` were read: the numbers of a table, of which the first is the row's, are 8 bytes each in
/// memory, and one of the sample.
pub(super) fn counted_bytes(format: FileFormat, read: u64) -> u64 {
    match format {
        FileFormat::Csv => (read / 8).saturating_sub(1),
        _ => read,
    }
}

impl StepReader for ForebayStepReader {
    fn threads(&self) -> MakerThreads {
        self.threads
    }

    fn read(&self, request: &StepRequest<'_>) -> Result<StepBatch> {
        let (began, began_ns) = (Instant::now(), monotonic_ns());
        let samples: Vec<Option<u64>> = request.samples.iter().map(|sample| Some(*sample)).collect();
        let epoch = self.epoch_of(request.epoch)?;
        let step = request.samples.first().map_or(0, |first| first / self.batch_size.max(1));
        let made =
            self.maker.make(&BatchRequest { samples: &samples, epoch: &epoch, step, oldest_step: step })?;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let count = samples.len().max(1) as u64;
        let bytes: u64 = made.fields.iter().map(|field| field.bytes.len() as u64).sum();
        let bytes = counted_bytes(self.format, bytes / count);
        let each = SampleTimes { metadata_ns: 0, read_ns: took / count, bytes };
        let preprocess_s = request.preprocess_s.iter().map(|wanted| preprocess(*wanted)).sum();
        let times = BatchTimes { samples: vec![each; samples.len()], preprocess_s, began_ns, worker: 0 };
        Ok(StepBatch { made, times })
    }

    fn describe(&self) -> String {
        format!("forebay {}", env!("CARGO_PKG_VERSION"))
    }
}
