//! What all targets do with a container that bytes were taken for.

pub mod plan;
pub mod skeleton;
pub mod unpack;

use std::sync::Arc;

use forebay_container::{Selection, Span};
use forebay_format::{Format, Found, Opened};
use forebay_source::{Locator, MemoryOrigin};

/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 64 << 10;

/// Takes `bytes` for a file of `format`: described, saved, loaded, and every variable and a part of it read.
pub fn try_file(format: &dyn Format, bytes: &[u8]) {
    try_at(format, MemoryOrigin::default().with("file", bytes.to_vec()), "file");
}

/// The same for what lies at `at` of `origin`.
pub fn try_at(format: &dyn Format, origin: MemoryOrigin, at: &str) {
    let (origin, at) = (Arc::new(origin), Locator::new(at));
    let Ok(found) = Found::look(&*origin, &at) else { return };
    let _ = format.probe(&found);
    let Ok(container) = format.describe(&found) else { return };
    let saved = forebay_container::save(&container).expect("a container can be saved");
    assert_eq!(forebay_container::load(&saved).expect("what was saved loads"), container);
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES);
    for variable in opened.container().variables.iter().take(16) {
        let shape = &variable.grid.shape;
        let _ = opened.read(variable, &Selection::all(shape));
        let part = |n: &u64| Span { start: n / 3, count: (n - n / 3).min(5).div_ceil(2), step: 2 };
        let _ = opened.read(variable, &Selection::new(shape.iter().map(part).collect()));
    }
}
