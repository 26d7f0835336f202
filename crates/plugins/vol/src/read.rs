//! Reads of datasets: planned, served from the tier, filled below; and datasets read before they are asked for.

pub(crate) mod cached_dataset;
pub(crate) mod cached_read;
mod memory_target;
mod missed_units;
pub(crate) mod prestage;
mod prestage_queue;
pub(crate) mod read_cache;
