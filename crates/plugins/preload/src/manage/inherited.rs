//! Descriptors of copies that this program got from the one that started it: a shell's `< file`.
//!
//! They are looked for once, when the program first asks what a descriptor is or locks one. The map of a mirror says which file it is
//! a copy of, so that nothing has to be handed on from program to program.

use std::{
    fs,
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use forebay_process::{descriptors::with_high_number, record_locks::LockSafeFile};
use forebay_source::FileOrigin;
use forebay_tier::DiskTier;
use rustix::fs::{Mode, OFlags};

use crate::{
    engine::{inside, prefix},
    manage::{
        copy_devices,
        program_file::{ByteSource, ProgramFile},
        slots::{self, SlotKind},
    },
    system::{kernel, map_parts::is_of_tier},
};

static WERE_LOOKED_FOR: AtomicBool = AtomicBool::new(false);

/// Looks for them, once.
#[inline]
pub(crate) fn look_once() {
    if !WERE_LOOKED_FOR.load(Relaxed) {
        look();
    }
}

#[cold]
fn look() {
    if !prefix::is_on() {
        return;
    }
    let _looked = inside::run(|| {
        WERE_LOOKED_FOR.store(true, Relaxed);
        for entry in fs::read_dir("/proc/self/fd").ok()?.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(fd) = number.filter(|fd| slots::kind(*fd) == SlotKind::Plain) {
                adopt(fd);
            }
        }
        Some(())
    });
}

/// Manages `fd` as a copy, if it is one.
fn adopt(fd: RawFd) -> Option<()> {
    let path = kernel::path_of(fd).filter(|path| is_of_tier(path))?;
    // Those of our own are closed on `exec`.
    if kernel::is_closed_on_exec(fd)? {
        return None;
    }
    let id = DiskTier::source_of(&path)?;
    let origin_path = id.locator.to_path().into_owned();
    if !prefix::covers(&origin_path) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(&origin_path, flags, Mode::empty()).ok()?;
    let origin = LockSafeFile::new(with_high_number(opened).ok()?);
    let found = FileOrigin::new().without_mapping().open_as(id.locator.clone(), &*origin).ok()?;
    if !id.is_unchanged(found.id()) {
        return None;
    }
    let (identity, copy) = (kernel::current_identity(origin.as_raw_fd())?, kernel::identity(fd)?);
    let file = ProgramFile::new(identity, ByteSource::Copy { copy, origin });
    file.share();
    copy_devices::know(copy.device);
    slots::set(fd, SlotKind::Copy, Arc::new(file));
    Some(())
}
