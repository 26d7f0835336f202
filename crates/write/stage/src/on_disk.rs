//! Files of an item in the area: journals, facts, log records, names, and stamps of destinations.

pub(crate) mod facts_file;
pub(crate) mod item_files;
pub(crate) mod item_name;
pub(crate) mod journal;
pub(crate) mod journal_v4;
pub(crate) mod log_record;
pub(crate) mod stamp;
