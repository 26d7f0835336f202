//! The files of a store: which there are, and what its documents say.

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Locator, Origin, Source, SourceExt, SourceId};
use rayon::prelude::*;
use serde_json::Value;
use std::sync::Arc;

use super::{json, key_order::KeyOrder};
use crate::Found;

/// The names of documents, in the order they are looked for.
pub(super) const V3: &str = "zarr.json";
pub(super) const V2_ARRAY: &str = ".zarray";
pub(super) const V2_GROUP: &str = ".zgroup";
pub(super) const V2_ATTRIBUTES: &str = ".zattrs";
pub(super) const V2_ALL: &str = ".zmetadata";

/// A document of a million arrays, all in one, takes about 1 GiB.
const MOST_DOCUMENT_BYTES: u64 = 1 << 30;
/// Requests to a far place that are under way at once: one takes 10 to 100 ms there, however short it is.
const FAR_REQUESTS: usize = 32;

/// True when a store's own document lies in the folder that was found.
pub(super) fn is_store(found: &Found<'_>) -> Result<bool> {
    for name in [V3, V2_ARRAY, V2_GROUP, V2_ALL] {
        let Some(document) = found.inside(name)? else { continue };
        let len = document.id().len.min(Found::HEAD_BYTES);
        let head = document.fetch_one(ByteRange::at(0, len))?;
        let says_so = head.windows(b"zarr_".len()).any(|word| word == b"zarr_");
        // Attributes of any length may stand before it.
        if says_so || (document.id().len > len && head.trim_ascii_start().starts_with(b"{")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A folder of documents and chunks.
#[derive(Debug)]
pub(super) struct ZarrStore<'a> {
    origin: &'a dyn Origin,
    at: &'a Locator,
    /// `at` without steps of `.`, which an origin may leave out when it lists.
    plain: Locator,
}

impl<'a> ZarrStore<'a> {
    pub(super) fn new(origin: &'a dyn Origin, at: &'a Locator) -> Self {
        Self { origin, at, plain: Locator::new("").beside(at.as_str()) }
    }

    /// All files; `None` where the place does not say which there are.
    pub(super) fn survey(&self) -> Result<Option<Vec<SourceId>>> {
        match self.origin.survey(self.at) {
            Ok(files) => Ok(Some(files)),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The key of a file at `locator` in this store.
    pub(super) fn key<'k>(&self, locator: &'k Locator) -> Option<&'k str> {
        let strip = |folder: &Locator| {
            let folder = folder.as_str().trim_end_matches('/');
            locator.as_str().strip_prefix(folder)?.strip_prefix('/')
        };
        // The folder the process stands in is called nothing.
        let is_here = self.plain.as_str().is_empty();
        strip(self.at).or_else(|| strip(&self.plain)).or_else(|| is_here.then_some(locator.as_str()))
    }

    /// The file `key`, if there is one.
    pub(super) fn open(&self, key: &str) -> Result<Option<Arc<dyn Source>>> {
        match self.origin.open(&self.at.inside(key)) {
            Ok(source) => Ok(Some(source)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The document `key`, the order of its members, and which bytes it is, if there is one.
    pub(super) fn document(&self, key: &str) -> Result<Option<(SourceId, (Value, KeyOrder))>> {
        let Some(source) = self.open(key)? else { return Ok(None) };
        let document = read(&*source).and_then(|bytes| json::parse(&bytes));
        document
            .map(|document| Some((source.id().clone(), document)))
            .map_err(|error| error.at(&source.id().locator))
    }

    /// Does `work` for each of `items`, many at once: far places take their time to answer.
    pub(super) fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Send + Sync,
    ) -> Result<Vec<R>> {
        if !self.at.is_url() {
            return Ok(items.par_iter().map(work).collect());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(FAR_REQUESTS.min(items.len().max(1))).build();
        let pool =
            pool.map_err(|error| Error::new(ErrorKind::Full, "no threads to be had").because(error))?;
        Ok(pool.install(|| items.par_iter().map(work).collect()))
    }
}

/// The whole of a document.
fn read(source: &dyn Source) -> Result<Bytes> {
    let len = source.id().len;
    if len > MOST_DOCUMENT_BYTES {
        return Err(Error::new(ErrorKind::Unsupported, format!("a document of {len} bytes")));
    }
    source.fetch_one(ByteRange::at(0, len))
}

impl std::fmt::Display for ZarrStore<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.at.fmt(f)
    }
}
