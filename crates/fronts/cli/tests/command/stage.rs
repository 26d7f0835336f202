//! `forebay stage` and `forebay recover`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::Duration,
};

use forebay::stage::{Area, AreaSettings, CloseWhen, StageOptions};

use crate::ran::{out, run};

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&run(&[args, &["--json"]].concat()).out).unwrap()
}

/// An area with one new file that is sealed and one update that is closed, neither of which is drained.
fn staged(folder: &Path) -> (std::sync::Arc<Area>, String) {
    let fast = folder.join("fast");
    let settings = AreaSettings { start_paused: true, free_floor: 0, ..AreaSettings::folder(&fast) };
    let area = Area::open(settings).unwrap();
    let new = area.create(&folder.join("new"), StageOptions::default()).unwrap();
    new.write_at(0, b"new").unwrap();
    assert!(new.seal().unwrap().staged().wait(Some(Duration::from_secs(300))).unwrap());
    let path = folder.join("file");
    fs::write(&path, "0123456789").unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let file = area.update(&path, file, StageOptions::default()).unwrap();
    file.write_at(4, b"staged").unwrap();
    file.close(CloseWhen::Staged).unwrap();
    (area, fast.display().to_string())
}

/// A copy of the area, as if its process had been killed.
fn killed(folder: &Path) -> String {
    let (area, fast) = staged(folder);
    let left = folder.join("left").display().to_string();
    assert!(Command::new("cp").args(["-a", &fast, &left]).status().unwrap().success());
    std::mem::forget(area);
    left
}

#[test]
fn staged_writes_are_listed_held_back_and_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (area, fast) = staged(folder.path());
    let listed = json(&["stage", "ls", &fast]);
    assert_eq!((&listed["paused"], listed["items"].as_array().unwrap().len()), (&false.into(), 2));
    let item = &listed["items"][1];
    assert_eq!(
        (&item["kind"], &item["state"], &item["bytes"]),
        (&"update".into(), &"draining".into(), &6.into())
    );
    assert_eq!(item["pid"], std::process::id());
    let shown = out(&["stage", "ls", &fast]);
    assert!(shown.contains("sealed") && shown.contains("draining"), "{shown}");

    assert_eq!(json(&["stage", "pause", &fast])["paused"], true);
    assert_eq!(json(&["stage", "pause", &fast])["paused"], true);
    let ran = run(&["stage", "drain", &fast]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.out.contains("stage resume"), "{ran:?}");
    assert_eq!(json(&["stage", "resume", &fast])["paused"], false);
    let ran = run(&["stage", "drain", &fast, "--wait", "0"]);
    assert_eq!(ran.code, 6, "its own process holds it back: {ran:?}");
    area.resume();
    assert_eq!(json(&["stage", "drain", &fast])["drained"], true);
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"0123staged");
    assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"new");
    assert_eq!(out(&["stage", "ls", &fast]), "nothing is staged\n");
}

#[test]
fn what_killed_processes_left_is_recovered_once_and_a_choice_is_left_to_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let left = killed(folder.path());
    fs::write(folder.path().join("new"), "by others").unwrap();
    let ran = run(&["stage", "drain", &left]);
    assert!(ran.code == 6 && ran.out.contains("forebay recover"), "{ran:?}");
    let planned = json(&["recover", &left, "--dry-run"]);
    assert_eq!(planned["finished"].as_array().unwrap().len(), 1, "{planned}");
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"0123456789");
    let ran = run(&["recover", &left]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.out.contains("changed by others") && ran.out.contains("--apply"), "{ran:?}");
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"0123staged");
    assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"by others");
    let again = json(&["recover", &left]);
    let id = again["refused"][0]["id"].as_str().unwrap().to_owned();
    let ran = run(&["recover", &left, "--discard", "nothing"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let done = json(&["recover", &left, "--apply", &id]);
    assert_eq!(done["finished"][0]["id"], id.as_str(), "{done}");
    assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"new");
    assert!(out(&["recover", &left]).contains("nothing to recover"));
}

#[test]
fn without_a_folder_the_area_of_the_configuration_is_meant() {
    let ran = run(&["stage", "ls"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("FOREBAY_STAGE"), "{ran:?}");
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::ran::command(&["stage", "ls"]);
    let done = command.env("FOREBAY_STAGE", folder.path()).output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "nothing is staged\n");
}

#[test]
fn a_folder_that_is_not_there_is_no_empty_area() {
    let folder = tempfile::tempdir().unwrap();
    let mistyped = folder.path().join("nvem").display().to_string();
    for command in [&["stage", "ls"][..], &["stage", "drain"], &["recover"]] {
        let ran = run(&[command, &[mistyped.as_str()]].concat());
        assert!(
            ran.code != 0 && ran.err.contains("nvem") && ran.err.contains("stage.path"),
            "{command:?}: {ran:?}"
        );
    }
}

#[test]
fn what_a_destination_refused_is_left_to_drain_by_its_process_and_to_recover_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, gone) = (folder.path().join("fast"), folder.path().join("gone"));
    fs::create_dir(&gone).unwrap();
    let area = Area::open(AreaSettings { free_floor: 0, start_paused: true, ..AreaSettings::folder(&fast) });
    let area = area.unwrap();
    let new = area.create(&gone.join("new"), StageOptions::default()).unwrap();
    new.write_at(0, b"new").unwrap();
    new.seal().unwrap().staged().wait(Some(Duration::from_secs(300))).unwrap();
    fs::remove_dir(&gone).unwrap();
    assert!(area.drain(&|_| std::ops::ControlFlow::Continue(())).is_err());
    let living = out(&["stage", "ls", fast.to_str().unwrap()]);
    assert!(living.contains("failed") && living.contains("'forebay stage drain' tries again"), "{living}");
    let left = folder.path().join("left").display().to_string();
    assert!(Command::new("cp").arg("-a").arg(&fast).arg(&left).status().unwrap().success());
    let listed = out(&["stage", "ls", &left]);
    assert!(listed.contains("'forebay recover' tries again") && !listed.contains("stage drain"), "{listed}");
    let error = json(&["stage", "ls", &left])["items"][0]["error"].to_string();
    assert!(error.contains("'forebay recover' tries again"), "{error}");
    fs::create_dir(&gone).unwrap();
    // Another directory has the path by now, which the user is asked about.
    let id = json(&["stage", "ls", &left])["items"][0]["id"].as_str().unwrap().to_owned();
    let done = json(&["recover", &left, "--apply", &id]);
    assert_eq!(
        (&done["finished"][0]["id"], &done["finished"][0]["error"]),
        (&id.into(), &serde_json::Value::Null)
    );
    std::mem::forget(area);
}

#[test]
fn an_item_of_a_running_process_that_the_user_named_is_something_left_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (_area, fast) = staged(folder.path());
    let id = json(&["stage", "ls", &fast])["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(run(&["recover", &fast]).code, 0);
    for choice in ["--apply", "--discard"] {
        let ran = run(&["recover", &fast, choice, &id]);
        assert!(ran.code == 6 && ran.out.contains("of processes that still run"), "{ran:?}");
    }
    assert_eq!(json(&["stage", "ls", &fast])["items"].as_array().unwrap().len(), 2);
}
