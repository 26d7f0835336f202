//! Any bytes at all as a picture: described, and every variable and a part of it read.
#![no_main]

use std::sync::Arc;

use forebay_format::{Format, Found, Images, Opened, Selection, Span};
use forebay_source::{Locator, MemoryOrigin};
use libfuzzer_sys::fuzz_target;

/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let origin = Arc::new(MemoryOrigin::default().with("f.png", bytes.to_vec()));
    let at = Locator::new("f.png");
    let found = Found::look(&*origin, &at).expect("it is there");
    let _ = Images.probe(&found).expect("a look costs nothing");
    let Ok(container) = Images.describe(&found) else { return };
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
