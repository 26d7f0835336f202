//! An origin in memory, for tests and examples.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use crate::{
    ByteRange, Error, ErrorKind, Fill, Locator, Origin, Result, Source, SourceId, Trust, Version,
    fill_by_fetching, source::check_ranges,
};

/// An origin in memory.
#[derive(Debug, Default)]
pub struct MemoryOrigin(BTreeMap<Locator, Bytes>);

impl MemoryOrigin {
    /// Adds `bytes` at `at`.
    #[must_use]
    pub fn with(mut self, at: &str, bytes: impl Into<Bytes>) -> Self {
        self.0.insert(Locator::new(at), bytes.into());
        self
    }
}

impl Origin for MemoryOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let Some(bytes) = self.0.get(at) else {
            return Err(Error::new(ErrorKind::NotFound, "no such source").at(at));
        };
        Ok(Arc::new(MemorySource { id: id(at, bytes), bytes: bytes.clone() }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        Ok(self.0.keys().filter(|at| at.as_str().starts_with(under.as_str())).cloned().collect())
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        let found = self.0.iter().filter(|(at, _)| at.as_str().starts_with(under.as_str()));
        Ok(found.map(|(at, bytes)| id(at, bytes)).collect())
    }
}

fn id(at: &Locator, bytes: &Bytes) -> SourceId {
    SourceId { locator: at.clone(), len: bytes.len() as u64, version: Version::named("memory") }
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

    fn vouch(&self) -> Result<()> {
        Ok(())
    }

    fn request_bytes(&self) -> u64 {
        0
    }

    fn expect(&self, _: ByteRange) {}
}
