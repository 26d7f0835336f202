//! The journals of items in the folder of a process: written, found, read, removed.
//!
//! A journal that was never synced is `ID.open`, one that was is `ID.journal` and takes its place. After a power loss the first may be
//! anything, and nothing was promised of it; damage to the second is damage.

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, disk, nonce};

use crate::on_disk::journal::Journal;

const SYNCED: &str = ".journal";
const DRAFT: &str = ".open";

/// Returns true for the name of a journal.
pub(crate) fn is_journal(name: &str) -> bool {
    name.ends_with(SYNCED) || name.ends_with(DRAFT)
}

/// Returns true for the name of a journal that is still being written.
pub(crate) fn is_unfinished(name: &str) -> bool {
    [SYNCED, DRAFT].iter().any(|ending| name.contains(&format!("{ending}.")))
}

/// Returns true if the directory of a process has items.
pub(crate) fn has_items(folder: &OwnFolder) -> Result<bool> {
    Ok(folder.names()?.iter().any(|name| is_journal(name)))
}

/// The names of the items in the folder of a process.
pub(crate) fn item_ids(folder: &OwnFolder) -> Result<Vec<String>> {
    let names = folder.names()?;
    let ids = names.iter().filter_map(|name| name.strip_suffix(SYNCED).or_else(|| name.strip_suffix(DRAFT)));
    let mut ids: Vec<String> = ids.map(str::to_owned).collect();
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// The journal of item `id`.
pub(crate) fn read_journal(folder: &OwnFolder, id: &str) -> Result<Journal> {
    let read = |ending: &str| {
        let name = format!("{id}{ending}");
        let bytes = folder.read(&name)?;
        Journal::decode(&bytes).map_err(|error| error.at(folder.path().join(&name).display()))
    };
    let is_missing =
        |journal: &Result<Journal>| journal.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    // The first may take the place of the second between two looks.
    let mut journal = read(SYNCED);
    for ending in [DRAFT, SYNCED] {
        if is_missing(&journal) {
            journal = read(ending);
        }
    }
    journal
}

/// The journal of item `id`; nothing where the item is gone, or where its journal is damaged or of another version.
pub(crate) fn find_journal(folder: &OwnFolder, id: &str) -> Result<Option<Journal>> {
    match read_journal(folder, id) {
        Ok(journal) => Ok(Some(journal)),
        Err(error)
            if [ErrorKind::NotFound, ErrorKind::Corrupt, ErrorKind::Unsupported].contains(&error.kind()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns true if no journal of item `id` was ever synced.
pub(crate) fn is_draft(folder: &OwnFolder, id: &str) -> Result<bool> {
    match folder.facts(format!("{id}{SYNCED}")) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes the journal of item `id`, in place of an older one. One that was synced is only replaced by one that is.
pub(crate) fn write_journal(folder: &OwnFolder, id: &str, journal: &Journal, is_synced: bool) -> Result<()> {
    let name = format!("{id}{}", if is_synced { SYNCED } else { DRAFT });
    let temporary = format!("{name}.{:016x}", nonce());
    let file = folder.create_new(&temporary)?;
    let at = |error: std::io::Error| Error::from_io(error).at(folder.path().join(&temporary).display());
    let written = journal.encode().and_then(|bytes| {
        disk::write_all_at(&file, &bytes, 0).map_err(at)?;
        if is_synced { disk::sync_all(&file).map_err(at) } else { Ok(()) }
    });
    if let Err(error) = written.and_then(|()| folder.rename(&temporary, &name)) {
        let _ = folder.remove_file(&temporary);
        return Err(error);
    }
    if !is_synced {
        return Ok(());
    }
    remove(folder, &format!("{id}{DRAFT}"))?;
    sync_folder(folder)
}

/// Removes the journal of item `id`: the newer one last, as the older one says less.
pub(crate) fn remove_journal(folder: &OwnFolder, id: &str) -> Result<()> {
    remove(folder, &format!("{id}{DRAFT}"))?;
    remove(folder, &format!("{id}{SYNCED}"))
}

fn remove(folder: &OwnFolder, name: &str) -> Result<()> {
    match folder.remove_file(name) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Syncs the names in `folder`.
pub(crate) fn sync_folder(folder: &OwnFolder) -> Result<()> {
    disk::sync_all(folder.descriptor()).map_err(|error| Error::from_io(error).at(folder.path().display()))
}
