//! `forebay run` over an origin: what the program is given, and how the command ends. The library itself is tested from Python.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::PathBuf,
    process::Output,
};

use tempfile::TempDir;

use crate::ran::command;

/// An origin, a tier and a folder of libraries that are none: the linker says so and goes on.
struct RunPlaces {
    folder: TempDir,
}

impl RunPlaces {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["origin", "tier", "plugins/preload"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("plugins/preload/libforebay_preload.so"), "no library").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, flags: &[&str], program: &[&str]) -> Output {
        let (origin, tier) = (self.path("origin"), format!("{}:1MiB:free=0", self.path("tier").display()));
        let mut args = vec!["run", "--origin", origin.to_str().unwrap(), "--tier", &tier];
        args.extend(flags);
        args.push("--");
        args.extend(program);
        let mut command = command(&args);
        command.current_dir(self.folder.path()).env("FOREBAY_CONFIG", "none");
        command.env("FOREBAY_PLUGINS", self.path("plugins")).env_remove("LD_PRELOAD");
        command.output().unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_program_gets_the_library_and_the_settings_and_its_end_is_that_of_the_command() {
    let places = RunPlaces::new();
    let script = "echo $LD_PRELOAD $FOREBAY_ORIGIN $FOREBAY_TIERS; test -f $FOREBAY_RUN/counters && exit 42";
    let ran = places.run(&["--json"], &["sh", "-c", script]);
    assert_eq!(ran.status.code(), Some(42), "{}", said(&ran));
    let [library, origin, tier] = ["plugins/preload/libforebay_preload.so", "origin", "tier"]
        .map(|name| places.path(name).display().to_string());
    assert_eq!(String::from_utf8_lossy(&ran.stdout), format!("{library} {origin} disk:{tier}:1MiB:free=0\n"));
    let last = said(&ran).lines().last().unwrap().to_owned();
    let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&summary["exit_code"], &summary["signal"]), (&42.into(), &serde_json::Value::Null));
    assert!(summary["notes"][0].as_str().unwrap().contains("no open under"), "{summary}");
    assert_eq!(fs::read_dir(places.path("tier")).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_signal_that_ends_the_program_ends_the_command() {
    let ran = RunPlaces::new().run(&["--quiet"], &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(ran.status.signal(), Some(15), "{}", said(&ran));
}

#[test]
fn what_cannot_be_started_is_said_as_a_shell_does_and_a_report_is_a_page() {
    let places = RunPlaces::new();
    assert_eq!(places.run(&[], &["forebay-no-such-program"]).status.code(), Some(127));
    let report = places.path("run.html");
    let ran = places.run(&["--quiet", "--report", report.to_str().unwrap()], &["true"]);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    assert!(fs::read_to_string(report).unwrap().starts_with("<!DOCTYPE html>"));
}

/// What the command says where it refuses to start the program, and its exit code.
fn refused(places: &RunPlaces, flags: &[&str]) -> (String, Option<i32>) {
    let args = [&["run"], flags, &["--", "touch", "started"]].concat();
    let mut command = command(&args);
    command.current_dir(places.folder.path()).env("FOREBAY_CONFIG", "none");
    let output =
        command.env("FOREBAY_PLUGINS", places.path("plugins")).env_remove("LD_PRELOAD").output().unwrap();
    assert!(!places.path("started").exists(), "{flags:?}: the program was started");
    (said(&output), output.status.code())
}

#[test]
fn an_origin_that_is_no_folder_and_what_is_missing_are_told_apart() {
    let places = RunPlaces::new();
    fs::write(places.path("origin/a.npy"), "").unwrap();
    let told = |flags: &[&str]| refused(&places, flags).0;
    let file = told(&["--origin", "origin/a.npy", "--tier", "/dev/shm"]);
    assert!(file.contains("origin/a.npy: is not a folder"), "{file}");
    let url = told(&["--origin", "s3://bucket/set", "--tier", "/dev/shm"]);
    assert!(url.contains("s3://bucket/set: `forebay run` takes folders only"), "{url}");
    let no_tier = told(&["--origin", "origin"]);
    assert!(no_tier.contains("there is no tier for its files") && !no_tier.contains("--origin"), "{no_tier}");
    let no_origin = told(&["--tier", "/dev/shm"]);
    assert!(no_origin.contains("there is no origin for the tiers"), "{no_origin}");
    let neither = told(&[]);
    assert!(neither.contains("name a folder by --origin and a tier by --tier"), "{neither}");
    let stage = told(&["--stage", "/dev/shm"]);
    assert!(stage.contains("nothing is staged by --stage alone") && stage.contains("by --hdf5"), "{stage}");
    let help = String::from_utf8(command(&["run", "--help"]).output().unwrap().stdout).unwrap();
    assert!(help.contains("Origin of the data: a folder") && !help.contains("s3://"), "{help}");
}

#[test]
fn a_report_that_could_not_be_written_is_refused_before_the_program_starts() {
    let places = RunPlaces::new();
    let (said, code) =
        refused(&places, &["--origin", "origin", "--tier", "/dev/shm", "--report", "no/run.html"]);
    assert!(said.contains("no/run.html: there is no folder no for the report"), "{said}");
    assert_ne!(code, Some(0));
    let (said, code) = refused(&places, &["--hdf5", "--report", "run.html"]);
    assert!(said.contains("--hdf5 alone makes no report") && said.contains("--tier"), "{said}");
    assert_eq!(code, Some(2));
}

#[test]
fn tiers_that_copy_nothing_are_told_once_and_empty_folders_that_were_made_are_removed() {
    let places = RunPlaces::new();
    let (origin, new) = (places.path("origin"), places.path("new/deep"));
    let run = |tier: &str| {
        let mut command =
            command(&["run", "--origin", origin.to_str().unwrap(), "--tier", tier, "--", "true"]);
        command.current_dir(places.folder.path()).env("FOREBAY_CONFIG", "none");
        said(
            &command
                .env("FOREBAY_PLUGINS", places.path("plugins"))
                .env_remove("LD_PRELOAD")
                .output()
                .unwrap(),
        )
    };
    let same = run(&format!("{}:1MiB:free=0", new.display()));
    assert_eq!(same.matches("is of no use: the files lie on its own device").count(), 1, "{same}");
    assert!(!places.path("new").exists(), "the folder was made by the run");
    let small = run("/dev/shm:1000");
    // The first is said of files that lie there themselves.
    let said = ["is of no use: the files lie on its own device", "holds no block of 1.00 MiB"];
    assert!(said.iter().any(|line| small.contains(line)), "{small}");
}

#[test]
fn a_staging_area_without_hdf5_is_told() {
    let places = RunPlaces::new();
    let area = places.path("fast").display().to_string();
    let told = said(&places.run(&["--stage", &area], &["true"]));
    let warning = format!(
        "warning: plain writes of the program are not staged in {area}: only those through forebay.stage are; --hdf5 stages HDF5 files"
    );
    assert_eq!(told.matches(&warning).count(), 1, "{told}");
    assert!(!said(&places.run(&["--stage", &area, "--quiet"], &["true"])).contains("warning"));
}

#[test]
fn staged_plain_writes_are_refused_with_what_stages_files_now() {
    let places = RunPlaces::new();
    let area = places.path("fast").display().to_string();
    for flags in [
        &["--origin", "origin", "--tier", "/dev/shm", "--stage-writes", "--stage", &area][..],
        &["--hdf5", "--stage-writes"],
        &["--stage-writes"],
        &["--stage-writes=/tmp/x"],
        &["--stage-writes", "/tmp/x"],
    ] {
        let (told, code) = refused(&places, flags);
        assert_eq!((code, told.lines().count()), (Some(2), 1), "{told}");
        for part in
            ["--stage-writes was removed", "write through forebay.stage", "`forebay run --hdf5 --stage AREA`"]
        {
            assert!(told.contains(part), "{told}");
        }
    }
    assert!(!places.path("fast").exists());
    let help = String::from_utf8(command(&["run", "--help"]).output().unwrap().stdout).unwrap();
    assert!(!help.contains("stage-writes"), "{help}");
}

#[test]
fn a_staging_area_and_a_tier_that_are_files_are_wrong_usage_alike() {
    let places = RunPlaces::new();
    let file = places.path("file").display().to_string();
    fs::write(&file, "").unwrap();
    let (staged, staged_code) = refused(&places, &["--hdf5", "--origin", "origin", "--stage", &file]);
    let (tiered, tiered_code) = refused(&places, &["--origin", "origin", "--tier", &file]);
    assert_eq!((staged_code, tiered_code), (Some(2), Some(2)), "{staged}{tiered}");
    for told in [&staged, &tiered] {
        assert!(told.contains(&format!("{file} is not a folder")), "{told}");
    }
    assert!(staged.contains("name a folder by --stage"), "{staged}");
}

#[test]
fn a_staging_area_that_cannot_be_used_is_one_error_and_no_warning() {
    let places = RunPlaces::new();
    let area = places.path("fast");
    // An area of another user, or one that others may enter, is refused alike.
    let own = area.join(format!("forebay-stage-{}", rustix::process::geteuid().as_raw()));
    fs::create_dir_all(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
    let area = area.to_str().unwrap();
    for flags in [
        &["--hdf5", "--stage", area][..],
        &["--hdf5", "--origin", "origin", "--stage", area],
        &["--hdf5", "--origin", "origin", "--tier", "/dev/shm", "--stage", area],
    ] {
        let (told, code) = refused(&places, flags);
        assert!(told.contains(&format!("staging area '{area}'")), "{told}");
        assert!(!told.contains("warning") && !told.contains("straight"), "{told}");
        assert_eq!((told.lines().count(), code), (1, Some(8)), "{told}");
    }
}

#[test]
fn hdf5_plug_ins_without_a_tier_manage_the_files_under_the_origin() {
    let places = RunPlaces::new();
    fs::create_dir_all(places.path("plugins/vfd")).unwrap();
    fs::write(places.path("plugins/vfd/libforebay_vfd.so"), "no library").unwrap();
    let shown = |flags: &[&str]| {
        let program = ["--", "sh", "-c", "echo $FOREBAY_HDF5_PATHS"];
        let args = [&["run", "--hdf5", "--stage", "/dev/shm"], flags, &program].concat();
        let mut command = command(&args);
        command.current_dir(places.folder.path()).env("FOREBAY_CONFIG", "none");
        let ran = command.env("FOREBAY_PLUGINS", places.path("plugins")).output().unwrap();
        (String::from_utf8_lossy(&ran.stdout).into_owned(), said(&ran))
    };
    let origin = places.path("origin").display().to_string();
    assert_eq!(shown(&["--origin", &origin]), (format!("{origin}\n"), String::new()));
    assert_eq!(shown(&["--origin", &origin, "--hdf5-paths", "/x"]), ("/x\n".to_owned(), String::new()));
    let (_, told) = shown(&[]);
    assert!(told.contains("no paths are configured"), "nothing would be staged: {told}");
    assert_eq!(shown(&["--quiet"]), ("\n".to_owned(), String::new()));
}

#[test]
fn an_error_as_json_stays_away_from_the_standard_output_of_the_program() {
    let places = RunPlaces::new();
    let mut command = command(&["run", "--json", "--origin", "origin", "--", "true"]);
    let ran = command.current_dir(places.folder.path()).env("FOREBAY_CONFIG", "none").output().unwrap();
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(2), &b""[..]), "{}", said(&ran));
    let told = said(&ran);
    let [line, object] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert!(line.starts_with("forebay: ") && line.contains("there is no tier"), "{told}");
    let object: serde_json::Value = serde_json::from_str(object).unwrap();
    assert_eq!((&object["kind"], object["error"].is_string()), (&"Invalid".into(), true), "{told}");
}
