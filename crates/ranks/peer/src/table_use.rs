//! One use of a table, which ends by itself while others of the same memory go on.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use crate::{block_table::BlockTable, table_view::TableView};

/// A use of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableUse {
    pub(crate) view: Arc<TableView>,
    is_ended: Arc<AtomicBool>,
}

impl TableUse {
    pub(crate) fn new(view: Arc<TableView>) -> Self {
        Self { view, is_ended: Arc::default() }
    }

    /// The table in which this rank places blocks, until the use ends.
    pub(crate) fn own_table(&self) -> Option<BlockTable<'_>> {
        self.view.own_table().filter(|_| self.is_open())
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.is_ended.load(SeqCst)
    }

    /// Ends it: later reads are misses.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, SeqCst);
    }
}
