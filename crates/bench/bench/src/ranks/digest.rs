//! A checksum of all bytes that were read, the same for every engine, driver and order of the samples.

use forebay::{
    Result,
    loader::Batch,
    store::{Comm, Wait},
};

/// The sum of the checksums of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleDigest(u64);

impl SampleDigest {
    /// Adds the samples of `batch`.
    pub(crate) fn add(&mut self, batch: &Batch) {
        for field in &batch.fields {
            // Each of the loader's samples is a batch of the benchmark: samples are the rows of its fields.
            let rows = usize::try_from(field.shape.first().copied().unwrap_or(1)).unwrap_or(1).max(1);
            let len = (field.bytes.len() / rows).max(1);
            for sample in field.bytes.chunks(len) {
                self.0 = self.0.wrapping_add(u64::from(crc32c::crc32c(sample)));
            }
        }
    }

    /// The sum over all ranks. Collective.
    pub(crate) fn of_all(self, comm: &dyn Comm) -> Result<Self> {
        if comm.size() == 1 {
            return Ok(self);
        }
        let all = comm.all_gather(self.0.to_le_bytes().to_vec(), &Wait::while_ranks_live())?;
        let number = |bytes: Vec<u8>| <[u8; 8]>::try_from(bytes).map_or(0, u64::from_le_bytes);
        Ok(Self(all.into_iter().map(number).fold(0, u64::wrapping_add)))
    }
}

impl std::fmt::Display for SampleDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
