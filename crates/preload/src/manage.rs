//! From a descriptor that was just opened to a managed one, and from a copy back to the origin.

use std::{
    os::fd::{OwnedFd, RawFd},
    sync::Arc,
};

use forebay_scratch::RunCounter;
use forebay_source::{
    Locator, descriptors,
    record_locks::{self, LockSafeFile},
};
use forebay_tier::SourceKey;
use rustix::fs::OFlags;

use crate::{
    copy_maps, engine, inherited, inside,
    kernel::{self, KernelIdentity},
    own_numbers, prefix,
    program_file::{BlockReader, ByteSource, ProgramFile},
    run_counts,
    slots::{self, SlotKind},
    writers,
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
        record_locks::forget(fd);
        let flags = kernel::open_flags(fd)?;
        if flags.contains(OFlags::PATH) {
            return None;
        }
        let identity = kernel::current_identity(fd)?;
        let path = kernel::path_of(fd).filter(|path| prefix::covers(path))?;
        run_counts::begin();
        run_counts::add(RunCounter::OriginOpens, 1);
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            run_counts::add(RunCounter::OpensLeft, 1);
            writers::add(fd, &identity);
            written(&identity);
            return None;
        }
        let is_left = flags.contains(OFlags::DIRECT) || identity.len == 0 || writers::has(&identity);
        let managed = if is_left { None } else { manage(fd, identity, Locator::from_path(path), by) };
        let counter = if managed.is_some() { RunCounter::OpensManaged } else { RunCounter::OpensLeft };
        run_counts::add(counter, 1);
        managed
    });
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
pub(crate) fn will_lock(fd: RawFd) {
    unlay(fd);
    if !prefix::is_on() {
        return;
    }
    let _noted = inside::run(|| {
        let opened = kernel::borrowed(fd)?;
        let identity = kernel::identity(fd)?;
        record_locks::will_lock(opened);
        for copy in
            slots::numbers().filter(|number| slots::kind(*number) == SlotKind::Copy).collect::<Vec<_>>()
        {
            if let Some(file) = slots::file(copy).filter(|file| file.identity.is_same_file(&identity)) {
                back_to_origin(&file);
            }
        }
        Some(())
    });
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

/// The bytes of `identity` change, by this process: what it has open or mapped of the file is the origin's from now on.
pub(crate) fn written(identity: &KernelIdentity) {
    copy_maps::written(identity);
    let numbers: Vec<RawFd> = slots::numbers().collect();
    for fd in numbers {
        let Some(file) = slots::file(fd).filter(|file| file.identity.is_same_file(identity)) else {
            continue;
        };
        leave(&file, fd);
        run_counts::add(RunCounter::Invalidated, 1);
    }
}

/// `fd` is about to be closed, or to become another file.
pub(crate) fn closing(fd: RawFd) {
    if slots::kind(fd) == SlotKind::Plain && !record_locks::are_taken() {
        return;
    }
    let _cleared = inside::run(|| {
        record_locks::forget(fd);
        if slots::kind(fd) == SlotKind::Plain {
            return None;
        }
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

/// The number whose file is to be mapped where the program maps `fd`: a copy, where its maps can be replaced once the program writes to the file.
pub(crate) fn mapped_number(fd: RawFd) -> RawFd {
    let found = inside::run(|| {
        let file = managed(fd)?;
        match &*file.bytes {
            ByteSource::Copy { origin, .. } => {
                if !copy_maps::note(fd, kernel::number(&**origin), &file.identity) {
                    back_to_origin(&file);
                }
                Some(fd)
            }
            ByteSource::Blocks(reader) => {
                let copy = kernel::number(reader.whole_or_place()?);
                copy_maps::note(copy, fd, &file.identity).then_some(copy)
            }
        }
    });
    found.unwrap_or(fd)
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

/// The program has no number left: descriptors of ours among its own are closed; true where it may try again.
#[cold]
pub(crate) fn give_way() -> bool {
    let gave = inside::run(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        own_numbers::between(0, u32::try_from(limit).unwrap_or(u32::MAX)).next()?;
        let copies: Vec<RawFd> = slots::numbers().collect();
        for fd in &copies {
            if let Some(file) = slots::file(*fd) {
                leave(&file, *fd);
            }
        }
        Some(descriptors::give_way() || !copies.is_empty())
    });
    gave.unwrap_or(false)
}

/// `new` is a duplicate of `fd` by now.
pub(crate) fn duplicated(fd: RawFd, new: RawFd) {
    if new < 0 || fd == new {
        return;
    }
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
