//! Datasets of the connector below: described, read box by box, written; selections, types and transfers as HDF5 says them.

pub(crate) mod chunk_addresses;
pub(crate) mod dataset_changes;
pub(crate) mod element_type;
pub(crate) mod selection;
pub(crate) mod transfer_list;
pub(crate) mod under_dataset;
