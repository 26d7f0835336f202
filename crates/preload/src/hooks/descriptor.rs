//! Descriptors that are duplicated, closed, asked for their flags, or locked.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{c_int, c_uint, off_t};

use super::exported;
use crate::{
    engine, inside, kernel, manage, real,
    slots::{self, SlotKind},
};

/// `close_range` that closes nothing: descriptors are closed on `exec`.
const CLOSE_RANGE_CLOEXEC: c_int = 4;

/// A program that closes more numbers than this at once does not mean files of its own alone.
const FEW_NUMBERS: c_uint = 64;

/// The numbers from `first` to `last` are about to be closed, descriptors of ours among them.
fn closing_range(first: c_uint, last: c_uint) {
    let number = |fd: c_int| c_uint::try_from(fd).unwrap_or(0);
    let is_in_range = |fd: c_int| (first..=last).contains(&number(fd));
    let _left = inside::run(|| {
        for fd in slots::numbers().collect::<Vec<_>>() {
            match slots::file(fd) {
                _ if is_in_range(fd) => drop(slots::clear(fd)),
                Some(file) => manage::leave(&file, fd),
                None => {}
            }
        }
        if last.saturating_sub(first) >= FEW_NUMBERS {
            engine::abandon();
        }
        Some(())
    });
}

fn is_lock(command: c_int) -> bool {
    matches!(
        command,
        libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
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
        let new = unsafe { real::dup(fd) };
        manage::duplicated(fd, new);
        new
    }

    fn dup2(fd: c_int, onto: c_int) -> c_int {
        if onto > libc::STDERR_FILENO {
            manage::before_naming(fd);
        }
        // SAFETY: above.
        let new = unsafe { real::dup2(fd, onto) };
        manage::duplicated(fd, new);
        new
    }

    fn dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int {
        if onto > libc::STDERR_FILENO && flags & libc::O_CLOEXEC == 0 {
            manage::before_naming(fd);
        }
        // SAFETY: above.
        let new = unsafe { real::dup3(fd, onto, flags) };
        manage::duplicated(fd, new);
        new
    }

    fn close(fd: c_int) -> c_int {
        manage::closing(fd);
        // SAFETY: above.
        unsafe { real::close(fd) }
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if flags & CLOSE_RANGE_CLOEXEC == 0 {
            closing_range(first, last);
        }
        // SAFETY: above.
        unsafe { real::close_range(first, last, flags) }
    }

    fn closefrom(first: c_int) {
        closing_range(c_uint::try_from(first).unwrap_or(0), c_uint::MAX);
        // SAFETY: above.
        if !unsafe { real::closefrom(first) } {
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
        manage::unlay(fd);
        // SAFETY: above.
        unsafe { real::lockf(fd, command, len) }
    }

    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
        manage::unlay(fd);
        // SAFETY: above.
        unsafe { real::lockf64(fd, command, len) }
    }
}
