//! Files of the connector below: how they are opened, and which version of their bytes they are.

pub(crate) mod driver_handle;
pub(crate) mod file_access;
pub(crate) mod file_driver;
pub(crate) mod file_state;
