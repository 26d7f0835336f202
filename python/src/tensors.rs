//! Batches and fields as NumPy and other libraries see them, and where their memory comes from.

mod array_struct;
mod dlpack;
pub(crate) mod dtype;
mod joint_fields;
pub(crate) mod memory;
pub(crate) mod numpy_type;
pub(crate) mod pinned;
pub(crate) mod raw_batch;
mod texts;
