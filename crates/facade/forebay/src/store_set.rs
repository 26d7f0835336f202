//! A set of samples in the memory of all ranks: how it gets there, and how batches come from it.
//!
//! | file | idea |
//! |---|---|
//! | `field` | what the values of a stored variable are |
//! | `auto_width` | how many ranks hold the set between them, by memory and latency |
//! | `fill` | a set of files into a store: each rank reads its share |
//! | `share` | the samples of a set that one rank reads |
//! | `variable_lens` | lengths of texts and sequences, read before they are stored |
//! | `concat` | batches from several stores as from one |
//! | `maker` | batches from a store, and from files where a rank is gone |
//! | `within` | how many of them are made at a time |

mod auto_width;
mod concat;
mod field;
mod fill;
mod maker;
mod share;
mod variable_lens;
mod within;

pub use auto_width::auto_width;
pub use concat::StoreConcat;
pub use field::StoredField;
pub use fill::{FillOptions, fill_store};
pub use maker::{OnLost, StoreMaker, added_identity};
pub use share::FillProgress;
pub use within::store_options_within;
