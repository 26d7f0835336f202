//! Stands in for the link of ranks of one host until there is one.

use std::{ops::Range, sync::Arc};

use forebay_source::{Error, Result};
use forebay_store::{ShardMemory, Wait};

#[derive(Debug)]
pub(crate) struct NodeLink;

impl NodeLink {
    pub(crate) fn host_key() -> Result<String> {
        Err(Error::unsupported("no link"))
    }
    pub(crate) fn connect(_: &str, _: usize, _: &[usize], _: &Wait<'_>) -> Result<Self> {
        Err(Error::unsupported("no link"))
    }
    pub(crate) fn share(&self, _: &Arc<ShardMemory>, _: &Wait<'_>) -> Result<Vec<Arc<ShardMemory>>> {
        Err(Error::unsupported("no link"))
    }
    pub(crate) fn first_gone(&self, _: Range<usize>) -> Option<usize> {
        None
    }
}
