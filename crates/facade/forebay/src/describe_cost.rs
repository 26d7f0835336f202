//! What it took to describe a file: requests and bytes, by which is decided whether the description is saved.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use forebay_container::Container;
use forebay_format::describe;
use forebay_process::Result;
use forebay_source::{Locator, Operation, Origin, SourceId, TraceSink, TracedOrigin, TracedRequest};

/// So many bytes are read in 0.1 ms from the page cache and in milliseconds from a disk; a saved index of a few records is
/// loaded in 0.03 ms.
const LEAST_BYTES: u64 = 256 << 10;
/// So many requests to a file of this machine take 0.2 ms.
const LEAST_REQUESTS: u64 = 256;
/// So many behind a network take milliseconds; a small HDF5 file is described by two to four.
const LEAST_FAR_REQUESTS: u64 = 8;

/// What it took to describe a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescribeCost {
    /// Reads that were asked for.
    pub requests: u64,
    /// Bytes that they gave.
    pub bytes: u64,
    /// The request size that hides the latency of the source, as [`Source::request_bytes`] has it.
    ///
    /// [`Source::request_bytes`]: forebay_source::Source::request_bytes
    pub request_bytes: u64,
}

impl DescribeCost {
    /// True when a saved index is loaded sooner than this is spent on the source `id` again.
    pub(crate) fn is_high(self, id: &SourceId) -> bool {
        let is_far = self.request_bytes > 0;
        let least_requests = if is_far { LEAST_FAR_REQUESTS } else { LEAST_REQUESTS };
        // Metadata behind a network comes by long pages of which little is used: they count where they are much of the file.
        let least_bytes = if is_far { self.request_bytes.min(id.len / 2) } else { 0 };
        self.requests >= least_requests || self.bytes >= least_bytes.max(LEAST_BYTES)
    }
}

/// Describes what lies at `at`, whose requests ought to bring `request_bytes`, and tells what that took.
pub(crate) fn describe_counting(
    origin: &Arc<dyn Origin>,
    at: &Locator,
    request_bytes: u64,
) -> Result<(Container, DescribeCost)> {
    let reads = Arc::new(DescribeReads::default());
    let container = describe(&TracedOrigin::new(Arc::clone(origin), Arc::clone(&reads) as _), at)?;
    let (requests, bytes) = (reads.requests.load(Relaxed), reads.bytes.load(Relaxed));
    Ok((container, DescribeCost { requests, bytes, request_bytes }))
}

/// Counts reads and their bytes.
#[derive(Debug, Default)]
struct DescribeReads {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl TraceSink for DescribeReads {
    fn record(&self, request: &TracedRequest<'_>) {
        if request.operation != Operation::Open {
            self.requests.fetch_add(1, Relaxed);
            self.bytes.fetch_add(request.ranges.iter().map(|range| range.len()).sum(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::Version;

    use super::*;

    #[test]
    fn a_description_is_saved_where_it_took_many_bytes_or_many_requests() {
        let high = |requests, bytes, request_bytes, len| {
            let id = SourceId { locator: Locator::new("a"), len, version: Version::named("1") };
            DescribeCost { requests, bytes, request_bytes }.is_high(&id)
        };
        let (kib, mib) = (1 << 10, 1 << 20);
        assert!(!high(4, 100 * kib, 0, mib), "a small file is described at once");
        assert!(high(4, 512 * kib, 0, 512 * kib), "records of a whole file were looked for");
        assert!(high(1000, 10 * kib, 0, 10 * mib), "headers all over the file");
        assert!(!high(3, 260 * kib, mib, 100 * mib), "a page of a far file");
        assert!(high(8, 8 * kib, mib, 100 * mib), "eight round trips");
        assert!(high(1, 512 * kib, mib, 512 * kib), "all of a far file");
        assert!(high(100, 100 * mib, mib, 100 * mib));
    }
}
