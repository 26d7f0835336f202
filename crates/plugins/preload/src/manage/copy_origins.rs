//! From a copy back to its origin: by a number of this process that is open on it, or by the map that stands beside it in its tier.

use std::{
    ffi::CString,
    os::{fd::RawFd, unix::ffi::OsStrExt},
    path::Path,
    sync::Arc,
};

use forebay_tier::DiskTier;

use crate::{
    engine::prefix,
    manage::{
        program_file::{ByteSource, ProgramFile},
        slots,
    },
    system::{
        kernel::{self, KernelIdentity},
        map_parts::is_of_tier,
    },
};

/// A path that leads to a file of the origin, and what keeps it open where it goes by a descriptor.
#[derive(Debug)]
pub(crate) struct OriginPath {
    pub(crate) path: CString,
    pub(crate) _file: Option<Arc<ProgramFile>>,
}

/// The origin of the copy that `fd` is open on, whose path is `path`. Called as work of ours.
pub(crate) fn origin_of(fd: RawFd, path: &Path) -> Option<OriginPath> {
    if !is_of_tier(path) {
        return None;
    }
    origin_beside(&kernel::identity(fd)?).or_else(|| origin_of_tier_file(path))
}

/// The origin that is kept beside `copy`, by a number of this process that is open on it.
pub(crate) fn origin_beside(copy: &KernelIdentity) -> Option<OriginPath> {
    let found = slots::numbers().find_map(|fd| {
        let file = slots::file(fd)?;
        let is_same =
            matches!(&*file.bytes, ByteSource::Copy { copy: known, .. } if known.is_same_file(copy));
        // While it is open its inode is no other file's.
        (is_same && file.is_open_as(fd)).then_some(file)
    })?;
    let ByteSource::Copy { origin, .. } = &*found.bytes else { return None };
    let path = CString::new(kernel::link_of(kernel::number(&**origin))).ok()?;
    Some(OriginPath { path, _file: Some(found) })
}

/// The origin of the copy at `path`, as the map beside it says.
pub(crate) fn origin_of_tier_file(path: &Path) -> Option<OriginPath> {
    let id = is_of_tier(path).then(|| DiskTier::source_of(path))??;
    let origin = id.locator.to_path();
    let path = CString::new(origin.as_os_str().as_bytes()).ok()?;
    prefix::covers(&origin).then_some(OriginPath { path, _file: None })
}
