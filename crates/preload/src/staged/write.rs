//! Writes to staged files: within the room of the area, and finished where the disk has no space in the middle of one.
//!
//! Programs that write whole buffers to a file may look at no count: a plain file is written short only where its disk is full, and so must not
//! be a staged one whose destination has space.

use std::os::fd::RawFd;

use libc::ssize_t;

use super::{
    growth::{self, RoomAnswer},
    no_space::{move_to_destination, wait_for_others},
    run_staging::{is_image, is_on},
    write_guard::WriterGuard,
};
use crate::{inside, kernel};

/// The kernel writes no more at once.
const MOST_AT_ONCE: usize = 0x7fff_f000;
/// What is copied at once by calls that may copy a part.
const COPIED_AT_ONCE: usize = 4 << 20;

/// Writes `len` bytes to `fd` by `write`, which is told how many of them are written.
pub(crate) fn written(fd: RawFd, len: usize, write: impl Fn(usize) -> ssize_t) -> ssize_t {
    if !is_on() || !inside::is_program() {
        return write(0);
    }
    let len = len.min(MOST_AT_ONCE);
    let is_staged = make_room(fd, len);
    let mut done = 0;
    loop {
        let answer = with_space(fd, is_staged, || write(done));
        let Ok(more) = usize::try_from(answer) else {
            return if done == 0 { answer } else { answer_of(done) };
        };
        done += more;
        if more == 0 || done >= len || !may_go_on(fd) {
            return answer_of(done);
        }
    }
}

/// Copies up to `len` bytes to `fd` by `copy`, which is told how many at most: such a call may copy a part.
pub(crate) fn copied(fd: RawFd, len: usize, copy: impl Fn(usize) -> ssize_t) -> ssize_t {
    if !is_on() || !inside::is_program() || inside::run(|| is_image(fd).then_some(())).is_none() {
        return copy(len);
    }
    let len = len.min(COPIED_AT_ONCE);
    let _is_staged = make_room(fd, len);
    with_space(fd, true, || copy(len))
}

/// Whether what is written by `fd` may be for a staged file.
pub(crate) fn is_staged(fd: RawFd) -> bool {
    is_on()
        && inside::is_program()
        && growth::use_credit(fd, 1).unwrap_or_else(|| growth::take(fd, 1) != RoomAnswer::NoneNeeded)
}

fn answer_of(done: usize) -> ssize_t {
    ssize_t::try_from(done).unwrap_or(ssize_t::MAX)
}

/// Takes room for `len` bytes, and says whether `fd` is open on a staged file. Where the area has none, other files leave it, or the file itself
/// goes to its destination; one that cannot takes more than its share.
fn make_room(fd: RawFd, len: usize) -> bool {
    let len = len as u64;
    if let Some(is_staged) = growth::use_credit(fd, len) {
        return is_staged;
    }
    let looks = match growth::take(fd, len) {
        RoomAnswer::NoneNeeded => return false,
        RoomAnswer::Taken => return true,
        RoomAnswer::Refused { looks } => looks,
    };
    // What was taken since the last look may be more than what was written.
    growth::wait_for_look(looks);
    let RoomAnswer::Refused { .. } = growth::take(fd, len) else { return true };
    if !wait_for_others(fd) {
        return true;
    }
    let RoomAnswer::Refused { looks } = growth::take(fd, len) else { return true };
    growth::wait_for_look(looks);
    let RoomAnswer::Refused { .. } = growth::take(fd, len) else { return true };
    let _is_moved = inside::run(|| move_to_destination(fd));
    growth::let_go_on(fd);
    true
}

/// Calls `write`, which writes to `fd`, once more where the disk of the area was full and is not any more.
fn with_space(fd: RawFd, is_staged: bool, write: impl Fn() -> ssize_t) -> ssize_t {
    let is_refused = |answer| answer == -1 && [libc::ENOSPC, libc::EDQUOT].contains(&inside::errno());
    let write = || {
        if !is_staged {
            return write();
        }
        inside::end_if_cancelled();
        inside::uncancelled(|| {
            let _writing = WriterGuard::begin();
            write()
        })
    };
    let answer = write();
    if !is_refused(answer) || !wait_for_others(fd) {
        return answer;
    }
    let answer = write();
    if !is_refused(answer) || inside::run(|| move_to_destination(fd)).is_none() {
        return answer;
    }
    write()
}

/// Whether a write that was cut short may be finished: on a staged file, unless it has the length that the program may not exceed.
fn may_go_on(fd: RawFd) -> bool {
    let most = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    let may =
        || is_image(fd) && most.is_none_or(|most| kernel::identity(fd).is_some_and(|file| file.len < most));
    inside::run(|| may().then_some(())).is_some()
}
