//! Slow file system over a directory, of `forebay simulate`: reads and writes that take as long as on a file system of a given pace.

mod capacity;
mod changes;
pub(crate) mod counters;
pub(crate) mod mount;
mod open_file;
pub(crate) mod options;
pub(crate) mod pace;
pub(crate) mod view;
