//! Staged writes: the area, its settings, the files in it, and what was left behind.

pub(crate) mod area;
mod cursor;
pub(crate) mod file;
mod progress;
pub(crate) mod recover;
pub(crate) mod sealed;
pub(crate) mod settings;
