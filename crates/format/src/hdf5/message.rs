//! The messages of object headers, one file each.

pub(super) mod attribute;
pub(super) mod dataspace;
pub(super) mod datatype;
pub(super) mod fill;
pub(super) mod layout;
pub(super) mod link;
pub(super) mod pipeline;

pub(super) const DATASPACE: u16 = 0x01;
pub(super) const LINK_INFO: u16 = 0x02;
pub(super) const DATATYPE: u16 = 0x03;
pub(super) const OLD_FILL: u16 = 0x04;
pub(super) const FILL: u16 = 0x05;
pub(super) const LINK: u16 = 0x06;
pub(super) const EXTERNAL_FILES: u16 = 0x07;
pub(super) const LAYOUT: u16 = 0x08;
pub(super) const GROUP_INFO: u16 = 0x0a;
pub(super) const PIPELINE: u16 = 0x0b;
pub(super) const ATTRIBUTE: u16 = 0x0c;
pub(super) const SHARED_TABLE: u16 = 0x0f;
pub(super) const CONTINUATION: u16 = 0x10;
pub(super) const SYMBOL_TABLE: u16 = 0x11;
pub(super) const DRIVER_INFO: u16 = 0x14;
pub(super) const ATTRIBUTE_INFO: u16 = 0x15;
pub(super) const CACHE_IMAGE: u16 = 0x18;
/// File space and cache image messages are the newest; they stand in the superblock's extension alone.
pub(super) const LAST_KNOWN: u16 = CACHE_IMAGE;
