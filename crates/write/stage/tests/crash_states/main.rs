//! Crash states of short programs, recovered; and their calls, each failed once.
//!
//! Programs of up to three steps are run, and the file-system calls of staging are recorded. After each call the machine or the process
//! goes down: each state that the disk may then have is built, `recover` runs over it twice, and what is at the destination is compared
//! with what was promised. Then each call fails once, with each of a few errors; and once more, with a crash behind later changes.
//!
//! `FOREBAY_CRASH=deep` runs all programs of two steps and a sample of those of three; without it, those of one step and a few of two.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod check;
mod record;
mod workload;
mod world;

use std::{
    env,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use crate::{
    check::{Counts, check_crashes, check_failures, check_kills_after_failures},
    workload::{Place, STEPS, Step, Workload},
    world::Limits,
};

/// File systems in memory give each file a number of its own, and sync nothing.
const MEMORY: &str = "/dev/shm";

fn is_deep() -> bool {
    env::var_os("FOREBAY_CRASH").is_some_and(|value| value == "deep")
}

/// A directory for the worlds of a thread, removed in the end.
struct Worlds(PathBuf);

impl Worlds {
    fn new(name: &str) -> Self {
        let root = Path::new(MEMORY).join(format!("forebay-crash-{}-{name}", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        Self(root)
    }

    fn place(&self) -> Place {
        Place { root: self.0.join("world") }
    }
}

impl Drop for Worlds {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// All programs of `len` steps, in all settings.
fn workloads(len: usize) -> Vec<Workload> {
    let mut programs: Vec<Vec<Step>> = vec![Vec::new()];
    for _ in 0..len {
        programs = programs
            .iter()
            .flat_map(|program| STEPS.map(|step| [program.as_slice(), &[step]].concat()))
            .collect();
    }
    let settings = [(false, false), (false, true), (true, false), (true, true)];
    let with = |steps: &Vec<Step>| {
        settings.map(|(is_there, is_paused)| Workload { steps: steps.clone(), is_there, is_paused })
    };
    programs.iter().flat_map(with).collect()
}

/// Every `step`th of them, from a different one on each time.
fn sample(all: Vec<Workload>, count: usize) -> Vec<Workload> {
    let step = (all.len() / count).max(1);
    all.into_iter().step_by(step).collect()
}

/// Programs in whose states the long run found faults.
fn found() -> Vec<Workload> {
    use Step::{Create, CreateFull, CreateNew, Recover, Unlink, Update};
    let of = |steps: &[Step], is_there| Workload { steps: steps.to_vec(), is_there, is_paused: true };
    vec![
        of(&[Update, Create], true),
        of(&[Update, Recover], true),
        of(&[CreateNew, Update], false),
        of(&[Create, Unlink], true),
        of(&[CreateFull, Update, Update], true),
    ]
}

fn chosen() -> (Vec<Workload>, Limits) {
    let mut all = workloads(1);
    if is_deep() {
        all.extend(workloads(2));
        all.extend(sample(workloads(3), 211));
        (all, Limits { exhaustive: 1024, sampled: 256, failed_runs: 80, kills: 20 })
    } else {
        all.extend(sample(workloads(2), 13));
        all.extend(found());
        (all, Limits { exhaustive: 64, sampled: 16, failed_runs: 12, kills: 4 })
    }
}

/// Runs `check` over all workloads on as many threads as there are processors, and says what was counted.
fn over_all(name: &str, check: impl Fn(&Workload, &Place, Limits, &mut Counts) + Sync) {
    let began = Instant::now();
    let (all, limits) = chosen();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Counts::default());
    thread::scope(|scope| {
        for number in 0..thread::available_parallelism().map_or(2, std::num::NonZero::get) {
            let (all, next, total, check) = (&all, &next, &total, &check);
            scope.spawn(move || {
                let worlds = Worlds::new(&format!("{name}-{number}"));
                let mut counts = Counts::default();
                while let Some(workload) = all.get(next.fetch_add(1, Relaxed)) {
                    check(workload, &worlds.place(), limits, &mut counts);
                }
                total.lock().unwrap().add(&counts);
            });
        }
    });
    let counts = total.into_inner().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    let rate = (counts.states + counts.failures) as f64 / seconds;
    println!("{name}: {} workloads, {counts} in {seconds:.0} s, {rate:.0} a second", all.len());
    for violation in &counts.violations {
        println!("{violation}\n");
    }
    assert!(counts.violations.is_empty(), "{} violations", counts.violations.len());
    assert!(counts.states + counts.failures > 100, "{counts}");
}

#[test]
fn whatever_a_crash_leaves_is_recovered_as_it_was_promised() {
    over_all("crashes", check_crashes);
}

#[test]
fn a_call_that_fails_loses_nothing_that_was_promised() {
    over_all("failures", check_failures);
}

#[test]
fn a_crash_after_a_call_that_failed_loses_nothing_that_was_promised() {
    over_all("crashes after failures", check_kills_after_failures);
}
