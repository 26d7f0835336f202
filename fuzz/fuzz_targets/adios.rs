//! Any bytes at all as the files of an ADIOS folder, packed into one: described, and every variable and a part of it read.
//!
//! `make_adios_seeds.py` says how they are packed. The same bytes are also tried as one file of the format before.
#![no_main]

use std::sync::Arc;

use forebay_format::{Opened, Selection, Span, describe};
use forebay_source::{Locator, MemoryOrigin};
use libfuzzer_sys::fuzz_target;

/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 64 << 10;

fn unpack(mut bytes: &[u8]) -> MemoryOrigin {
    let mut origin = MemoryOrigin::default();
    for name in ["md.idx", "md.0", "mmd.0", "data.0"] {
        let Some((len, rest)) = bytes.split_first_chunk::<4>() else { break };
        let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX).min(rest.len());
        let (file, rest) = rest.split_at(len);
        origin = origin.with(&format!("f.bp/{name}"), file.to_vec());
        bytes = rest;
    }
    origin
}

fuzz_target!(|bytes: &[u8]| {
    try_all(unpack(bytes));
    try_all(MemoryOrigin::default().with("f.bp", bytes.to_vec()));
});

fn try_all(origin: MemoryOrigin) {
    let origin = Arc::new(origin);
    let Ok(container) = describe(&*origin, &Locator::new("f.bp")) else { return };
    let saved = forebay_format::save(&container).expect("a container can be saved");
    assert_eq!(forebay_format::load(&saved).expect("what was saved loads"), container);
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES);
    for variable in opened.container().variables.iter().take(16) {
        let shape = &variable.grid.shape;
        let _ = opened.read(variable, &Selection::all(shape));
        let part = |n: &u64| Span { start: n / 3, count: (n - n / 3).min(5).div_ceil(2), step: 2 };
        let _ = opened.read(variable, &Selection::new(shape.iter().map(part).collect()));
    }
}
