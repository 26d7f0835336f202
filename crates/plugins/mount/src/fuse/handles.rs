//! What is open.

use std::{
    collections::HashMap,
    ffi::OsString,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use fuser::{FileHandle, FileType, INodeNo};

/// Something open.
#[derive(Debug)]
pub(crate) enum OpenHandle<F> {
    /// A file.
    File(F),
    /// The entries of a folder, as they were when it was opened.
    Folder(Vec<FolderEntry>),
}

/// One name in a folder.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) node: INodeNo,
    pub(crate) kind: FileType,
    pub(crate) name: OsString,
}

/// All that is open, by number.
#[derive(Debug)]
pub(crate) struct Handles<F> {
    open: Mutex<HashMap<u64, Arc<OpenHandle<F>>>>,
    next: AtomicU64,
}

impl<F> Default for Handles<F> {
    fn default() -> Self {
        Self { open: Mutex::default(), next: AtomicU64::new(0) }
    }
}

impl<F> Handles<F> {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<OpenHandle<F>>>> {
        // Each change of the table is one call: a panic cannot leave it half done.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, open: OpenHandle<F>) -> FileHandle {
        let number = self.next.fetch_add(1, Relaxed);
        self.open().insert(number, Arc::new(open));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Option<Arc<OpenHandle<F>>> {
        self.open().get(&handle.0).cloned()
    }

    pub(crate) fn remove(&self, handle: FileHandle) -> Option<Arc<OpenHandle<F>>> {
        self.open().remove(&handle.0)
    }

    /// What `seek` gives for the first open file for which it gives anything.
    pub(crate) fn find_file<R>(&self, seek: impl Fn(&F) -> Option<R>) -> Option<R> {
        self.open().values().find_map(|open| match &**open {
            OpenHandle::File(file) => seek(file),
            OpenHandle::Folder(_) => None,
        })
    }
}
