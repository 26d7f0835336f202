//! `forebay tier`, and `forebay load` through tiers.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{fs, thread, time::Duration};

use crate::{
    ran::{command, out, run},
    written::{SETS, Written},
};

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&out(&[args, &["--json"]].concat())).unwrap()
}

/// A set that is old enough to be copied, and a folder on another device.
fn set() -> (Written, tempfile::TempDir) {
    let set = Written::by(SETS);
    thread::sleep(Duration::from_millis(2100));
    (set, tempfile::tempdir_in("/dev/shm").unwrap())
}

#[test]
fn the_second_epoch_comes_from_the_tier_and_samples_are_the_same() {
    let (set, folder) = set();
    let tier = format!("disk:{}:1GiB", folder.path().display());
    let (paths, list) = ([set.path("train_0.h5"), set.path("train_1.h5")], set.path("list.txt"));
    let args = [
        "load",
        &paths[0],
        &paths[1],
        "--field",
        "image",
        "--label",
        "label",
        "--batch",
        "16",
        "--shuffle",
        "full",
        "--memory",
        "32MiB",
        "--epochs",
        "3",
        "--list",
        &list,
    ];
    let plain = json(&args);
    let listed = fs::read_to_string(&list).unwrap();
    assert!(plain.get("tiers").is_none());
    for slow in [&[][..], &["--slow", "1ms,500MiB/s"]] {
        for policy in ["auto", "first-fit", "lru"] {
            let through = json(&[&args[..], &["--tier", &tier, "--policy", policy], slow].concat());
            assert_eq!(fs::read_to_string(&list).unwrap(), listed, "{policy} {slow:?}");
            let epochs = through["tiers"]["epochs"].as_array().unwrap();
            assert_eq!(epochs.len(), 3);
            let files: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
            assert_eq!(through["tiers"]["origin"]["bytes"], files, "each byte once: {policy} {slow:?}");
            assert_eq!(epochs[2]["origin"]["bytes"], 0);
            assert_eq!(through["tiers"]["tiers"][0]["used"], files);
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a folder of the user's own");
    let own = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(own).unwrap().count(), 0, "copies went with the processes");
}

#[test]
fn files_are_warmed_listed_and_cleared() {
    let (set, folder) = set();
    let tier = format!("disk:{}:1GiB:keep", folder.path().display());
    let paths = [set.path("train_0.h5"), set.path("train_1.h5"), set.path("graphs.h5")];
    let lens: Vec<u64> = paths.iter().map(|path| fs::metadata(path).unwrap().len()).collect();
    let all: u64 = lens.iter().sum();
    let warm = |paths: &[&str]| json(&[&["tier", "warm"], paths, &["--tier", &tier]].concat());
    let first = warm(&[&paths[0]]);
    assert_eq!((&first["sources"], &first["placed_bytes"]), (&1.into(), &lens[0].into()));
    let rest = warm(&[&paths[0], &paths[1], &paths[2]]);
    assert_eq!((&rest["present_bytes"], &rest["placed_bytes"]), (&lens[0].into(), &(all - lens[0]).into()));
    let listed = json(&["tier", "ls", "--tier", &tier]);
    let mirrors = listed["tiers"][0]["mirrors"].as_array().unwrap();
    assert_eq!((mirrors.len(), &listed["tiers"][0]["used_bytes"]), (3, &all.into()));
    assert!(mirrors.iter().all(|mirror| mirror["whole"] == true));
    assert!(out(&["tier", "ls", "--tier", &tier]).contains("whole  "));
    let origin = set.path("");
    let relative = ["train_0.h5", "train_1.h5", "--field", "image", "--tier", &tier, "--origin", &origin];
    let load = json(&[&["load"], &relative[..]].concat());
    assert_eq!(json(&[&["plan"], &relative[..]].concat())["samples"], load["samples"]);
    assert_eq!(load["tiers"]["origin"]["bytes"], 0, "all was there");
    let cleared = json(&["tier", "clear", "*graphs.h5", "--tier", &tier]);
    assert_eq!(cleared["tiers"][0]["freed_bytes"], lens[2]);
    assert_eq!(json(&["tier", "clear", "--tier", &tier])["tiers"][0]["freed_bytes"], all - lens[2]);
    assert!(json(&["tier", "ls", "--tier", &tier])["tiers"][0]["mirrors"].as_array().unwrap().is_empty());
}

#[test]
fn what_cannot_be_done_says_why_and_what_helps() {
    let (set, folder) = set();
    let path = set.path("train_0.h5");
    let passing = format!("disk:{}:1GiB", folder.path().display());
    for (args, words) in [
        (vec!["tier", "warm", &path], "no disk tier is configured"),
        (vec!["tier", "warm", &path, "--tier", &passing], ":keep"),
        (vec!["tier", "ls", "--tier", "memory:1GiB"], "no disk tier is configured"),
        (vec!["load", &path, "--tier", "dsik:/nvme"], "did you mean 'disk'?"),
        (vec!["load", &path, "--tier", &passing, "--policy", "lur"], "did you mean 'lru'?"),
        (vec!["load", &path, "--slow", "soon"], "is no time"),
    ] {
        let ran = run(&args);
        assert_ne!(ran.code, 0, "{args:?}");
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    let small = format!("disk:{}:4KiB:keep", folder.path().display());
    let warmed = json(&["tier", "warm", &path, "--tier", &small]);
    assert_eq!(warmed["refused_bytes"], fs::metadata(&path).unwrap().len(), "a block that does not fit");
    let same = format!("disk:{}:1GiB:keep", set.path(""));
    assert_eq!(json(&["tier", "warm", &path, "--tier", &same])["passed_over"], 1, "on the tier's own device");
}

#[test]
fn a_tier_without_room_is_said_to_hold_nothing() {
    let (set, folder) = set();
    let (path, config) = (set.path("train_0.h5"), set.path("forebay.toml"));
    // More has to stay free than there is on any disk.
    let table = format!("[[tier]]\npath = \"{}\"\nfree = {}\n", folder.path().display(), i64::MAX);
    fs::write(&config, table).unwrap();
    let ran = run(&["load", &path, "--field", "image", "--config", &config]);
    assert!(ran.out.contains("nothing: there is no room for it, `forebay doctor` says why"), "{ran:?}");
    assert!(ran.err.contains("has no room"), "{ran:?}");
}

#[test]
fn a_tier_that_cannot_be_opened_is_left_out_with_a_line_on_standard_error() {
    let (set, _folder) = set();
    let path = set.path("train_0.h5");
    let tier = "disk:/proc/forebay-no-such:1GiB:keep";
    let ran = run(&["load", &path, "--field", "image", "--tier", tier]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let warning = "forebay: warning: a tier is left out: disk tier '/proc/forebay-no-such'";
    assert!(ran.err.starts_with(warning), "{ran:?}");
    assert!(ran.out.contains("left out: disk tier"), "{ran:?}");
    let ran = run(&["tier", "warm", &path, "--tier", tier]);
    assert_ne!(ran.code, 0, "who wants copies there wants to know");
    let ran = run(&["load", &path, "--field", "image", "--tier", &format!("disk:{path}:1GiB")]);
    assert_ne!(ran.code, 0, "a file is no folder on any day");
    assert!(ran.err.contains("is not a folder"), "{ran:?}");
}

#[test]
fn a_tier_on_the_device_of_the_files_is_said_to_be_of_no_use() {
    let (set, _folder) = set();
    let path = set.path("train_0.h5");
    let tier = format!("disk:{}/cache:1GiB", set.path(""));
    let ran = run(&["load", &path, "--field", "image", "--tier", &tier]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("is of no use: the files lie on its own device"), "{ran:?}");
}

#[test]
fn copies_that_were_made_under_one_name_of_a_file_are_found_under_every_other() {
    let (set, folder) = set();
    let tier = format!("disk:{}:1GiB:keep", folder.path().display());
    let here = set.path("");
    std::os::unix::fs::symlink(&here, folder.path().join("link")).unwrap();
    let linked = folder.path().join("link/train_0.h5").display().to_string();
    let warmed = command(&["tier", "warm", "train_0.h5", "--tier", &tier, "--json"])
        .current_dir(&here)
        .output()
        .unwrap();
    assert!(warmed.status.success(), "{warmed:?}");
    for path in [set.path("train_0.h5"), linked] {
        let read = json(&["load", &path, "--field", "image", "--tier", &tier]);
        assert_eq!(read["tiers"]["origin"]["bytes"], 0, "{path}");
    }
    assert_eq!(json(&["tier", "ls", "--tier", &tier])["tiers"][0]["mirrors"].as_array().unwrap().len(), 1);
}
