//! `forebay simulate store`: how fast a distributed store would be, by the model of [`forebay::store::ModelCase`].

use std::{collections::BTreeSet, fs, path::PathBuf, time::Duration};

use forebay::{
    Error, Result, size,
    store::{ModelAnswer, ModelCase, ModelConstants},
};
use serde::Serialize;

use crate::{
    Context,
    args::quantity,
    exit,
    output::{self, layout::aligned, show},
    store_bench::BenchReport,
};

const EXAMPLES: &str = "\
Examples:
  forebay simulate store --ranks 1024 --ranks-per-host 4 --widths 4,64,1024 --samples 10500000 --sample-size 6KiB
  forebay simulate store --ranks 64 --round-trip 3us --bandwidth 25GiB/s --file-latency 1.2ms
  mpirun -n 4 forebay store-bench --json >four.json; mpirun -n 8 forebay store-bench --json >eight.json
  forebay simulate store --ranks 512 --measured four.json --measured eight.json

The constants of the model are those of --measured, fitted to every other point of it along each axis; the rest is predicted, and each point is \
shown beside its prediction. Without it they are those of a machine with two processors, where network namespaces stand for hosts. --round-trip and \
--bandwidth replace what they name. With --file-latency, the same samples read from files are shown too: a file for each sample \
(it is opened, then read) and one container (index, metadata and data of a sample are read).

JSON: constants{sample_us, byte_ns, round_trip_us, request_us, remote_sample_us, remote_byte_ns, \
beyond_cache_ns, turn_us}, predictions[width, copies, \
rank_bytes, remote_share, get_us, batch_us, samples_per_s, epoch_s], files[what, get_us, samples_per_s, epoch_s], \
points[ranks, width, sample_bytes, batch, measured_us, predicted_us, fitted].";

/// Requests for a sample that is a file of its own, and for one of a container.
const FILE_REQUESTS: [(&str, f64); 2] = [("a file per sample", 2.0), ("one container", 3.0)];

/// Arguments of `forebay simulate store`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StoreModelArgs {
    /// Ranks of the job.
    #[arg(long, value_name = "N")]
    ranks: usize,

    /// Ranks of a host.
    #[arg(long, value_name = "N", default_value = "4")]
    ranks_per_host: usize,

    /// Processors that the ranks of a host have [default: one for each rank].
    #[arg(long, value_name = "N")]
    cores: Option<f64>,

    /// Ranks that hold the set between them [default: 1, 2, 4 and so on, up to all ranks].
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    widths: Vec<usize>,

    /// Samples of the set.
    #[arg(long, value_name = "N", default_value = "1000000")]
    samples: u64,

    /// Bytes of a sample.
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = size::parse)]
    sample_size: u64,

    /// Samples of a batch.
    #[arg(long, value_name = "N", default_value = "128")]
    batch: u64,

    /// Time until the first byte of another host is there.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    round_trip: Option<Duration>,

    /// Bandwidth of a host's network, which its ranks share: 25GiB/s; 0 is no limit.
    #[arg(long, value_name = "SIZE/s", default_value = "0", value_parser = quantity::bandwidth)]
    bandwidth: u64,

    /// Latency of a request to the file system; shows what files would give.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    file_latency: Option<Duration>,

    /// What `forebay store-bench --json` wrote; may be given several times.
    #[arg(long, value_name = "FILE")]
    measured: Vec<PathBuf>,
}

/// Constants of a machine with two processors, where network namespaces stand for hosts and TCP carries the bytes between them.
const TWO_PROCESSORS: ModelConstants = ModelConstants {
    sample: 0.3e-6,
    byte: 0.12e-9,
    round_trip: 13e-6,
    request: 4e-6,
    remote_sample: 0.5e-6,
    remote_byte: 0.25e-9,
    beyond_cache: 0.014e-9,
    turn: 4e-6,
    link: f64::INFINITY,
};

#[derive(Debug, Serialize)]
struct ModelReport {
    constants: ConstantsFacts,
    predictions: Vec<Prediction>,
    files: Vec<FilePrediction>,
    points: Vec<PointFacts>,
}

#[derive(Debug, Serialize)]
struct ConstantsFacts {
    sample_us: f64,
    byte_ns: f64,
    round_trip_us: f64,
    request_us: f64,
    remote_sample_us: f64,
    remote_byte_ns: f64,
    beyond_cache_ns: f64,
    turn_us: f64,
}

#[derive(Debug, Serialize)]
struct Prediction {
    width: usize,
    copies: usize,
    rank_bytes: u64,
    remote_share: f64,
    get_us: f64,
    batch_us: f64,
    samples_per_s: f64,
    epoch_s: f64,
}

#[derive(Debug, Serialize)]
struct FilePrediction {
    what: &'static str,
    get_us: f64,
    samples_per_s: f64,
    epoch_s: f64,
}

/// A measured point beside its prediction.
#[derive(Debug, Serialize)]
struct PointFacts {
    ranks: usize,
    width: usize,
    sample_bytes: u64,
    batch: u64,
    measured_us: f64,
    predicted_us: f64,
    /// Whether the constants were fitted to it.
    fitted: bool,
}

/// Runs `forebay simulate store`.
pub(super) fn run(context: &Context, args: &StoreModelArgs) -> Result<u8> {
    if args.ranks == 0 || args.ranks_per_host == 0 || args.batch == 0 {
        return Err(Error::invalid("--ranks, --ranks-per-host and --batch are at least 1"));
    }
    if args.cores.is_some_and(|cores| cores.is_nan() || cores <= 0.0) {
        return Err(Error::invalid("--cores is above 0"));
    }
    let measured = args.measured_points()?;
    let mut constants = args.constants(&measured)?;
    let points = measured.iter().zip(fitted_points(&measured));
    let points = points.map(|(point, fitted)| point_facts(*point, fitted, &constants));
    let points = points.collect::<Result<Vec<_>>>()?;
    constants.link = if args.bandwidth == 0 { f64::INFINITY } else { args.bandwidth as f64 };
    if let Some(round_trip) = args.round_trip {
        constants.round_trip = round_trip.as_secs_f64();
    }
    let widths = args.widths();
    let predictions = widths.into_iter().map(|width| args.predict(width, &constants));
    let report = ModelReport {
        constants: ConstantsFacts::of(&constants),
        predictions: predictions.collect::<Result<_>>()?,
        files: args.files(),
        points,
    };
    print(context, args, &report)?;
    Ok(exit::SUCCESS)
}

/// Which points are fitted: every other one along each of ranks, widths, lengths of samples and of batches, as the dark squares
/// of a chessboard. Then each value of each of them is among those that are fitted and among those that are not.
fn fitted_points(measured: &[(ModelCase, f64)]) -> Vec<bool> {
    let axes: [fn(&ModelCase) -> u64; 4] =
        [|case| case.ranks as u64, |case| case.width as u64, |case| case.sample_bytes, |case| case.batch];
    let values = axes.map(|axis| measured.iter().map(|(case, _)| axis(case)).collect::<BTreeSet<_>>());
    let place = |case: &ModelCase| -> usize {
        axes.iter().zip(&values).map(|(axis, values)| values.range(..axis(case)).count()).sum()
    };
    measured.iter().map(|(case, _)| place(case).is_multiple_of(2)).collect()
}

fn point_facts(
    (case, seconds): (ModelCase, f64),
    fitted: bool,
    constants: &ModelConstants,
) -> Result<PointFacts> {
    Ok(PointFacts {
        ranks: case.ranks,
        width: case.width,
        sample_bytes: case.sample_bytes,
        batch: case.batch,
        measured_us: seconds * 1e6,
        predicted_us: case.answer(constants)?.batch_seconds * 1e6,
        fitted,
    })
}

impl StoreModelArgs {
    /// The batches that were measured, in seconds each.
    fn measured_points(&self) -> Result<Vec<(ModelCase, f64)>> {
        let mut points = Vec::new();
        for path in &self.measured {
            let text = fs::read(path).map_err(|error| Error::from_io(error).at(path.display()))?;
            let bench: BenchReport = serde_json::from_slice(&text).map_err(|error| {
                let what = Error::invalid("not what forebay store-bench --json writes").because(error);
                what.at(path.display())
            })?;
            points.extend(bench.points());
        }
        Ok(points)
    }

    fn constants(&self, measured: &[(ModelCase, f64)]) -> Result<ModelConstants> {
        if measured.is_empty() {
            return Ok(TWO_PROCESSORS);
        }
        let is_one_host = measured.iter().all(|(case, _)| case.ranks <= case.ranks_per_host);
        let is_asked_for_more = self.ranks > self.ranks_per_host;
        if is_one_host && is_asked_for_more && self.round_trip.is_none() {
            let error = Error::invalid("what was measured is of one host, and says nothing of others");
            return Err(error.hint(
                "measure on several hosts, or give --round-trip (and --bandwidth) of the network: the rest of what other hosts \
                 cost is then that of a machine with two processors",
            ));
        }
        let chosen = measured.iter().zip(fitted_points(measured)).filter(|(_, fitted)| *fitted);
        let fitted: Vec<_> = chosen.map(|(point, _)| *point).collect();
        let fitted = ModelConstants::fitted(&fitted)?;
        let ModelConstants { round_trip, request, remote_sample, remote_byte, turn, .. } = TWO_PROCESSORS;
        Ok(match is_one_host {
            true => ModelConstants { round_trip, request, remote_sample, remote_byte, turn, ..fitted },
            false => fitted,
        })
    }

    fn widths(&self) -> Vec<usize> {
        if self.widths.is_empty() {
            crate::store_bench::doubled_widths(self.ranks)
        } else {
            self.widths.clone()
        }
    }

    fn predict(&self, width: usize, constants: &ModelConstants) -> Result<Prediction> {
        let ranks_per_host = self.ranks_per_host.min(self.ranks);
        let case = ModelCase {
            ranks: self.ranks,
            ranks_per_host,
            cores_per_host: self.cores.unwrap_or(ranks_per_host as f64),
            width,
            sample_bytes: self.sample_size,
            batch: self.batch,
        };
        let ModelAnswer { remote_share, get_seconds, batch_seconds, samples_per_second } =
            case.answer(constants)?;
        Ok(Prediction {
            width,
            copies: self.ranks / width,
            rank_bytes: self.samples.saturating_mul(self.sample_size).div_ceil(width as u64),
            remote_share,
            get_us: get_seconds * 1e6,
            batch_us: batch_seconds * 1e6,
            samples_per_s: samples_per_second,
            epoch_s: self.samples as f64 / samples_per_second,
        })
    }

    /// The same samples from files, each rank with one request at a time.
    fn files(&self) -> Vec<FilePrediction> {
        let Some(latency) = self.file_latency else { return Vec::new() };
        let predict = |(what, requests): (&'static str, f64)| {
            let seconds = requests * latency.as_secs_f64();
            let samples_per_s = self.ranks as f64 / seconds;
            FilePrediction {
                what,
                get_us: seconds * 1e6,
                samples_per_s,
                epoch_s: self.samples as f64 / samples_per_s,
            }
        };
        FILE_REQUESTS.map(predict).into()
    }
}

impl ConstantsFacts {
    fn of(constants: &ModelConstants) -> Self {
        let &ModelConstants {
            sample,
            byte,
            round_trip,
            request,
            remote_sample,
            remote_byte,
            beyond_cache,
            turn,
            link: _,
        } = constants;
        Self {
            sample_us: sample * 1e6,
            byte_ns: byte * 1e9,
            round_trip_us: round_trip * 1e6,
            request_us: request * 1e6,
            remote_sample_us: remote_sample * 1e6,
            remote_byte_ns: remote_byte * 1e9,
            beyond_cache_ns: beyond_cache * 1e9,
            turn_us: turn * 1e6,
        }
    }
}

fn print(context: &Context, args: &StoreModelArgs, report: &ModelReport) -> Result<()> {
    if context.json {
        let text =
            serde_json::to_string_pretty(report).map_err(|error| Error::invalid("no JSON").because(error))?;
        return output::say(text);
    }
    print_points(&report.points)?;
    let total = show::size(args.samples.saturating_mul(args.sample_size));
    output::say(format!(
        "{} ranks, {} of a host, {} samples of {} ({total}), batches of {}; predicted:",
        args.ranks,
        args.ranks_per_host.min(args.ranks),
        args.samples,
        show::size(args.sample_size),
        args.batch
    ))?;
    let head = ["width", "copies", "per rank", "other hosts", "get", "batch", "samples/s", "epoch"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.predictions.iter().map(|of| {
        vec![
            of.width.to_string(),
            of.copies.to_string(),
            show::size(of.rank_bytes),
            format!("{:.0} %", 100.0 * of.remote_share),
            format!("{:.1} us", of.get_us),
            format!("{:.0} us", of.batch_us),
            format!("{:.0}", of.samples_per_s),
            show::seconds(of.epoch_s),
        ]
    }));
    let dash = || "-".to_owned();
    rows.extend(report.files.iter().map(|of| {
        let rate = format!("{:.0}", of.samples_per_s);
        let get = format!("{:.1} us", of.get_us);
        vec![of.what.to_owned(), dash(), dash(), dash(), get, dash(), rate, show::seconds(of.epoch_s)]
    }));
    aligned(&rows).into_iter().try_for_each(output::say)
}

fn print_points(points: &[PointFacts]) -> Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    let head = ["ranks", "width", "sample", "batch", "measured", "predicted", "off by", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(points.iter().map(|point| {
        vec![
            point.ranks.to_string(),
            point.width.to_string(),
            show::size(point.sample_bytes),
            point.batch.to_string(),
            format!("{:.1} us", point.measured_us),
            format!("{:.1} us", point.predicted_us),
            format!("{:+.0} %", 100.0 * (point.predicted_us / point.measured_us - 1.0)),
            if point.fitted { "fitted".to_owned() } else { String::new() },
        ]
    }));
    aligned(&rows).into_iter().try_for_each(output::say)?;
    output::say(String::new())
}
