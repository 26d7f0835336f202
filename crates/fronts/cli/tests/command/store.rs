//! `forebay store-bench` and `forebay simulate store`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::ran::{out, run};

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&out(&[args, &["--json"]].concat())).unwrap()
}

#[test]
fn one_rank_measures_its_own_memory_and_the_model_takes_what_it_wrote() {
    let folder = TempDir::new().unwrap();
    let sizes = ["--sample-size", "1KiB,8KiB", "--batch", "16,64", "--bytes", "4MiB", "--time", "20ms"];
    let bench = json(&[&["store-bench"], &sizes[..]].concat());
    assert_eq!((&bench["ranks"], bench["results"].as_array().unwrap().len()), (&1.into(), 4));
    assert!(bench["results"].as_array().unwrap().iter().all(|figures| figures["get_p50_us"].is_null()));
    let path = folder.path().join("bench.json");
    fs::write(&path, bench.to_string()).unwrap();
    let asked = ["simulate", "store", "--ranks", "8", "--measured", path.to_str().unwrap()];
    let ran = run(&asked);
    assert!(
        ran.code > 0 && ran.err.contains("--round-trip"),
        "one rank says nothing of other hosts: {}",
        ran.err
    );
    let told = json(&[&asked[..], &["--round-trip", "20us"]].concat());
    let points = told["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|point| &point["fitted"]).collect::<Vec<_>>(), [true, false, false, true]);
    assert!(points.iter().all(|point| point["measured_us"].as_f64().unwrap() > 0.0));
    assert_eq!(told["constants"]["round_trip_us"], 20.0);
    assert!(told["constants"]["remote_sample_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_store_of_a_larger_machine_is_predicted() {
    let job = ["simulate", "store", "--ranks", "64", "--ranks-per-host", "4", "--widths", "2,64"];
    let told =
        json(&[&job[..], &["--samples", "1000", "--sample-size", "6000", "--file-latency", "1ms"]].concat());
    let number = |value: &Value| value.as_f64().unwrap();
    let [near, far] = [&told["predictions"][0], &told["predictions"][1]];
    assert_eq!(
        (&near["copies"], &far["copies"], number(&near["remote_share"])),
        (&32.into(), &1.into(), 0.0)
    );
    assert_eq!((&near["rank_bytes"], &far["rank_bytes"]), (&3_000_000.into(), &93_750.into()));
    assert!((number(&far["remote_share"]) - 60.0 / 64.0).abs() < 1e-9);
    assert!(number(&far["get_us"]) > number(&near["get_us"]));
    let epoch = 1000.0 / number(&far["samples_per_s"]);
    assert!((number(&far["epoch_s"]) - epoch).abs() < 1e-9);
    // DDStore's Table 2, but for its one set that the page cache held: memory of other hosts, files, one container.
    let gets = [&far["get_us"], &told["files"][0]["get_us"], &told["files"][1]["get_us"]].map(number);
    assert!(gets.is_sorted(), "{gets:?}");
    let slow = json(&[&job[..], &["--bandwidth", "100MiB/s", "--round-trip", "1ms"]].concat());
    assert!(number(&slow["predictions"][1]["batch_us"]) > number(&far["batch_us"]) + 1000.0);
    let table = out(&[&job[..], &["--file-latency", "1ms"]].concat());
    assert!(table.contains("64 ranks, 4 of a host") && table.contains("one container"), "{table}");
}

#[test]
fn what_no_store_can_be_is_refused() {
    for (args, why) in [
        (&["--ranks", "4", "--widths", "5"][..], "between 1 and 4"),
        (&["--ranks", "0"], "at least 1"),
        (&["--ranks", "4", "--cores", "0"], "above 0"),
        (&["--ranks", "4", "--measured", "/no/such/file"], "/no/such/file"),
        (&["--ranks", "4", "--measured", "/proc/version"], "store-bench --json"),
    ] {
        let ran = run(&[&["simulate", "store"], args].concat());
        assert!(ran.code > 0 && ran.err.contains(why), "{args:?}: {}", ran.err);
    }
    for args in [["--sample-size", "0"], ["--batch", "0"]] {
        let ran = run(&[&["store-bench"], &args[..]].concat());
        assert!(ran.code > 0 && ran.err.contains(args[0]), "{args:?}: {}", ran.err);
    }
    let ran = run(&["store-bench", "--study", "ddstore"]);
    assert!(ran.code > 0 && ran.err.contains("pip install forebay"), "{}", ran.err);
}
