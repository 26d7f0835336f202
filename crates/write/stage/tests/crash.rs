//! Processes that are killed at random moments, and what `recover` makes of what they leave.
//!
//! The writer is this program itself, started again with a variable in its environment; it says on its standard output what it
//! was promised.

#![expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use forebay_stage::{
    Area, AreaSettings, CloseWhen, DrainProgress, RecoverOptions, Recovered, StageOptions, recover,
};

const ROLE: &str = "FOREBAY_STAGE_CRASH_ROLE";
const FOLDER: &str = "FOREBAY_STAGE_CRASH_FOLDER";
const SEED: &str = "FOREBAY_STAGE_CRASH_SEED";

/// A few kills in every run, many in the long one.
fn kill_count() -> u64 {
    if env::var_os("FOREBAY_LONG").is_some() { 200 } else { 20 }
}

/// A sequence of numbers that is the same in both processes.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A child that is killed and waited for when it is dropped.
struct Writer(Child);

impl Writer {
    fn start(role: &str, folder: &Path, seed: u64) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "the_writer_that_is_killed", "--nocapture"]);
        command.env(ROLE, role).env(FOLDER, folder).env(SEED, seed.to_string());
        Self(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Kills it after `delay` from its first word on, and gives all it said.
    fn kill_after(mut self, delay: Duration) -> Vec<String> {
        let mut lines = BufReader::new(self.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let first = lines.by_ref().find(|line| line.starts_with("said "));
        thread::sleep(delay);
        self.0.kill().unwrap();
        let said = first.into_iter().chain(lines.filter(|line| line.starts_with("said ")));
        said.map(|line| line["said ".len()..].to_owned()).collect()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn say(what: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nsaid {what}").unwrap();
    out.flush().unwrap();
}

fn settings(folder: &Path, quota: u64) -> AreaSettings {
    AreaSettings { quota, free_floor: 0, ..AreaSettings::folder(folder.join("fast")) }
}

fn quiet(_: DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn recover_now(folder: &Path) -> Recovered {
    recover(&folder.join("fast"), &RecoverOptions::default(), &quiet).unwrap()
}

fn setting() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("fast")).unwrap();
    fs::create_dir(folder.path().join("slow")).unwrap();
    folder
}

#[test]
fn the_writer_that_is_killed() {
    let Ok(role) = env::var(ROLE) else { return };
    let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
    let seed: u64 = env::var(SEED).unwrap().parse().unwrap();
    match role.as_str() {
        "update" => update_for_ever(&folder, seed),
        "create" => create_for_ever(&folder, seed),
        "hold" => hold(&folder, seed),
        "rank" => rank(&folder, seed),
        "delay" => delay(&folder),
        role => panic!("no such role: {role}"),
    }
}

/// One change of an updated file.
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

fn change(numbers: &mut Numbers) -> Change {
    if numbers.below(40) == 0 {
        return Change::SetLen(numbers.below(200_000));
    }
    let (at, len) = (numbers.below(200_000), 1 + numbers.below(20_000));
    let byte = numbers.below(255) as u8;
    Change::Write(at, (0..len).map(|index| byte.wrapping_add((index / 100) as u8)).collect())
}

const CHANGES: u64 = 20_000;

fn update_for_ever(folder: &Path, seed: u64) {
    // With little room, segments are recycled and writes go straight through as well.
    let quota = [1 << 20, 4 << 20, 64 << 20][seed as usize % 3];
    let area = Area::open(settings(folder, quota)).unwrap();
    let path = folder.join("slow/file");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let file = area.update(&path, file, StageOptions::default()).unwrap();
    let (mut numbers, mut promises) = (Numbers(seed), Numbers(seed + 1));
    for done in 0..CHANGES {
        match promises.below(60) {
            0 => file.stage().map(|()| say(done)).unwrap(),
            1 => file.drain().map(|()| say(done)).unwrap(),
            2 => thread::sleep(Duration::from_millis(promises.below(30))),
            _ if done == 0 => say(0),
            _ => {}
        }
        match change(&mut numbers) {
            Change::Write(at, bytes) => file.write_at(at, &bytes).unwrap(),
            Change::SetLen(len) => file.truncate(len).unwrap(),
        }
    }
}

/// How many changes lead to `found`, at least `least`.
fn prefix_of(found: &[u8], seed: u64, least: u64) -> Option<u64> {
    let (mut numbers, mut model) = (Numbers(seed), vec![3; 50_000]);
    for done in 0..=CHANGES {
        if done >= least && model == found {
            return Some(done);
        }
        match change(&mut numbers) {
            Change::Write(at, bytes) => {
                let (at, end) = (at as usize, at as usize + bytes.len());
                if model.len() < end {
                    model.resize(end, 0);
                }
                model[at..end].copy_from_slice(&bytes);
            }
            Change::SetLen(len) => model.resize(len as usize, 0),
        }
    }
    None
}

#[test]
fn an_updated_file_of_a_killed_process_is_what_some_prefix_of_its_writes_had_left() {
    let mut numbers = Numbers(u64::from(std::process::id()));
    for kill in 0..kill_count() {
        let folder = setting();
        let path = folder.path().join("slow/file");
        fs::write(&path, [3; 50_000]).unwrap();
        let seed = numbers.below(1 << 30);
        let delay = Duration::from_micros(numbers.below(120_000));
        let said = Writer::start("update", folder.path(), seed).kill_after(delay);
        let promised: u64 = said.last().map_or(0, |line| line.parse().unwrap());
        let done = recover_now(folder.path());
        assert!(done.refused.is_empty() && done.in_use.is_empty(), "kill {kill}, seed {seed}: {done:?}");
        let found = fs::read(&path).unwrap();
        let prefix = prefix_of(&found, seed, promised);
        assert!(prefix.is_some(), "kill {kill}, seed {seed}, {} bytes, promised {promised}", found.len());
        assert_eq!(recover_now(folder.path()), Recovered::default(), "a second time there is nothing to do");
        let left = fs::read_dir(folder.path().join("fast")).unwrap().flat_map(|entry| {
            fs::read_dir(entry.unwrap().path()).unwrap().map(|entry| entry.unwrap().file_name())
        });
        assert_eq!(left.filter(|name| name != "lock").count(), 0);
    }
}

fn version(number: u64) -> Vec<u8> {
    let len = 1000 + (number * 7919) % 3_000_000;
    let mut bytes: Vec<u8> = (0..len).map(|index| (index / 512 + number) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn create_for_ever(folder: &Path, seed: u64) {
    let quota = [1 << 20, 8 << 20, 64 << 20][seed as usize % 3];
    let area = Area::open(settings(folder, quota)).unwrap();
    let latest = Some(folder.join("slow/latest"));
    let options = StageOptions { latest, ..StageOptions::default() };
    say("begun 0");
    for number in 1.. {
        // One name for all versions, or one for each.
        let name =
            if seed.is_multiple_of(2) { "slow/file".to_owned() } else { format!("slow/step-{number}") };
        let file = area.create(&folder.join(name), options.clone()).unwrap();
        let bytes = version(number);
        for (index, part) in bytes.chunks(300_000).enumerate() {
            file.write_at(index as u64 * 300_000, part).unwrap();
        }
        let sealed = file.seal().unwrap();
        if number % 3 == 0 {
            sealed.durable().wait(None).unwrap();
            say(format!("durable {number}"));
        } else {
            sealed.staged().wait(None).unwrap();
            say(format!("staged {number}"));
        }
    }
}

#[test]
fn a_new_file_of_a_killed_process_is_whole_and_at_least_the_last_that_was_staged() {
    let mut numbers = Numbers(u64::from(std::process::id()) + 7);
    for kill in 0..kill_count() {
        let folder = setting();
        let slow = folder.path().join("slow");
        let seed = numbers.below(1 << 30);
        let delay = Duration::from_micros(numbers.below(200_000));
        let said = Writer::start("create", folder.path(), seed).kill_after(delay);
        let number = said.last().map_or("0", |line| line.split(' ').nth(1).unwrap());
        let promised: u64 = number.parse().unwrap();
        let done = recover_now(folder.path());
        assert!(done.refused.is_empty() && done.in_use.is_empty(), "kill {kill}, seed {seed}: {done:?}");
        assert_eq!(recover_now(folder.path()), Recovered::default());
        let mut versions = Vec::new();
        for entry in fs::read_dir(&slow).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.starts_with('.'), "kill {kill}, seed {seed}: {name} is left");
            let bytes = fs::read(entry.path()).unwrap();
            let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(bytes == version(number), "kill {kill}, seed {seed}: {name} is not whole");
            versions.push(number);
            assert!(name != "latest" || number >= promised, "kill {kill}: latest is {number}");
        }
        let newest = versions.iter().max().copied().unwrap_or(0);
        assert!(newest >= promised, "kill {kill}, seed {seed}: {newest} of {promised}");
        if seed % 2 == 1 {
            assert!((1..=promised).all(|number| versions.contains(&number)), "{versions:?}");
        }
    }
}

/// Writes something, has it staged, and waits to be killed.
fn hold(folder: &Path, _: u64) {
    let area = Area::open(AreaSettings { start_paused: true, ..settings(folder, 64 << 20) }).unwrap();
    let path = folder.join("slow/file");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let file = area.update(&path, file, StageOptions::default()).unwrap();
    file.write_at(4, b"staged").unwrap();
    file.stage().unwrap();
    let new = area.create(&folder.join("slow/new"), StageOptions::default()).unwrap();
    new.write_at(0, b"whole").unwrap();
    assert!(new.seal().unwrap().staged().wait(None).unwrap());
    let open = area.create(&folder.join("slow/open"), StageOptions::default()).unwrap();
    open.write_at(0, b"half").unwrap();
    say("held");
    thread::sleep(Duration::from_secs(300));
}

fn held() -> tempfile::TempDir {
    let folder = setting();
    fs::write(folder.path().join("slow/file"), "0123456789").unwrap();
    let writer = Writer::start("hold", folder.path(), 0);
    assert_eq!(writer.kill_after(Duration::ZERO), ["held"]);
    folder
}

#[test]
fn what_was_sealed_or_staged_is_finished_and_what_was_open_is_discarded() {
    let folder = held();
    let area = Area::open(settings(folder.path(), 64 << 20)).unwrap();
    let path = folder.path().join("slow/file");
    let error = area.pending(&path).unwrap_err();
    assert!(error.to_string().contains("forebay recover"), "{error}");
    let options = RecoverOptions { dry_run: true, ..RecoverOptions::default() };
    let planned = recover(&folder.path().join("fast"), &options, &quiet).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"0123456789", "a dry run changes nothing");
    let done = recover_now(folder.path());
    assert_eq!(planned, done);
    assert_eq!((done.finished.len(), done.discarded.len(), done.refused.len()), (2, 1, 0), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"0123staged");
    assert_eq!(fs::read(folder.path().join("slow/new")).unwrap(), b"whole");
    assert!(!folder.path().join("slow/open").exists());
    assert_eq!(area.pending(&path).unwrap(), None);
}

#[test]
fn a_destination_that_others_changed_is_left_alone_until_somebody_chooses() {
    for choice in ["apply", "discard"] {
        let folder = held();
        let (path, new) = (folder.path().join("slow/file"), folder.path().join("slow/new"));
        fs::write(&path, "changed by others").unwrap();
        fs::write(&new, "by others").unwrap();
        let done = recover_now(folder.path());
        assert_eq!((done.finished.len(), done.refused.len()), (0, 2), "{done:?}");
        assert_eq!(recover_now(folder.path()).refused, done.refused, "asked again, it says the same");
        assert_eq!(fs::read(&path).unwrap(), b"changed by others");
        assert_eq!(fs::read(&new).unwrap(), b"by others");
        for item in &done.refused {
            let error = item.error.as_deref().unwrap();
            assert!(error.contains(&format!("--apply {}", item.id)), "{error}");
            assert!(error.contains(&format!("--discard {}", item.id)), "{error}");
        }
        let names: Vec<String> = done.refused.iter().map(|item| item.id.clone()).collect();
        let mut options = RecoverOptions::default();
        match choice {
            "apply" => options.apply = names,
            _ => options.discard = names,
        }
        let done = recover(&folder.path().join("fast"), &options, &quiet).unwrap();
        assert!(done.refused.is_empty(), "{done:?}");
        let (expected, expected_new): (&[u8], &[u8]) = match choice {
            "apply" => (b"chanstaged others", b"whole"),
            _ => (b"changed by others", b"by others"),
        };
        assert_eq!(fs::read(&path).unwrap(), expected);
        assert_eq!(fs::read(&new).unwrap(), expected_new);
        let error = recover(&folder.path().join("fast"), &options, &quiet).unwrap_err();
        assert!(error.to_string().contains("no such item"), "{error}");
    }
}

#[test]
fn items_of_a_process_that_lives_are_left_to_it() {
    let folder = setting();
    fs::write(folder.path().join("slow/file"), "0123456789").unwrap();
    let mut writer = Writer::start("hold", folder.path(), 0);
    let mut lines = BufReader::new(writer.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "said held"));
    let done = recover_now(folder.path());
    assert_eq!((done.in_use.len(), done.finished.len(), done.discarded.len()), (3, 0, 0));
    assert_eq!(fs::read(folder.path().join("slow/file")).unwrap(), b"0123456789");
    let area = Area::open(settings(folder.path(), 64 << 20)).unwrap();
    let items = area.items().unwrap();
    assert!(items.iter().all(|item| !item.is_deserted && item.pid == writer.0.id()), "{items:?}");
}

/// Closes a file before it is drained, and ends as programs end.
fn delay(folder: &Path) {
    let area = Area::open(settings(folder, 64 << 20)).unwrap();
    let path = folder.join("slow/file");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let file = area.update(&path, file, StageOptions::default()).unwrap();
    file.write_at(0, &vec![5; 20 << 20]).unwrap();
    file.close(CloseWhen::Staged).unwrap();
    let new = area.create(&folder.join("slow/new"), StageOptions::default()).unwrap();
    new.write_at(0, &vec![6; 5 << 20]).unwrap();
    new.seal().unwrap();
    say("closed");
    // The area is never closed.
    std::mem::forget(area);
    std::process::exit(0);
}

#[test]
fn a_process_that_ends_drains_what_it_closed_before() {
    let folder = setting();
    fs::write(folder.path().join("slow/file"), "").unwrap();
    let mut writer = Writer::start("delay", folder.path(), 0);
    assert!(writer.0.wait().unwrap().success());
    assert!(fs::read(folder.path().join("slow/file")).unwrap() == vec![5; 20 << 20]);
    assert!(fs::read(folder.path().join("slow/new")).unwrap() == vec![6; 5 << 20]);
    let done = recover_now(folder.path());
    assert!(done.finished.is_empty() && done.refused.is_empty(), "{done:?}");
}

#[test]
fn what_a_killed_process_left_for_a_file_that_is_replaced_is_forgotten() {
    let folder = held();
    let area = Area::open(settings(folder.path(), 64 << 20)).unwrap();
    let path = folder.path().join("slow/file");
    assert!(area.pending(&path).is_err());
    area.discard(&path).unwrap();
    assert_eq!(area.pending(&path).unwrap(), None);
    fs::write(&path, "another").unwrap();
    let done = recover_now(folder.path());
    assert_eq!((done.finished.len(), done.discarded.len(), done.refused.len()), (1, 1, 0), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"another");
    assert_eq!(fs::read(folder.path().join("slow/new")).unwrap(), b"whole");
}

#[test]
fn a_file_whose_log_is_replayed_is_not_opened_meanwhile_and_one_that_is_locked_is_not_changed() {
    let folder = held();
    let area = Area::open(settings(folder.path(), 64 << 20)).unwrap();
    let path = folder.path().join("slow/file");
    let locked = File::open(&path).unwrap();
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockShared).unwrap();
    let done = recover_now(folder.path());
    assert_eq!((done.finished.len(), done.refused.len()), (1, 1), "{done:?}");
    assert!(done.refused[0].error.as_ref().unwrap().contains("locked"), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"0123456789");
    drop(locked);
    let seen = std::cell::Cell::new(None);
    let watch = |_| {
        seen.set(seen.take().or(area.pending(&path).unwrap()));
        ControlFlow::Continue(())
    };
    let done = recover(&folder.path().join("fast"), &RecoverOptions::default(), &watch).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
    assert_eq!(seen.take(), Some(forebay_stage::ItemState::Draining));
    assert_eq!(fs::read(&path).unwrap(), b"0123staged");
    assert_eq!(area.pending(&path).unwrap(), None);
}

#[test]
fn the_logs_of_several_killed_processes_for_one_file_are_all_replayed_or_all_refused() {
    for is_changed in [false, true] {
        let folder = setting();
        let path = folder.path().join("slow/file");
        fs::write(&path, "0123456789").unwrap();
        let writers: Vec<_> = (0..3).map(|rank| Writer::start("rank", folder.path(), rank)).collect();
        for writer in writers {
            assert_eq!(writer.kill_after(Duration::ZERO), ["held"]);
        }
        if is_changed {
            fs::write(&path, "9876543210").unwrap();
        }
        let done = recover_now(folder.path());
        let counts = (done.finished.len(), done.refused.len());
        assert_eq!(counts, if is_changed { (0, 3) } else { (3, 0) }, "{done:?}");
        let expected: &[u8] = if is_changed { b"9876543210" } else { b"AAABBBCCC9" };
        assert_eq!(fs::read(&path).unwrap(), expected);
        if is_changed {
            let options =
                RecoverOptions { apply: vec![done.refused[0].id.clone()], ..RecoverOptions::default() };
            let forced = recover(&folder.path().join("fast"), &options, &quiet).unwrap();
            assert_eq!((forced.finished.len(), forced.refused.len()), (1, 2), "{forced:?}");
        }
    }
}

/// Writes its part of a file, as one of several processes, and waits to be killed.
fn rank(folder: &Path, rank: u64) {
    let area = Area::open(AreaSettings { start_paused: true, ..settings(folder, 64 << 20) }).unwrap();
    let path = folder.join("slow/file");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let file = area.update(&path, file, StageOptions::default()).unwrap();
    file.write_at(rank * 3, &[b'A' + rank as u8; 3]).unwrap();
    file.stage().unwrap();
    say("held");
    thread::sleep(Duration::from_secs(300));
}

#[test]
fn what_a_killed_process_left_is_forgotten_after_its_file_was_removed_and_not_before() {
    let folder = held();
    let area = Area::open(settings(folder.path(), 64 << 20)).unwrap();
    let path = folder.path().join("slow/file");
    let prepared = area.prepare_discard(&path).unwrap();
    assert!(area.pending(&path).is_err(), "nothing is forgotten yet");
    fs::remove_file(&path).unwrap();
    area.discard_prepared(&prepared).unwrap();
    let done = recover_now(folder.path());
    assert_eq!((done.finished.len(), done.discarded.len(), done.refused.len()), (1, 1, 0), "{done:?}");
    assert!(!path.exists());
}
