//! From a descriptor that was just opened to a managed one, and from a copy back to the origin.

use std::{
    os::fd::{OwnedFd, RawFd},
    path::Path,
    sync::Arc,
};

use forebay_scratch::RunCounter;
use forebay_source::{
    Locator, descriptors,
    record_locks::{self, LockAttempt, LockSafeFile},
};
use forebay_tier::SourceKey;
use rustix::fs::{Mode, OFlags};

use crate::{
    copy_devices,
    copy_maps::{self, CopyToMap},
    copy_origins, engine, inherited, inside,
    kernel::{self, KernelIdentity},
    own_numbers, prefix,
    program_file::{BlockReader, ByteSource, ProgramFile},
    run_counts,
    slots::{self, SlotKind},
    staged, writers,
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
        run_counts::begin();
        run_counts::add(RunCounter::OriginOpens, 1);
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            run_counts::add(RunCounter::OpensLeft, 1);
            writers::add(fd, &identity);
            written(&identity, kernel::link_of(fd));
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
    // Known before it is there: a hook that sees the copy finds what it is a copy of.
    if !slots::set(fd, SlotKind::Copy, Arc::new(file)) {
        return false;
    }
    // The origin's own number is closed by it: not while the program has a record lock on the file.
    let laid = kernel::borrowed(fd)
        .and_then(|opened| record_locks::unless_locked(opened, || kernel::lay_over(number, fd)));
    if laid != Some(true) {
        drop(slots::clear(fd));
        return false;
    }
    copy_devices::know(facts.device);
    run_counts::add(RunCounter::OpensOnCopy, 1);
    run_counts::add(RunCounter::CopyBytes, identity.len);
    true
}

/// What `fd` is managed as, if it is what the slot says.
pub(crate) fn managed(fd: RawFd) -> Option<Arc<ProgramFile>> {
    let file = slots::file(fd)?;
    if file.is_open_as(fd) {
        return Some(file);
    }
    drop(slots::clear(fd));
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

/// Lays the origin over all numbers of this process that are open on the copy, with the copy's position.
fn back_to_origin(file: &Arc<ProgramFile>) {
    let ByteSource::Copy { origin, .. } = &*file.bytes else { return };
    file.with_position(|| {
        let is_of_file = |fd: &RawFd| slots::file(*fd).is_some_and(|found| Arc::ptr_eq(&found, file));
        let numbers: Vec<RawFd> = slots::numbers().filter(is_of_file).collect();
        let open = || numbers.iter().filter(|fd| file.is_open_as(**fd));
        if let Some(position) = open().next().and_then(|fd| kernel::position(*fd)) {
            kernel::set_position(kernel::number(&**origin), position);
        }
        for fd in open() {
            kernel::lay_over(kernel::number(&**origin), *fd);
        }
        for fd in &numbers {
            drop(slots::clear(*fd));
        }
    });
}

/// Leaves `fd`, which is open as `file`, to the kernel and the origin.
pub(crate) fn leave(file: &Arc<ProgramFile>, fd: RawFd) {
    match &*file.bytes {
        ByteSource::Copy { .. } => back_to_origin(file),
        ByteSource::Blocks(_) => drop(slots::clear(fd)),
    }
}

/// The bytes of `identity` change, by this process: what it has open or mapped of the file is the origin's from now on. `path` leads to it.
pub(crate) fn written(identity: &KernelIdentity, path: impl rustix::path::Arg) {
    let numbers: Vec<RawFd> = slots::numbers().collect();
    for fd in numbers {
        let Some(file) = slots::file(fd).filter(|file| file.identity.is_same_file(identity)) else {
            continue;
        };
        leave(&file, fd);
        run_counts::add(RunCounter::Invalidated, 1);
    }
    copy_maps::written(identity, || {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Some(LockSafeFile::new(rustix::fs::open(path, flags, Mode::empty()).ok()?))
    });
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
        drop(slots::clear(fd));
        engine::publish();
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

/// Maps `fd` by `map`, which takes the number to be mapped: a copy, where its maps can be replaced once the program writes to the file.
pub(crate) fn mapping<R>(fd: RawFd, map: impl Fn(RawFd) -> R) -> R {
    let mapped = inside::run(|| {
        let file = managed(fd)?;
        let choose = || {
            // Once more, as nothing of it is replaced from here on.
            let number = match &*managed(fd)?.bytes {
                ByteSource::Copy { .. } => fd,
                ByteSource::Blocks(_) => kernel::number(file.blocks()?.whole_or_place()?),
            };
            Some(CopyToMap { number, origin: file.identity })
        };
        let map = |copy: Option<RawFd>| {
            if copy.is_none() && slots::kind(fd) == SlotKind::Copy {
                back_to_origin(&file);
            }
            (map(copy.unwrap_or(fd)), inside::errno())
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

/// What of ours is closed for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// Files: those that the program has open are the origin's from now on, and copies are used again for what it opens later.
    Files,
    /// The tiers as well, for good.
    Tiers,
}

impl GivenUp {
    /// One after the other, as long as the program has no number.
    pub(crate) const ALL: [Self; 2] = [Self::Files, Self::Tiers];
}

/// The program has no number left: descriptors of ours are closed; true where it may try again.
#[cold]
pub(crate) fn give_way(given_up: GivenUp) -> bool {
    let gave = inside::run(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        own_numbers::between(0, u32::try_from(limit).unwrap_or(u32::MAX)).next()?;
        give_up(given_up);
        Some(())
    });
    gave.is_some()
}

/// The program wants the number `fd`, which is one of ours; true where it may have it.
#[cold]
pub(crate) fn give_way_at(fd: RawFd) -> bool {
    let gave = inside::run(|| {
        let is_free = |given_up: &GivenUp| {
            give_up(*given_up);
            !own_numbers::has(fd)
        };
        GivenUp::ALL.iter().any(is_free).then_some(())
    });
    gave.is_some()
}

fn give_up(given_up: GivenUp) {
    for fd in slots::numbers().collect::<Vec<_>>() {
        if let Some(file) = slots::file(fd) {
            leave(&file, fd);
        }
    }
    if given_up == GivenUp::Tiers {
        // Names of staged files are still looked for.
        if !staged::is_on() {
            prefix::switch_off();
        }
        engine::end();
    }
    descriptors::give_way();
}

/// `new` is a duplicate of `fd` by now.
pub(crate) fn duplicated(fd: RawFd, new: RawFd) {
    if new < 0 || fd == new {
        return;
    }
    own_numbers::forget(new);
    let is_plain = slots::kind(fd) == SlotKind::Plain && slots::kind(new) == SlotKind::Plain;
    if is_plain && !writers::has_any() {
        return;
    }
    let _shared = inside::run(|| {
        writers::duplicated(fd, new);
        drop(slots::clear(new));
        let kind = slots::kind(fd);
        let file = managed(fd)?;
        file.share();
        if let ByteSource::Blocks(reader) = &*file.bytes {
            // Whoever reads by the duplicate reads the origin: the next open finds a copy.
            reader.whole_or_place();
        }
        slots::set(new, kind, file);
        Some(())
    });
}
