//! The room that a staged file takes while it grows.
//!
//! A descriptor takes some room ahead, from a count that all processes of the run share, and writes within it without asking again: a write costs one atomic
//! operation. The steps are smaller where little room is left. What a write that goes over old bytes has taken too much is room again after the
//! launcher's next look ([`ProgramRoom`](forebay_stage::ProgramRoom)).

use std::{
    os::fd::RawFd,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use forebay_scratch::RunCounter;

use super::run_staging::{is_image, is_known_on, staging};
use crate::{inside, run_counts};

/// Numbers from here on have no credit.
const COUNT: usize = 1 << 17;
/// What a descriptor takes at once: this part of what is left, within these bounds.
const PART_OF_LEFT: u64 = 64;
const STEPS: (u64, u64) = (64 << 10, 4 << 20);
/// What a descriptor of another file writes until it is looked at once more: its number may be that of a staged file by then.
const OTHER_FILE: u64 = 1 << 20;
/// The same of a staged file that cannot go on elsewhere, and has no room: each look costs a wait.
const WITHOUT_ROOM: u64 = 64 << 20;
/// The launcher looks every few milliseconds; one that is stopped is not waited for.
const MOST_WAIT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);

/// Bytes that each descriptor may write before it is looked at, and whether it was open on a staged file. In memory that the kernel provides when it
/// is first touched.
static CREDITS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
/// The bit that says so.
const STAGED: u64 = 1 << 63;
/// The highest number that was ever given credit.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// What became of a wish for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomAnswer {
    /// It is no staged file: none is needed.
    NoneNeeded,
    /// There is some.
    Taken,
    /// There was none at this look of the launcher.
    Refused { looks: u64 },
}

/// The credit of a number; those that are too high have none, and are looked at each time.
fn credit(fd: RawFd) -> Option<&'static AtomicU64> {
    CREDITS.get(usize::try_from(fd).ok()?)
}

fn set_credit(fd: RawFd, credited: u64) {
    if let Some(credit) = credit(fd) {
        HIGHEST.fetch_max(usize::try_from(fd).unwrap_or(0), Relaxed);
        credit.store(credited, Relaxed);
    }
}

/// The number is that of a staged file from now on.
pub(super) fn begin(fd: RawFd) {
    set_credit(fd, STAGED);
}

/// Lets the descriptor write on though there is no room, or none is needed any more.
pub(super) fn let_go_on(fd: RawFd) {
    set_credit(fd, STAGED | WITHOUT_ROOM);
}

/// The number is, or may soon be, that of another file: what is written by it next is looked at.
#[inline]
pub(crate) fn forget(fd: RawFd) {
    if is_known_on() {
        reset(fd);
    }
}

/// The same for the numbers from `first` to `last`.
pub(crate) fn forget_between(first: u32, last: u32) {
    if is_known_on() {
        reset_between(first, last);
    }
}

fn reset(fd: RawFd) {
    // One that is 0 is not stored to: the memory of most numbers is never touched.
    if let Some(credit) = credit(fd).filter(|credit| credit.load(Relaxed) != 0) {
        credit.store(0, Relaxed);
    }
}

fn reset_between(first: u32, last: u32) {
    let highest = u32::try_from(HIGHEST.load(Relaxed)).unwrap_or(u32::MAX);
    (first..=last.min(highest)).filter_map(|fd| RawFd::try_from(fd).ok()).for_each(reset);
}

/// Uses up `len` bytes of what the descriptor has taken, and says whether it is open on a staged file; nothing where it has less.
#[inline]
pub(super) fn use_credit(fd: RawFd, len: u64) -> Option<bool> {
    let used = |credit: u64| (credit & !STAGED).checked_sub(len).map(|left| credit & STAGED | left);
    Some(credit(fd)?.fetch_update(Relaxed, Relaxed, used).ok()? & STAGED != 0)
}

/// Takes room for `len` bytes and some more, where `fd` is open on a staged file.
pub(super) fn take(fd: RawFd, len: u64) -> RoomAnswer {
    inside::run(|| Some(take_inside(fd, len))).unwrap_or(RoomAnswer::NoneNeeded)
}

fn take_inside(fd: RawFd, len: u64) -> RoomAnswer {
    if !is_image(fd) {
        set_credit(fd, OTHER_FILE);
        return RoomAnswer::NoneNeeded;
    }
    run_counts::begin(inside::process());
    let Some(notice) = staging().and_then(|staging| staging.room.notice()) else {
        set_credit(fd, STAGED | OTHER_FILE);
        return RoomAnswer::Taken;
    };
    let taken = run_counts::get(RunCounter::StagedRoom).unwrap_or(0);
    let step = (notice.limit.saturating_sub(taken) / PART_OF_LEFT).clamp(STEPS.0, STEPS.1);
    // Near the end what is written now may fit though a whole step does not.
    for wanted in [len.max(step), len] {
        run_counts::add(RunCounter::StagedRoom, wanted);
        if run_counts::get(RunCounter::StagedRoom).is_none_or(|taken| taken <= notice.limit) {
            set_credit(fd, STAGED | (wanted - len));
            return RoomAnswer::Taken;
        }
        run_counts::add(RunCounter::StagedRoom, wanted.wrapping_neg());
    }
    // One without credit would wait at each write.
    if credit(fd).is_some() { RoomAnswer::Refused { looks: notice.looks } } else { RoomAnswer::Taken }
}

/// Waits until the launcher has looked at all files since it had looked `looks` times. Signals reach the program meanwhile.
pub(super) fn wait_for_look(looks: u64) {
    let began = Instant::now();
    let is_over = || {
        let notice = inside::run(|| staging()?.room.notice());
        notice.is_none_or(|notice| notice.looks >= looks + 2)
    };
    while !is_over() && began.elapsed() < MOST_WAIT {
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_credit_of_its_own() {
        set_credit(5, STAGED | 100);
        set_credit(5 + 1024, OTHER_FILE);
        assert_eq!(use_credit(5, 40), Some(true));
        assert_eq!(use_credit(5 + 1024, 40), Some(false));
        assert_eq!((use_credit(5, 60), use_credit(5, 1)), (Some(true), None));
        assert_eq!((use_credit(RawFd::MAX, 1), use_credit(-1, 1)), (None, None));
        let_go_on(RawFd::MAX);
    }

    #[test]
    fn a_number_that_was_closed_is_looked_at_again() {
        for fd in 20..24 {
            let_go_on(fd);
        }
        reset(20);
        reset_between(22, 23);
        assert_eq!((20..24).map(|fd| use_credit(fd, 1)).collect::<Vec<_>>(), [None, Some(true), None, None]);
    }
}
