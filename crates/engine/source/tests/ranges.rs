//! Ranges and file reads against plain models.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::sync::LazyLock;

use forebay_source::{ByteRange, FileOrigin, Fill, Locator, Origin, Source, SourceExt, coalesce};
use proptest::{collection::vec, prelude::*};
use tempfile::NamedTempFile;

/// Longer than the gap that is read over, so that ranges are joined and kept apart.
const LEN: u64 = 40_000;

struct Model {
    bytes: Vec<u8>,
    source: std::sync::Arc<dyn Source>,
    _file: NamedTempFile,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let bytes: Vec<u8> = (0..LEN).map(|index| (index * index / 3).to_le_bytes()[0]).collect();
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let source = FileOrigin::new().open(&Locator::new(file.path().to_str().unwrap())).unwrap();
    Model { bytes, source, _file: file }
});

fn slice(bytes: &[u8], range: ByteRange) -> &[u8] {
    &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
}

fn range() -> impl Strategy<Value = ByteRange> {
    let start = prop_oneof![0..=LEN, (0..=LEN / 512).prop_map(|page| page * 512)];
    let len = prop_oneof![Just(0), Just(512), 0..2000_u64];
    (start, len).prop_map(|(start, len)| ByteRange { start, end: (start + len).min(LEN) })
}

proptest! {
    #[test]
    fn a_checked_range_lies_within_its_limit_or_is_refused(start: u64, len: u64, limit: u64) {
        match ByteRange::checked(start, len, limit) {
            Ok(range) => {
                prop_assert!(range.end <= limit);
                prop_assert_eq!((range.start, range.len()), (start, len));
            }
            Err(_) => prop_assert!(u128::from(start) + u128::from(len) > u128::from(limit)),
        }
    }

    #[test]
    fn joined_ranges_cover_all_asked_and_little_more(ranges in vec(range(), 0..40), gap in 0..3000_u64) {
        let runs = coalesce(&ranges, gap);
        for pair in runs.windows(2) {
            prop_assert!(pair[0].end + gap < pair[1].start, "sorted, and nothing near is left apart");
        }
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let holds = |run: &&ByteRange| run.start <= range.start && range.end <= run.end;
            prop_assert_eq!(runs.iter().filter(holds).count(), 1);
        }
        let joined: u64 = runs.iter().map(|run| run.len()).sum();
        let asked: u64 = ranges.iter().map(|range| range.len()).sum();
        prop_assert!(joined <= asked + gap * ranges.len() as u64);
    }

    #[test]
    fn a_file_lends_and_fills_what_a_plain_buffer_would(ranges in vec(range(), 0..40)) {
        let model = &*MODEL;
        let lent = model.source.fetch(&ranges).unwrap();
        let mut memory: Vec<_> = ranges.iter().map(|range| vec![0; slice(&model.bytes, *range).len()]).collect();
        let pairs = ranges.iter().zip(&mut memory);
        let mut fills: Vec<_> = pairs.map(|(range, into)| Fill { range: *range, into }).collect();
        model.source.fetch_into(&mut fills).unwrap();
        prop_assert_eq!(lent.len(), ranges.len());
        for ((range, lent), filled) in ranges.iter().zip(&lent).zip(&memory) {
            prop_assert_eq!(&lent[..], slice(&model.bytes, *range));
            prop_assert_eq!(&filled[..], slice(&model.bytes, *range));
        }
    }
}
