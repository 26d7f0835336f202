//! This machine's files as if they were behind a slow file system, inside the process: for trials where nothing can be
//! mounted.

use std::sync::Arc;

use bytes::Bytes;
use forebay_process::Result;
use forebay_source::{
    ByteRange, FaultCounters, FaultOrigin, FaultSchedule, FileOrigin, Fill, Locator, Origin, Source,
    SourceId, Trust,
};

/// What the names of slow files begin with, so that nothing takes them for near ones.
const SLOW: &str = "slow://files";

/// This machine's files under the names `slow://files/PATH`, each read as slow as a [`FaultSchedule`] says.
#[derive(Debug)]
pub struct SlowFiles {
    files: FaultOrigin,
}

impl SlowFiles {
    /// Files that are read as `schedule` says.
    pub fn new(schedule: FaultSchedule) -> Self {
        Self { files: FaultOrigin::new(Arc::new(FileOrigin::new()), schedule) }
    }

    /// What was read so far.
    pub fn counters(&self) -> FaultCounters {
        self.files.counters()
    }

    /// The slow name of the file at `path`.
    pub fn name(path: &str) -> String {
        format!("{SLOW}{path}")
    }
}

/// The path behind a slow name.
fn path(at: &Locator) -> Locator {
    Locator::new(at.as_str().strip_prefix(SLOW).unwrap_or(at.as_str()))
}

impl Origin for SlowFiles {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let inner = self.files.open(&path(at))?;
        let id = SourceId { locator: at.clone(), ..inner.id().clone() };
        Ok(Arc::new(SlowFile { id, inner }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        let listed = self.files.list(&path(under))?;
        Ok(listed.iter().map(|at| Locator::new(Self::name(at.as_str()))).collect())
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        let mut found = self.files.survey(&path(under))?;
        found.iter_mut().for_each(|id| id.locator = Locator::new(Self::name(id.locator.as_str())));
        Ok(found)
    }
}

#[derive(Debug)]
struct SlowFile {
    id: SourceId,
    inner: Arc<dyn Source>,
}

impl Source for SlowFile {
    fn id(&self) -> &SourceId {
        &self.id
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

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use forebay_source::SourceExt;

    use super::*;

    #[test]
    fn slow_files_have_the_bytes_of_files_and_names_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.bin"), b"abcdef").unwrap();
        let slow =
            SlowFiles::new(FaultSchedule { delay: Duration::from_millis(1), ..FaultSchedule::default() });
        let under = Locator::new(SlowFiles::name(folder.path().to_str().unwrap()));
        let listed = slow.list(&under).unwrap();
        assert_eq!(listed, [Locator::new(format!("{under}/a.bin"))]);
        assert!(listed[0].is_url());
        let source = slow.open(&listed[0]).unwrap();
        assert_eq!(source.id().locator, listed[0]);
        assert_eq!(source.fetch_one(ByteRange { start: 2, end: 5 }).unwrap()[..], *b"cde");
        assert_eq!(slow.counters().operations, 1);
    }
}
