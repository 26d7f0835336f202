//! From a copy back to the origin, which is laid over all numbers of the program that are open on the copy.

use std::{os::fd::RawFd, sync::Arc};

use forebay_process::hidden_numbers;
use forebay_scratch::RunCounter;

use crate::{
    engine::run_counts,
    manage::{
        program_file::{ByteSource, ProgramFile},
        slots,
    },
    system::kernel,
};

/// What `fd` is managed as, if it is what the slot says.
pub(crate) fn managed(fd: RawFd) -> Option<Arc<ProgramFile>> {
    let file = slots::file(fd)?;
    if file.is_open_as(fd) {
        return Some(file);
    }
    // Not in the midst of what lays another file over it, nor what another thread has got under the number since.
    let held = slots::changing();
    let is_same = slots::file(fd).is_some_and(|now| Arc::ptr_eq(&now, &file));
    let cleared = is_same.then(|| slots::clear(fd));
    drop(held);
    drop(cleared);
    None
}

/// The descriptor of the origin beside the copy that `fd` is open on, and the file that keeps it open; nothing where `fd` has to
/// be asked itself. An origin that has changed meanwhile is laid over all numbers of the copy.
pub(crate) fn beside_copy(fd: RawFd) -> Option<(RawFd, Arc<ProgramFile>)> {
    let file = managed(fd)?;
    let ByteSource::Copy { origin, .. } = &*file.bytes else { return None };
    let number = kernel::number(&**origin);
    if kernel::current_identity(number) != Some(file.identity) {
        back_to_origin(&file);
        run_counts::add(RunCounter::Invalidated, 1);
        return None;
    }
    Some((number, file))
}

/// Lays the origin over all numbers of this process that are open on the copy, with the copy's position.
pub(crate) fn back_to_origin(file: &Arc<ProgramFile>) {
    let ByteSource::Copy { origin, .. } = &*file.bytes else { return };
    let origin = kernel::number(&**origin);
    file.with_position(|| {
        let held = slots::replacing();
        let is_of_file = |fd: &RawFd| slots::file(*fd).is_some_and(|found| Arc::ptr_eq(&found, file));
        let numbers: Vec<RawFd> = slots::numbers().filter(is_of_file).collect();
        numbers.iter().for_each(|fd| slots::hold_readers(*fd));
        let open: Vec<RawFd> = numbers.iter().copied().filter(|fd| file.is_open_as(*fd)).collect();
        if let Some(first) = open.first() {
            lay_at_position(origin, *first, &open);
        }
        for fd in &numbers {
            drop(slots::clear(*fd));
        }
        drop(held);
    });
}

/// Lays `origin` over `open`, which share the position of `copy`. Reads that were under way meanwhile are those of the copy, and have moved its position: so is
/// that of the origin, before the next read.
fn lay_at_position(origin: RawFd, copy: RawFd, open: &[RawFd]) {
    let kept = kernel::borrowed(copy).and_then(|copy| hidden_numbers::hidden(copy).ok());
    let before = kernel::position(copy);
    if let Some(position) = before {
        kernel::set_position(origin, position);
    }
    for fd in open {
        kernel::lay_over(origin, *fd);
    }
    let after = kept.as_ref().and_then(|kept| kernel::position(kernel::number(kept)));
    if let (Some(before), Some(after)) = (before, after)
        && before != after
    {
        kernel::move_position(origin, i64::try_from(after).unwrap_or(0) - i64::try_from(before).unwrap_or(0));
    }
}

/// Leaves `fd`, which is open as `file`, to the kernel and the origin.
pub(crate) fn leave(file: &Arc<ProgramFile>, fd: RawFd) {
    match &*file.bytes {
        ByteSource::Copy { .. } => back_to_origin(file),
        ByteSource::Blocks(_) => drop(slots::clear(fd)),
    }
}
