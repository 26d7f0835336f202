//! `forebay load`: runs epochs over a set of samples, and says how fast they were and what held them up.

mod report;
mod state_file;
mod tier_report;

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay::{
    Batch, DataPath, Error, Loader, Origin, Origins, Result, SlowFiles, TierConfig, TierObserver, TierReport,
    loader::{Next, Run},
    plan::{LoaderState, Shuffle},
    size,
    source::FaultSchedule,
    store::Wait,
};
use indicatif::ProgressBar;

use crate::{
    Context,
    args::{
        config::ConfigArgs,
        loader::LoaderArgs,
        quantity,
        set::{Chosen, SetArgs},
    },
    exit,
    interrupt::{GLANCE, Interrupt},
    load::{
        report::{EpochReport, EpochSpan},
        state_file::StateFile,
    },
    output::{self, progress},
};

const EXAMPLES: &str = "\
Examples:
  forebay load train.h5                                  every variable that fits, one epoch
  forebay load 'train/*.h5' --field image --label label --batch 64 --epochs 3
  forebay load graphs.h5 --field pos --field z --label y --samples ragged:ptr
  forebay load 'era5_*.nc' --field t2m --samples windows:time=4 --targets time=1,6 --files-axis time --cf
  forebay load train.h5 --field x=image:float16 --shuffle block --memory 2GiB
  forebay load '/lustre/set/*.h5' --epochs 3 --tier disk:/nvme/$USER:100GiB    through a tier
  forebay load train.h5 --compute-ms 20                  a model that takes 20 ms for a batch
  forebay load train.h5 --epochs 10 --state run.json     goes on from run.json, if it is there
  forebay load train.h5 --rank 0 --world 3 --tail pad --list rank0.txt

Times of reading, decoding and copying are summed over threads. Ctrl-C ends the run within a second, with what was done \
so far and exit code 130. With --state, the file holds where the run is: --epochs counts those of earlier runs too.

JSON: samples, file_count, fields[name, dtype, sample_shape], resumed, interrupted, epochs[epoch, complete, seconds, \
first_batch_seconds, samples_per_second, bytes_per_second, read_factor, decode_factor, verdict, batches, samples, delivered_bytes, \
read_bytes, requests, decoded_bytes, decoded_units, decoded_again, spilled_bytes, unspilled_bytes, skipped, skipped_batches, substituted, \
read_ns, decode_ns, copy_ns, full_ns, memory_ns, wait_ns], troubles[sample, why], origin_latency{count, \
mean_ns, p50_ns, p90_ns, p99_ns, max_ns} of reads from behind a network, verdict, advice; tiers{tiers[name, reads, \
bytes, ns, used, quota, evicted, faults], origin{reads, bytes, ns}, placed, placed_bytes, refused, ahead, ahead_bytes, wait_ns, \
waiting, backlog, saved, epochs[the same, epoch, hit_ratio]} with tiers; error and kind if it failed.";

/// Arguments of `forebay load`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    set: SetArgs,

    #[command(flatten)]
    loader: LoaderArgs,

    #[command(flatten)]
    config: ConfigArgs,

    /// Epochs to run.
    #[arg(long, help_heading = "Run", value_name = "N", default_value_t = 1)]
    epochs: u64,

    /// Simulated compute time per batch, in milliseconds.
    #[arg(long, help_heading = "Run", value_name = "MS", default_value_t = 0.0, value_parser = milliseconds)]
    compute_ms: f64,

    /// Simulated slow storage, inside this process: latency of each request and bandwidth of all together, such as
    /// 2ms,200MiB/s. `forebay simulate` does so for any program.
    #[arg(long, help_heading = "Run", value_name = "PACE", value_parser = slow)]
    slow: Option<FaultSchedule>,

    /// State file for resuming: holds the position of the run, which goes on from there if FILE exists.
    #[arg(long, help_heading = "Run", value_name = "FILE")]
    state: Option<PathBuf>,

    /// List of delivered samples: writes epoch and number of each to FILE, a line each; a run that goes on adds to it.
    #[arg(long, help_heading = "Run", value_name = "FILE")]
    list: Option<PathBuf>,
}

/// `2ms` or `2ms,200MiB/s`.
fn slow(text: &str) -> Result<FaultSchedule, String> {
    let (latency, bandwidth) = match text.split_once(',') {
        Some((latency, bandwidth)) => (latency, size::parse(bandwidth.trim().trim_end_matches("/s"))?),
        None => (text, 0),
    };
    let delay = quantity::time(latency)?;
    Ok(FaultSchedule { delay, bytes_per_second: NonZeroU64::new(bandwidth), ..FaultSchedule::default() })
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if (0.0..=3.6e6).contains(&time) => Ok(time),
        _ => Err("milliseconds are a number from 0 to 3600000".into()),
    }
}

/// Runs `forebay load`.
pub(crate) fn run(context: &Context, args: &LoadArgs) -> Result<u8> {
    let interrupt = Interrupt::catch();
    let config = args.config.load()?.config;
    let mut set = args.set.under(&config.origin);
    let slowed = args.slow.clone().map(|schedule| Arc::new(SlowFiles::new(schedule)));
    let origins = match &slowed {
        None => Origins::new(),
        Some(slowed) => {
            set.rename(|path| Ok(SlowFiles::name(path)))?;
            Origins::with_far(Arc::clone(slowed) as Arc<dyn Origin>)
        }
    };
    if config.tiers.iter().any(|tier| matches!(tier, TierConfig::Peers { .. })) {
        forebay::join_job(forebay::job_comm(DataPath::Auto, &Wait::while_ranks_live())?);
    }
    let (origins, tiers) = origins.through_tiers(&config, None)?;
    let chosen = set.open_among(context, &origins)?;
    let mut loader = Loader::new(chosen.set.clone(), args.loader.options(context))?;
    if let Some(tiers) = &tiers {
        loader.observe(Box::new(TierObserver::new(Arc::clone(tiers))))?;
    }
    let state = args.state.clone().map(StateFile::new);
    let resumed = state.as_ref().map_or(Ok(false), |state| state.resume(&loader))?;
    let list = args.list.as_deref().map(|path| SampleList::open(path, resumed)).transpose()?;
    let compute = Duration::from_secs_f64(args.compute_ms / 1e3);
    interrupt.watch();
    let mut consumer = Consumer { loader: &loader, interrupt, state, list, compute, failed: Vec::new() };
    let answer = LoadReport { context, args, chosen: &chosen, origins: &origins, resumed };
    answer.begin(&loader)?;
    let mut reports = Vec::new();
    let mut failed = None;
    while loader.state().epoch < args.epochs && !consumer.interrupt.is_wanted() && failed.is_none() {
        let (report, ended) = consumer.epoch()?;
        answer.epoch(&report)?;
        reports.push(report);
        failed = ended.err();
    }
    answer.end(&consumer, &reports, failed.as_ref())?;
    if let Some(tiers) = &tiers {
        tiers.close();
    }
    match failed {
        Some(error) => Err(error),
        None if consumer.interrupt.is_wanted() => Ok(exit::INTERRUPTED),
        None => Ok(exit::SUCCESS),
    }
}

/// The samples that were delivered, as a file lists them.
struct SampleList {
    file: BufWriter<File>,
    path: PathBuf,
}

impl SampleList {
    /// A new list at `path`, or the one that is there when a run goes on.
    fn open(path: &Path, resumed: bool) -> Result<Self> {
        let mut options = File::options();
        options.create(true).write(true).append(resumed).truncate(!resumed);
        let file = options.open(path).map_err(|error| Error::from_io(error).at(path.display()))?;
        Ok(Self { file: BufWriter::new(file), path: path.to_owned() })
    }

    fn add(&mut self, batch: &Batch) -> Result<()> {
        let mut samples = batch.samples.iter().flatten();
        let written = samples.try_for_each(|sample| writeln!(self.file, "{} {sample}", batch.epoch));
        self.placed(written)
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.file.flush();
        self.placed(flushed)
    }

    fn placed(&self, done: io::Result<()>) -> Result<()> {
        done.map_err(|error| Error::from_io(error).at(self.path.display()))
    }
}

/// Takes batches as a training program does.
struct Consumer<'a> {
    loader: &'a Loader,
    interrupt: Interrupt,
    state: Option<StateFile>,
    list: Option<SampleList>,
    compute: Duration,
    /// The first samples that could not be read, and why.
    failed: Vec<(u64, String)>,
}

/// More samples than this are counted and not named.
const MOST_FAILED: usize = 20;

impl Consumer<'_> {
    /// Runs an epoch: to its end, to an interrupt or to an error, which stands beside the report.
    fn epoch(&mut self) -> Result<(EpochReport, Result<()>)> {
        let before = self.loader.stats();
        let began = Instant::now();
        let mut run = self.loader.start()?;
        let epoch = run.epoch();
        let mut first_batch = None;
        let bar = progress::batches(run.step_count(), epoch);
        let ended = self.batches(&mut run, &bar, || {
            first_batch.get_or_insert_with(|| began.elapsed());
        });
        bar.finish_and_clear();
        let took = began.elapsed();
        let stats = self.loader.stats().since(&before);
        drop(run);
        self.save()?;
        let complete = ended.as_ref().is_ok_and(|complete| *complete);
        let tiers =
            TierReport::from_loader(self.loader).and_then(|report| report.epochs.into_iter().next_back());
        let report = EpochReport::new(EpochSpan { epoch, complete, took, first_batch }, stats, tiers);
        Ok((report, ended.map(|_| ())))
    }

    /// Takes the batches of `run`; true when there are no more.
    fn batches(&mut self, run: &mut Run, bar: &ProgressBar, mut received: impl FnMut()) -> Result<bool> {
        let before = self.loader.stats();
        while !self.interrupt.is_wanted() {
            match self.loader.next(run, GLANCE)? {
                Next::End => return Ok(true),
                Next::Waiting => {}
                Next::Batch(batch) => {
                    received();
                    self.take(&batch)?;
                    bar.inc(1);
                    progress::tell(bar, || self.loader.stats().since(&before));
                }
            }
        }
        Ok(false)
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        if let Some(list) = &mut self.list {
            list.add(batch)?;
        }
        let room = MOST_FAILED.saturating_sub(self.failed.len());
        let named = batch.failed.iter().take(room);
        self.failed.extend(named.map(|failed| (failed.sample, failed.why.clone())));
        self.interrupt.sleep(self.compute);
        if self.state.as_ref().is_some_and(StateFile::is_due) {
            self.save()?;
        }
        Ok(())
    }

    /// Saves where the run is, after what it lists.
    fn save(&mut self) -> Result<()> {
        if let Some(list) = &mut self.list {
            list.flush()?;
        }
        match &mut self.state {
            Some(state) => state.save(self.loader),
            None => Ok(()),
        }
    }
}

/// What is reported of a run, as it goes and at its end.
struct LoadReport<'a> {
    context: &'a Context,
    args: &'a LoadArgs,
    chosen: &'a Chosen,
    origins: &'a Origins,
    resumed: bool,
}

impl LoadReport<'_> {
    fn begin(&self, loader: &Loader) -> Result<()> {
        if self.context.json {
            return Ok(());
        }
        self.chosen.describe().into_iter().try_for_each(output::say)?;
        output::say(self.args.loader.describe(self.context))?;
        let Some(path) = self.args.state.as_ref().filter(|_| self.resumed) else { return Ok(()) };
        // The order is the state's, whatever the flags say.
        let LoaderState { epoch, position, samples, shuffle, seed, .. } = loader.state();
        let order = match shuffle {
            Shuffle::Full => format!("full, seed {seed}"),
            Shuffle::Block { .. } => format!("block, seed {seed}"),
            Shuffle::None => "none".into(),
        };
        let path = path.display();
        output::say(format!(
            "goes on from {path}: epoch {epoch} after {position} of {samples}, shuffle {order}"
        ))
    }

    fn epoch(&self, report: &EpochReport) -> Result<()> {
        if self.context.json {
            return Ok(());
        }
        report.lines().into_iter().try_for_each(output::say)
    }

    fn end(&self, consumer: &Consumer<'_>, reports: &[EpochReport], failed: Option<&Error>) -> Result<()> {
        if self.context.json {
            self.context.error_was_shown.set(failed.is_some());
            return output::say(self.json(consumer, reports, failed));
        }
        for (sample, why) in &consumer.failed {
            output::say(format!("sample {sample}: {}", crate::output::show::message(why)))?;
        }
        if reports.is_empty() && self.resumed {
            let epochs = usize::try_from(self.args.epochs).unwrap_or(usize::MAX);
            let epochs = crate::output::show::count(epochs, "epoch", "epochs");
            return output::say(format!("nothing is left of {epochs}"));
        }
        let table = TierReport::from_loader(consumer.loader).map(|report| tier_report::table(&report));
        table.into_iter().flatten().try_for_each(output::say)
    }

    fn json(
        &self,
        consumer: &Consumer<'_>,
        reports: &[EpochReport],
        failed: Option<&Error>,
    ) -> serde_json::Value {
        let verdict = report::verdict(reports);
        let row = |(sample, why): &(u64, String)| serde_json::json!({ "sample": sample, "why": why });
        let mut answer = serde_json::json!({
            "samples": self.chosen.set.len(),
            "file_count": self.chosen.set.files().len(),
            "fields": self.chosen.fields(),
            "resumed": self.resumed,
            "interrupted": consumer.interrupt.is_wanted(),
            "epochs": reports,
            "troubles": consumer.failed.iter().map(row).collect::<Vec<_>>(),
            "origin_latency": self.origins.latency().summary(),
            "verdict": verdict,
            "advice": verdict.advice(),
        });
        if let Some(report) = TierReport::from_loader(consumer.loader) {
            answer["tiers"] = serde_json::to_value(report).unwrap_or_default();
        }
        if let Some(error) = failed {
            answer["error"] = error.to_string().into();
            answer["kind"] = format!("{:?}", error.kind()).into();
        }
        answer
    }
}
