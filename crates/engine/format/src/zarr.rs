//! Zarr, versions 2 and 3: a folder of metadata in JSON and of chunks, one or more to a file.
//!
//! ```text
//! store (which files are there) ─► hierarchy (documents) ─► v2, v3 (one array) ─► chunks ─► Container
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `store` | the files of the folder, and what its documents say |
//! | `json`, `key_order` | documents as Python writes them, and the order of their members |
//! | `hierarchy` | which groups and arrays there are, one document each or all in one |
//! | `v2`, `v3` | what the two versions say of an array |
//! | `array` | an array as both versions describe it |
//! | `element`, `fill`, `text` | what an element is, what was never written, bytes in text |
//! | `codec` | codecs as filters |
//! | `key` | which file a chunk lies in |
//! | `chunks` | which files there are: each a chunk, or a shard of many |
//! | `attributes` | JSON as named values |
//! | `ragged` | elements of any length, which have no extents |
//! | `walk` | all of it in order |

mod array;
mod attributes;
mod chunks;
mod codec;
mod element;
mod fill;
mod hierarchy;
mod json;
mod key;
mod key_order;
mod missing;
mod ragged;
mod store;
mod text;
mod v2;
mod v3;
mod walk;

use forebay_process::Result;

pub(crate) use self::ragged::Ragged;
use crate::{Format, Found};
use forebay_container::Container;

/// The Zarr format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zarr;

impl Format for Zarr {
    fn name(&self) -> &str {
        "zarr"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        if found.file.is_some() { Ok(false) } else { store::is_store(found) }
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        walk::describe(found.origin, found.at)
    }
}
