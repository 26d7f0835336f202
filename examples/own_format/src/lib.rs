//! Frames of a detector: a format of one's own, which forebay reads in place.
//!
//! ```text
//! "DETFRAME" │ version 4 │ packing 4 │ frame count 8 │ height 4 │ width 4 │ …
//!    packing 0:  a stamp (8 bytes) and a frame of 16-bit counts, again and again    ─► extents
//!    packing 1:  offset and length of each packed frame (8 bytes each), then these  ─► a reader
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `header` | the first bytes, taken apart |
//! | `format` | how such files are recognised and described |
//! | `packed` | frames that have to be unpacked: their reader |
//! | `write` | such files made, for tests and the example |

mod format;
mod header;
mod packed;
mod write;

use std::sync::Arc;

pub use format::DetectorFrames;
pub use packed::PackedFrames;
pub use write::{Packing, write};

/// Makes forebay read such files, as it reads any other. Called once, before the first is opened.
pub fn register() {
    forebay::format::register_reader(Arc::new(PackedFrames));
    forebay::format::register_format(Arc::new(DetectorFrames));
}
