//! The messages of object headers, one file each.

pub(crate) mod attribute;
pub(crate) mod dataspace;
pub(crate) mod datatype;
pub(crate) mod fill;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod pipeline;

pub(crate) const DATASPACE: u16 = 0x01;
pub(crate) const LINK_INFO: u16 = 0x02;
pub(crate) const DATATYPE: u16 = 0x03;
pub(crate) const OLD_FILL: u16 = 0x04;
pub(crate) const FILL: u16 = 0x05;
pub(crate) const LINK: u16 = 0x06;
pub(crate) const EXTERNAL_FILES: u16 = 0x07;
pub(crate) const LAYOUT: u16 = 0x08;
pub(crate) const GROUP_INFO: u16 = 0x0a;
pub(crate) const PIPELINE: u16 = 0x0b;
pub(crate) const ATTRIBUTE: u16 = 0x0c;
pub(crate) const SHARED_TABLE: u16 = 0x0f;
pub(crate) const CONTINUATION: u16 = 0x10;
pub(crate) const SYMBOL_TABLE: u16 = 0x11;
pub(crate) const DRIVER_INFO: u16 = 0x14;
pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;
pub(crate) const CACHE_IMAGE: u16 = 0x18;
/// File space and cache image messages are the newest; they stand in the superblock's extension alone.
pub(crate) const LAST_KNOWN: u16 = CACHE_IMAGE;
