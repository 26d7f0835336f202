//! Reports of recorded timings against what was computed by hand from the published formulas.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use forebay_workload::{
    BlockTimings, CheckpointTimings, ConfigOptions, EpochTimings, RankTimings, RunTimings, StepTimings,
    Workload, config,
    metrics::{DlioFormula, DlioMetrics, H5benchMetrics, summarise},
    report::{self, KeyStyle, SweepPoint},
};

/// Seconds of one epoch of a rank, spread evenly over its steps.
#[derive(Clone, Copy)]
struct Times {
    steps: u32,
    compute: f64,
    metadata: f64,
    read: f64,
    observed: f64,
}

fn block(start_s: f64, batch: u32, times: Times) -> BlockTimings {
    let each = f64::from(times.steps);
    let step = StepTimings {
        load_s: (times.observed - times.compute) / each,
        compute_s: times.compute / each,
        metadata_s: times.metadata / each,
        read_s: times.read / each,
        samples: batch,
        bytes: u64::from(batch) << 26,
        ..StepTimings::default()
    };
    let steps = vec![step; times.steps as usize];
    BlockTimings { start_s, end_s: start_s + times.observed, steps, ..BlockTimings::default() }
}

fn workload(ranks_share: &[&str]) -> Workload {
    let overrides = ranks_share.iter().map(|text| (*text).to_owned()).collect();
    let options = ConfigOptions { overrides, ..ConfigOptions::default() };
    let text =
        r#"{"benchmarks": [{"benchmark": "dlio", "configuration": {"train": true, "evaluation": true}}]}"#;
    let suite = config::read(text, forebay_workload::ConfigSyntax::Json, &options).unwrap();
    suite.workloads[0].clone()
}

/// A run of ranks, each with a training and an evaluation in every epoch.
fn run(workload: Workload, ranks: &[Vec<(Times, Times)>]) -> RunTimings {
    let of_rank = |(rank, epochs): (u32, &Vec<(Times, Times)>)| {
        let epoch = |(number, (train, eval)): (u32, &(Times, Times))| {
            let start_s = f64::from(number) * 100.0;
            let blocks = vec![block(start_s, 7, *train)];
            let evaluation = Some(block(start_s + train.observed, 2, *eval));
            let end_s = start_s + train.observed + eval.observed;
            EpochTimings { epoch: number, start_s, end_s, blocks, evaluation, ..EpochTimings::default() }
        };
        RankTimings { rank, epochs: (1..).zip(epochs).map(epoch).collect(), ..RankTimings::default() }
    };
    RunTimings {
        workload,
        engine: "hdf5".into(),
        started_unix_s: 1_723_541_400.0,
        wall_s: 250.0,
        complete: true,
        ranks: (0..).zip(ranks).map(of_rank).collect(),
    }
}

fn two_ranks() -> RunTimings {
    let train = |metadata, read, observed| Times { steps: 2, compute: 0.646, metadata, read, observed };
    let eval = |metadata, read, observed| Times { steps: 1, compute: 0.323, metadata, read, observed };
    let ranks = [
        vec![(train(0.1, 1.0, 2.0), eval(0.01, 0.1, 0.5)), (train(0.05, 0.5, 1.2), eval(0.02, 0.2, 0.6))],
        vec![(train(0.3, 1.4, 2.2), eval(0.01, 0.1, 0.5)), (train(0.05, 0.5, 1.2), eval(0.02, 0.2, 0.6))],
    ];
    run(workload(&["++read-threads=0", "++collective-meta=true"]), &ranks)
}

/// Computed by hand: batches of 7 samples of 64 MiB, 2 steps, 2 ranks, 2 epochs; evaluation of 2 samples in one step.
#[test]
fn the_csv_is_the_one_computed_by_hand() {
    let expected = "\
metric, value, unit
operation, dlio,
ranks, 2,
read threads, 0,
subfiling, NO,
chunking, NO,
collective meta, YES,
collective data, NO,
train total size, 1.750, GB
train size per rank, 896.000, MB
train emulated compute time per epoch, \"0.646, 0.646\", \"s, s\"
train emulated compute time, 1.292, s
train metadata time per epoch, \"0.200, 0.050\", \"s, s\"
train metadata time, 0.250, s
train raw read time per epoch, \"1.200, 0.500\", \"s, s\"
train total raw read time, 1.700, s
train raw read rate per epoch, \"746.667, 1.750\", \"MB/s, GB/s\"
train avg raw read rate, 1.240, GB/s
train observed time per epoch, \"2.100, 1.200\", \"s, s\"
train observed time, 3.300, s
train observed rate per epoch, \"616.231, 1.579\", \"MB/s, GB/s\"
train avg observed rate, 1.091, GB/s
train throughput samples per second per epoch, \"6.682, 11.667\", \"samples/s, samples/s\"
train throughput avg samples per second, 9.174, samples/s
train throughput stdev samples per second, 2.492, samples/s
train io avg, 587.152, MB/s
train io stdev, 159.515, MB/s
eval total size, 256.000, MB
eval size per rank, 128.000, MB
eval emulated compute time per epoch, \"0.323, 0.323\", \"s, s\"
eval emulated compute time, 0.646, s
eval metadata time per epoch, \"0.010, 0.020\", \"s, s\"
eval metadata time, 0.030, s
eval raw read time per epoch, \"0.100, 0.200\", \"s, s\"
eval total raw read time, 0.300, s
eval raw read rate per epoch, \"1.250, 640.000\", \"GB/s, MB/s\"
eval avg raw read rate, 960.000, MB/s
eval observed time per epoch, \"0.500, 0.600\", \"s, s\"
eval observed time, 1.100, s
eval observed rate per epoch, \"723.164, 462.094\", \"MB/s, MB/s\"
eval avg observed rate, 592.629, MB/s
eval throughput samples per second per epoch, \"4.000, 3.333\", \"samples/s, samples/s\"
eval throughput avg samples per second, 3.667, samples/s
eval throughput stdev samples per second, 0.333, samples/s
eval io avg, 234.667, MB/s
eval io stdev, 21.333, MB/s
";
    assert_eq!(report::csv(&two_ranks()), expected);
    let mut interrupted = two_ranks();
    interrupted.complete = false;
    assert!(report::csv(&interrupted).contains("\ncomplete, NO,\n"));
    let of_rank = report::csv_of_rank(&two_ranks(), &two_ranks().ranks[1]);
    assert!(of_rank.contains("train raw read time per epoch, \"1.400, 0.500\", \"s, s\"\n"), "{of_rank}");
}

#[test]
fn the_rates_of_an_epoch_that_was_interrupted_are_of_the_bytes_that_it_read() {
    let times = |steps| Times { steps, compute: 0.0, metadata: 0.0, read: 1.0, observed: 2.0 };
    let interrupted = RunTimings {
        complete: false,
        ..run(workload(&[]), &[vec![(times(4), times(1)), (times(1), times(1))]])
    };
    let train = H5benchMetrics::of(&interrupted).train.unwrap();
    let mebibytes =
        |rates: Vec<f64>| rates.iter().map(|rate| rate / f64::from(1 << 20)).collect::<Vec<f64>>();
    assert_eq!(mebibytes(train.raw_read_rates()), [4.0 * 448.0, 448.0]);
    assert_eq!(mebibytes(train.observed_rates()), [2.0 * 448.0, 224.0]);
    assert_eq!(train.rank_bytes, train.epochs[0].bytes);
}

/// The derived values of the published example (16 ranks, 3 epochs) follow from its own times, within their printed digits.
#[test]
fn the_published_example_follows_from_its_own_times() {
    let train = |metadata, read, observed| Times { steps: 9, compute: 2.907, metadata, read, observed };
    let eval = |metadata, read, observed| Times { steps: 8, compute: 2.584, metadata, read, observed };
    let epochs = vec![
        (train(0.559, 4.205, 8.709), eval(0.214, 0.925, 4.120)),
        (train(0.502, 3.835, 8.125), eval(0.151, 0.913, 3.904)),
        (train(0.434, 3.767, 7.789), eval(0.162, 0.875, 3.881)),
    ];
    let metrics = H5benchMetrics::of(&run(workload(&[]), &vec![epochs; 16]));
    let near =
        |found: f64, printed: f64| assert!((found / printed - 1.0).abs() < 2e-3, "{found} for {printed}");
    let mib = f64::from(1 << 20);
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let train = metrics.train.unwrap();
    near(train.total_bytes / mib, 63.0 * 1024.0);
    near(train.rank_bytes / mib, 3.938 * 1024.0);
    for (found, printed) in train.raw_read_rates().iter().zip([958.749, 1.026 * 1024.0, 1.045 * 1024.0]) {
        near(found / mib, printed);
    }
    near(mean(&train.raw_read_rates()) / mib, 1.003 * 1024.0);
    for (found, printed) in train.observed_rates().iter().zip([694.948, 772.636, 825.826]) {
        near(found / mib, printed);
    }
    near(mean(&train.observed_rates()) / mib, 764.47);
    for (found, printed) in train.epochs.iter().zip([7.234, 7.753, 8.088]) {
        near(found.samples_per_s, printed);
    }
    near(train.throughput().mean, 7.692);
    near(train.throughput().stdev, 0.351);
    near(train.throughput().mean * train.record_bytes / mib, 492.267);
    let eval = metrics.eval.unwrap();
    near(eval.total_bytes / mib, 16.0 * 1024.0);
    near(mean(&eval.raw_read_rates()) / mib, 1.106 * 1024.0);
    near(mean(&eval.observed_rates()) / mib, 744.038);
    near(eval.throughput().mean, 4.035);
    // Three digits of the times are two of their deviation.
    assert!((eval.throughput().stdev * eval.record_bytes / mib - 6.907).abs() < 0.05);
}

#[test]
fn dlios_files_have_its_keys_and_its_values() {
    let mut run = two_ranks();
    let checkpoint =
        CheckpointTimings { end_s: 4.0, start_s: 2.0, bytes: 1 << 30, ..CheckpointTimings::default() };
    for rank in &mut run.ranks {
        rank.epochs[0].checkpoints.push(checkpoint);
        rank.host.name = "node1".into();
    }
    let summary = report::summary(&run, DlioFormula::AllSteps);
    let metrics = DlioMetrics::of(&run, DlioFormula::AllSteps);
    let train = metrics.train.unwrap();
    // Rank 0: one of two steps computes 0.323 of the 2 - (1 s of the first step) seconds.
    assert!((train.au_percent[0] - 100.0 * (0.323 / 1.0 + 0.323 / 1.1) / 2.0).abs() < 1e-9);
    assert!((train.samples_per_s[0] - (14.0 / 2.0 + 14.0 / 2.2)).abs() < 1e-9);
    let metric = &summary["metric"];
    assert_eq!(metric["train_au_percentage"].as_array().unwrap().len(), 2);
    assert_eq!(metric["train_au_meet_expectation"], "fail");
    assert_eq!(metric["train_throughput_mean_samples_per_second"], train.throughput.mean);
    assert_eq!(metric["save_checkpoint_io_mean_GB_per_second"], 1.0);
    assert_eq!(
        (&summary["num_accelerators"], &summary["num_hosts"], &summary["epochs"]),
        (&2.into(), &1.into(), &2.into())
    );
    assert_eq!(summary["start"], "2024-08-13T09:30:00.000000");
    let stats = report::per_epoch_stats(&run, &run.ranks[0]);
    assert_eq!(stats["1"]["block1"]["duration"], "2.00");
    assert_eq!(stats["1"]["save_ckpt1"]["throughput"], 0.5);
    // Evaluation is no part of DLIO's epoch.
    assert_eq!((&stats["1"]["duration"], &stats["1"]["eval"]["duration"]), (&"2.00".into(), &"0.50".into()));
    let output = report::output(&run, &run.ranks[0], DlioFormula::AllSteps);
    assert_eq!(output["1"]["load"]["block1"].as_array().unwrap().len(), 2);
    assert!(output["2"]["au"]["eval"].is_number() && output["hostname"] == "node1");
}

#[test]
fn a_report_is_read_back_and_a_newer_one_refused() {
    let run = two_ranks();
    let text = report::json(&run).unwrap();
    let again = report::read_json(&text).unwrap();
    assert_eq!(
        (report::csv(&again), again.workload, again.ranks.len()),
        (report::csv(&run), run.workload.clone(), 2)
    );
    let newer = text.replacen("\"forebay_bench\": 1", "\"forebay_bench\": 2", 1);
    assert!(report::read_json(&newer).unwrap_err().to_string().contains("version 2"));
    assert!(report::read_json("{}").is_err() && report::read_json("nonsense").is_err());
    let names: Vec<String> = report::files(&run).unwrap().into_iter().map(|file| file.name).collect();
    for name in ["output.csv", "summary.json", "report.json", "0_per_epoch_stats.json", "1_output.json"] {
        assert!(names.iter().any(|found| found == name), "{name} is not among {names:?}");
    }
}

#[test]
fn the_summary_adds_ranks_up_and_its_stages_fill_the_run() {
    let run = two_ranks();
    let summary = summarise(&run);
    let train = summary.train.unwrap();
    assert_eq!((train.epochs[0].samples, train.epochs[0].steps), (28, 2));
    // Of the rank that took longest, not of the mean.
    assert!((train.epochs[0].samples_per_s - 28.0 / 2.2).abs() < 1e-9);
    assert!((train.epochs[0].metadata_s - 0.2).abs() < 1e-9);
    let of_stages: f64 = summary.stages.iter().map(|stage| stage.seconds).sum();
    assert!((of_stages - run.wall_s).abs() < 1e-6);
    assert_eq!(summary.verdict.map(|verdict| verdict.passes), Some(false));
}

#[test]
fn an_epoch_has_the_steps_of_the_rank_that_has_most_and_the_bytes_that_were_read() {
    let mut run = two_ranks();
    run.ranks[1].epochs[0].blocks[0].steps.pop();
    let step = &mut run.ranks[0].epochs[0].blocks[0].steps[0];
    (step.samples, step.bytes) = (3, 3 << 26);
    let epoch = summarise(&run).train.unwrap().epochs[0];
    assert_eq!((epoch.steps, epoch.samples, epoch.bytes), (2, 17, 17 << 26));
    // Short batches count in h5bench's CSV as what they are: 17 samples of 64 MiB.
    assert!(
        report::csv(&run).contains("1088.000, MB") || report::csv(&run).contains("1.062, GB"),
        "{}",
        report::csv(&run)
    );
}

#[test]
fn runs_of_the_same_label_are_told_apart_by_what_they_differ_in() {
    let one = summarise(&two_ranks());
    let mut two = one.clone();
    two.read_threads = one.read_threads + 4;
    let (one_label, two_label) = (
        format!("{} · {} read threads", one.label, one.read_threads),
        format!("{} · {} read threads", one.label, two.read_threads),
    );
    let compared = report::compare(&[one.clone(), two.clone()]);
    assert_eq!(compared.labels, [one_label, two_label.clone()]);
    assert!(report::html(&[one.clone(), two]).contains(&two_label));
    assert_eq!(
        report::compare(&[one.clone(), one.clone()]).labels,
        [one.label.clone(), format!("{} (2)", one.label)]
    );
}

/// Whether every element that is opened is closed, in order: enough of a parser for pages that we make ourselves.
fn assert_balanced(page: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        let name: String =
            tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        match tag {
            _ if tag.starts_with('!') || tag.ends_with('/') || name == "meta" => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop().as_deref(), Some(&*name), "in {tag}"),
            _ => open.push(name),
        }
    }
    assert_eq!(open, Vec::<String>::new());
}

#[test]
fn the_page_is_one_file_that_asks_for_nothing_else() {
    let mut run = two_ranks();
    run.workload.model.name = "<b>\"net\" & 'co'</b>".into();
    let one = summarise(&run);
    run.complete = false;
    run.engine = "forebay".into();
    run.ranks.truncate(1);
    for page in [
        report::html(std::slice::from_ref(&one)),
        report::html(&[one.clone(), summarise(&run)]),
        report::html(&[]),
    ] {
        // The name of a namespace, which nothing fetches.
        let asking = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for foreign in ["http:", "https:", "<script", "<link", "src=", "url(", "@import", "NaN", "inf"] {
            assert!(!asking.contains(foreign), "{foreign}");
        }
        assert!(page.contains("prefers-color-scheme: dark") && !page.contains("<b>"));
        assert_balanced(&page);
    }
    let page = report::html(&[summarise(&run)]);
    assert!(page.contains("interrupted") && page.contains("MLPerf Storage: fails"));
    assert!(page.contains("Throughput per epoch") && page.contains("Time breakdown per stage"));
}

#[test]
fn a_comparison_gives_ratios_to_the_first_run() {
    let slow = summarise(&two_ranks());
    let mut fast = slow.clone();
    fast.label = "faster".into();
    fast.wall_s = slow.wall_s / 4.0;
    let comparison = report::compare(&[slow, fast]);
    let wall = comparison.rows.iter().find(|row| row.metric == "whole process").unwrap();
    assert_eq!((wall.ratios[0], wall.ratios[1]), (None, Some(0.25)));
    let text = comparison.to_string();
    assert!(text.contains("(0.25x)") && text.lines().count() == comparison.rows.len() + 1, "{text}");
}

#[test]
fn a_sweep_is_a_grid_of_overrides_that_the_configuration_takes() {
    let axes: Vec<_> = ["read-threads=0,4", "sample-size=64KiB,1MiB", "ranks=1,2", "chunking=true,false"]
        .map(|text| report::parse_axis(text, KeyStyle::Dlio).unwrap())
        .to_vec();
    let points = report::sweep_points(&axes, KeyStyle::Dlio).unwrap();
    assert_eq!((points.len(), points[0].ranks, points[2].ranks), (16, Some(1), Some(2)));
    for point in &points {
        let options = ConfigOptions { overrides: point.overrides.clone(), ..ConfigOptions::default() };
        config::preset("unet3d", &options).unwrap();
    }
    let results: Vec<_> = points.into_iter().map(|point| (point, summarise(&two_ranks()))).collect();
    assert_eq!(report::sweep_csv(&axes, &results).lines().count(), 17);
    assert_balanced(&report::sweep_html(&axes, &results, results.len()));
    for (text, expected) in [
        ("read-thread=1", "unknown parameter 'read-thread'; did you mean 'read-threads'?"),
        ("read-threads=", "gives no values"),
        ("read-threads", "gives no values"),
    ] {
        let error = report::parse_axis(text, KeyStyle::Dlio).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let none = report::parse_axis("ranks=0", KeyStyle::Dlio).unwrap();
    assert!(report::sweep_points(&[none], KeyStyle::Dlio).is_err());
}

#[test]
fn points_that_differ_in_files_say_by_what_and_h5bench_has_keys_of_its_own() {
    let texts = ["sample-size=64KiB,1MiB", "read-threads=0,4", "files=8"];
    for (style, key) in [
        (KeyStyle::Dlio, "++workload.dataset.record_length_bytes=64KiB"),
        (KeyStyle::H5bench, "++record-length=64KiB"),
    ] {
        let axes = texts.map(|text| report::parse_axis(text, style).unwrap());
        let points = report::sweep_points(&axes, style).unwrap();
        assert_eq!(points[0].overrides[0], key);
        let names: Vec<&str> = points.iter().map(|point| &*point.dataset).collect();
        let (short, long) = ("sample-size-64KiB_files-8", "sample-size-1MiB_files-8");
        assert_eq!(names, [short, short, long, long], "read threads change no file");
    }
    let prefetch = report::parse_axis("reader.prefetch_size=1,2", KeyStyle::Dlio).unwrap();
    let points = report::sweep_points(&[prefetch], KeyStyle::Dlio).unwrap();
    assert_eq!((&*points[1].overrides[0], &*points[1].dataset), ("++workload.reader.prefetch_size=2", ""));
}

#[test]
fn a_sweep_that_was_interrupted_says_so_and_one_over_ranks_shows_how_it_scales() {
    let axes = [report::parse_axis("ranks=1,2,4", KeyStyle::Dlio).unwrap()];
    let points = report::sweep_points(&axes, KeyStyle::Dlio).unwrap();
    let result = |point: SweepPoint| {
        let mut run = summarise(&two_ranks());
        run.ranks = point.ranks.unwrap();
        (point, run)
    };
    let results: Vec<_> = points.into_iter().map(result).collect();
    let whole = report::sweep_html(&axes, &results, 3);
    assert!(whole.contains("Scaling over ranks") && !whole.contains("interrupted"), "{whole}");
    let rate = results[0].1.train.as_ref().unwrap().bytes_per_s.mean;
    for ranks in [1, 2, 4] {
        let note = format!("<title>{ranks} ranks: {}&#x2f;s</title>", forebay_report::bytes_text(rate));
        assert!(whole.contains(&note), "{note}");
    }
    assert!(whole.contains("ideal") && whole.contains("2024-08-13 09:30:00 UTC, 3 runs"));
    assert!(report::sweep_html(&axes, &results[..2], 3).contains("interrupted: 2 of 3 points"));
}
