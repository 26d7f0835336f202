//! A managed file: reads through the tiers, writes through a redo log, or directly once that is what the program needs.

use std::{cell::Cell, fs::Metadata, mem, os::unix::fs::MetadataExt, path::PathBuf, sync::Arc};

use forebay_libhdf5::hdf5_types::{haddr_t, herr_t, hid_t};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Fill, Locator, Origin, Source, SourceExt};
use forebay_stage::{CloseWhen, RedoFile, StageOptions};

use crate::{
    process,
    sec2::{OriginFile, Sec2Access},
};

/// A close that is to be quick still waits for so little: the file is whole at once for those who look at it by other means, such
/// as netCDF's own look at the first bytes, and the sync of a journal takes about as long.
const SMALL_BYTES: u64 = 1 << 20;

/// Where bytes of a managed file are read and written at the moment.
#[derive(Debug)]
enum Road {
    /// By the library's own driver, which so far has made all changes.
    Plain,
    /// Reads by a source that is read through tiers.
    Tiered(Arc<dyn Source>),
    /// Writes are staged; with them the file ends at `end`.
    Staged { redo: Arc<RedoFile>, end: haddr_t },
    /// By the library's own driver, which does not know of changes before: the file ends at `end`. The log, which is drained, is
    /// closed with the file: it gives the file's lock up.
    Direct { redo: Arc<RedoFile>, end: haddr_t },
}

/// A managed file, open. Errors that come as codes were told by the library's own driver; the others are not told yet.
#[derive(Debug)]
pub(crate) struct ManagedFile {
    slot: usize,
    destination: PathBuf,
    road: Road,
    /// Whether writes may be staged.
    stages: bool,
    /// Bytes that were staged since the file was last drained.
    staged_bytes: u64,
}

impl ManagedFile {
    /// A file that is open for reading and writing.
    pub(crate) fn for_writing(slot: usize, destination: PathBuf) -> Self {
        Self { slot, destination, road: Road::Plain, stages: true, staged_bytes: 0 }
    }

    /// A file that is open for reading alone; `None` where no tier would have its bytes.
    pub(crate) fn for_reading(slot: usize, destination: PathBuf, origin: &OriginFile) -> Option<Self> {
        let state = process::state();
        let source = state.tiers()?.open(&Locator::from_path(&destination)).ok()?;
        let opened = origin.duplicate().ok()?.metadata().ok()?;
        // The name may lead to another file by now.
        is_same(source.as_ref(), &opened).then(|| Self {
            slot,
            destination,
            road: Road::Tiered(source),
            stages: false,
            staged_bytes: 0,
        })
    }

    /// The file, for messages.
    pub(crate) fn destination(&self) -> &std::path::Path {
        &self.destination
    }

    /// The end of the file, with what is staged; `None` where the library's own driver knows it.
    pub(crate) fn end(&self) -> Option<haddr_t> {
        match self.road {
            Road::Plain | Road::Tiered(_) => None,
            Road::Staged { end, .. } | Road::Direct { end, .. } => Some(end),
        }
    }

    /// Fills `into` from `at` on.
    pub(crate) fn read(
        &mut self,
        origin: &OriginFile,
        access: Sec2Access,
        at: haddr_t,
        into: &mut [u8],
    ) -> Result<herr_t> {
        match &self.road {
            Road::Plain | Road::Direct { .. } => Ok(origin.read_into(access, at, into)),
            Road::Staged { redo, .. } => read_staged(redo, origin, access, at, into),
            Road::Tiered(source) => {
                let range = ByteRange { start: at, end: at.saturating_add(into.len() as u64) };
                // Past the end the library's own driver gives zeros.
                if range.end <= source.id().len && source.fetch_into(&mut [Fill { range, into }]).is_ok() {
                    return Ok(0);
                }
                if range.end <= source.id().len {
                    // Whatever it is, the file itself has the answer: its bytes or its error.
                    self.road = Road::Plain;
                }
                Ok(origin.read_into(access, at, into))
            }
        }
    }

    /// Takes `bytes` for `at`.
    pub(crate) fn write(
        &mut self,
        origin: &OriginFile,
        access: Sec2Access,
        at: haddr_t,
        bytes: &[u8],
    ) -> Result<herr_t> {
        if self.stages && matches!(self.road, Road::Plain) {
            self.begin_staging(origin);
        }
        let after = at + bytes.len() as u64;
        match &mut self.road {
            Road::Plain | Road::Tiered(_) => Ok(origin.write_from(access, at, bytes)),
            Road::Staged { redo, end } => match redo.write_at(at, bytes) {
                Ok(()) => {
                    *end = after.max(*end);
                    self.staged_bytes += bytes.len() as u64;
                    Ok(0)
                }
                // The area cannot be used, and nothing was ever staged for this file.
                Err(error) if !redo.is_written() => {
                    process::say_not_staged(&error);
                    self.stages = false;
                    self.end_log(CloseWhen::Drained)?;
                    Ok(origin.write_from(access, at, bytes))
                }
                Err(error) => Err(error),
            },
            Road::Direct { end, .. } => {
                let answer = origin.write_from(access, at, bytes);
                if answer >= 0 {
                    *end = after.max(*end);
                }
                Ok(answer)
            }
        }
    }

    /// Has the file end where HDF5 has given out the last byte.
    pub(crate) fn truncate(&mut self, origin: &OriginFile, transfer: hid_t, closing: bool) -> Result<herr_t> {
        let wanted = origin.eoa(0);
        match &mut self.road {
            Road::Plain | Road::Tiered(_) => return Ok(origin.truncate(transfer, closing)),
            Road::Staged { end, .. } | Road::Direct { end, .. } if *end == wanted => {}
            Road::Staged { redo, end } => {
                redo.truncate(wanted)?;
                *end = wanted;
            }
            Road::Direct { end, .. } => {
                origin.duplicate()?.set_len(wanted).map_err(Error::from_io)?;
                *end = wanted;
            }
        }
        Ok(0)
    }

    /// Returns when all that was written is in the file, or staged and journalled where that is enough.
    pub(crate) fn flush(&mut self, is_closing: bool) -> Result<()> {
        match &self.road {
            Road::Staged { redo, .. } if !process::delays_close() => redo.drain(),
            // The close that follows stages all at once.
            Road::Staged { .. } if is_closing => Ok(()),
            Road::Staged { redo, .. } => redo.stage(),
            Road::Plain | Road::Tiered(_) | Road::Direct { .. } => Ok(()),
        }
    }

    /// Brings all to the file, and stages nothing from here on: others look at the file itself. After an error all is as before.
    pub(crate) fn go_direct(&mut self) -> Result<()> {
        if let Road::Staged { redo, .. } = &self.road {
            redo.drain()?;
        }
        self.stages = false;
        self.road = match mem::replace(&mut self.road, Road::Plain) {
            Road::Staged { redo, end } | Road::Direct { redo, end } => Road::Direct { redo, end },
            // A file that is only read is the same by both ways.
            road @ (Road::Plain | Road::Tiered(_)) => road,
        };
        Ok(())
    }

    /// Ends the use of the file.
    pub(crate) fn close(mut self) -> Result<()> {
        let is_staged = matches!(self.road, Road::Staged { .. });
        let is_quick = is_staged && process::delays_close() && self.staged_bytes > SMALL_BYTES;
        self.end_log(if is_quick { CloseWhen::Staged } else { CloseWhen::Drained })
    }

    /// Ends the log, if there is one.
    fn end_log(&mut self, when: CloseWhen) -> Result<()> {
        match mem::replace(&mut self.road, Road::Plain) {
            Road::Staged { redo, .. } | Road::Direct { redo, .. } => process::state().end(redo, when),
            Road::Plain | Road::Tiered(_) => Ok(()),
        }
    }

    /// Stages from here on; where that cannot be, the file is written directly, which is told once.
    fn begin_staging(&mut self, origin: &OriginFile) {
        let state = process::state();
        let Some(area) = state.area() else {
            self.stages = false;
            return;
        };
        let trouble = area.trouble().map_or(Ok(()), Err);
        let begun = trouble.and_then(|()| origin.duplicate()).and_then(|file| {
            let facts = file.metadata().map_err(Error::from_io)?;
            Ok((facts, area.update(&self.destination, file, StageOptions::default())?))
        });
        match begun {
            Ok((facts, redo)) => {
                let redo = Arc::new(redo);
                state.begin(self.slot, &facts, &redo);
                self.road = Road::Staged { redo, end: origin.eof(0) };
            }
            Err(error) => {
                process::say_not_staged(&error);
                self.stages = false;
            }
        }
    }
}

fn read_staged(
    redo: &RedoFile,
    origin: &OriginFile,
    access: Sec2Access,
    at: haddr_t,
    into: &mut [u8],
) -> Result<herr_t> {
    let was_told = Cell::new(false);
    let beneath = |at: u64, into: &mut [u8]| {
        if origin.read_into(access, at, into) >= 0 {
            return Ok(());
        }
        was_told.set(true);
        Err(Error::new(ErrorKind::Io, "the file cannot be read"))
    };
    match redo.read_at(at, into, &beneath) {
        Ok(()) => Ok(0),
        Err(_) if was_told.get() => Ok(-1),
        Err(error) => Err(error),
    }
}

fn is_same(source: &dyn Source, opened: &Metadata) -> bool {
    let id = source.id();
    id.len == opened.len() && id.version.file.is_some_and(|known| known.inode == opened.ino())
}
