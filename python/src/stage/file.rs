//! A new file on its way to its destination, as a Python file object writes it.

#![expect(unsafe_code, reason = "memory to write from and to read into comes from NumPy, by its address")]

use std::{
    mem, process, ptr, slice,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use forebay::{Error, Result, stage::StagedFile};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    error::raised,
    interruptible::interruptible,
    stage::{
        cursor::{SMALL_BYTES, StageCursor},
        sealed::RawSealed,
    },
};

/// Long writes look for signals, such as that of Ctrl-C, after so many bytes: a destination of 20 MB/s takes them in 0.4 s.
const SIGNAL_BYTES: usize = 8 << 20;

/// A new file on its way, with a position.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawStagedFile {
    path: String,
    /// A forked child has neither the locks nor the file: both are its parent's.
    owner: u32,
    file: RwLock<Option<Arc<StagedFile>>>,
    cursor: Mutex<StageCursor>,
}

impl RawStagedFile {
    pub(crate) fn new(path: String, file: StagedFile) -> Self {
        let (file, cursor) = (RwLock::new(Some(Arc::new(file))), Mutex::default());
        Self { path, owner: process::id(), file, cursor }
    }

    /// The file, unless it was sealed, abandoned, or is another process's.
    fn file(&self) -> Result<Arc<StagedFile>> {
        self.check_owner()?;
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner).clone();
        file.ok_or_else(|| Error::invalid("the file was closed").at(&self.path))
    }

    fn cursor(&self) -> MutexGuard<'_, StageCursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_owner(&self) -> Result<()> {
        if self.owner == process::id() {
            return Ok(());
        }
        let what = "the file was opened before this process was forked, and is its parent's";
        Err(Error::invalid(what).at(&self.path).hint("open files in the process that writes them"))
    }

    /// The file itself, once no other thread uses it; nothing can be written from now on.
    fn take(&self) -> Result<StagedFile> {
        self.check_owner()?;
        let taken = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        let mut held = taken.ok_or_else(|| Error::invalid("the file was closed").at(&self.path))?;
        loop {
            // Threads that write have a reference each, and give it back soon.
            match Arc::try_unwrap(held) {
                Ok(file) => return Ok(file),
                Err(shared) => held = shared,
            }
            std::thread::yield_now();
        }
    }

    /// The `len` bytes from `offset` on, which are there unless another thread cuts the file.
    fn bytes_at<'py>(
        &self,
        py: Python<'py>,
        file: &StagedFile,
        offset: u64,
        len: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, len, |into| {
            let read = py.detach(|| file.read_at(offset, into)).map_err(raised)?;
            if read == len {
                return Ok(());
            }
            Err(raised(Error::invalid("the file was cut while it was read").at(&self.path)))
        })
    }

    fn write_bytes(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<usize> {
        let file = self.file().map_err(raised)?;
        if bytes.len() < SMALL_BYTES {
            // Nothing waits here: to give the interpreter's lock up would take longer than the copy.
            if let Ok(mut cursor) = self.cursor.try_lock()
                && cursor.append(bytes).map_err(raised)?
            {
                return Ok(bytes.len());
            }
            py.detach(|| self.cursor().write(&file, bytes)).map_err(raised)?;
            return Ok(bytes.len());
        }
        // What one call writes lies in one piece, whatever other threads write meanwhile.
        let begin = py.detach(|| self.cursor().reserve(&file, bytes.len())).map_err(raised)?;
        for (part, bytes) in (0..).zip(bytes.chunks(SIGNAL_BYTES)) {
            if part > 0 {
                py.check_signals()?;
            }
            let offset = begin + part * SIGNAL_BYTES as u64;
            py.detach(|| file.write_at(offset, bytes)).map_err(raised)?;
        }
        Ok(bytes.len())
    }
}

#[pymethods]
impl RawStagedFile {
    /// Writes `bytes` at the position.
    fn write(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<usize> {
        self.write_bytes(py, bytes)
    }

    /// Writes the `len` bytes at `address`, which the caller holds until this returns.
    fn write_from(&self, py: Python<'_>, address: usize, len: usize) -> PyResult<usize> {
        let bytes: &[u8] = match len {
            // Arrays of nothing may lie nowhere.
            0 => &[],
            // SAFETY: Python gives where the bytes of a buffer lie that it holds until this returns, and how many there are.
            _ => unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), len) },
        };
        self.write_bytes(py, bytes)
    }

    /// Reads at the position into the `len` bytes at `address`, which the caller holds and nobody else uses meanwhile; gives
    /// how many there were before the end of the file.
    fn read_into(&self, py: Python<'_>, address: usize, len: usize) -> PyResult<usize> {
        let into: &mut [u8] = match len {
            0 => &mut [],
            // SAFETY: Python gives where the bytes of a writable buffer lie that it holds until this returns.
            _ => unsafe { slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(address), len) },
        };
        let file = self.file().map_err(raised)?;
        py.detach(|| {
            let (begin, there) = self.cursor().reserve_read(&file, Some(into.len()))?;
            file.read_at(begin, &mut into[..there])
        })
        .map_err(raised)
    }

    /// Up to `size` bytes from the position on, or all that follow.
    #[pyo3(signature = (size=None))]
    fn read<'py>(&self, py: Python<'py>, size: Option<usize>) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.file().map_err(raised)?;
        let (begin, len) = py.detach(|| self.cursor().reserve_read(&file, size)).map_err(raised)?;
        self.bytes_at(py, &file, begin, len)
    }

    /// Up to `size` bytes from `offset` on; the position stays.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.file().map_err(raised)?;
        let len = py.detach(|| {
            let mut cursor = self.cursor();
            cursor.flush(&file).and_then(|()| cursor.len(&file))
        });
        let left = usize::try_from(len.map_err(raised)?.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.bytes_at(py, &file, offset, size.min(left))
    }

    /// Moves the position, from the begin (0), from itself (1) or from the end (2), and gives it.
    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        let file = self.file().map_err(raised)?;
        py.detach(|| self.cursor().seek(&file, offset, whence)).map_err(raised)
    }

    /// The position.
    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        self.check_owner().map_err(raised)?;
        Ok(py.detach(|| self.cursor().position()))
    }

    /// Cuts or extends the file to `len` bytes, and gives that.
    fn truncate(&self, py: Python<'_>, len: u64) -> PyResult<u64> {
        let file = self.file().map_err(raised)?;
        py.detach(|| self.cursor().truncate(&file, len)).map_err(raised)?;
        Ok(len)
    }

    /// Hands small writes that were put together to the area.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.file().map_err(raised)?;
        py.detach(|| self.cursor().flush(&file)).map_err(raised)
    }

    /// Ends the writing: the file goes to its destination.
    fn seal(&self, py: Python<'_>) -> PyResult<RawSealed> {
        self.flush(py)?;
        let file = Mutex::new(Some(py.detach(|| self.take()).map_err(raised)?));
        // Syncing takes as long as the disk does.
        let sealed = interruptible(py, move || {
            let file = file.lock().unwrap_or_else(PoisonError::into_inner).take();
            file.ok_or_else(|| Error::invalid("the file was closed"))?.seal()
        })?;
        Ok(RawSealed::new(sealed))
    }

    /// Gives the file up: the destination stays as it was.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.take().map(StagedFile::abandon)).map_err(raised)
    }
}

impl Drop for RawStagedFile {
    fn drop(&mut self) {
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.owner != process::id() {
            // The parent's: to drop it here would remove it there.
            mem::forget(file);
        }
    }
}
