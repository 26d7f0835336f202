//! Shared locks (`flock` with `LOCK_SH`) on copies: HDF5 takes one on each file that it opens to read, and holds it until it closes the file.
//!
//! The lock is taken by the descriptor of the origin that is kept beside the copy, which is a duplicate of the one that the program opened. The number stays on the
//! copy, so that the kernel goes on reading by it, at its own speed and whatever file the number leads to. A lock is the moment from which the changes of
//! others have to be seen: the origin is compared once the lock is there, and laid over the number where it has changed. As long as the lock is held, nobody
//! who asks for locks writes.
//!
//! Whoever unlocks the file and reads on expects others to write: a reader of HDF5 in SWMR mode unlocks right after the open. The origin is laid over the number
//! then, as it is by every other lock, and each read asks whether the file has changed.

use std::{os::fd::RawFd, sync::Arc};

use forebay_scratch::RunCounter;
use libc::c_int;

use crate::{
    back_to_origin::{back_to_origin, managed},
    inherited, inside, kernel,
    manage::unlay,
    program_file::{ByteSource, ProgramFile},
    run_counts,
    slots::{self, SlotKind},
};

/// What `lock` gives, a `flock` of the number that it takes: `fd`, or what is kept beside the copy that `fd` is open on.
pub(crate) fn flocked(fd: RawFd, operation: c_int, lock: impl Fn(RawFd) -> c_int) -> c_int {
    inherited::look_once();
    let is_shared = operation & !libc::LOCK_NB == libc::LOCK_SH;
    let Some((origin, file)) = is_shared.then(|| origin_to_lock(fd)).flatten() else {
        unlay(fd);
        return lock(fd);
    };
    let answer = lock(origin);
    if answer == 0 {
        let _compared = inside::run(|| {
            if kernel::current_identity(origin) != Some(file.identity) {
                back_to_origin(&file);
                run_counts::add(RunCounter::Invalidated, 1);
            }
            Some(())
        });
    }
    answer
}

/// The origin beside the copy that `fd` is open on, and the file that keeps it open; nothing where `fd` itself has to be locked: others that share it may
/// outlive what is kept beside it here.
fn origin_to_lock(fd: RawFd) -> Option<(RawFd, Arc<ProgramFile>)> {
    if slots::kind(fd) != SlotKind::Copy {
        return None;
    }
    inside::run(|| {
        let file = managed(fd).filter(|file| !file.is_shared())?;
        let ByteSource::Copy { origin, .. } = &*file.bytes else { return None };
        // Before it is there: another thread may start a program meanwhile.
        file.lock_beside();
        Some((kernel::number(&**origin), file))
    })
}

/// This process is about to become another program, or to start one. What is kept beside a copy is closed by that, and the number is not: a lock is held by
/// whoever has the number, which is therefore the origin from here on.
pub(crate) fn before_exec() {
    if !slots::has_any() {
        return;
    }
    let locked = inside::run(|| {
        let is_locked = |fd: &RawFd| {
            slots::kind(*fd) == SlotKind::Copy && slots::file(*fd).is_some_and(|file| file.is_locked_beside())
        };
        let is_inherited = |fd: &RawFd| kernel::is_closed_on_exec(*fd) == Some(false);
        Some(slots::numbers().filter(is_locked).filter(is_inherited).collect::<Vec<_>>())
    });
    locked.unwrap_or_default().into_iter().for_each(unlay);
}
