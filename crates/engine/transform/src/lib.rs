//! Batches on their way to the user: cropped, flipped, normalised and cast in one pass, without Python.
//!
//! ```text
//! TransformSpec ─► FieldProgram ─► Transformed ──────────► rows ─────────► FieldArray
//! what is said     checked against  a BatchMaker over       each read once,  of the shape and
//!                  the fields       another: files, store   written once     type said before
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `spec` | what is done: plain data |
//! | `field_form` | what is known of a field before the first batch |
//! | `step`, `checks`, `program` | the same, checked: what makes no sense is refused before the first batch |
//! | `draw` | random numbers: a formula of the sample's seed |
//! | `axis_runs` | where the indexes of an axis come from |
//! | `layout` | which elements are walked as one row |
//! | `single`, `wide`, `row_floats`, `rows` | what is done to a row |
//! | `resample`, `picture` | JPEG and PNG files of any size, to pictures of one size |
//! | `piece`, `run_field` | from the elements of a source to those of a field |
//! | `narrowed` | short fields of which only the numbers become shorter |
//! | `transformed` | the maker |
//! | `moments`, `value_histogram` | mean, deviation, bounds and quantiles, merged in an order that threads do not change |
//! | `statistics`, `measured` | statistics of fields, and the maker that measures them |

mod axis_runs;
mod checks;
mod draw;
mod field_form;
mod layout;
mod measured;
mod moments;
mod narrowed;
mod picture;
mod piece;
mod program;
mod resample;
mod row_floats;
mod rows;
mod run_field;
mod single;
mod spec;
mod statistics;
mod step;
mod transformed;
mod value_histogram;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use field_form::FieldForm;
pub use measured::MeasuredBatches;
pub use spec::{ChannelPlace, CropPlace, PictureCrop, TransformOp, TransformSpec, TransformedField};
pub use statistics::{ChannelStatistics, FieldStatistics, StatisticsSpec};
pub use transformed::{BatchRoom, Transformed};
