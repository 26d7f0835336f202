//! The room that a staged file takes while it grows.
//!
//! A descriptor takes some room ahead, from a count that all processes of the run share, and writes within it without asking again: a write costs one atomic
//! operation. The steps are smaller where little room is left. What a write that goes over old bytes has taken too much is room again after the
//! launcher's next look ([`ProgramRoom`](forebay_stage::ProgramRoom)).

use std::{
    os::fd::RawFd,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use forebay_scratch::RunCounter;

use super::run_staging::{is_image, staging};
use crate::{inside, run_counts};

/// Numbers that have credits of their own; higher ones share them.
const COUNT: usize = 1024;
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

/// Bytes that each descriptor may write before it is looked at, and whether it was open on a staged file.
static CREDITS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
/// The bit that says so.
const STAGED: u64 = 1 << 63;

/// What became of a wish for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomAnswer {
    /// There is some, or none is needed.
    Taken,
    /// There was none at this look of the launcher.
    Refused { looks: u64 },
}

fn credit(fd: RawFd) -> &'static AtomicU64 {
    &CREDITS[usize::try_from(fd).unwrap_or(0) % COUNT]
}

/// The number is that of a staged file from now on.
pub(super) fn begin(fd: RawFd) {
    credit(fd).store(STAGED, Relaxed);
}

/// Lets the descriptor write on though there is no room, or none is needed any more.
pub(super) fn let_go_on(fd: RawFd) {
    credit(fd).store(STAGED | WITHOUT_ROOM, Relaxed);
}

/// Whether the descriptor was open on a staged file when it was looked at last.
pub(super) fn was_staged(fd: RawFd) -> bool {
    credit(fd).load(Relaxed) & STAGED != 0
}

/// Uses up `len` bytes of what the descriptor has taken; false where it has less.
#[inline]
pub(super) fn has_credit(fd: RawFd, len: u64) -> bool {
    let used = |credit: u64| (credit & !STAGED).checked_sub(len).map(|left| credit & STAGED | left);
    credit(fd).fetch_update(Relaxed, Relaxed, used).is_ok()
}

/// Takes room for `len` bytes and some more, where `fd` is open on a staged file.
pub(super) fn take(fd: RawFd, len: u64) -> RoomAnswer {
    inside::run(|| Some(take_inside(fd, len))).unwrap_or(RoomAnswer::Taken)
}

fn take_inside(fd: RawFd, len: u64) -> RoomAnswer {
    if !is_image(fd) {
        credit(fd).store(OTHER_FILE, Relaxed);
        return RoomAnswer::Taken;
    }
    run_counts::begin();
    let Some(notice) = staging().and_then(|staging| staging.room.notice()) else {
        credit(fd).store(STAGED | OTHER_FILE, Relaxed);
        return RoomAnswer::Taken;
    };
    let taken = run_counts::get(RunCounter::StagedRoom).unwrap_or(0);
    let step = (notice.limit.saturating_sub(taken) / PART_OF_LEFT).clamp(STEPS.0, STEPS.1);
    // Near the end what is written now may fit though a whole step does not.
    for wanted in [len.max(step), len] {
        run_counts::add(RunCounter::StagedRoom, wanted);
        if run_counts::get(RunCounter::StagedRoom).is_none_or(|taken| taken <= notice.limit) {
            credit(fd).store(STAGED | (wanted - len), Relaxed);
            return RoomAnswer::Taken;
        }
        run_counts::add(RunCounter::StagedRoom, wanted.wrapping_neg());
    }
    RoomAnswer::Refused { looks: notice.looks }
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
