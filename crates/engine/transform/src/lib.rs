//! Batches on their way to the user: cropped, flipped, normalised and cast in one pass, without Python.
//!
//! ```text
//! TransformSpec ─► FieldProgram ─► Transformed ──────────► rows ─────────► FieldArray
//! what is said     checked against  a BatchMaker over       each read once,  of the shape and
//!                  the fields       another: files, store   written once     type said before
//! ```
//!
//! | module | content |
//! |---|---|
//! | `spec` | what is done: plain data |
//! | `field_form` | what is known of a field before the first batch |
//! | `program` | the same, checked: what makes no sense is refused before the first batch |
//! | `draw` | random numbers: a formula of the sample's seed |
//! | `rows` | what is done to a row; which elements are walked as one |
//! | `picture` | JPEG and PNG files of any size, to pictures of one size |
//! | `field` | from the elements of a source to those of a field; short fields of which only the numbers become shorter |
//! | `transformed` | the maker |
//! | `statistics` | mean, deviation, bounds and quantiles of fields, merged in an order that threads do not change; the maker that measures them |

mod draw;
mod field;
mod field_form;
mod picture;
mod program;
mod rows;
mod spec;
mod statistics;
mod transformed;

pub use field_form::FieldForm;
pub use spec::{ChannelPlace, CropPlace, PictureCrop, TransformOp, TransformSpec, TransformedField};
pub use statistics::measured::MeasuredBatches;
pub use statistics::{ChannelStatistics, FieldStatistics, StatisticsSpec};
pub use transformed::{BatchRoom, Transformed};
