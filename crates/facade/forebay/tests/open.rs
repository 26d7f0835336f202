//! How files are opened.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use forebay::{
    FileOrigin, IndexCache, Locator, Origin, Selection,
    process::Result,
    source::{ByteRange, Fill, Source, SourceId, Trust},
};

/// How many sources are held, and how often one was opened while none was.
#[derive(Debug, Default)]
struct Held {
    now: AtomicUsize,
    opened_anew: AtomicUsize,
}

/// An origin that counts the sources it gave out.
#[derive(Debug, Default)]
struct Counted {
    inner: FileOrigin,
    held: Arc<Held>,
}

#[derive(Debug)]
struct CountedSource {
    inner: Arc<dyn Source>,
    held: Arc<Held>,
}

impl Drop for CountedSource {
    fn drop(&mut self) {
        self.held.now.fetch_sub(1, SeqCst);
    }
}

impl Origin for Counted {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let inner = self.inner.open(at)?;
        if self.held.now.fetch_add(1, SeqCst) == 0 {
            self.held.opened_anew.fetch_add(1, SeqCst);
        }
        Ok(Arc::new(CountedSource { inner, held: Arc::clone(&self.held) }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.inner.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.inner.survey(under)
    }
}

impl Source for CountedSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.inner.fetch(ranges)
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        self.inner.copy_into(fills)
    }

    fn verify(&self) -> Result<()> {
        self.inner.verify()
    }

    fn request_bytes(&self) -> u64 {
        self.inner.request_bytes()
    }

    fn will_read(&self, range: ByteRange) {
        self.inner.will_read(range);
    }
}

#[test]
fn a_file_is_held_from_before_its_description_until_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}\n";
    let start = [b"\x93NUMPY\x01\x00", &u16::try_from(header.len()).unwrap().to_le_bytes()[..]].concat();
    let path = folder.path().join("a.npy");
    fs::write(&path, [&start[..], header.as_bytes(), &[7, 8, 9]].concat()).unwrap();
    for cache in [None, Some(IndexCache::at(folder.path().join("index")))] {
        let origin = Arc::new(Counted::default());
        let at = Locator::new(path.to_str().unwrap());
        let opened = forebay::open(Arc::clone(&origin) as _, &at, cache.as_ref()).unwrap();
        let variable = &opened.container().variables[0];
        let mut out = [0; 3];
        opened.read_into(variable, &Selection::all(&[3]), &mut out).unwrap();
        assert_eq!(out, [7, 8, 9]);
        assert_eq!(origin.held.opened_anew.load(SeqCst), 1, "a saved index: {}", cache.is_some());
    }
}
