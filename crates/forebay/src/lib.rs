//! The whole of forebay: its parts under one name, and how they are put together.
//!
//! ```text
//! path ─► open ─► format by content ─► Container (from the saved index, if there is one) ─► Opened ─► values
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `open` | which format reads a file, and the way from a path to an opened container |
//! | `index_cache` | descriptions of files, kept in the user's cache folder |

mod index_cache;
mod open;

pub use forebay_format as format;
pub use forebay_format::{Array, Container, Opened, Selection, Values, Variable};
pub use forebay_source as source;
pub use forebay_source::{Error, ErrorKind, FileOrigin, Locator, Origin, Result};
pub use index_cache::IndexCache;
pub use open::{describe, formats, open, open_file};
