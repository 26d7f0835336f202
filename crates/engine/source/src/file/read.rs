//! Reads by `pread`: first what is in the page cache (`RWF_NOWAIT`), the rest concurrently.

use std::{
    fs::File,
    io::IoSliceMut,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result, WorkMemory, is_paged};
use rustix::{buffer::spare_capacity, io::Errno};

use crate::{
    concurrent::run_concurrently,
    file::file_stat::changed,
    range::{ByteRange, Fill},
};

/// The most pieces that one `preadv` takes (`IOV_MAX` on Linux and macOS).
const MOST_PIECES: usize = 1024;

/// An open file and how it is read.
pub(crate) struct PreadReader<'a> {
    pub(crate) file: &'a File,
    /// The request size that hides latency; 0 on this machine.
    pub(crate) request_bytes: u64,
    /// False once the file system refused `RWF_NOWAIT`.
    pub(crate) tells: &'a AtomicBool,
}

/// Fills that touch in the file: one call reads them.
type Touching<'a, 'm> = Vec<&'a mut Fill<'m>>;

impl PreadReader<'_> {
    /// The bytes of `runs`, each in memory of its own.
    pub(crate) fn runs(&self, runs: &[ByteRange]) -> Result<Vec<Bytes>> {
        match runs {
            [run] if self.request_bytes == 0 || run.len() <= self.request_bytes => {
                Ok(vec![read_run(self.file, *run)?])
            }
            _ => {
                let mut memory =
                    runs.iter().map(|run| WorkMemory::new(run.len())).collect::<Result<Vec<_>>>()?;
                let pairs = memory.iter_mut().zip(runs);
                let mut fills: Vec<_> = pairs.map(|(into, run)| Fill { range: *run, into }).collect();
                self.fills(&mut fills)?;
                drop(fills);
                Ok(memory.into_iter().map(WorkMemory::into_bytes).collect())
            }
        }
    }

    /// Reads into the caller's memory, fills that touch in the file by one call.
    pub(crate) fn fills(&self, fills: &mut [Fill<'_>]) -> Result<()> {
        if self.request_bytes > 0 {
            return self.far(fills);
        }
        if let [fill] = fills {
            return read_fill(self.file, fill);
        }
        let mut waiting = Vec::new();
        for mut group in touching(fills) {
            if !self.tells.load(Relaxed) {
                read_touching(self.file, &mut group)?;
            } else if !self.at_once(&mut group)? {
                waiting.push(group);
            }
        }
        run_concurrently(waiting, |mut group| read_touching(self.file, &mut group))
    }

    /// Reads from behind a network: all requests wait concurrently, none longer than the request size.
    fn far(&self, fills: &mut [Fill<'_>]) -> Result<()> {
        let most = usize::try_from(self.request_bytes).unwrap_or(usize::MAX);
        if let [fill] = fills
            && fill.into.len() <= most
        {
            return read_fill(self.file, fill);
        }
        let mut parts = Vec::with_capacity(fills.len());
        for fill in fills.iter_mut() {
            let mut start = fill.range.start;
            for into in fill.into.chunks_mut(most) {
                let range = ByteRange::at(start, into.len() as u64);
                start = range.end;
                parts.push(Fill { range, into });
            }
        }
        let mut requests = Vec::new();
        for group in touching(&mut parts) {
            // Small ones that touch are one request, up to the request size.
            let mut request: Touching<'_, '_> = Vec::new();
            let mut bytes = 0;
            for part in group {
                if bytes + part.into.len() > most && !request.is_empty() {
                    requests.push(std::mem::take(&mut request));
                    bytes = 0;
                }
                bytes += part.into.len();
                request.push(part);
            }
            requests.push(request);
        }
        run_concurrently(requests, |mut request| read_touching(self.file, &mut request))
    }

    /// Reads what is in the page cache; false when there is something to wait for.
    #[cfg(target_os = "linux")]
    fn at_once(&self, fills: &mut [&mut Fill<'_>]) -> Result<bool> {
        use rustix::io::{ReadWriteFlags, preadv2};
        let read = |pieces: &mut [IoSliceMut<'_>], offset| {
            preadv2(self.file, pieces, offset, ReadWriteFlags::NOWAIT)
        };
        match read_by(fills, read) {
            Ok(()) => Ok(true),
            // Linux 5.9 and 5.10 give 0 where a read would wait: the read that waits finds out whether it is the end.
            Err(Stopped { why: None | Some(Errno::AGAIN), .. }) => Ok(false),
            // No such call, or not on this file system.
            Err(Stopped { why: Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL), .. }) => {
                self.tells.store(false, Relaxed);
                read_touching(self.file, fills).map(|()| true)
            }
            Err(stopped) => Err(stopped.into_error()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn at_once(&self, fills: &mut [&mut Fill<'_>]) -> Result<bool> {
        self.tells.store(false, Relaxed);
        read_touching(self.file, fills).map(|()| true)
    }
}

/// `fills` in the order of the file, those together that touch; empty ones are left out.
fn touching<'a, 'm>(fills: &'a mut [Fill<'m>]) -> Vec<Touching<'a, 'm>> {
    let mut ordered: Vec<_> = fills.iter_mut().filter(|fill| !fill.range.is_empty()).collect();
    ordered.sort_unstable_by_key(|fill| fill.range.start);
    let mut groups: Vec<Touching<'a, 'm>> = Vec::with_capacity(ordered.len());
    for fill in ordered {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|last| last.range.end == fill.range.start) => {
                group.push(fill)
            }
            _ => groups.push(vec![fill]),
        }
    }
    groups
}

/// Reads `run` into memory of its own, which is not cleared first where it is small.
fn read_run(file: &File, run: ByteRange) -> Result<Bytes> {
    let full = || Error::new(ErrorKind::Full, format!("no memory for {} bytes", run.len()));
    let len = usize::try_from(run.len()).map_err(|_| full())?;
    if is_paged(len) {
        let mut memory = WorkMemory::new(run.len())?;
        read_fill(file, &mut Fill { range: run, into: &mut memory })?;
        return Ok(memory.into_bytes());
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

fn read_fill(file: &File, fill: &mut Fill<'_>) -> Result<()> {
    let (mut rest, mut offset) = (&mut *fill.into, fill.range.start);
    while !rest.is_empty() {
        let count = check(file.read_at(rest, offset), offset)?;
        rest = &mut rest[count..];
        offset += count as u64;
    }
    Ok(())
}

/// Reads `fills`, which touch in the file, however long it takes.
fn read_touching(file: &File, fills: &mut [&mut Fill<'_>]) -> Result<()> {
    if let [fill] = fills {
        return read_fill(file, fill);
    }
    read_by(fills, |pieces, offset| rustix::io::preadv(file, pieces, offset)).map_err(Stopped::into_error)
}

/// Where a read of touching fills stopped, and why: without an error number at the end of the file.
struct Stopped {
    offset: u64,
    why: Option<Errno>,
}

impl Stopped {
    fn into_error(self) -> Error {
        let Self { offset, why } = self;
        match why {
            None => changed("ends here, and was longer when it was opened").at(format!("byte {offset}")),
            Some(error) => Error::from_io(error.into()).at(format!("byte {offset}")),
        }
    }
}

/// Reads `fills`, which touch in the file, by calls of `read`.
fn read_by(
    fills: &mut [&mut Fill<'_>],
    read: impl Fn(&mut [IoSliceMut<'_>], u64) -> std::result::Result<usize, Errno>,
) -> std::result::Result<(), Stopped> {
    for fills in fills.chunks_mut(MOST_PIECES) {
        let Some(mut offset) = fills.first().map(|fill| fill.range.start) else { continue };
        let mut pieces: Vec<_> = fills.iter_mut().map(|fill| IoSliceMut::new(fill.into)).collect();
        let mut rest = &mut pieces[..];
        while !rest.is_empty() {
            match read(rest, offset) {
                Ok(0) => return Err(Stopped { offset, why: None }),
                Ok(count) => {
                    IoSliceMut::advance_slices(&mut rest, count);
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(Stopped { offset, why: Some(error) }),
            }
        }
    }
    Ok(())
}

/// How far a read got: not at all when a signal came first; nothing where bytes ought to be is an error.
fn check<E: Into<std::io::Error>>(read: std::result::Result<usize, E>, offset: u64) -> Result<usize> {
    match read.map_err(Into::into) {
        Ok(0) => Err(Stopped { offset, why: None }.into_error()),
        Ok(count) => Ok(count),
        Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => Ok(0),
        Err(error) => Err(Error::from_io(error).at(format!("byte {offset}"))),
    }
}
