//! The end of a process, or of its program: what was counted is told before.
//!
//! `exit` is not here: it runs a function that the engine has registered, which also waits a moment for copies under way.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{c_char, c_int};

use super::exported;
use crate::{
    engine::{self, inside},
    manage,
    system::real,
};

/// Tells what was counted; in a child of `vfork`, whose parent goes on, nothing.
fn publish() {
    let _published = inside::run(|| {
        engine::publish();
        Some(())
    });
}

/// Ends the process at once.
fn end(status: c_int) -> ! {
    publish();
    loop {
        // SAFETY: the call takes a number; it does not come back.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

// SAFETY of all that follow: the arguments are handed on as they came.
exported! {
    fn _exit(status: c_int) -> ! {
        end(status)
    }

    fn _Exit(status: c_int) -> ! {
        end(status)
    }

    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
        publish();
        // SAFETY: above.
        unsafe { real::execv(path, arguments) }
    }

    fn execvp(path: *const c_char, arguments: *const *const c_char) -> c_int {
        publish();
        // SAFETY: above.
        unsafe { real::execvp(path, arguments) }
    }

    fn execve(path: *const c_char, arguments: *const *const c_char, variables: *const *const c_char) -> c_int {
        publish();
        // SAFETY: above.
        unsafe { real::execve(path, arguments, variables) }
    }

    fn execvpe(path: *const c_char, arguments: *const *const c_char, variables: *const *const c_char) -> c_int {
        publish();
        // SAFETY: above.
        unsafe { real::execvpe(path, arguments, variables) }
    }

    fn fexecve(fd: c_int, arguments: *const *const c_char, variables: *const *const c_char) -> c_int {
        publish();
        // A copy is nothing that may be run.
        manage::unlay(fd);
        // SAFETY: above.
        unsafe { real::fexecve(fd, arguments, variables) }
    }

    fn execveat(
        folder: c_int,
        path: *const c_char,
        arguments: *const *const c_char,
        variables: *const *const c_char,
        flags: c_int,
    ) -> c_int {
        publish();
        // SAFETY: above; a path that is not null has one byte at least.
        if flags & libc::AT_EMPTY_PATH != 0 && !path.is_null() && unsafe { *path } == 0 {
            manage::unlay(folder);
        }
        // SAFETY: above.
        unsafe { real::execveat(folder, path, arguments, variables, flags) }
    }
}
