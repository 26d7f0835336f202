//! An origin in memory, for tests and examples.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    locator::Locator,
    origin::Origin,
    range::{ByteRange, Fill},
    source::{Source, SourceId, Trust, Version, check_ranges, fill_by_fetching},
};

/// An origin in memory.
#[derive(Debug, Default)]
pub struct MemoryOrigin(BTreeMap<Locator, (SourceId, Bytes)>);

impl MemoryOrigin {
    /// Adds `bytes` at `at`.
    #[must_use]
    pub fn with(mut self, at: &str, bytes: impl Into<Bytes>) -> Self {
        let (at, bytes) = (Locator::new(at), bytes.into());
        self.0.insert(at.clone(), (id(at, &bytes), bytes));
        self
    }
}

impl Origin for MemoryOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let Some((id, bytes)) = self.0.get(at) else {
            return Err(Error::new(ErrorKind::NotFound, "no such source").at(at));
        };
        Ok(Arc::new(MemorySource { id: id.clone(), bytes: bytes.clone() }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        Ok(self.0.keys().filter(|at| is_under(at, under)).cloned().collect())
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        let found = self.0.iter().filter(|(at, _)| is_under(at, under));
        Ok(found.map(|(_, (id, _))| id.clone()).collect())
    }
}

/// True for `folder` itself and for what lies in it: `set10/a` is not in `set1`.
fn is_under(at: &Locator, folder: &Locator) -> bool {
    let folder = folder.as_str().trim_end_matches('/');
    let rest = at.as_str().strip_prefix(folder);
    rest.is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

fn id(locator: Locator, bytes: &Bytes) -> SourceId {
    // FNV-1a over words: other bytes have another version.
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
    let step = |hash: u64, bytes: &[u8]| (hash ^ word(bytes)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    let hash = bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, step);
    SourceId { locator, len: bytes.len() as u64, version: Version::named(format!("{hash:016x}")) }
}

#[derive(Debug)]
struct MemorySource {
    id: SourceId,
    bytes: Bytes,
}

impl Source for MemorySource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(&self.id, ranges.iter().copied())?;
        Ok(ranges.iter().map(|range| range.cut(&self.bytes, 0)).collect())
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        fill_by_fetching(self, fills)
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn request_bytes(&self) -> u64 {
        0
    }

    fn will_read(&self, _: ByteRange) {}
}
