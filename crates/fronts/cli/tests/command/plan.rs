//! `forebay plan`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::{
    ran::{out, run},
    written::{SETS, Written},
};

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&out(&[args, &["--json"]].concat())).unwrap()
}

/// The same figures of the estimate and of a run.
const FIGURES: [&str; 10] = [
    "batches",
    "samples",
    "delivered_bytes",
    "read_bytes",
    "requests",
    "decoded_bytes",
    "decoded_units",
    "decoded_again",
    "spilled_bytes",
    "unspilled_bytes",
];

#[test]
fn a_run_counts_what_was_planned_in_every_shuffle() {
    let set = Written::by(SETS);
    let train = set.path("train_*.h5");
    let flags = ["--batch", "16", "--seed", "4", "--read-threads", "1", "--lanes", "8"];
    for room in [["--memory", "64MiB"], ["--memory", "300KiB"]] {
        for quota in ["0", "1GiB"] {
            for shuffle in ["full", "block", "none"] {
                let own = ["--spill-quota", quota, "--shuffle", shuffle];
                let args = [&[train.as_str()], &flags[..], &room, &own].concat();
                let planned = json(&[&["plan"], &args[..]].concat());
                let ran = json(&[&["load"], &args[..], &["--epochs", "2"]].concat());
                assert_eq!(planned["shuffle"], shuffle);
                for (number, epoch) in ["first", "later"].into_iter().enumerate() {
                    for figure in FIGURES {
                        assert_eq!(
                            planned["estimates"][shuffle][epoch][figure], ran["epochs"][number][figure],
                            "{figure} of the {epoch} epoch, {args:?}"
                        );
                    }
                }
            }
        }
    }
}

/// The flags of each remedy that a warning names.
fn remedies(warning: &str) -> Vec<Vec<String>> {
    let named = warning.split_once("Remedies: ").unwrap().1;
    let flags = |remedy: &str| {
        let options = remedy.split_once(" with ").map_or(remedy, |(flags, _)| flags);
        options.split(' ').map(str::to_owned).collect()
    };
    named.split(", or ").map(flags).collect()
}

#[test]
fn what_is_decoded_again_is_warned_of_and_each_remedy_helps() {
    // 9 MiB in chunks of 32 KiB, which make 38 groups.
    let set = Written::by(
        "
rng = np.random.default_rng(7)
for number, count in enumerate([1500, 850]):
    with h5py.File(f'{folder}/train_{number}.h5', 'w') as file:
        images = np.round(rng.random((count, 32, 32)), 2).astype('f4')
        file.create_dataset('image', data=images, chunks=(8, 32, 32), compression='lzf')
",
    );
    let train = set.path("train_*.h5");
    let args = ["plan", &train, "--batch", "8", "--memory", "3MiB", "--read-threads", "1"];
    let without = [&args[..], &["--spill-quota", "0"]].concat();
    let answer = json(&without);
    assert!(answer["estimates"]["full"]["first"]["decoded_again"].as_u64().unwrap() > 50);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains(" times in an epoch"), "{warning}");
    let remedies = remedies(warning);
    assert_eq!(remedies.len(), 3, "{warning}");
    for remedy in remedies {
        // Given twice, a flag would be refused.
        let kept =
            without.chunks(2).filter(|pair| pair[0] == "plan" || !remedy.contains(&pair[0].to_owned()));
        let mut args: Vec<&str> = kept.flatten().copied().collect();
        args.extend(remedy.iter().map(String::as_str));
        let cured = json(&args);
        let shuffle = cured["shuffle"].as_str().unwrap();
        assert_eq!(cured["estimates"][shuffle]["first"]["decoded_again"], 0, "{args:?}");
    }
    let spilled = json(&args);
    let warning = spilled["warnings"][0].as_str().unwrap();
    assert!(warning.contains("go through the spill"), "{warning}");
}

#[test]
fn the_three_shuffles_stand_side_by_side() {
    let set = Written::by(SETS);
    let text = out(&["plan", &set.path("train_0.h5"), "--field", "image", "--batch", "16"]);
    let table: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let words: Vec<_> = table.iter().rev().take(6).rev().map(|row| (row[0], row[1])).collect();
    let expected = ["full", "block", "none"].map(|shuffle| [(shuffle, "first"), (shuffle, "later")]).concat();
    assert_eq!(words, expected, "{text}");
    assert!(text.contains("10 batches; an epoch delivers 150.0 KiB of 150 samples\n"), "{text}");
    assert!(text.contains("shuffle  epoch"), "{text}");
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn a_shuffle_that_is_not_possible_says_why_and_the_others_are_planned() {
    let set = Written::by(SETS);
    let train = set.path("train_0.h5");
    let args = ["plan", &train, "--world", "5", "--tail", "pad"];
    let answer = json(&args);
    assert!(answer["estimates"]["block"]["error"].as_str().unwrap().contains("lanes=48 does not divide"));
    assert_eq!(answer["estimates"]["full"]["first"]["batches"], 1);
    assert!(out(&args).contains("\nblock: lanes=48 does not divide among 5 ranks"));
    let ran = run(&[&args[..], &["--shuffle", "block"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn nothing_but_descriptions_is_read() {
    let set = Written::by(
        "with h5py.File(f'{folder}/vast.h5', 'w') as file:\n    \
         file.create_dataset('image', (50_000_000, 8), 'f4', chunks=(1000, 8), compression='gzip')\n    \
         file.create_dataset('late', (50_000_000,), 'f4')\n",
    );
    let answer = json(&["plan", &set.path("vast.h5"), "--batch", "1000", "--spill-quota", "0"]);
    assert_eq!(answer["samples"], 50_000_000);
    assert_eq!(answer["estimates"]["full"]["exact"], false, "judged by the first part");
    assert_eq!(answer["estimates"]["full"]["first"]["samples"], 50_000_000);
    assert!(out(&["plan", &set.path("vast.h5"), "--batch", "1000"]).contains(" ~"));
}

/// Two files of 256 KiB of images as they are, and as much again that is no part of a sample.
const PLAIN: &str = "
for number in range(2):
    with h5py.File(f'{folder}/plain_{number}.h5', 'w') as file:
        file['image'] = np.zeros((256, 256), 'f4')
        file['other'] = np.zeros((256, 256), 'f4')
";

#[test]
fn each_policy_of_the_tiers_is_told_with_what_it_reads() {
    let set = Written::by(PLAIN);
    let images = set.path("plain_*.h5");
    let args = ["plan", &images, "--field", "image", "--block", "4KiB", "--config", "none"];
    let report = json(&[&args[..], &["--tier", "memory:2MiB"]].concat());
    let tiers = &report["tiers"];
    assert_eq!(tiers["policy"], "clairvoyant", "auto, under a loader");
    assert_eq!((&tiers["exact"], &tiers["block_bytes"]), (&true.into(), &4096.into()));
    assert_eq!(tiers["tiers"][0], serde_json::json!({ "tier": "memory:2MiB", "quota_bytes": 2 << 20 }));
    let policies = tiers["policies"].as_object().unwrap();
    assert_eq!(policies.len(), 6);
    for (name, own) in policies {
        let epochs = own["epochs"].as_array().unwrap();
        assert_eq!(epochs.len(), 3);
        assert_eq!(own["sum"], epochs[0], "{name}: what fits is read once");
    }
    let read = |report: &serde_json::Value, policy: &str| {
        report["tiers"]["policies"][policy]["sum"]["bytes"].as_u64().unwrap()
    };
    let (image_bytes, files) = (
        2 * 256 * 1024,
        [0, 1].map(|file| std::fs::metadata(set.path(&format!("plain_{file}.h5"))).unwrap().len()),
    );
    assert!(read(&report, "lru") >= image_bytes && read(&report, "lru") <= image_bytes + 4 * 4096);
    assert_eq!(read(&report, "first-fit"), files.iter().sum::<u64>(), "whole files follow");

    let few = ["--tier", "memory:128KiB", "--tier", "disk:/nowhere:64KiB", "--policy", "lru"];
    let tight = [&args[..], &few].concat();
    let report = json(&[&tight[..], &["--whole-file", "false"]].concat());
    assert_eq!(report["tiers"]["policy"], "lru");
    assert!(read(&report, "clairvoyant") < read(&report, "lru"), "{report}");
    let text = out(&tight);
    let named = "with tiers memory 128.0 KiB, disk /nowhere 64.0 KiB, in blocks of 4.0 KiB";
    assert!(text.contains(named), "{text}");
    let line = |policy: &str| text.lines().find(|line| line.starts_with(policy)).unwrap();
    assert!(line("lru").contains("in use") && !line("clairvoyant").contains("in use"), "{text}");
}

#[test]
fn tiers_are_planned_with_only_where_there_are_some() {
    let set = Written::by(SETS);
    let train = set.path("train_0.h5");
    assert!(json(&["plan", &train])["tiers"].is_null());
    let ran = run(&["plan", &train, "--config", "none", "--tiers"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("no tiers to plan with") && ran.err.contains("--tier memory:4GiB"),
        "{}",
        ran.err
    );
}
