//! Files of the local file system, read by `pread` or copied from a mapping.

use std::{
    fs::File,
    io::IoSliceMut,
    os::unix::fs::FileExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use memmap2::MmapMut;
use rustix::{buffer::spare_capacity, io::Errno};

use crate::{
    ByteRange, Error, ErrorKind, Fill, Locator, Origin, Result, Source, SourceId, Trust,
    pool::{Pooled, Pools},
    range::coalesce_within,
    source::{check_fills, check_ranges},
    stamp::changed,
    walk::files_under,
};

/// Ranges this near are read as one. In the page cache a `pread` costs 240 ns before its first byte and then
/// 0.12 ns per byte, so a gap of 2 KiB breaks even; from a disk the rest of the page comes along for nothing.
const GAP_BYTES: u64 = 4096;

/// Ranges are joined up to this length: a larger request is no faster, and whoever keeps one small part of
/// what was read together keeps all of it in memory.
const RUN_BYTES: u64 = 64 << 20;

/// The most pieces that one `preadv` takes (`IOV_MAX` on Linux and macOS).
const MOST_PIECES: usize = 1024;

/// An origin over the local file system, whose locators are paths.
///
/// Files that are read share one descriptor each under a budget; they are never locked nor written. A file
/// that changes while it is open is an error from then on, until it is opened again.
#[derive(Debug)]
pub struct FileOrigin {
    root: Option<PathBuf>,
    pools: Arc<Pools>,
}

impl FileOrigin {
    /// An origin whose locators are paths as they are.
    pub fn new() -> Self {
        Self { root: None, pools: Arc::new(Pools::shared()) }
    }

    /// An origin whose locators are relative to `root` and cannot climb out of it by `..`.
    ///
    /// Links below `root` are followed wherever they lead: whoever made them had the right to.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()), ..Self::new() }
    }

    /// Keeps at most `count` descriptors open besides those in use, instead of drawing on the process's one budget.
    #[must_use]
    pub fn with_descriptor_budget(self, count: usize) -> Self {
        Self { pools: Arc::new(Pools::with_budget(count)), ..self }
    }

    /// The path of `at`, made absolute so that it stays the same when the process changes its folder.
    fn path(&self, at: &Locator) -> Result<PathBuf> {
        let path = match &self.root {
            None => PathBuf::from(at.as_str()),
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
    for component in Path::new(at.as_str()).components() {
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
        let id = pooled.id(at.clone());
        Ok(Arc::new(FileSource { id, pooled, pools: Arc::clone(&self.pools) }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        let files = || match &self.root {
            None => files_under(&self.path(under)?, Path::new(under.as_str())),
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
    pooled: Arc<Pooled>,
    pools: Arc<Pools>,
}

impl FileSource {
    fn read<T>(&self, reads: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        self.pools.read(&self.pooled, reads).map_err(|error| error.at(&self.id.locator))
    }
}

impl Source for FileSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(&self.id, ranges.iter().copied())?;
        let runs = coalesce_within(ranges, GAP_BYTES, RUN_BYTES);
        let read =
            self.read(|file| runs.iter().map(|run| read_run(file, *run)).collect::<Result<Vec<_>>>())?;
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
        let filled = self.pools.fill(&self.pooled, fills, |file, fills| match fills {
            [fill] => read_fill(file, fill),
            _ => read_fills(file, fills),
        });
        filled.map_err(|error| error.at(&self.id.locator))
    }

    fn vouch(&self) -> Result<()> {
        self.pools.vouch(&self.pooled).map_err(|error| error.at(&self.id.locator))
    }

    fn request_bytes(&self) -> u64 {
        self.pooled.request_bytes()
    }

    fn expect(&self, range: ByteRange) {
        self.pooled.expect(range);
    }
}

/// Longer reads go to memory that begins with a page: a request of 1 MiB to FUSE, and to disks past the page cache, is
/// otherwise cut in two.
const PAGED_BYTES: usize = 256 << 10;

/// Reads `run` into memory of its own.
fn read_run(file: &File, run: ByteRange) -> Result<Bytes> {
    let full = || Error::new(ErrorKind::Full, format!("no memory for {} bytes", run.len()));
    let len = usize::try_from(run.len()).map_err(|_| full())?;
    if len >= PAGED_BYTES {
        let mut pages = MmapMut::map_anon(len).map_err(|error| full().because(error))?;
        read_fill(file, &mut Fill { range: run, into: &mut pages })?;
        return Ok(Bytes::from_owner(pages));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|error| full().because(error))?;
    while bytes.len() < len {
        let offset = run.start + bytes.len() as u64;
        check(rustix::io::pread(file, spare_capacity(&mut bytes), offset), offset)?;
    }
    bytes.truncate(len);
    Ok(bytes.into())
}

/// Reads into the caller's memory in file order, fills that touch in the file by one call.
fn read_fills(file: &File, fills: &mut [Fill<'_>]) -> Result<()> {
    let mut ordered: Vec<_> = fills.iter_mut().filter(|fill| !fill.range.is_empty()).collect();
    ordered.sort_unstable_by_key(|fill| fill.range.start);
    for touching in ordered.chunk_by_mut(|one, next| one.range.end == next.range.start) {
        match touching {
            [fill] => read_fill(file, fill)?,
            _ => touching.chunks_mut(MOST_PIECES).try_for_each(|fills| read_touching(file, fills))?,
        }
    }
    Ok(())
}

fn read_fill(file: &File, fill: &mut Fill<'_>) -> Result<()> {
    let (mut rest, mut offset) = (&mut *fill.into, fill.range.start);
    while !rest.is_empty() {
        let count = check(file.read_at(rest, offset), offset)?;
        rest = &mut rest[count..];
        offset += count as u64;
    }
    Ok(())
}

fn read_touching(file: &File, fills: &mut [&mut Fill<'_>]) -> Result<()> {
    let Some(mut offset) = fills.first().map(|fill| fill.range.start) else { return Ok(()) };
    let mut pieces: Vec<_> = fills.iter_mut().map(|fill| IoSliceMut::new(fill.into)).collect();
    let mut rest = &mut pieces[..];
    while !rest.is_empty() {
        let count = check(rustix::io::preadv(file, rest, offset), offset)?;
        IoSliceMut::advance_slices(&mut rest, count);
        offset += count as u64;
    }
    Ok(())
}

/// How far a read got: not at all when a signal came first; nothing where bytes ought to be is an error.
fn check<E: Into<std::io::Error>>(read: Result<usize, E>, offset: u64) -> Result<usize> {
    match read.map_err(Into::into) {
        Ok(0) => Err(changed("ends here, and was longer when it was opened").at(format!("byte {offset}"))),
        Ok(count) => Ok(count),
        Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => Ok(0),
        Err(error) => Err(Error::from_io(error).at(format!("byte {offset}"))),
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
