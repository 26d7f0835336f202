//! `forebay store-bench`: how fast samples come from the memory of other ranks.

mod measure;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use forebay::{
    Error, Result,
    store::{Comm, ModelCase, Wait},
};
use serde::{Deserialize, Serialize};

use crate::{
    Context,
    args::quantity,
    exit,
    output::{self, layout::aligned, show},
};
use measure::{Case, Figures};

const EXAMPLES: &str = "\
Examples:
  mpirun -n 4 forebay store-bench                         all widths, 8 KiB samples, batches of 128
  mpirun -n 8 forebay store-bench --widths 2,8 --sample-size 8KiB,256KiB --json
  forebay store-bench                                     one rank: what the memory of this machine gives
  mpirun -n 4 forebay store-bench --study ddstore         DDStore's comparison with files, at the size of this machine

Every rank holds its part of the samples and reads random ones: one at a time of other ranks (get), in batches of any rank \
(batch), and, as the limit, as many bytes from memory of its own (copy). All ranks measure at once. The first and last byte of \
every sample that was read are compared with what they must be.

JSON, per width, sample size and batch: width, sample_bytes, batch, get_p50_us, get_p95_us, get_p99_us (null with one rank), \
get_cdf_us (at 0, 5, 10 … 100 %), batch_p50_us, batch_p99_us, samples_per_s, of_copy, remote_share; ranks, ranks_per_host, cores_per_host and transport beside \
them. `forebay simulate store --measured` takes it.";

/// Arguments of `forebay store-bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StoreBenchArgs {
    /// Bytes that all ranks of a replica group hold between them.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = forebay::size::parse)]
    bytes: u64,

    /// Bytes of a sample; several are measured one after the other.
    #[arg(long, value_name = "SIZE,…", default_value = "8KiB", value_delimiter = ',', value_parser = bytes_of_sample)]
    sample_size: Vec<u64>,

    /// Samples of a batch.
    #[arg(long, value_name = "N,…", default_value = "128", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    batch: Vec<u64>,

    /// Ranks of a replica group [default: 1, 2, 4 and so on, up to all ranks].
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    widths: Vec<usize>,

    /// How bytes of other hosts travel: auto, mpi, tcp or shm.
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = forebay::DataPath::parse)]
    data: forebay::DataPath,

    /// A published comparison instead: ddstore, with a pickle per sample, an ADIOS file and stores of several widths side by side.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,

    /// How long each figure is measured.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::time)]
    time: Duration,
}

/// What rank 0 prints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BenchReport {
    ranks: usize,
    /// Ranks of the host that has most.
    ranks_per_host: usize,
    /// Processors that its ranks may use between them: launchers bind ranks to some. Where hosts are emulated on one machine, divide
    /// it by hand.
    cores_per_host: f64,
    transport: String,
    results: Vec<Figures>,
}

impl BenchReport {
    /// Every case with the seconds that a batch took, by the mean over ranks.
    pub(crate) fn points(&self) -> impl Iterator<Item = (ModelCase, f64)> + '_ {
        self.results.iter().map(|figures| {
            let case = ModelCase {
                ranks: self.ranks,
                ranks_per_host: self.ranks_per_host,
                cores_per_host: self.cores_per_host,
                width: figures.width,
                sample_bytes: figures.sample_bytes,
                batch: figures.batch,
            };
            (case, (self.ranks as u64 * figures.batch) as f64 / figures.samples_per_s)
        })
    }
}

/// Runs `forebay store-bench`.
pub(crate) fn run(context: &Context, args: &StoreBenchArgs) -> Result<u8> {
    if let Some(study) = &args.study {
        let error = Error::unsupported(format!("the study '{study}' reads pickles, as only Python can"));
        return Err(error.hint(
            "run the command of the Python package: pip install forebay, forebay store-bench --study ddstore",
        ));
    }
    let wait = Wait::while_ranks_live();
    let comm = forebay::job_comm(args.data, &wait)?;
    let mut results = Vec::new();
    for width in args.widths(comm.size()) {
        for sample_bytes in &args.sample_size {
            for batch in &args.batch {
                let case = Case {
                    width,
                    sample_bytes: *sample_bytes,
                    batch: *batch,
                    bytes: args.bytes,
                    time: args.time,
                };
                results.push(measure::measure(&comm, case, &wait)?);
            }
        }
    }
    let (ranks_per_host, cores_per_host) = fullest_host(&comm, &wait)?;
    let report = BenchReport {
        ranks: comm.size(),
        ranks_per_host,
        cores_per_host: cores_per_host as f64,
        transport: comm.transport(),
        results,
    };
    if comm.rank() == 0 {
        print(context, &report)?;
    }
    comm.barrier(&wait)?;
    Ok(exit::SUCCESS)
}

/// Ranks of the host that has most, and the processors that they may use between them. Collective.
fn fullest_host(comm: &Arc<dyn Comm>, wait: &Wait<'_>) -> Result<(usize, usize)> {
    let gathered =
        comm.all_gather(own_processors().into_iter().flat_map(u32::to_le_bytes).collect(), wait)?;
    let mut hosts: BTreeMap<usize, (usize, BTreeSet<&[u8]>)> = BTreeMap::new();
    for (rank, own) in gathered.iter().enumerate() {
        let (ranks, processors) = hosts.entry(comm.host_of(rank)).or_default();
        *ranks += 1;
        processors.extend(own.chunks_exact(4));
    }
    let fullest = hosts.into_values().max_by_key(|(ranks, _)| *ranks);
    Ok(fullest.map_or((1, 1), |(ranks, processors)| (ranks, processors.len().max(1))))
}

/// The numbers of the processors that this process may run on.
fn own_processors() -> Vec<u32> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    let most = u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    (0..most).filter(|processor| allowed.is_set(*processor as usize)).collect()
}

/// Bytes of a sample: at least one.
fn bytes_of_sample(text: &str) -> std::result::Result<u64, String> {
    match forebay::size::parse(text) {
        Ok(0) => Err("a sample has at least one byte".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

impl StoreBenchArgs {
    fn widths(&self, ranks: usize) -> Vec<usize> {
        if !self.widths.is_empty() {
            return self.widths.clone();
        }
        doubled_widths(ranks)
    }
}

/// 1, 2, 4 and so on, and all ranks.
pub(crate) fn doubled_widths(ranks: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1usize), |width| width.checked_mul(2));
    doubled.take_while(|width| *width < ranks).chain([ranks]).collect()
}

fn print(context: &Context, report: &BenchReport) -> Result<()> {
    if context.json {
        let text =
            serde_json::to_string_pretty(report).map_err(|error| Error::invalid("no JSON").because(error))?;
        return output::say(text);
    }
    output::say(format!("{} ranks, {}", report.ranks, report.transport))?;
    let head = [
        "width",
        "sample",
        "batch",
        "get p50",
        "p95",
        "p99",
        "batch p50",
        "p99",
        "samples/s",
        "of a copy",
        "remote",
    ];
    let us = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2} us"));
    let row = |figures: &Figures| {
        vec![
            figures.width.to_string(),
            show::size(figures.sample_bytes),
            figures.batch.to_string(),
            us(figures.get_p50_us),
            us(figures.get_p95_us),
            us(figures.get_p99_us),
            us(Some(figures.batch_p50_us)),
            us(Some(figures.batch_p99_us)),
            format!("{:.0}", figures.samples_per_s),
            format!("{:.2}", figures.of_copy),
            format!("{:.0} %", 100.0 * figures.remote_share),
        ]
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.results.iter().map(row));
    aligned(&rows).into_iter().try_for_each(output::say)
}
