//! From the elements of a source to those of a field.

pub(crate) mod narrowed;
mod piece;
pub(crate) mod run_field;
