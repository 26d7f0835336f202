//! Writes the pages of a report with made-up timings: `cargo run -p forebay-workload --example sample_report -- FOLDER`.
//!
//! For looking at the pages in a browser; nothing is measured.

use std::{error::Error, fs, path::PathBuf, time::Duration};

use forebay_workload::{
    BlockTimings, ConfigOptions, EpochTimings, GenerationTimings, Mt19937, RankTimings, RunTimings,
    StepTimings, TierCounts, Workload, config,
    metrics::{RunSummary, summarise},
    report::{self, KeyStyle},
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("a folder is missing")?);
    fs::create_dir_all(&folder)?;
    let suite = config::preset("unet3d_h100", &ConfigOptions::default())?;
    let Some(workload) = suite.workloads.into_iter().next() else {
        return Err("no workload".into());
    };
    let run = |engine: &str, ranks: u32| made_up(&workload, engine, ranks);
    let one = run("forebay", 4);
    for file in report::files(&one)? {
        fs::write(folder.join(file.name), file.text)?;
    }
    let several: Vec<RunSummary> =
        [("hdf5", 1), ("hdf5", 2), ("hdf5", 4), ("forebay", 1), ("forebay", 2), ("forebay", 4)]
            .map(|(engine, ranks)| summarise(&run(engine, ranks)))
            .to_vec();
    fs::write(folder.join("compare.html"), report::html(&several))?;
    println!("{}", report::compare(&several[2..]));
    let axes = ["read-threads=0,1,2,4", "sample-size=64KiB,1MiB"]
        .map(|text| report::parse_axis(text, KeyStyle::Dlio));
    let axes = axes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let results = report::sweep_points(&axes, KeyStyle::Dlio)?.into_iter().enumerate();
    let results: Vec<_> =
        results.map(|(number, point)| (point, several[number % several.len()].clone())).collect();
    fs::write(folder.join("sweep.html"), report::sweep_html(&axes, &results, results.len()))?;
    fs::write(folder.join("sweep.csv"), report::sweep_csv(&axes, &results))?;
    Ok(())
}

/// Timings that look like those of a run: noise of a fixed seed around a time that the engine and the ranks set.
fn made_up(workload: &Workload, engine: &str, ranks: u32) -> RunTimings {
    let mut random = Mt19937::seeded(ranks);
    let (metadata, read) = if engine == "hdf5" { (2.1e-3, 0.061) } else { (0.2e-3, 0.024) };
    let slower = 1.0 + 0.12 * f64::from(ranks - 1);
    let mut rank_timings = Vec::new();
    for rank in 0..ranks {
        let mut epochs = Vec::new();
        let mut now = 14.0;
        for epoch in 1..=5 {
            let warm = if engine == "forebay" && epoch > 1 { 0.45 } else { 1.0 };
            let mut block = BlockTimings { start_s: now, ..BlockTimings::default() };
            for _ in 0..24 / ranks {
                let mut step = StepTimings {
                    samples: 7,
                    bytes: 7 * 146_600_628,
                    compute_s: 0.323,
                    ..StepTimings::default()
                };
                for _ in 0..7 {
                    let noise =
                        0.75 + 0.5 * random.next_f64() + if random.next_f64() > 0.97 { 2.5 } else { 0.0 };
                    let took = (metadata + read * warm * slower) * noise;
                    step.metadata_s += metadata * noise;
                    step.read_s += took - metadata * noise;
                    block.latency.record(Duration::from_secs_f64(took));
                }
                step.load_s = ((step.read_s + step.metadata_s) / 1.6 - 0.3).max(0.004);
                step.barrier_s = 0.01 * random.next_f64() * f64::from(ranks - 1);
                now += step.load_s + step.compute_s + step.barrier_s;
                block.steps.push(step);
            }
            block.end_s = now;
            let tiers = if engine == "forebay" { tiers(epoch) } else { Vec::new() };
            let start_s = block.start_s;
            epochs.push(EpochTimings {
                epoch,
                start_s,
                end_s: now,
                blocks: vec![block],
                tiers,
                ..EpochTimings::default()
            });
        }
        let generation = Some(GenerationTimings {
            start_s: 0.5,
            end_s: 13.5,
            files_written: 42,
            files_kept: 0,
            bytes: 42 * 146_600_628,
        });
        rank_timings.push(RankTimings { rank, generation, epochs, cpu_s: 21.0, ..RankTimings::default() });
    }
    let wall_s =
        rank_timings.iter().flat_map(|rank| &rank.epochs).map(|epoch| epoch.end_s).fold(0.0, f64::max) + 0.6;
    RunTimings {
        workload: workload.clone(),
        engine: engine.to_owned(),
        started_unix_s: 1_763_370_000.0,
        wall_s,
        complete: true,
        ranks: rank_timings,
    }
}

fn tiers(epoch: u32) -> Vec<TierCounts> {
    let (memory, disk, origin) = if epoch == 1 { (0, 120, 5800) } else { (2600, 3300, 40) };
    let tier = |tier: &str, hits: u64, misses: u64| TierCounts {
        tier: tier.to_owned(),
        hits,
        misses,
        bytes: hits << 20,
    };
    vec![tier("memory", memory, disk + origin), tier("disk", disk, origin), tier("origin", origin, 0)]
}
