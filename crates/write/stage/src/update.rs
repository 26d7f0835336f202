//! Updates of existing files: accepted into a redo log, read back, drained in place.

pub(crate) mod batch;
pub(crate) mod close_error;
pub(crate) mod memory_map;
pub(crate) mod pending;
pub(crate) mod redo_accept;
pub(crate) mod redo_drain;
pub(crate) mod redo_file;
pub(crate) mod redo_keeping;
pub(crate) mod redo_log;
pub(crate) mod redo_state;
pub(crate) mod segment;
