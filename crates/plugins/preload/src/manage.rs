//! From a descriptor that was just opened to a managed one, and what becomes of it: locked, mapped, duplicated, closed.

mod back_to_origin;
pub(crate) mod copy_devices;
pub(crate) mod copy_maps;
pub(crate) mod copy_origins;
pub(crate) mod give_way;
pub(crate) mod inherited;
pub(crate) mod own_writes;
pub(crate) mod program_file;
pub(crate) mod reopened;
pub(crate) mod slots;
pub(crate) mod writers;

use std::{
    os::fd::{OwnedFd, RawFd},
    path::Path,
    sync::Arc,
};

use forebay_process::record_locks::{self, LockAttempt, LockSafeFile};
use forebay_scratch::RunCounter;
use forebay_source::Locator;
use forebay_tier::SourceKey;
use libc::c_void;
use rustix::fs::{Mode, OFlags};

pub(crate) use crate::manage::back_to_origin::{beside_copy, managed};
use crate::{
    engine::{self, inside, own_numbers, prefix, run_counts},
    manage::{
        back_to_origin::back_to_origin,
        copy_maps::CopyToMap,
        own_writes::written,
        program_file::{BlockReader, ByteSource, ProgramFile},
        slots::SlotKind,
    },
    system::kernel::{self, KernelIdentity},
};

/// Who reads by a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenedBy {
    /// The program, by calls that are hooked.
    Descriptor,
    /// A stream of the C library, by calls that are not.
    Stream,
}

/// Looks at `fd`, which a path that may lie under the prefix was just opened as, and manages it if that is so.
#[cold]
pub(crate) fn opened(fd: RawFd, by: OpenedBy) {
    if fd < 0 {
        return;
    }
    let _managed = inside::run(|| {
        // The number may have been closed by a call that no hook sees.
        drop(slots::clear(fd));
        record_locks::opened(fd);
        let flags = kernel::open_flags(fd)?;
        if flags.contains(OFlags::PATH) {
            return None;
        }
        let mut path = kernel::path_of(fd)?;
        if lay_origin_over(fd, &path, flags) {
            path = kernel::path_of(fd)?;
        }
        let identity = kernel::current_identity(fd).filter(|_| prefix::covers(&path))?;
        run_counts::begin(inside::process());
        run_counts::add(RunCounter::OriginOpens, 1);
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            run_counts::add(RunCounter::OpensLeft, 1);
            writers::add(fd, &identity);
            written(&identity, kernel::link_of(fd).as_str());
            return None;
        }
        let is_left = flags.contains(OFlags::DIRECT) || identity.len == 0 || writers::has(&identity);
        let managed = if is_left { None } else { manage(fd, identity, Locator::from_path(path), by) };
        let counter = if managed.is_some() { RunCounter::OpensManaged } else { RunCounter::OpensLeft };
        run_counts::add(counter, 1);
        managed
    });
}

/// Lays the origin over `fd`, which was opened with `flags` and is open on the copy at `path`, by whichever way that was found.
fn lay_origin_over(fd: RawFd, path: &Path, flags: OFlags) -> bool {
    let Some(origin) = copy_origins::origin_of(fd, path) else { return false };
    let opened = rustix::fs::open(&*origin.path, flags | OFlags::CLOEXEC, Mode::empty());
    let Ok(opened) = opened.map(LockSafeFile::new) else { return false };
    kernel::lay_over(kernel::number(&*opened), fd)
}

fn manage(fd: RawFd, identity: KernelIdentity, at: Locator, by: OpenedBy) -> Option<()> {
    engine::with(|engine| {
        let source = engine.origin.open_as(at, kernel::borrowed(fd)?).ok()?;
        let source = engine.tiers.over(source)?;
        let key = SourceKey::of(source.id());
        if by == OpenedBy::Stream && !engine.tiers.has_whole(key) {
            engine.place_for_stream(key, identity.len);
        }
        if let Some(copy) = engine.tiers.whole_copy(key).and_then(|copy| copy.descriptor())
            && lay_copy_over(fd, identity, copy)
        {
            return Some(());
        }
        let reader = BlockReader::new(source, key);
        let file = ProgramFile::new(identity, ByteSource::Blocks(reader));
        slots::set(fd, SlotKind::Blocks, Arc::new(file));
        Some(())
    })
}

/// Lays `copy` over the number `fd`; the origin's descriptor is kept beside it.
fn lay_copy_over(fd: RawFd, identity: KernelIdentity, copy: OwnedFd) -> bool {
    let number = kernel::number(&copy);
    let facts = kernel::identity(number).filter(|facts| facts.len == identity.len);
    let (Some(facts), Some(origin)) = (facts, kernel::kept_beside(fd).map(LockSafeFile::new)) else {
        return false;
    };
    // Its own flags, such as the one for reads that do not wait, are not the program's.
    let flags = kernel::borrowed(number).map(|copy| rustix::fs::fcntl_setfl(copy, OFlags::empty()));
    if flags.is_none_or(|set| set.is_err()) {
        return false;
    }
    let file = ProgramFile::new(identity, ByteSource::Copy { copy: facts, origin });
    // A thread that begins to write to the file finds the number as a whole: on the origin, or on a copy that is known.
    let held = slots::changing();
    // Known before it is there: a hook that sees the copy finds what it is a copy of.
    if !slots::set(fd, SlotKind::Copy, Arc::new(file)) {
        return false;
    }
    // The origin's own number is closed by it: not while the program has a record lock on the file. A writer is noted before it looks for slots.
    let laid = kernel::borrowed(fd)
        .filter(|_| !writers::has(&identity))
        .and_then(|opened| record_locks::unless_locked(opened, || kernel::lay_over(number, fd)));
    if laid != Some(true) {
        drop(slots::clear(fd));
        return false;
    }
    drop(held);
    copy_devices::know(facts.device);
    run_counts::add(RunCounter::OpensOnCopy, 1);
    run_counts::add(RunCounter::CopyBytes, identity.len);
    true
}

/// Lays the origin over the copy that `fd` is open on, as the program wants to lock it.
pub(crate) fn unlay(fd: RawFd) {
    inherited::look_once();
    if slots::kind(fd) != SlotKind::Copy {
        return;
    }
    let _laid = inside::run(|| {
        let file = managed(fd)?;
        back_to_origin(&file);
        run_counts::add(RunCounter::LocksSwapped, 1);
        // HDF5 locks every file that it opens: bytes still come from the copy, as long as the file is the one it was.
        if file.is_shared() { None } else { read_by_blocks(fd, file.identity) }
    });
}

/// The program is about to take a record lock (`fcntl`, `lockf`) by `fd`. All that it has open of the file is the origin from now on, so that
/// the lock is dropped when it closes one of these, and no earlier.
pub(crate) fn will_lock(fd: RawFd) -> Option<LockAttempt> {
    unlay(fd);
    if !prefix::is_on() {
        return None;
    }
    inside::run(|| {
        let opened = kernel::borrowed(fd)?;
        let identity = kernel::identity(fd)?;
        // Before, as what is kept beside a copy cannot be closed once there is a lock; and after, for what was opened meanwhile.
        copies_back_to_origin(&identity);
        let attempt = record_locks::will_lock(opened);
        copies_back_to_origin(&identity);
        attempt
    })
}

fn copies_back_to_origin(identity: &KernelIdentity) {
    let copies = slots::numbers().filter(|number| slots::kind(*number) == SlotKind::Copy);
    for copy in copies.collect::<Vec<_>>() {
        if let Some(file) = slots::file(copy).filter(|file| file.identity.is_same_file(identity)) {
            back_to_origin(&file);
        }
    }
}

/// The program has tried to take a record lock.
pub(crate) fn tried_to_lock(attempt: LockAttempt, is_taken: bool) {
    let _noted = inside::run(|| {
        record_locks::tried_to_lock(attempt, is_taken);
        Some(())
    });
}

/// The program is about to close `fd`, by which it loses all record locks on its file.
#[inline]
pub(crate) fn unlocking(fd: RawFd) {
    if fd < 0 || !record_locks::has_any() {
        return;
    }
    let _noted = inside::run(|| {
        record_locks::unlocking(kernel::borrowed(fd)?);
        Some(())
    });
}

/// The program is about to lay `fd` over `onto`, which closes that; a call that fails closes nothing.
pub(crate) fn laying_over(fd: RawFd, onto: RawFd) {
    if fd != onto && record_locks::has_any() && kernel::is_closed_on_exec(fd).is_some() {
        unlocking(onto);
    }
}

/// The program has closed numbers, whichever they are.
pub(crate) fn closed_several() {
    if record_locks::has_any() {
        let _looked = inside::run(|| {
            record_locks::close_parked();
            Some(())
        });
    }
}

/// Serves reads of `fd`, which is open on the origin, by the tiers.
fn read_by_blocks(fd: RawFd, identity: KernelIdentity) -> Option<()> {
    let path = kernel::path_of(fd).filter(|_| kernel::current_identity(fd) == Some(identity))?;
    engine::with(|engine| {
        let source = engine.origin.open_as(Locator::from_path(path), kernel::borrowed(fd)?).ok()?;
        let source = engine.tiers.over(source)?;
        let key = SourceKey::of(source.id());
        let reader = BlockReader::new(source, key);
        reader.look(engine);
        let file = ProgramFile::new(identity, ByteSource::Blocks(reader));
        slots::set(fd, SlotKind::Blocks, Arc::new(file)).then_some(())
    })
}

/// The program has just got the number `fd` for a file that is none of ours to manage; it may have been closed by a call that no hook sees.
pub(crate) fn left_open(fd: RawFd) {
    if slots::kind(fd) != SlotKind::Plain {
        closing(fd);
    }
}

/// `fd` is about to be closed, or to become another file.
pub(crate) fn closing(fd: RawFd) {
    unlocking(fd);
    if slots::kind(fd) == SlotKind::Plain {
        return;
    }
    let _cleared = inside::run(|| {
        // From here on nothing is laid over the number, whichever file gets it next.
        let held = slots::changing();
        let file = slots::clear(fd);
        drop(held);
        drop(file);
        engine::publish();
        Some(())
    });
}

/// The program is about to close the numbers from `first` to `last`.
pub(crate) fn closing_between(first: u32, last: u32) {
    if !slots::has_any() {
        return;
    }
    let _cleared = inside::run(|| {
        let is_closed = |fd: &RawFd| u32::try_from(*fd).is_ok_and(|fd| (first..=last).contains(&fd));
        let held = slots::changing();
        let closed: Vec<_> = slots::numbers().filter(is_closed).filter_map(slots::clear).collect();
        drop(held);
        drop(closed);
        Some(())
    });
}

/// `fd` is about to get a number that the program itself has chosen and that programs it starts inherit: what a shell is told to lock
/// or to share. The origin is what they get.
pub(crate) fn before_naming(fd: RawFd) {
    if slots::kind(fd) != SlotKind::Copy {
        return;
    }
    let _laid = inside::run(|| {
        back_to_origin(&managed(fd)?);
        Some(())
    });
}

/// Maps `fd` by `map`, which takes the number to be mapped: a copy, where its maps can be replaced once the program writes to the file. What may be run
/// is the origin: tiers may lie where nothing is.
pub(crate) fn mapping(fd: RawFd, is_run: bool, map: impl Fn(RawFd) -> *mut c_void) -> *mut c_void {
    let mapped = inside::run(|| {
        let file = managed(fd)?;
        let choose = || {
            // Once more, as nothing of it is replaced from here on.
            let number = match &*managed(fd).filter(|_| !is_run)?.bytes {
                ByteSource::Copy { .. } => fd,
                ByteSource::Blocks(_) => kernel::number(file.blocks()?.whole_or_place()?),
            };
            Some(CopyToMap { number, origin: file.identity })
        };
        let map = |copy: Option<RawFd>| {
            let made = copy.map(&map);
            if let Some(at) = made.filter(|at| *at != libc::MAP_FAILED || !is_copy_refused(inside::errno())) {
                return (at, inside::errno());
            }
            if slots::kind(fd) == SlotKind::Copy {
                back_to_origin(&file);
            }
            (map(fd), inside::errno())
        };
        Some(copy_maps::mapping(choose, map))
    });
    match mapped {
        Some((at, number)) => {
            inside::set_errno(number);
            at
        }
        None => map(fd),
    }
}

/// True for an error that a copy may have and the origin not.
fn is_copy_refused(errno: i32) -> bool {
    matches!(errno, libc::EPERM | libc::EACCES | libc::ENODEV)
}

/// The program has mapped `fd` so that others see what it stores there: such a map outlives the descriptor.
pub(crate) fn mapped_shared(fd: RawFd) {
    let _noted = inside::run(|| {
        writers::mapped(fd);
        Some(())
    });
}

/// `fd` is about to be handed to another process: it gets the origin, and shares its position.
pub(crate) fn before_sending(fd: RawFd) {
    let _laid = inside::run(|| {
        let file = managed(fd)?;
        file.share();
        if let ByteSource::Copy { .. } = &*file.bytes {
            back_to_origin(&file);
        }
        Some(())
    });
}

/// What `duplicate` gives, which makes a duplicate of `fd`, perhaps in the place of `onto`.
pub(crate) fn duplicating(fd: RawFd, onto: Option<RawFd>, duplicate: impl Fn() -> RawFd) -> RawFd {
    let is_plain = |fd: RawFd| slots::kind(fd) == SlotKind::Plain;
    let is_managed = !is_plain(fd) || onto.is_some_and(|onto| !is_plain(onto));
    let duplicated = is_managed.then(|| {
        inside::run(|| {
            // Both numbers are on the copy, and both are known, before another file is laid over them.
            let held = slots::changing();
            let (new, error) = (duplicate(), inside::errno());
            let replaced = has_duplicate(fd, new);
            drop(held);
            drop(replaced);
            if let Some(reader) = slots::file(fd).as_deref().and_then(ProgramFile::blocks) {
                // Whoever reads by the duplicate reads the origin: the next open finds a copy.
                reader.whole_or_place();
            }
            Some((new, error))
        })
    });
    if let Some((new, error)) = duplicated.flatten() {
        inside::set_errno(error);
        return new;
    }
    let new = duplicate();
    if new < 0 || fd == new {
        return new;
    }
    own_numbers::forget(new);
    // What was there may have been closed by a call that no hook sees.
    if !is_plain(new) || writers::has_any() {
        let _noted = inside::run(|| {
            drop(has_duplicate(fd, new));
            Some(())
        });
    }
    new
}

/// `new` is a duplicate of `fd` by now; gives what it was managed as before.
fn has_duplicate(fd: RawFd, new: RawFd) -> Option<Arc<ProgramFile>> {
    if new < 0 || fd == new {
        return None;
    }
    own_numbers::forget(new);
    writers::duplicated(fd, new);
    let replaced = slots::clear(new);
    let kind = slots::kind(fd);
    if let Some(file) = managed(fd) {
        file.share();
        slots::set(new, kind, file);
    }
    replaced
}
