//! Items that nobody wants any more, removed from an area.

use std::sync::Arc;

use forebay_scratch::{OwnFolder, SharedFolder};
use forebay_source::{Error, Result};

use crate::{
    item_name::WantedFile,
    journal::Journal,
    room::{PROCESS_PREFIX, journal_name, other_host, remove_ours},
    survey::{facts_in, item_ids, read_journal},
};

/// A file whose items are forgotten once it has been replaced or removed, as it was before.
#[derive(Clone, Debug)]
pub struct PreparedDiscard {
    pub(crate) file: WantedFile,
}

/// Removes an item with what it has beside its destination.
pub(crate) fn discard_item(folder: &OwnFolder, id: &str, journal: &Journal) -> Result<()> {
    if let Some(temporary) = journal.temporary() {
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::from_io(error).at(temporary.display()));
            }
            _ => {}
        }
    }
    remove_item(folder, id)
}

/// Removes an item's files, the journal first: without it the others mean nothing.
pub(crate) fn remove_item(folder: &OwnFolder, id: &str) -> Result<()> {
    folder.remove_file(journal_name(id))?;
    for ending in ["data", "facts"] {
        let _ = folder.remove_file(format!("{id}.{ending}"));
    }
    Ok(())
}

/// Removes what killed processes left for `file`.
pub(crate) fn discard_deserted(area: &Arc<OwnFolder>, file: &WantedFile) -> Result<()> {
    // Each is locked as long as it is looked at: `recover` does not work on it meanwhile.
    for held in
        SharedFolder::deserted(area, |name| name.starts_with(PROCESS_PREFIX) && other_host(name).is_none())
    {
        let folder = held.folder();
        for id in item_ids(folder).into_iter().filter(|id| file.may_be(id)) {
            let Ok(journal) = read_journal(folder, &id) else { continue };
            if file.is_of(&journal, facts_in(folder, &id).map(|facts| facts.stamp).as_ref()) {
                discard_item(folder, &id, &journal)?;
            }
        }
        if item_ids(folder).is_empty() {
            held.remove_if_last(remove_ours);
        } else {
            held.leave();
        }
    }
    Ok(())
}
