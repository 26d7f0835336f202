//! New files: written to an image, sealed, copied to their destination and published by rename.

pub(crate) mod attributes;
pub(crate) mod destination;
pub(crate) mod destination_changes;
pub(crate) mod image_drain;
pub(crate) mod image_manifest;
pub(crate) mod image_state;
pub(crate) mod image_sums;
pub(crate) mod lineage;
pub(crate) mod pointer;
pub(crate) mod publication;
pub(crate) mod staged_file;
