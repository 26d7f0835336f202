//! Files that this process itself begins to write to: what it has open or mapped of them is the origin from then on.

use std::{fs::File, os::fd::RawFd, path::Path};

use forebay_process::record_locks::{self, LockSafeFile};
use forebay_scratch::RunCounter;
use rustix::fs::{Mode, OFlags};

use crate::{
    engine::{inside, own_numbers, run_counts},
    manage::{
        back_to_origin::leave,
        copy_maps::{self, MapOpener, OriginToMap},
        give_way::with_way_given,
        slots,
    },
    system::kernel::{self, KernelIdentity},
};

/// The bytes of `identity` change, by this process: what it has open or mapped of the file is the origin's from now on. `path` leads to it.
pub(crate) fn written(identity: &KernelIdentity, path: impl rustix::path::Arg + Copy) {
    let numbers: Vec<RawFd> = slots::numbers().collect();
    for fd in numbers {
        let Some(file) = slots::file(fd).filter(|file| file.identity.is_same_file(identity)) else {
            continue;
        };
        leave(&file, fd);
        run_counts::add(RunCounter::Invalidated, 1);
    }
    copy_maps::written(identity, &WrittenFile { identity, path });
}

/// `fd` was opened for reading, and the file was cut by it (`O_TRUNC`).
#[cold]
pub(crate) fn cut(fd: RawFd) {
    let _noted = inside::run(|| {
        written(&kernel::current_identity(fd)?, kernel::link_of(fd).as_str());
        Some(())
    });
}

/// A file that the program writes to, and a path to it.
struct WrittenFile<'a, P> {
    identity: &'a KernelIdentity,
    path: P,
}

impl<P: rustix::path::Arg + Copy> MapOpener for WrittenFile<'_, P> {
    fn origin(&self) -> Option<OriginToMap> {
        let locked = record_locks::locked_number(self.identity.device, self.identity.inode);
        let is_readable =
            |number: &RawFd| kernel::open_flags(*number).is_some_and(|flags| !flags.contains(OFlags::WRONLY));
        // What is opened here could not be closed as long as there is a lock.
        if let Some(number) = locked.filter(is_readable) {
            return Some(OriginToMap::Program(number));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = with_way_given(|| rustix::fs::open(self.path, flags, Mode::empty()))?;
        own_numbers::take(kernel::number(&opened));
        Some(OriginToMap::Own(LockSafeFile::new(opened)))
    }

    fn kernel_file(&self, path: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        with_way_given(|| rustix::fs::open(path, flags, Mode::empty())).map(File::from)
    }
}
