//! Bytes, where they live and how to ask for them.
//!
//! This is the leftmost crate: it knows nothing of tiers, formats or samples.
//!
//! ```text
//! Origin ──open──► Source ──fetch(ranges)──► bytes
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `error` | the one error type of the workspace |
//! | `range` | byte ranges, checked, and how near ones are joined |
//! | `source` | the contract of a run of bytes |
//! | `origin` | the contract of a place that opens sources |
//! | `memory` | an origin in memory |

mod error;
mod memory;
mod origin;
mod range;
mod source;

pub use error::{Error, ErrorKind, Result};
pub use memory::MemoryOrigin;
pub use origin::{Locator, Origin};
pub use range::{ByteRange, Fill, coalesce};
pub use source::{Source, SourceExt, SourceId, Version, fill_by_fetching};
