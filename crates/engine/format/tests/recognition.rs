//! What recognising a file costs where each request is dear.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use forebay_format::{Found, describe, format_of};
use forebay_source::{FaultOrigin, FileOrigin, Locator, MemoryOrigin, Origin};

/// The format of the one file of `origin`, and how many ranges were asked for until it was known.
fn recognised(origin: impl Origin + 'static, name: &str) -> (Option<String>, u64) {
    let counting = FaultOrigin::new(Arc::new(origin), forebay_source::FaultSchedule::default());
    let at = Locator::new(name);
    let found = Found::look(&counting, &at).unwrap();
    let format = format_of(&found).unwrap().map(|format| format.name().to_owned());
    (format, counting.counters().operations)
}

fn npy() -> Vec<u8> {
    let mut bytes =
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (64, 4096), }".to_vec();
    bytes.resize(127, b' ');
    bytes.push(b'\n');
    bytes.resize(128 + 64 * 4096 * 8, 0);
    bytes
}

#[test]
fn a_file_with_a_signature_is_recognised_by_its_first_bytes() {
    let npy = npy();
    assert_eq!(recognised(MemoryOrigin::default().with("a.npy", npy), "a.npy"), (Some("npy".into()), 1));
    let mut zip = b"PK\x03\x04".to_vec();
    zip.resize(26, 0);
    zip.extend_from_slice(b"\x05\x00\x00\x00x.npy");
    zip.resize(8 << 20, 0);
    assert_eq!(recognised(MemoryOrigin::default().with("a.npz", zip), "a.npz"), (Some("npz".into()), 1));
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.resize(8 << 20, 0);
    assert_eq!(recognised(MemoryOrigin::default().with("a.png", png), "a.png"), (Some("images".into()), 1));
    let csv = "x,y\n".to_owned() + &"1,2.5\n".repeat(1 << 20);
    assert_eq!(recognised(MemoryOrigin::default().with("a.csv", csv), "a.csv"), (Some("csv".into()), 1));
}

/// The file of a test, with `before` in front of it.
fn behind(before: &[u8]) -> Vec<u8> {
    let origin = FileOrigin::under("../../fronts/cli/tests/data");
    let file = origin.open(&Locator::new("tree.h5")).unwrap();
    let bytes = forebay_source::SourceExt::fetch_one(&*file, forebay_source::ByteRange::at(0, file.id().len))
        .unwrap();
    [before, &bytes].concat()
}

#[test]
fn hdf5_is_recognised_behind_a_user_block_of_any_length() {
    for len in [0, 512, 2048, 4096, 1 << 16] {
        let bytes = behind(&vec![b'u'; len]);
        let origin = MemoryOrigin::default().with("a.bin", bytes);
        let (format, operations) = recognised(origin, "a.bin");
        assert_eq!(format.as_deref(), Some("hdf5"), "behind {len} bytes");
        // The first bytes, and what Silo asks of the root group.
        assert!(len > 2048 || operations <= 4, "{operations} operations behind {len} bytes");
    }
}

#[test]
fn a_description_does_not_open_or_search_an_hdf5_file_again() {
    let origin = Arc::new(MemoryOrigin::default().with("a.h5", behind(b"")));
    let counting = FaultOrigin::new(origin, forebay_source::FaultSchedule::default());
    describe(&counting, &Locator::new("a.h5")).unwrap();
    assert_eq!(counting.counters().opens, 1);
}
