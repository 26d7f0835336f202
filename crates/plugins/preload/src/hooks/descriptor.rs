//! Descriptors that are duplicated, closed, asked for their flags, or locked.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{c_int, c_short, c_uint, off_t};

use super::{exported, numbers::with_a_number};
use crate::{
    engine::{inside, own_numbers},
    manage::{
        self, give_way,
        slots::{self, SlotKind},
    },
    system::{kernel, real},
};

/// `close_range` that closes nothing: descriptors are closed on `exec`.
const CLOSE_RANGE_CLOEXEC: c_int = 4;

/// Closes the numbers from `first` to `last` by `close`, but for those of ours, which the program does not know of.
fn close_between(first: c_uint, last: c_uint, close: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    // A call that fails closes nothing: whether it does is seen where nothing is open.
    if close(c_uint::MAX, c_uint::MAX) != 0 {
        return -1;
    }
    manage::closing_between(first, last);
    let mut from = first;
    for own in own_numbers::between(first, last).filter_map(|own| c_uint::try_from(own).ok()) {
        if own > from && close(from, own - 1) != 0 {
            return -1;
        }
        from = own + 1;
    }
    let closed = if from <= last { close(from, last) } else { 0 };
    manage::closed_several();
    closed
}

/// Has the number `onto` be the program's, which lays a descriptor over it; false, with an error that the kernel has for such a moment, where
/// another thread is at work with our file of that number.
#[inline]
fn is_free(onto: c_int) -> bool {
    if !own_numbers::has(onto) || !inside::is_program() || !inside::is_this_process() {
        return true;
    }
    let is_free = give_way::give_way_at(onto);
    if !is_free {
        inside::set_errno(libc::EBUSY);
    }
    is_free
}

/// Lays `fd` over `onto` by `lay`, a call with `flags` as those of `dup3`.
fn laid_over(fd: c_int, onto: c_int, flags: c_int, lay: impl Fn(c_int) -> c_int) -> c_int {
    let fd = own_numbers::as_seen(fd);
    if fd < 0 || onto < 0 {
        return lay(fd);
    }
    if !is_free(onto) {
        return -1;
    }
    if onto > libc::STDERR_FILENO && flags & libc::O_CLOEXEC == 0 {
        manage::before_naming(fd);
    }
    // Other flags are refused.
    if flags & !libc::O_CLOEXEC == 0 {
        manage::laying_over(fd, onto);
    }
    manage::duplicating(fd, Some(onto), || lay(fd))
}

fn is_lock(command: c_int) -> bool {
    matches!(
        command,
        libc::F_GETLK
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
            | libc::F_SETLEASE
            | libc::F_GETLEASE
            | libc::F_NOTIFY
    )
}

/// True where the structure at `argument` asks for the end of a lock.
fn is_unlock(argument: usize) -> bool {
    // The type is what it begins with.
    kernel::read_memory(argument)
        .is_some_and(|kind| c_int::from(c_short::from_ne_bytes(kind)) == libc::F_UNLCK)
}

/// Takes a record lock by `lock`.
fn locked(fd: c_int, lock: impl Fn(c_int) -> c_int) -> c_int {
    let attempt = manage::will_lock(fd);
    let answer = lock(fd);
    if let Some(attempt) = attempt {
        manage::tried_to_lock(attempt, answer == 0);
    }
    answer
}

/// Asks the origin by `call`.
fn unlaid(fd: c_int, call: impl Fn(c_int) -> c_int) -> c_int {
    manage::unlay(fd);
    call(fd)
}

/// `lockf` by `call`, which is the C library's own.
fn lock_rest(fd: c_int, command: c_int, call: impl Fn(c_int) -> c_int) -> c_int {
    let fd = own_numbers::as_seen(fd);
    if matches!(command, libc::F_LOCK | libc::F_TLOCK) { locked(fd, call) } else { unlaid(fd, call) }
}

/// `fcntl` by `call`, which is the C library's own.
fn control(fd: c_int, (command, argument): (c_int, usize), call: impl Fn(c_int) -> c_int) -> c_int {
    let fd = own_numbers::as_seen(fd);
    let kind = slots::kind(fd);
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        if command == libc::F_DUPFD {
            manage::before_naming(fd);
        }
        return with_a_number(|| manage::duplicating(fd, None, || call(fd)));
    }
    if matches!(command, libc::F_SETLK | libc::F_SETLKW) {
        return if is_unlock(argument) { unlaid(fd, call) } else { locked(fd, call) };
    }
    if kind != SlotKind::Copy {
        return call(fd);
    }
    if is_lock(command) {
        manage::unlay(fd);
        return call(fd);
    }
    // The flags of the file as the program opened it; what it sets holds for both.
    let beside = match command {
        libc::F_GETFL | libc::F_SETFL | libc::F_GET_SEALS => inside::run(|| manage::beside_copy(fd)),
        _ => None,
    };
    match beside {
        Some((number, _file)) => {
            let answer = call(number);
            if command == libc::F_SETFL && answer == 0 { call(fd) } else { answer }
        }
        None => call(fd),
    }
}

// SAFETY of all that follow: the arguments are handed on as they came.
exported! {
    fn dup(fd: c_int) -> c_int {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        with_a_number(|| manage::duplicating(fd, None, || unsafe { real::dup(fd) }))
    }

    fn dup2(fd: c_int, onto: c_int) -> c_int {
        // SAFETY: above.
        laid_over(fd, onto, 0, |fd| unsafe { real::dup2(fd, onto) })
    }

    fn dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        laid_over(fd, onto, flags, |fd| unsafe { real::dup3(fd, onto, flags) })
    }

    fn close(fd: c_int) -> c_int {
        let fd = own_numbers::as_seen(fd);
        manage::closing(fd);
        // SAFETY: above.
        own_numbers::closing(fd, || unsafe { real::close(fd) })
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        // SAFETY: above.
        let close = |first, last| unsafe { real::close_range(first, last, flags) };
        // Those of ours are closed on `exec` as they are.
        if flags & CLOSE_RANGE_CLOEXEC != 0 || first > last { close(first, last) } else { close_between(first, last, close) }
    }

    fn closefrom(first: c_int) {
        // SAFETY: above.
        let close = |first, last| unsafe { real::close_range(first, last, 0) };
        if close_between(c_uint::try_from(first).unwrap_or(0), c_uint::MAX, close) != 0 {
            kernel::close_from(first);
        }
    }

    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        // SAFETY: above.
        control(fd, (command, argument), |fd| unsafe { real::fcntl(fd, command, argument) })
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        // SAFETY: above.
        control(fd, (command, argument), |fd| unsafe { real::fcntl64(fd, command, argument) })
    }

    fn flock(fd: c_int, operation: c_int) -> c_int {
        let fd = own_numbers::as_seen(fd);
        manage::unlay(fd);
        // SAFETY: above.
        unsafe { real::flock(fd, operation) }
    }

    fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
        // SAFETY: above.
        lock_rest(fd, command, |fd| unsafe { real::lockf(fd, command, len) })
    }

    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
        // SAFETY: above.
        lock_rest(fd, command, |fd| unsafe { real::lockf64(fd, command, len) })
    }
}
