//! From a descriptor that was just opened to a managed one, and from a copy back to the origin.

use std::{
    os::fd::{OwnedFd, RawFd},
    sync::Arc,
};

use forebay_scratch::RunCounter;
use forebay_source::Locator;
use forebay_tier::SourceKey;
use rustix::fs::OFlags;

use crate::{
    engine, inherited, inside,
    kernel::{self, KernelIdentity},
    prefix,
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
    let (Some(facts), Some(origin)) = (facts, kernel::kept_beside(fd)) else { return false };
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
    if !kernel::lay_over(number, fd) {
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
    let ByteSource::Copy { origin, .. } = &file.bytes else { return None };
    let number = kernel::number(origin);
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
    let ByteSource::Copy { origin, .. } = &file.bytes else { return };
    file.with_position(|| {
        let is_of_file = |fd: &RawFd| slots::file(*fd).is_some_and(|found| Arc::ptr_eq(&found, file));
        let numbers: Vec<RawFd> = slots::numbers().filter(is_of_file).collect();
        let open = || numbers.iter().filter(|fd| file.is_open_as(**fd));
        if let Some(position) = open().next().and_then(|fd| kernel::position(*fd)) {
            kernel::set_position(kernel::number(origin), position);
        }
        for fd in open() {
            kernel::lay_over(kernel::number(origin), *fd);
        }
        for fd in &numbers {
            drop(slots::clear(*fd));
        }
    });
}

/// Leaves `fd`, which is open as `file`, to the kernel and the origin.
pub(crate) fn leave(file: &Arc<ProgramFile>, fd: RawFd) {
    match &file.bytes {
        ByteSource::Copy { .. } => back_to_origin(file),
        ByteSource::Blocks(_) => drop(slots::clear(fd)),
    }
}

/// The bytes of `identity` change, by this process: what it has open of the file is the origin's from now on.
pub(crate) fn written(identity: &KernelIdentity) {
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

/// `new` is a duplicate of `fd` by now.
pub(crate) fn duplicated(fd: RawFd, new: RawFd) {
    if new < 0 || fd == new || slots::kind(fd) == SlotKind::Plain && slots::kind(new) == SlotKind::Plain {
        return;
    }
    let _shared = inside::run(|| {
        drop(slots::clear(new));
        let kind = slots::kind(fd);
        let file = managed(fd)?;
        file.share();
        if let ByteSource::Blocks(reader) = &file.bytes {
            // Whoever reads by the duplicate reads the origin: the next open finds a copy.
            reader.whole_or_place();
        }
        slots::set(new, kind, file);
        Some(())
    });
}
