//! Items that nobody wants any more, removed from an area.

use std::sync::Arc;

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, SharedFolder};

use crate::{
    area::{
        room::{PROCESS_PREFIX, is_of_other_boot, other_host, remove_if_empty},
        status::ItemKind,
    },
    create::destination::Destination,
    on_disk::{
        item_files::{find_journal, item_ids, remove_journal},
        item_name::WantedFile,
        journal::Journal,
    },
    recover::survey::facts_in,
};

/// A file whose items are forgotten once it has been replaced or removed, as it was before.
#[derive(Clone, Debug)]
pub struct PreparedDiscard {
    pub(crate) file: WantedFile,
}

/// Removes an item with what it has beside its destination. With `is_named`, the user has asked for that, and a destination that cannot be
/// reached keeps what is there.
pub(crate) fn discard_item(folder: &OwnFolder, id: &str, journal: &Journal, is_named: bool) -> Result<()> {
    match remove_beside(journal) {
        Err(error) if !is_named => {
            return Err(error.hint(format!("'--discard {id}' forgets it, and leaves there what it has")));
        }
        _ => {}
    }
    remove_item(folder, id)
}

/// Removes what an item has in the directory of its destination: a temporary file, and the name that an exclusive creation took.
fn remove_beside(journal: &Journal) -> Result<()> {
    if journal.temporary().is_none() && journal.claim.is_none() {
        return Ok(());
    }
    let place = match Destination::open(&journal.destination()) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        place => Some(place?),
    };
    let is_same = match (&place, &journal.directory) {
        (Some(place), Some(expected)) => place.directory_stamp()?.may_be_same_directory(expected),
        (Some(_), None) => true,
        (None, expected) => expected.is_none(),
    };
    if !is_same {
        // Nothing tells a directory that was removed from one that was renamed, which has all of that still.
        let what = "its directory was renamed, replaced or removed since, with a file of this item in it";
        return Err(Error::new(ErrorKind::Unavailable, what));
    }
    // An earlier try found that its directory was removed.
    let Some(place) = place else { return Ok(()) };
    journal.temporary().map_or(Ok(()), |name| place.remove(name))?;
    // An exclusive creation without a note of its claim has not taken the name.
    journal.claim.map_or(Ok(()), |claim| place.give_claim_back(&claim))
}

/// Removes an item's files, the journal first: without it the others mean nothing.
pub(crate) fn remove_item(folder: &OwnFolder, id: &str) -> Result<()> {
    remove_journal(folder, id)?;
    for ending in ["data", "facts"] {
        let _ = folder.remove_file(format!("{id}.{ending}"));
    }
    Ok(())
}

/// Removes what killed processes left for `file`, but for images that programs wrote: only the user removes those.
pub(crate) fn discard_deserted(area: &Arc<OwnFolder>, file: &WantedFile) -> Result<()> {
    for name in
        area.names()?.iter().filter(|name| name.starts_with(PROCESS_PREFIX) && other_host(name).is_none())
    {
        // It is locked as long as it is looked at: `recover` does not work on it meanwhile.
        let Some(held) = SharedFolder::take_deserted(area, name, is_of_other_boot(name))? else { continue };
        let folder = held.folder();
        for id in item_ids(folder)?.into_iter().filter(|id| file.may_be(id)) {
            let Some(mut journal) = find_journal(folder, &id)? else { continue };
            if journal.is_program_image {
                continue;
            }
            if file.is_of(&journal, facts_in(folder, &id)?.map(|facts| facts.stamp).as_ref()) {
                if journal.kind == ItemKind::Create {
                    // Its directory may have another path by now.
                    journal.set_destination(&file.path);
                }
                discard_item(folder, &id, &journal, false)?;
            }
        }
        remove_if_empty(&held);
    }
    Ok(())
}
