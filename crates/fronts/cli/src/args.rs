//! Arguments that several commands take, and how their values are read.

pub(crate) mod config;
pub(crate) mod loader;
pub(crate) mod path;
pub(crate) mod quantity;
mod samples;
pub(crate) mod set;
