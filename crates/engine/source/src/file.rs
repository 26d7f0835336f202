//! Files of the local file system, read by `pread` or copied from a mapping.
//!
//! | file | idea |
//! |---|---|
//! | `walk` | the files under a folder |
//! | `pool` | one descriptor per file, under a budget, safe after a fork |
//! | `fd_stat` | `fstat` of a descriptor's number, without holding the descriptor |
//! | `read` | reads by `pread`: first what is in the page cache, the rest concurrently |
//! | `file_system_kind` | whether a file lies on this machine or behind a network |
//! | `mountinfo` | the mount table of the kernel |
//! | `map`, `mapping_mode` | when files in the page cache are copied from a mapping, and the guard around that |
//! | `file_stat` | what `stat` says of a file, to notice that it changed |

pub(crate) mod fd_stat;
pub(crate) mod file_stat;
pub(crate) mod file_system_kind;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "file/map_absent.rs")]
pub(crate) mod map;
pub(crate) mod mapping_mode;
pub(crate) mod mountinfo;
pub(crate) mod pool;
pub(crate) mod read;
pub(crate) mod walk;

use std::{
    fs::File,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    file::{
        pool::{FilePools, PoolOptions, PooledFile},
        read::PreadReader,
        walk::files_under,
    },
    locator::Locator,
    origin::Origin,
    range::{ByteRange, Fill, coalesce_within},
    source::{Source, SourceId, Trust, check_fills, check_ranges},
};

/// Ranges this near are read as one. In the page cache a `pread` costs 240 ns before its first byte and then
/// 0.12 ns per byte, so a gap of 2 KiB breaks even; from a disk the rest of the page comes along for nothing.
const GAP_BYTES: u64 = 4096;

/// Ranges are joined up to this length: a larger request is no faster, and a caller that keeps one small part of
/// what was read together keeps all of it in memory.
const RUN_BYTES: u64 = 64 << 20;

/// An origin over the local file system, whose locators are paths.
///
/// Files that are read share one descriptor each under a budget; they are never locked nor written. A file
/// that changes while it is open is an error from then on, until it is opened again.
///
/// A file of this machine that is in the page cache is copied from a mapping, which takes a process-wide handler for SIGBUS.
/// [`without_mapping`](Self::without_mapping) is for libraries that must not install one in another's program.
#[derive(Debug)]
pub struct FileOrigin {
    root: Option<PathBuf>,
    pools: Arc<FilePools>,
}

impl FileOrigin {
    /// An origin whose locators are paths as they are.
    pub fn new() -> Self {
        Self { root: None, pools: Arc::new(FilePools::new(PoolOptions { own_budget: None, maps: true })) }
    }

    /// An origin whose locators are relative to `root` and cannot climb out of it by `..`.
    ///
    /// Links below `root` are followed wherever they lead: only users with access to `root` could make them.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()), ..Self::new() }
    }

    /// Keeps at most `count` descriptors open besides those in use, instead of drawing on the process's one budget.
    #[must_use]
    pub fn with_descriptor_budget(self, count: usize) -> Self {
        self.with(|options| PoolOptions { own_budget: Some(count), ..options })
    }

    /// Never maps a file: all are read by `pread`, and no handler for SIGBUS is installed.
    ///
    /// For a library that is loaded into another's program, and for files that are often cut short.
    #[must_use]
    pub fn without_mapping(self) -> Self {
        self.with(|options| PoolOptions { maps: false, ..options })
    }

    fn with(self, change: impl FnOnce(PoolOptions) -> PoolOptions) -> Self {
        Self { pools: Arc::new(FilePools::new(change(self.pools.options()))), ..self }
    }

    /// The file that `descriptor` is open on, as a source called `at`.
    ///
    /// # Contract
    /// - The descriptor is open for reading on a regular file, without `O_DIRECT`; anything else is
    ///   [`Invalid`](ErrorKind::Invalid), and the descriptor is closed.
    /// - The id is the one that [`open`](Origin::open) of that file would give under the locator `at`, which is a name and is
    ///   looked up nowhere: the file may have another, or none (a memfd, a file that was unlinked).
    /// - Its bytes are read at their places (`pread`): the descriptor's own position, flags and number stay as they are.
    /// - The file is an error once its length or time of modification change, as any other; to be renamed or unlinked is no
    ///   change.
    /// - The descriptor is outside the budget of descriptors, and is closed when the last clone of the source is dropped. As
    ///   with every `close`, the locks that the process holds on the file by `fcntl` (POSIX record locks) go with it.
    /// - A forked child reads by the descriptor that it inherits. One that closed it, or gave its number to another file, gets
    ///   an error, never other bytes.
    pub fn adopt(&self, descriptor: OwnedFd, at: Locator) -> Result<Arc<dyn Source>> {
        let pooled = self.pools.adopt(descriptor).map_err(|error| error.at(&at))?;
        Ok(self.source(pooled, at))
    }

    /// The file at `at`, which the caller has open as `opened`.
    ///
    /// It is the source that [`open`](Origin::open) gives, and its file system is not asked for the name again: the file is opened
    /// when it is first read, and is an error then if the name leads to another one.
    pub fn open_as(&self, at: Locator, opened: impl AsFd) -> Result<Arc<dyn Source>> {
        let pooled = self
            .path(&at)
            .and_then(|path| self.pools.open_as(path, opened))
            .map_err(|error| error.at(&at))?;
        Ok(self.source(pooled, at))
    }

    fn source(&self, pooled: Arc<PooledFile>, at: Locator) -> Arc<dyn Source> {
        Arc::new(FileSource { id: pooled.id(at), pooled, pools: Arc::clone(&self.pools) })
    }

    /// The path of `at`, made absolute so that it stays the same when the process changes its folder.
    fn path(&self, at: &Locator) -> Result<PathBuf> {
        let path = match &self.root {
            None => at.to_path().into_owned(),
            Some(root) => root.join(inside(at)?),
        };
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        std::path::absolute(path).map_err(Error::from_io)
    }
}

impl Default for FileOrigin {
    fn default() -> Self {
        Self::new()
    }
}

/// `at` without its `.` and `..`, which must not climb out.
fn inside(at: &Locator) -> Result<PathBuf> {
    let mut path = PathBuf::new();
    for component in at.to_path().components() {
        let climbs_out = match component {
            Component::Normal(name) => {
                path.push(name);
                false
            }
            Component::CurDir => false,
            Component::ParentDir => !path.pop(),
            Component::RootDir | Component::Prefix(_) => true,
        };
        if climbs_out {
            return Err(Error::new(ErrorKind::Invalid, "leads out of the origin's folder"));
        }
    }
    Ok(path)
}

impl Origin for FileOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let pooled = self.path(at).and_then(|path| self.pools.open(path)).map_err(|error| error.at(at))?;
        Ok(self.source(pooled, at.clone()))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        let files = || match &self.root {
            None => files_under(&self.path(under)?, &under.to_path()),
            Some(_) => files_under(&self.path(under)?, &inside(under)?),
        };
        files().map_err(|error| error.at(under))
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        let listed = self.list(under)?;
        // There may be a million: no room for growth.
        let mut found = Vec::with_capacity(listed.len());
        for at in listed {
            match self.path(&at).and_then(|path| self.pools.survey(&path, at.clone())) {
                Ok(id) => found.push(id),
                // Gone since the folder was read.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.at(at)),
            }
        }
        Ok(found)
    }
}

#[derive(Debug)]
struct FileSource {
    id: SourceId,
    pooled: Arc<PooledFile>,
    pools: Arc<FilePools>,
}

impl FileSource {
    fn read<T>(&self, reads: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        self.pools.read(&self.pooled, reads).map_err(|error| error.at(&self.id.locator))
    }

    fn reader<'a>(&'a self, file: &'a File) -> PreadReader<'a> {
        PreadReader {
            file,
            request_bytes: self.pooled.request_bytes(),
            tells: self.pooled.tells_what_waits(),
        }
    }
}

impl Source for FileSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(&self.id, ranges.iter().copied())?;
        let runs = coalesce_within(ranges, GAP_BYTES, RUN_BYTES);
        let read = self.read(|file| self.reader(file).runs(&runs))?;
        let lend = |range: &ByteRange| {
            if range.is_empty() {
                return Bytes::new();
            }
            let index = runs.partition_point(|run| run.start <= range.start) - 1;
            range.cut(&read[index], runs[index].start)
        };
        Ok(ranges.iter().map(lend).collect())
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        check_ranges(&self.id, fills.iter().map(|fill| fill.range))?;
        check_fills(&self.id, fills)?;
        let filled = self.pools.fill(&self.pooled, fills, |file, fills| self.reader(file).fills(fills));
        filled.map_err(|error| error.at(&self.id.locator))
    }

    fn verify(&self) -> Result<()> {
        self.pools.verify(&self.pooled).map_err(|error| error.at(&self.id.locator))
    }

    fn request_bytes(&self) -> u64 {
        self.pooled.request_bytes()
    }

    fn will_read(&self, range: ByteRange) {
        self.pooled.will_read(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locator_may_climb_inside_the_folder_and_never_out_of_it() {
        let path = |at: &str| inside(&Locator::new(at)).map_err(|error| error.kind());
        assert_eq!(path("a/../b/./c.h5"), Ok(PathBuf::from("b/c.h5")));
        for at in ["..", "a/../../b", "/etc/passwd"] {
            assert_eq!(path(at), Err(ErrorKind::Invalid), "{at}");
        }
    }
}
