//! Directory shown read-only through tiers, of `forebay mount`.

pub(crate) mod background;
pub(crate) mod mount;
mod node_version;
mod open_nodes;
pub(crate) mod report;
pub(crate) mod serve;
mod shown_files;
mod view;
