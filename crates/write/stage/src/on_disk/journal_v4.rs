//! Journals of version 4, which lack what exclusive creation, default access lists and replaced directories need.

use serde::Deserialize;
#[cfg(test)]
use serde::Serialize;

use crate::{
    area::status::{ItemKind, ItemState},
    create::image_manifest::ImageSums,
    on_disk::stamp::FileStamp,
};

/// The fields in the order in which they were written.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
pub(crate) struct JournalV4 {
    pub(crate) kind: ItemKind,
    pub(crate) state: ItemState,
    pub(crate) destination: Vec<u8>,
    pub(crate) pid: u32,
    pub(crate) created_ns: u64,
    pub(crate) sealed_ns: u64,
    pub(crate) host: String,
    pub(crate) boot: String,
    pub(crate) priority: i32,
    pub(crate) latest: Option<Vec<u8>>,
    pub(crate) mode: u32,
    pub(crate) read_back: bool,
    pub(crate) is_shared: bool,
    pub(crate) _begun_as: Option<(u32, u32)>,
    pub(crate) log: u64,
    pub(crate) expected: Vec<Option<FileStamp>>,
    pub(crate) temporary: Option<Vec<u8>>,
    pub(crate) published: Option<FileStamp>,
    pub(crate) passed: Vec<(u64, u64)>,
    pub(crate) image: Option<ImageSums>,
    pub(crate) error: Option<String>,
}
