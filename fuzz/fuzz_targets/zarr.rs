//! Any bytes at all as the files of a Zarr store: described, and every variable and a part of it read.
//!
//! The bytes are files one after the other: the number of a key, the length as two bytes, the file.
#![no_main]

use std::sync::Arc;

use forebay_format::{Format, Found, Opened, Selection, Span, Zarr};
use forebay_source::{Locator, MemoryOrigin};
use libfuzzer_sys::fuzz_target;

/// What is read of a variable at most: a store can claim any shape.
const MOST_BYTES: u64 = 64 << 10;

/// The names that files may have.
const KEYS: [&str; 12] = [
    "zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "c/0", "c/0/0", "0", "0.0", "a/zarr.json", "a/.zarray", "a/0",
];

fuzz_target!(|bytes: &[u8]| {
    let mut origin = MemoryOrigin::default();
    let mut rest = bytes;
    while let [key, low, high, after @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (file, next) = after.split_at(len);
        origin = origin.with(&format!("s/{}", KEYS[usize::from(*key) % KEYS.len()]), file.to_vec());
        rest = next;
    }
    let origin = Arc::new(origin);
    let at = Locator::new("s");
    let Ok(found) = Found::look(&*origin, &at) else { return };
    let Ok(container) = Zarr.describe(&found) else { return };
    let saved = forebay_format::save(&container).expect("a container can be saved");
    assert_eq!(forebay_format::load(&saved).expect("what was saved loads"), container);
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES);
    for variable in opened.container().variables.iter().take(16) {
        let shape = &variable.grid.shape;
        let _ = opened.read(variable, &Selection::all(shape));
        let part = |n: &u64| Span { start: n / 3, count: (n - n / 3).min(5).div_ceil(2), step: 2 };
        let _ = opened.read(variable, &Selection::new(shape.iter().map(part).collect()));
    }
});
