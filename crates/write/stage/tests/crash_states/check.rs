//! What is checked of each state.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    fmt, fs,
    ops::AddAssign,
    os::unix::fs::PermissionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use forebay_stage::Recovered;

use crate::{
    record::{Failure, Recorder},
    workload::{Content, ERRNOS, NAME, OTHER, Place, Run, Step, Workload, recover_all, watched},
    world::{Crash, Disk, Limits},
};

/// What was looked at, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Calls after which there was a crash.
    pub(crate) cuts: usize,
    /// Those of which all states were built.
    pub(crate) whole_cuts: usize,
    /// Different states that were recovered.
    pub(crate) states: usize,
    pub(crate) failures: usize,
    /// Items that were left for the user to decide.
    pub(crate) refused: usize,
    pub(crate) violations: Vec<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.whole_cuts += other.whole_cuts;
        self.states += other.states;
        self.failures.add_assign(other.failures);
        self.refused += other.refused;
        self.violations.extend(other.violations.iter().cloned());
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crashes ({} with all of their states), {} states, {} failed calls, {} refusals, {} violations",
            self.cuts,
            self.whole_cuts,
            self.states,
            self.failures,
            self.refused,
            self.violations.len()
        )
    }
}

/// What lies at the destinations.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    files: BTreeMap<String, (Vec<u8>, u32)>,
}

impl Seen {
    fn look(place: &Place) -> Self {
        let files = fs::read_dir(place.slow()).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
            (path.file_name().unwrap().to_str().unwrap().to_owned(), (fs::read(&path).unwrap(), mode))
        });
        Self { files: files.collect() }
    }

    fn content(&self, name: &str) -> Content {
        self.files.get(name).map(|(bytes, _)| bytes.clone())
    }

    fn strays(&self) -> Vec<&String> {
        self.files.keys().filter(|name| ![NAME, OTHER].contains(&name.as_str())).collect()
    }
}

/// What a crash was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Down {
    /// The process was killed: all that was written is there.
    Process,
    /// The machine lost its power.
    Machine,
}

/// Builds every state after each call of `workload` and recovers it.
pub(crate) fn check_crashes(workload: &Workload, place: &Place, limits: Limits, counts: &mut Counts) {
    let run = workload.run(place, None);
    let mut known: HashSet<(u64, Down, (usize, usize))> = HashSet::new();
    let mut volatile = run.before.clone();
    for cut in 0..=run.changes.len() {
        if cut > 0 {
            volatile.apply(&run.changes[cut - 1]);
        }
        counts.cuts += 1;
        let crash = Crash::after(&run.before, &run.changes[..cut]);
        counts.whole_cuts += usize::from(crash.count() <= limits.exhaustive);
        let lost = crash.states(limits, cut as u64).into_iter().map(|disk| (Down::Machine, disk));
        for (down, disk) in lost.chain([(Down::Process, volatile.clone())]) {
            let range = run.range(cut, down == Down::Machine);
            if !known.insert((disk.fingerprint(), down, range)) {
                continue;
            }
            counts.states += 1;
            let found = check_state(&run, cut, place, &disk, down, range, counts);
            if let Some(what) = found {
                counts.violations.push(describe(workload, &run, cut, down, &what));
                if counts.violations.len() > 100 {
                    return;
                }
            }
        }
    }
}

fn describe(workload: &Workload, run: &Run, cut: usize, down: Down, what: &str) -> String {
    let around: Vec<String> = run.changes[cut.saturating_sub(4)..(cut + 1).min(run.changes.len())]
        .iter()
        .map(|change| {
            let mut text = format!("{change:?}");
            text.truncate(160);
            text
        })
        .collect();
    format!(
        "{workload:?}\n  {down:?} down after {cut} changes: {what}\n  errors {:?}\n  {}",
        run.errors,
        around.join("\n  ")
    )
}

/// Recovers one state; what is wrong, if something is.
fn check_state(
    run: &Run,
    cut: usize,
    place: &Place,
    disk: &Disk,
    down: Down,
    range: (usize, usize),
    counts: &mut Counts,
) -> Option<String> {
    let originals = disk.build(&place.root, &run.births);
    let boot = (down == Down::Machine).then(|| "another boot".to_owned());
    let recorder = Rc::new(RefCell::new(Recorder { originals, boot, ..Recorder::default() }));
    let recovered = match quietly(&recorder, place) {
        Ok(recovered) => recovered,
        Err(what) => return Some(what),
    };
    counts.refused += recovered.refused.len();
    let seen = Seen::look(place);
    check_seen(run, cut, &seen, &recovered, range, down == Down::Process)
        .or_else(|| check_again(&recorder, place, &seen, &recovered))
}

fn quietly(recorder: &Rc<RefCell<Recorder>>, place: &Place) -> Result<Recovered, String> {
    let recovered = catch_unwind(AssertUnwindSafe(|| watched(recorder, || recover_all(place))));
    match recovered {
        Ok(Ok(recovered)) => Ok(recovered),
        Ok(Err(error)) => Err(format!("recover: {error}")),
        Err(_) => Err("recover panicked".to_owned()),
    }
}

/// A second `recover` finds nothing to do.
fn check_again(
    recorder: &Rc<RefCell<Recorder>>,
    place: &Place,
    seen: &Seen,
    first: &Recovered,
) -> Option<String> {
    let second = match quietly(recorder, place) {
        Ok(second) => second,
        Err(what) => return Some(format!("the second time, {what}")),
    };
    let ids = |recovered: &Recovered| -> HashSet<String> {
        recovered.refused.iter().map(|item| item.id.clone()).collect()
    };
    if !second.finished.is_empty() || !second.discarded.is_empty() || ids(&second) != ids(first) {
        return Some(format!("the second recover did something: {second:?}"));
    }
    (Seen::look(place) != *seen).then(|| "the second recover changed a destination".to_owned())
}

fn check_seen(
    run: &Run,
    cut: usize,
    seen: &Seen,
    recovered: &Recovered,
    range: (usize, usize),
    is_exact: bool,
) -> Option<String> {
    let is_kept = !recovered.refused.is_empty();
    if !recovered.in_use.is_empty() {
        return Some(format!("in use: {:?}", recovered.in_use));
    }
    // Whoever was told that the file failed finds it refused. So does the next process where a journal could not be written or removed:
    // nothing is lost, and the user decides.
    let is_told = run.failed.is_some() && !run.errors.is_empty();
    if is_kept && !run.is_disturbed && !is_told && !run.failed_at_journal() {
        return Some(format!("refused, though nobody changed anything: {:?}", recovered.refused));
    }
    // What is refused may have a temporary file; what was never promised may have left one that no journal knew.
    let strays: Vec<&String> =
        seen.strays().into_iter().filter(|name| !run.is_unjournalled(cut, name)).collect();
    if !is_kept && is_exact && !strays.is_empty() {
        return Some(format!("left {strays:?}"));
    }
    let found = seen.content(NAME);
    // What is still in the area is not lost: the destination is any of the versions before.
    let first = if is_kept { 0 } else { range.0 };
    // The user has removed or renamed what was there, and decides about what was to take its place.
    let is_removed = found.is_none() && (is_kept && run.is_disturbed || run.allows_removal(cut, range.0));
    let is_moved = run.is_disturbed && seen.content(OTHER).is_some();
    // The name that an exclusive creation took, of which no journal could say so.
    let is_unknown = run.is_unjournalled(cut, NAME) || run.failed_at_journal();
    let is_claim = found.as_ref().is_some_and(Vec::is_empty) && is_unknown;
    let is_unsynced = !is_exact && run.allows_unsynced(cut, &found, range);
    if !is_removed && !is_claim && !is_unsynced && !run.allows(&found, (first, range.1), is_exact && !is_kept)
    {
        let was = found.as_ref().map(|bytes| brief(bytes));
        return Some(format!(
            "{NAME} is {was:?}, allowed are versions {first} to {}: {}",
            range.1,
            versions(run)
        ));
    }
    if is_moved && !run.allows(&seen.content(OTHER), (0, range.1), false) {
        return Some(format!("{OTHER} is {:?}", brief(&seen.content(OTHER).unwrap_or_default())));
    }
    let modes: Vec<u32> =
        seen.files.iter().filter(|(name, _)| *name == NAME).map(|(_, file)| file.1).collect();
    modes.iter().find(|mode| **mode & !0o644 != 0).map(|mode| format!("mode {mode:o}"))
}

fn brief(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let len = rest.iter().take_while(|byte| *byte == first).count();
        text += &format!("{}x{len} ", char::from(*first).escape_default());
        rest = &rest[len..];
    }
    text
}

fn versions(run: &Run) -> String {
    let one = |version: &crate::workload::Version| {
        version.content.as_ref().map_or("none".to_owned(), |bytes| brief(bytes))
    };
    run.versions.iter().map(one).collect::<Vec<_>>().join(" | ")
}

/// Fails each call of `workload` once, with each of the errors; then each call of `recover` behind each of its steps.
pub(crate) fn check_failures(workload: &Workload, place: &Place, limits: Limits, counts: &mut Counts) {
    let undisturbed = workload.run(place, None);
    let errnos = if limits.exhaustive < 100 { &ERRNOS[..2] } else { &ERRNOS[..] };
    for errno in errnos {
        for at in 0..undisturbed.calls {
            let failure = Failure { at, errno: *errno };
            let run = catch_unwind(AssertUnwindSafe(|| workload.run(place, Some(failure))));
            counts.failures += 1;
            let what = match run {
                Ok(run) if run.failed.is_none() => None,
                Ok(run) => check_failed_run(workload, &run, place)
                    .or_else(|| {
                        // What a power loss leaves hardly depends on the error.
                        let is_whole = limits.exhaustive >= 100 && *errno == errnos[0];
                        check_power_loss(&run, place, is_whole, counts)
                    })
                    .map(|what| (run.failed.unwrap_or_default(), what)),

                Err(_) => Some((String::new(), "panicked".to_owned())),
            };
            if let Some((call, what)) = what {
                counts
                    .violations
                    .push(format!("{workload:?}\n  call {at} failed with {errno:?}: {call}\n  {what}"));
            }
            if counts.violations.len() > 100 {
                return;
            }
        }
    }
    check_failing_recover(workload, place, errnos, counts);
}

/// Fails each call of `workload` once, or a sample of them, and then ends the process or the machine behind each later change.
pub(crate) fn check_kills_after_failures(
    workload: &Workload,
    place: &Place,
    limits: Limits,
    counts: &mut Counts,
) {
    let undisturbed = workload.run(place, None);
    // A short program is looked at as a whole.
    let most = if workload.steps.len() == 1 { limits.failed_runs * 4 } else { limits.failed_runs };
    let step = (undisturbed.calls / most).max(1);
    for at in (workload.seed() % step..undisturbed.calls).step_by(step) {
        let failure = Failure { at, errno: ERRNOS[0] };
        let Ok(run) = catch_unwind(AssertUnwindSafe(|| workload.run(place, Some(failure)))) else {
            counts
                .violations
                .push(format!("{workload:?}\n  call {at} failed with {:?}: panicked", ERRNOS[0]));
            continue;
        };
        let Some(failed) = &run.failed else { continue };
        counts.failures += 1;
        let mut known: HashSet<(u64, Down, (usize, usize))> = HashSet::new();
        let step = ((run.changes.len() - run.failed_behind) / limits.kills).max(1);
        for cut in (run.failed_behind + at % step..=run.changes.len()).step_by(step) {
            let mut volatile = run.before.clone();
            run.changes[..cut].iter().for_each(|change| volatile.apply(change));
            let lost = Crash::after(&run.before, &run.changes[..cut]).extremes();
            let lost = lost.into_iter().map(|disk| (Down::Machine, disk));
            counts.cuts += 1;
            for (down, disk) in lost.chain([(Down::Process, volatile)]) {
                let range = run.range(cut, down == Down::Machine);
                if !known.insert((disk.fingerprint(), down, range)) {
                    continue;
                }
                counts.states += 1;
                if let Some(what) = check_state(&run, cut, place, &disk, down, range, counts) {
                    let what = format!("{what}\n  call {at} had failed: {failed}");
                    counts.violations.push(describe(workload, &run, cut, down, &what));
                }
                if counts.violations.len() > 100 {
                    return;
                }
            }
        }
    }
}

/// After a run in which a call failed, `recover` brings what was promised, or says what it cannot.
fn check_failed_run(workload: &Workload, run: &Run, place: &Place) -> Option<String> {
    let recorder = Rc::new(RefCell::new(Recorder::default()));
    let recovered = match quietly(&recorder, place) {
        Ok(recovered) => recovered,
        Err(what) => return Some(what),
    };
    let seen = Seen::look(place);
    let range = run.range(run.changes.len(), false);
    let kept = !recovered.refused.is_empty();
    // Where the user was told of an error, whatever was not promised may be there or not.
    let first = if kept { 0 } else { range.0 };
    let found = seen.content(NAME);
    // A removed file stays removed where a new one could not be staged, and the user was told.
    let is_told = kept || first == 0 && !run.errors.is_empty();
    let is_removed = is_told && run.is_disturbed && found.is_none();
    if !is_removed && !run.allows(&found, (first, range.1), false) {
        let was = found.as_ref().map(|bytes| brief(bytes));
        return Some(format!(
            "{NAME} is {was:?}, allowed are versions {first} to {}: {}; errors {:?}",
            range.1,
            versions(run),
            run.errors
        ));
    }
    let is_last = run.versions[range.1].content == found;
    // A process that is killed tells nobody.
    let is_killed = workload.steps.contains(&Step::Recover);
    if !is_last && !kept && run.errors.is_empty() && !run.is_disturbed && !is_killed {
        return Some(format!("{NAME} is not the last version, and nobody was told; {}", versions(run)));
    }
    check_again(&recorder, place, &seen, &recovered)
}

/// A power loss at the end of a run in which a call failed: what was promised all the same is there or refused.
fn check_power_loss(run: &Run, place: &Place, is_whole: bool, counts: &mut Counts) -> Option<String> {
    let crash = Crash::after(&run.before, &run.changes);
    let states = if is_whole {
        crash.states(Limits { exhaustive: 8, sampled: 2, failed_runs: 0, kills: 0 }, 1)
    } else {
        crash.extremes()
    };
    let range = run.range(run.changes.len(), true);
    for disk in states {
        counts.states += 1;
        let originals = disk.build(&place.root, &run.births);
        let boot = Some("another boot".to_owned());
        let recorder = Rc::new(RefCell::new(Recorder { originals, boot, ..Recorder::default() }));
        let recovered = match quietly(&recorder, place) {
            Ok(recovered) => recovered,
            Err(what) => return Some(format!("after a power loss, {what}")),
        };
        let (seen, is_kept) = (Seen::look(place), !recovered.refused.is_empty());
        let found = seen.content(NAME);
        let is_removed = run.is_disturbed && found.is_none();
        if !is_kept && !is_removed && !run.allows(&found, range, false) {
            let was = found.as_ref().map(|bytes| brief(bytes));
            return Some(format!(
                "after a power loss {NAME} is {was:?}, allowed are versions {} to {}: {}; errors {:?}",
                range.0,
                range.1,
                versions(run),
                run.errors
            ));
        }
    }
    None
}

/// Each call of `recover` fails once; the next one does the rest.
fn check_failing_recover(
    workload: &Workload,
    place: &Place,
    errnos: &[rustix::io::Errno],
    counts: &mut Counts,
) {
    let run = workload.run(place, None);
    let mut cuts: Vec<usize> = run.promises.iter().map(|promise| promise.changes).collect();
    cuts.dedup();
    for cut in cuts {
        let mut disk = run.before.clone();
        run.changes[..cut].iter().for_each(|change| disk.apply(change));
        for down in [Down::Process, Down::Machine] {
            let boot = (down == Down::Machine).then(|| "another boot".to_owned());
            let range = run.range(cut, down == Down::Machine);
            let mut at = 0;
            loop {
                let mut is_past = false;
                for errno in errnos {
                    let originals = disk.build(&place.root, &run.births);
                    let failure = Some(Failure { at, errno: *errno });
                    let recorder = Rc::new(RefCell::new(Recorder {
                        originals,
                        boot: boot.clone(),
                        failure,
                        ..Recorder::default()
                    }));
                    let first = catch_unwind(AssertUnwindSafe(|| watched(&recorder, || recover_all(place))));
                    is_past |= recorder.borrow().failed.is_none();
                    counts.failures += 1;
                    let call = recorder.borrow().failed.clone();
                    recorder.borrow_mut().failure = None;
                    let what = match (first, quietly(&recorder, place)) {
                        (Err(_), _) => Some("recover panicked".to_owned()),
                        (_, Err(what)) => Some(format!("after that, {what}")),
                        (Ok(_), Ok(recovered)) => check_seen(
                            &run,
                            cut,
                            &Seen::look(place),
                            &recovered,
                            range,
                            down == Down::Process,
                        ),
                    };
                    if let Some(what) = what {
                        counts.violations.push(format!(
                            "{workload:?}\n  recover after {cut} changes, {down:?} down; call {at} failed with {errno:?}: {call:?}\n  {what}"
                        ));
                    }
                    if counts.violations.len() > 100 {
                        return;
                    }
                }
                if is_past {
                    break;
                }
                at += 1;
            }
        }
    }
}
