//! Open files of a slow mount.

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fuser::INodeNo;

/// An open file of a slow mount.
#[derive(Debug)]
pub(crate) enum SlowFile {
    /// A file below.
    Below(Arc<OpenFile>),
    /// What takes a word that changes how the mount behaves.
    Control,
    /// Text that was made when it was opened.
    Text(Vec<u8>),
}

/// A file below, and which requests to it came as two.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) node: INodeNo,
    pub(crate) file: File,
    pub(crate) reads: RequestTail,
    pub(crate) writes: RequestTail,
}

impl OpenFile {
    pub(crate) fn new(node: INodeNo, file: File) -> Arc<Self> {
        Arc::new(Self { node, file, reads: RequestTail::default(), writes: RequestTail::default() })
    }
}

/// Knows the end of a read or write that the kernel cut off because the program's memory did not begin on a page.
///
/// A request holds 256 pages. A read of 1 MiB into memory that begins within a page, as most memory does, touches 257,
/// and comes as a long request and a rest of less than a page. To the program it was one read. Writes are cut alike.
#[derive(Debug, Default)]
pub(crate) struct RequestTail {
    /// Where the last request ended that may have a rest; 0 means nowhere.
    expected: AtomicU64,
}

const PAGE_BYTES: u64 = 4096;
/// What the kernel lets a request hold unless the system's `fs.fuse.max_pages_limit` says otherwise.
const MOST_BYTES: u64 = 256 * PAGE_BYTES;

impl RequestTail {
    /// True when the request is the rest of the one before.
    pub(crate) fn is_rest(&self, offset: u64, len: u64) -> bool {
        let end = if len > MOST_BYTES - PAGE_BYTES { offset.saturating_add(len) } else { 0 };
        let expected = self.expected.swap(end, Ordering::AcqRel);
        len < PAGE_BYTES && offset != 0 && offset == expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_rest_of_a_page_belongs_to_the_long_request_before_it() {
        let tail = RequestTail::default();
        assert!(!tail.is_rest(0, MIB - 16));
        assert!(tail.is_rest(MIB - 16, 16));
        assert!(!tail.is_rest(MIB, 16), "nothing long came before");
    }

    #[test]
    fn reads_of_a_mebibyte_that_follow_each_other_are_reads_of_their_own() {
        let tail = RequestTail::default();
        assert_eq!([0, 1, 2].map(|number| tail.is_rest(number * MIB, MIB)), [false; 3]);
    }

    #[test]
    fn short_reads_that_follow_each_other_are_reads_of_their_own() {
        let tail = RequestTail::default();
        assert_eq!([0, 1, 2].map(|number| tail.is_rest(number * 512, 512)), [false; 3]);
    }
}
