//! Any bytes at all taken for the files of an area, for fuzzing.

use forebay_process::Error;

use crate::{
    create::image_sums::stretches,
    on_disk::{
        facts_file::newest,
        journal::Journal,
        log_record::{ScanDepth, scan_segment, segment_head},
    },
};

/// Takes `bytes` for a journal, a file of facts and a segment of a redo log; gives how many of them they were.
#[doc(hidden)]
pub fn try_untrusted(bytes: &[u8]) -> usize {
    let journal = Journal::decode(bytes).ok();
    if let Some(image) = journal.as_ref().and_then(|journal| journal.image.as_ref()) {
        // No more stretches than the journal has checksums.
        assert!(stretches(image, 8 << 20).len() <= image.sums.len());
    }
    let is_facts = newest(bytes).is_some();
    let len = bytes.len() as u64;
    let read = |at: u64, into: &mut [u8]| {
        let at = usize::try_from(at).map_err(|_| Error::corrupt("beyond the end"))?;
        let found = at.checked_add(into.len()).and_then(|end| bytes.get(at..end));
        into.copy_from_slice(found.ok_or_else(|| Error::corrupt("beyond the end"))?);
        Ok(())
    };
    let head = segment_head(&read, len).ok().flatten();
    if let Some(head) = &head {
        for depth in [ScanDepth::Heads, ScanDepth::SameBoot, ScanDepth::Checked] {
            let records = scan_segment(&read, len, head, depth).unwrap_or_default();
            let bytes: u64 = records.iter().map(|record| record.head.len).sum();
            assert!(bytes <= len, "records lie side by side in their segment");
        }
    }
    usize::from(journal.is_some()) + usize::from(is_facts) + usize::from(head.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_none_of_the_files_of_an_area_and_harms_nothing() {
        let mut state = 1_u64;
        for len in 0..600 {
            let noise: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            assert_eq!(try_untrusted(&noise), 0);
        }
    }
}
