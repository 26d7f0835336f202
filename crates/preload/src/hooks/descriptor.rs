//! Descriptors that are duplicated, closed, asked for their flags, or locked.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{c_int, c_uint, off_t};

use super::{exported, open::with_a_number};
use crate::{
    inside, kernel, manage, own_numbers, real,
    slots::{self, SlotKind},
};

/// `close_range` that closes nothing: descriptors are closed on `exec`.
const CLOSE_RANGE_CLOEXEC: c_int = 4;

/// Closes the numbers from `first` to `last` by `close`, but for those of ours, which the program does not know of.
fn close_between(first: c_uint, last: c_uint, close: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    let _cleared = inside::run(|| {
        let number = |fd: &c_int| c_uint::try_from(*fd).is_ok_and(|fd| (first..=last).contains(&fd));
        slots::numbers().filter(number).collect::<Vec<_>>().into_iter().for_each(|fd| drop(slots::clear(fd)));
        Some(())
    });
    let mut from = first;
    for own in own_numbers::between(first, last).filter_map(|own| c_uint::try_from(own).ok()) {
        if own > from && close(from, own - 1) != 0 {
            return -1;
        }
        from = own + 1;
    }
    if from <= last { close(from, last) } else { 0 }
}

/// True where `fd` is no number of the program's, as far as it knows; the call is refused as for one that is not open.
#[inline]
fn is_hidden(fd: c_int) -> bool {
    if !own_numbers::has(fd) {
        return false;
    }
    let is_hidden = inside::is_program();
    if is_hidden {
        inside::set_errno(libc::EBADF);
    }
    is_hidden
}

/// True where the program lays a descriptor over a number of ours. It is told that the number is busy: it can only have chosen it blindly.
fn is_taken(onto: c_int) -> bool {
    let is_taken = own_numbers::has(onto) && inside::is_program();
    if is_taken {
        inside::set_errno(libc::EBUSY);
    }
    is_taken
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

/// `fcntl` by `call`, which is the C library's own.
fn control(fd: c_int, command: c_int, call: impl Fn(c_int) -> c_int) -> c_int {
    let kind = slots::kind(fd);
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        if command == libc::F_DUPFD {
            manage::before_naming(fd);
        }
        let new = call(fd);
        manage::duplicated(fd, new);
        return new;
    }
    if matches!(command, libc::F_SETLK | libc::F_SETLKW) {
        manage::will_lock(fd);
        return call(fd);
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
        libc::F_GETFL | libc::F_SETFL => inside::run(|| manage::beside_copy(fd)),
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
        // SAFETY: above.
        let new = with_a_number(|| unsafe { real::dup(fd) });
        manage::duplicated(fd, new);
        new
    }

    fn dup2(fd: c_int, onto: c_int) -> c_int {
        if is_taken(onto) {
            return -1;
        }
        if onto > libc::STDERR_FILENO {
            manage::before_naming(fd);
        }
        // SAFETY: above.
        let new = unsafe { real::dup2(fd, onto) };
        manage::duplicated(fd, new);
        new
    }

    fn dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int {
        if is_taken(onto) {
            return -1;
        }
        if onto > libc::STDERR_FILENO && flags & libc::O_CLOEXEC == 0 {
            manage::before_naming(fd);
        }
        // SAFETY: above.
        let new = unsafe { real::dup3(fd, onto, flags) };
        manage::duplicated(fd, new);
        new
    }

    fn close(fd: c_int) -> c_int {
        if is_hidden(fd) {
            return -1;
        }
        own_numbers::forget(fd);
        manage::closing(fd);
        // SAFETY: above.
        unsafe { real::close(fd) }
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
        control(fd, command, |fd| unsafe { real::fcntl(fd, command, argument) })
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        // SAFETY: above.
        control(fd, command, |fd| unsafe { real::fcntl64(fd, command, argument) })
    }

    fn flock(fd: c_int, operation: c_int) -> c_int {
        manage::unlay(fd);
        // SAFETY: above.
        unsafe { real::flock(fd, operation) }
    }

    fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
        manage::will_lock(fd);
        // SAFETY: above.
        unsafe { real::lockf(fd, command, len) }
    }

    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
        manage::will_lock(fd);
        // SAFETY: above.
        unsafe { real::lockf64(fd, command, len) }
    }
}
