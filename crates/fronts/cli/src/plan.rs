//! `forebay plan`: what epochs over a set of samples will cost, without running them.

mod remedy;
mod tiers;

use std::thread;

use forebay::{
    Error, ErrorKind, Result,
    loader::{EpochCost, Estimate},
};
use serde::Serialize;

use crate::{
    Context,
    args::{
        config::ConfigArgs,
        loader::{LoaderArgs, ShuffleArg},
        set::{Chosen, SetArgs},
    },
    output::{self, color::TextRole, layout::aligned, show},
    plan::{remedy::Remedies, tiers::Tiers},
};

const EXAMPLES: &str = "\
Examples:
  forebay plan train.h5                                  every variable that fits
  forebay plan 'train/*.h5' --field image --label label --batch 64 --memory 2GiB
  forebay plan graphs.h5 --field pos --label y --samples ragged:ptr --shuffle block
  forebay plan 'era5_*.nc' --field t2m --samples windows:time=4 --stride time=1 --files-axis time
  forebay plan 'train/*.h5' --tier memory:4GiB --tier disk:/nvme/$USER:100GiB
  forebay plan train.h5 --spill-quota 0 --json | jq .estimates.full.first.decoded_again

It reads descriptions and offsets, and no values. Figures are of this rank, and what one thread counts. A unit is what is \
read and decoded as one: a chunk, as a rule. 'again' counts units that were decoded before, in the same epoch or an \
earlier one, and were lost for want of room. A set of millions of samples is judged by the first of them.

With --tiers or a --tier it also says what each policy of the tiers would read from the origin in three epochs: whole \
blocks where a tier keeps them, else what is asked for.

JSON: samples, file_count, fields[name, dtype, sample_shape], shuffle, estimates{full, block, none: {exact, unit_bytes, \
cache_bytes, spill_quota_bytes, first, later} or {error}}, warnings, with tiers also tiers{exact, block_bytes, tiers[tier, \
quota_bytes], policy, policies{by name: epochs[reads, bytes], sum{reads, bytes}}}; first and later: batches, samples, delivered_bytes, \
read_bytes, read_factor, requests, decoded_bytes, decode_factor, decoded_units, decoded_again, spilled_bytes, \
unspilled_bytes, peak_spill_bytes, peak_memory_bytes.";

/// Arguments of `forebay plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    set: SetArgs,

    #[command(flatten)]
    loader: LoaderArgs,

    /// Compare cache policies: what each would read from the origin, with the configured tiers.
    #[arg(long)]
    tiers: bool,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs `forebay plan`.
pub(crate) fn run(context: &Context, args: &PlanArgs) -> Result<()> {
    let chosen = args.set.under(&args.config.load()?.config.origin).open(context)?;
    let wanted = args.loader.shuffle();
    // What is asked for must be possible; the others are there to compare with.
    let mut estimate = None;
    let all = thread::scope(|scope| {
        let started = ShuffleArg::ALL.map(|shuffle| {
            let (set, options) = (&chosen.set, args.loader.options_with(shuffle, context));
            (shuffle, scope.spawn(move || Estimate::of(set, &options)))
        });
        started.map(|(shuffle, thread)| {
            let bug = |_| Err(Error::new(ErrorKind::Bug, "a thread that plans panicked"));
            let own = thread.join().unwrap_or_else(bug);
            let report = own.as_ref().map(|own| *own).map_err(ToString::to_string);
            if shuffle == wanted {
                estimate = Some(own);
            }
            (shuffle, report)
        })
    });
    let missing = || Err(Error::new(ErrorKind::Bug, "a shuffle that was not planned"));
    let estimate = estimate.unwrap_or_else(missing)?;
    let tiers = match args.tiers || args.config.names_tiers() {
        true => Some(Tiers::of(context, &args.config, &chosen, &args.loader)?),
        false => None,
    };
    let answer = PlanReport { context, args, chosen: &chosen, wanted, estimate, all: &all, tiers };
    if context.json { answer.json() } else { answer.text() }
}

/// An estimate under the names `forebay load` has for what it counts.
#[derive(Debug, Serialize)]
struct EstimateFacts {
    exact: bool,
    unit_bytes: u64,
    cache_bytes: u64,
    spill_quota_bytes: u64,
    first: CostFacts,
    later: CostFacts,
}

#[derive(Debug, Serialize)]
struct CostFacts {
    read_factor: f64,
    decode_factor: f64,
    #[serde(flatten)]
    cost: EpochCost,
}

impl EstimateFacts {
    fn of(estimate: &Estimate) -> Self {
        let cost = |cost: EpochCost| CostFacts {
            read_factor: cost.read_factor(),
            decode_factor: cost.decode_factor(),
            cost,
        };
        Self {
            exact: estimate.exact,
            unit_bytes: estimate.unit_bytes,
            cache_bytes: estimate.cache_bytes,
            spill_quota_bytes: estimate.spill_quota_bytes,
            first: cost(estimate.first),
            later: cost(estimate.later),
        }
    }
}

type Estimates = [(ShuffleArg, Result<Estimate, String>); 3];

struct PlanReport<'a> {
    context: &'a Context,
    args: &'a PlanArgs,
    chosen: &'a Chosen,
    wanted: ShuffleArg,
    estimate: Estimate,
    all: &'a Estimates,
    tiers: Option<Tiers>,
}

impl PlanReport<'_> {
    fn json(&self) -> Result<()> {
        let mut estimates = serde_json::Map::new();
        for (shuffle, estimate) in self.all {
            let value = match estimate {
                Ok(estimate) => serde_json::json!(EstimateFacts::of(estimate)),
                Err(why) => serde_json::json!({ "error": why }),
            };
            estimates.insert(shuffle.word().to_owned(), value);
        }
        let mut report = serde_json::json!({
            "samples": self.chosen.set.len(),
            "file_count": self.chosen.set.files().len(),
            "fields": self.chosen.fields(),
            "shuffle": self.wanted.word(),
            "estimates": estimates,
            "warnings": self.warnings(),
        });
        if let Some(tiers) = &self.tiers {
            report["tiers"] = serde_json::json!(tiers.facts());
        }
        output::say(report)
    }

    fn text(&self) -> Result<()> {
        let paint = self.context.paint;
        self.chosen.describe().into_iter().try_for_each(output::say)?;
        output::say(self.args.loader.describe(self.context))?;
        self.summary().into_iter().try_for_each(output::say)?;
        output::say("")?;
        for (number, line) in self.table().into_iter().enumerate() {
            let is_wanted = line.starts_with(self.wanted.word());
            let role = match number {
                0 => TextRole::Dim,
                _ if is_wanted => TextRole::Name,
                _ => TextRole::Plain,
            };
            output::say(paint.paint(role, line.trim_end()))?;
        }
        if let Some(tiers) = &self.tiers {
            tiers.text(self.context)?;
        }
        for warning in self.warnings() {
            output::say(format!("\n{} {warning}", paint.paint(TextRole::Fair, "warning:")))?;
        }
        Ok(())
    }

    /// What the order that was asked for takes.
    fn summary(&self) -> Vec<String> {
        let Estimate { first, unit_bytes, cache_bytes, spill_quota_bytes, .. } = self.estimate;
        let mut lines = vec![format!(
            "{} batches; an epoch delivers {} of {} samples",
            first.batches,
            show::size(first.delivered_bytes),
            first.samples
        )];
        if unit_bytes > 0 {
            let spill = match spill_quota_bytes {
                0 => "no spill".to_owned(),
                quota => format!("the spill {}", show::size(quota)),
            };
            let (units, cache) = (show::size(unit_bytes), show::size(cache_bytes));
            lines.push(format!(
                "all units decoded take {units}; memory has room for {cache} of them, {spill}"
            ));
        }
        lines
    }

    fn table(&self) -> Vec<String> {
        let head =
            ["shuffle", "epoch", "read", "per used", "requests", "decoded", "per used", "units", "again"]
                .map(str::to_owned);
        let more = ["memory", "spill"].map(str::to_owned);
        let mut rows = vec![[head.as_slice(), more.as_slice()].concat()];
        for (shuffle, estimate) in self.all {
            let Ok(estimate) = estimate else { continue };
            for (epoch, cost) in [("first", &estimate.first), ("later", &estimate.later)] {
                let about = if estimate.exact { "" } else { "~" };
                rows.push(row(shuffle.word(), epoch, cost, about));
            }
        }
        let mut lines = aligned(&rows);
        for (shuffle, estimate) in self.all {
            if let Err(why) = estimate {
                lines.push(format!("{}: {}", shuffle.word(), show::message(why)));
            }
        }
        lines
    }

    /// What is dear about the order that was asked for, and what would help.
    fn warnings(&self) -> Vec<String> {
        let Estimate { first, unit_bytes, cache_bytes, spill_quota_bytes, .. } = self.estimate;
        let remedies = Remedies { context: self.context, loader: &self.args.loader, set: &self.chosen.set };
        let mut warnings = Vec::new();
        if first.decoded_again > 0 {
            let times =
                first.decoded_units as f64 / (first.decoded_units - first.decoded_again).max(1) as f64;
            warnings.push(format!(
                "units are decoded {times:.1} times in an epoch, {} of {} again: {} of {} find room. Remedies: {}",
                first.decoded_again,
                first.decoded_units,
                show::size(cache_bytes.saturating_add(spill_quota_bytes)),
                show::size(unit_bytes),
                remedies.against_decoding(&self.estimate).join(", or ")
            ));
        }
        if first.spilled_bytes > 0 {
            let remedy =
                remedies.memory(&self.estimate).map_or_else(String::new, |flag| format!(", or {flag}"));
            let size = show::size(first.spilled_bytes);
            warnings.push(format!("{size} go through the spill: its disk should be local and fast{remedy}"));
        }
        warnings
    }
}

fn row(shuffle: &str, epoch: &str, cost: &EpochCost, about: &str) -> Vec<String> {
    let size = |bytes: u64| format!("{about}{}", show::size(bytes));
    let count = |count: u64| format!("{about}{count}");
    vec![
        shuffle.to_owned(),
        epoch.to_owned(),
        size(cost.read_bytes),
        format!("{:.2}", cost.read_factor()),
        count(cost.requests),
        size(cost.decoded_bytes),
        format!("{:.2}", cost.decode_factor()),
        count(cost.decoded_units),
        count(cost.decoded_again),
        size(cost.peak_memory_bytes),
        size(cost.peak_spill_bytes),
    ]
}
