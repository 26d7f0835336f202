//! forebay's own reader: files are described once, and batches made from where their bytes lie.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use forebay::{
    Error, Loader, Options, Origins, Result, SetSpec,
    batch::{AtOnce, BatchMaker, BatchRequest, MakerThreads},
    open_named_set,
    plan::{Epoch, Groups, Plan, PlanSpec, Shard, Shuffle, Tail},
};
use forebay_workload::FileFormat;

use super::{
    StepBatch, StepReader, StepRequest,
    each_file::EachFileReader,
    forebay_plan::{ForebayPlan, counted_bytes},
    read_log::ReadLog,
};
use crate::{
    reading::sample_reader::SampleTimes,
    workers::worker::{BatchTimes, monotonic_ns},
};

/// Reads by forebay.
#[derive(Debug)]
pub(crate) struct ForebayStepReader {
    maker: Arc<dyn BatchMaker>,
    plan: Plan,
    batch_size: u64,
    threads: MakerThreads,
    format: FileFormat,
}

/// The reader of `plan`, whose files are found through `origins`: by the loader, or sample by sample where sizes differ. Records
/// of its reads are added to `log`.
pub(crate) fn open_reader(
    plan: &ForebayPlan,
    origins: &Origins,
    log: Option<&Path>,
) -> Result<Arc<dyn StepReader>> {
    let name = |path: &PathBuf| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::invalid("a path that is not UTF-8").at(path.display()))
    };
    let files = plan.files.iter().map(name).collect::<Result<Vec<_>>>()?;
    let files = files.iter().map(|file| origins.absolute(file)).collect::<Result<Vec<_>>>()?;
    plan.variables()?;
    let Some(log) = log.map(ReadLog::open).transpose()? else {
        return Ok(match plan.sizes_differ {
            true => Arc::new(EachFileReader::new(plan, files, origins)),
            false => Arc::new(ForebayStepReader::open(plan, files, origins)?),
        });
    };
    let [metadata, values] = [log.metadata(), log.values()].map(|sink| origins.traced(sink));
    if plan.sizes_differ {
        return Ok(Arc::new(EachFileReader::new(plan, files, &metadata).reading_values_through(values)));
    }
    let reader = ForebayStepReader::open(plan, files, &metadata)?;
    log.end_metadata();
    Ok(Arc::new(reader))
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

impl StepReader for ForebayStepReader {
    fn threads(&self) -> MakerThreads {
        self.threads
    }

    fn read(&self, request: &StepRequest<'_>) -> Result<StepBatch> {
        let (began, began_ns) = (Instant::now(), monotonic_ns());
        let samples: Vec<Option<u64>> = request.samples.iter().map(|sample| Some(*sample)).collect();
        let epoch = self.epoch_of(request.epoch)?;
        let step = request.samples.first().map_or(0, |first| first / self.batch_size.max(1));
        let made = self.maker.make(&BatchRequest {
            samples: &samples,
            numbers: &samples,
            epoch: &epoch,
            step,
            oldest_step: step,
            turn: &AtOnce,
        })?;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let count = samples.len().max(1) as u64;
        let bytes: u64 = made.fields.iter().map(|field| field.bytes.len() as u64).sum();
        let bytes = counted_bytes(self.format, bytes / count);
        let each = SampleTimes { metadata_ns: 0, read_ns: took / count, bytes };
        let preprocess_s = request.preprocess.of_all();
        let times = BatchTimes { samples: vec![each; samples.len()], preprocess_s, began_ns, worker: 0 };
        Ok(StepBatch { made, times })
    }

    fn describe(&self) -> String {
        format!("forebay {}", env!("CARGO_PKG_VERSION"))
    }
}
