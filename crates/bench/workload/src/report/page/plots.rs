//! Plots of a page: a card for each that has something to show.

use forebay_report::{
    BarPart, BarPlot, BarRow, Card, Line, LinePlot, Plot, XAxis, bytes_text, count_text, time_text,
};

use crate::metrics::{EpochSummary, RunSummary};

/// The unit of a plot of rates: bytes of it, and its name; GiB/s from 4 of them on.
fn rate_unit(most_bytes_per_s: f64) -> (f64, &'static str) {
    const GIB: f64 = (1u64 << 30) as f64;
    if most_bytes_per_s >= 4.0 * GIB { (GIB, "GiB/s") } else { ((1u64 << 20) as f64, "MiB/s") }
}

/// Divides all values of `lines` by the unit that fits, and names it.
fn in_rate_unit(lines: &mut [Line]) -> String {
    let most = lines.iter().flat_map(|line| &line.points).map(|(_, rate)| *rate).fold(0.0, f64::max);
    let (unit, name) = rate_unit(most);
    lines.iter_mut().flat_map(|line| &mut line.points).for_each(|(_, rate)| *rate /= unit);
    name.to_owned()
}

/// Returns all cards of `runs`.
pub(super) fn cards(runs: &[RunSummary]) -> Vec<Card> {
    let cards = [
        throughput(runs),
        utilisation(runs),
        latency(runs),
        stages(runs),
        scaling(runs),
        hit_ratio(runs),
        tiers(runs),
    ];
    cards.into_iter().flatten().collect()
}

/// Returns lines in a card with a heading and a sentence.
pub(in crate::report) fn card(heading: &str, why: &str, plot: LinePlot) -> Card {
    Card { heading: heading.into(), why: why.into(), plot: Plot::Lines(plot) }
}

/// Returns bars in a card, if there are any.
fn bar_card(heading: &str, why: &str, plot: BarPlot) -> Option<Card> {
    let has_bars = !plot.rows.is_empty();
    has_bars.then(|| Card { heading: heading.into(), why: why.into(), plot: Plot::Bars(plot) })
}

/// A line for each run over its training epochs.
fn over_epochs(
    runs: &[RunSummary],
    value: fn(&EpochSummary) -> f64,
    note: fn(&EpochSummary) -> String,
) -> Vec<Line> {
    let line = |(colour, run): (usize, &RunSummary)| {
        let epochs = &run.train.as_ref()?.epochs;
        let points = epochs.iter().map(|epoch| (f64::from(epoch.epoch), value(epoch))).collect();
        let notes = epochs.iter().map(note).collect();
        Some(Line { name: run.label.clone(), colour, points, notes, is_dashed: false })
    };
    runs.iter().enumerate().filter_map(line).collect()
}

fn epoch_ticks(series: &[Line]) -> Vec<f64> {
    let longest = series.iter().max_by_key(|series| series.points.len());
    longest.map_or(Vec::new(), |series| series.points.iter().map(|(x, _)| *x).collect())
}

fn throughput(runs: &[RunSummary]) -> Option<Card> {
    let mut series = over_epochs(
        runs,
        |epoch| epoch.bytes_per_s,
        |epoch| {
            let (bytes, samples) = (bytes_text(epoch.bytes_per_s), count_text(epoch.samples_per_s));
            format!("epoch {}: {bytes}/s, {samples} samples/s", epoch.epoch)
        },
    );
    let plot = LinePlot {
        x_label: "epoch".into(),
        y_label: in_rate_unit(&mut series),
        x_axis: XAxis::At(epoch_ticks(&series)),
        lines: series,
        ..LinePlot::default()
    };
    let why = "Bytes of samples handed to training per second, all ranks together";
    (!plot.lines.is_empty()).then(|| card("Throughput per epoch", why, plot))
}

fn utilisation(runs: &[RunSummary]) -> Option<Card> {
    let mut series = over_epochs(
        runs,
        |epoch| epoch.au_percent,
        |epoch| {
            format!(
                "epoch {}: {:.1} %, {} of computation",
                epoch.epoch,
                epoch.au_percent,
                time_text(epoch.compute_s)
            )
        },
    );
    let ticks = epoch_ticks(&series);
    let has_compute = runs
        .iter()
        .filter_map(|run| run.train.as_ref())
        .flat_map(|train| &train.epochs)
        .any(|epoch| epoch.compute_s > 0.0);
    if series.is_empty() || !has_compute {
        return None;
    }
    let target = runs.iter().filter_map(|run| run.verdict).map(|verdict| verdict.target_percent).next()?;
    let ends = (*ticks.first()?, *ticks.last()?);
    let from_to = if ends.0 < ends.1 { ends } else { (ends.0 - 0.5, ends.1 + 0.5) };
    series.push(Line {
        name: format!("target {target:.0} %"),
        points: vec![(from_to.0, target), (from_to.1, target)],
        is_dashed: true,
        ..Line::default()
    });
    let plot = LinePlot {
        x_label: "epoch".into(),
        y_label: "AU, %".into(),
        y_end: Some(100.0),
        x_axis: XAxis::At(ticks),
        lines: series,
    };
    let why = "Part of the time that accelerators compute and do not wait for data (DLIO's AU)";
    Some(card("Accelerator utilisation per epoch", why, plot))
}

fn latency(runs: &[RunSummary]) -> Option<Card> {
    let line = |(colour, run): (usize, &RunSummary)| {
        let latency = &run.train.as_ref()?.latency;
        let (first, _) = latency.distribution.first()?;
        let start = (first * 0.9, 0.0);
        let points =
            std::iter::once(start).chain(latency.distribution.iter().map(|(at, part)| (*at, part * 100.0)));
        Some(Line { name: run.label.clone(), colour, points: points.collect(), ..Line::default() })
    };
    let series: Vec<Line> = runs.iter().enumerate().filter_map(line).collect();
    let plot = LinePlot {
        x_label: "latency of one sample (logarithmic)".into(),
        y_label: "samples, %".into(),
        y_end: Some(100.0),
        x_axis: XAxis::LogSeconds,
        lines: series,
    };
    let why = "Part of all samples that took no longer, from opening the file to closing it";
    (!plot.lines.is_empty()).then(|| card("Latency of samples (CDF)", why, plot))
}

fn stages(runs: &[RunSummary]) -> Option<Card> {
    let row = |run: &RunSummary| {
        let parts = run.stages.iter().map(|stage| {
            let share = 100.0 * stage.seconds / run.wall_s.max(f64::MIN_POSITIVE);
            BarPart {
                name: stage.stage.clone(),
                len: stage.seconds,
                note: format!("{}: {} ({share:.1} %)", stage.stage, time_text(stage.seconds)),
                is_rest: stage.stage == "other",
            }
        });
        BarRow { name: format!("{}, {}", run.label, time_text(run.wall_s)), parts: parts.collect() }
    };
    let plot = BarPlot {
        x_label: "seconds of a rank, on average".into(),
        x_end: None,
        rows: runs.iter().filter(|run| !run.stages.is_empty()).map(row).collect(),
    };
    let why = "What the time of a rank went to; metadata and reading by workers are in the wait for batches";
    bar_card("Time breakdown per stage", why, plot)
}

/// Throughput over ranks, a line for each engine, where runs differ in their ranks.
pub(in crate::report) fn scaling(runs: &[RunSummary]) -> Option<Card> {
    let mut ranks: Vec<u32> = runs.iter().filter(|run| run.train.is_some()).map(|run| run.ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() < 2 {
        return None;
    }
    let mut engines: Vec<&str> = runs.iter().map(|run| &*run.engine).collect();
    engines.dedup();
    engines.sort_unstable();
    engines.dedup();
    let mut series = Vec::new();
    for (colour, engine) in engines.into_iter().enumerate() {
        let mut points: Vec<(f64, f64, String)> = Vec::new();
        for run in runs.iter().filter(|run| run.engine == engine) {
            let Some(train) = &run.train else { continue };
            let rate = train.bytes_per_s.mean;
            points.push((f64::from(run.ranks), rate, format!("{} ranks: {}/s", run.ranks, bytes_text(rate))));
        }
        points.sort_by(|one, two| one.0.total_cmp(&two.0));
        let notes = points.iter().map(|point| point.2.clone()).collect();
        let points = points.into_iter().map(|(x, y, _)| (x, y)).collect();
        series.push(Line { name: engine.to_owned(), colour, points, notes, is_dashed: false });
    }
    let ideal = ideal(&series)?;
    series.push(ideal);
    let plot = LinePlot {
        x_label: "ranks".into(),
        y_label: in_rate_unit(&mut series),
        x_axis: XAxis::At(ranks.into_iter().map(f64::from).collect()),
        lines: series,
        ..LinePlot::default()
    };
    Some(card(
        "Scaling over ranks",
        "Throughput of all ranks together; the dashed line is the first run times its ranks",
        plot,
    ))
}

/// The fewest ranks' best throughput, times ranks, as far as the highest line goes.
fn ideal(series: &[Line]) -> Option<Line> {
    let all = || series.iter().flat_map(|series| &series.points);
    let fewest = all().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let most = all().map(|(x, _)| *x).fold(0.0, f64::max);
    let best = all().filter(|(x, _)| *x == fewest).map(|(_, y)| *y).fold(0.0, f64::max);
    let top = all().map(|(_, y)| *y).fold(0.0, f64::max) * 1.15;
    let end = (top / best * fewest).min(most);
    let points = vec![(fewest, best), (end, best * end / fewest)];
    (best > 0.0).then(|| Line { name: "ideal".into(), points, is_dashed: true, ..Line::default() })
}

fn hit_ratio(runs: &[RunSummary]) -> Option<Card> {
    let mut series = over_epochs(
        runs,
        |epoch| 100.0 * epoch.hit_ratio.unwrap_or(0.0),
        |epoch| format!("epoch {}: {:.1} % of requests", epoch.epoch, 100.0 * epoch.hit_ratio.unwrap_or(0.0)),
    );
    // Lines keep the colours that their runs have in the other plots.
    series.retain(|line| runs.get(line.colour).is_some_and(|run| !run.tiers.is_empty()));
    let plot = LinePlot {
        x_label: "epoch".into(),
        y_label: "requests, %".into(),
        y_end: Some(100.0),
        x_axis: XAxis::At(epoch_ticks(&series)),
        lines: series,
    };
    let why = "Part of the requests for blocks that a tier served and the origin did not see";
    (!plot.lines.is_empty()).then(|| card("Tier hit ratio per epoch", why, plot))
}

fn tiers(runs: &[RunSummary]) -> Option<Card> {
    let row = |run: &RunSummary| {
        let all: u64 = run.tiers.iter().map(|share| share.bytes).sum();
        let parts = run.tiers.iter().map(|share| {
            let percent = 100.0 * share.bytes as f64 / all.max(1) as f64;
            BarPart {
                name: share.tier.clone(),
                len: percent,
                note: format!("{}: {} ({percent:.1} %)", share.tier, bytes_text(share.bytes as f64)),
                is_rest: false,
            }
        });
        BarRow { name: format!("{}, {}", run.label, bytes_text(all as f64)), parts: parts.collect() }
    };
    let plot = BarPlot {
        x_label: "bytes of training, %".into(),
        x_end: Some(100.0),
        rows: runs.iter().filter(|run| !run.tiers.is_empty()).map(row).collect(),
    };
    bar_card("Bytes served by each tier", "Where the bytes of training came from", plot)
}
