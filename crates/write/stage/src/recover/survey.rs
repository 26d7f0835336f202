//! The items of all processes in an area, as their journals tell.

use std::{
    fs::File,
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, SharedFile, boot_id, disk};
use rustix::fs::Stat;

use crate::{
    area::{
        room::{PROCESS_PREFIX, boot_in, other_host},
        status::{ItemKind, ItemState, ItemStatus, waits},
    },
    create::image_state::image_name,
    on_disk::{
        facts_file::{DestinationFacts, read_facts},
        item_files::{find_journal, is_draft, item_ids, read_journal},
        item_name::WantedFile,
        journal::Journal,
        log_record::{
            FoundRecord, RecordHead, RecordKind, ScanDepth, SegmentHead, scan_segment, segment_head,
        },
        stamp::FileStamp,
    },
    update::redo_state::facts_name,
};

/// The file whose lock a process holds while it lives.
pub(crate) const PROCESS_LOCK: &str = "lock";
/// What helps an item whose destination refused it.
pub(crate) const DRAIN_TRIES_AGAIN: &str = "'forebay stage drain' tries again";
const RECOVER_TRIES_AGAIN: &str = "'forebay recover' tries again";

fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

/// The folders of processes in `area`, each with whether its process is gone: those of other machines count as living.
pub(crate) fn process_folders(area: &OwnFolder) -> Result<Vec<(Arc<OwnFolder>, bool)>> {
    let mut names: Vec<String> =
        area.names()?.into_iter().filter(|name| name.starts_with(PROCESS_PREFIX)).collect();
    names.sort();
    let mut folders = Vec::new();
    for name in names {
        match area.open_subfolder(&name).map(Arc::new) {
            Ok(folder) => {
                let is_deserted = is_deserted(&name, &folder)?;
                folders.push((folder, is_deserted));
            }
            // Its process has ended meanwhile.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(folders)
}

/// Whether the process of the folder is gone: nobody holds its lock, or a power loss has left none. In the same start of the machine a
/// missing file tells nothing: who cleans up may have removed its name, and the process still holds it.
fn is_deserted(name: &str, folder: &Arc<OwnFolder>) -> Result<bool> {
    if other_host(name).is_some() {
        return Ok(false);
    }
    match folder.facts(PROCESS_LOCK) {
        Err(error) if is_gone(&error) => Ok(boot_in(folder).is_some_and(|boot| boot != boot_id())),
        facts => facts.and_then(|_| Ok(SharedFile::deserted(folder, PROCESS_LOCK)?.is_some())),
    }
}

/// The items of all processes in `area`, the oldest first.
pub(crate) fn survey(area: &OwnFolder) -> Result<Vec<ItemStatus>> {
    let mut items = Vec::new();
    for (folder, is_deserted) in process_folders(area)? {
        for id in item_ids(&folder)? {
            // One that is gone by now is done.
            if let Ok(journal) = read_journal(&folder, &id) {
                items.push(status_of(&folder, &id, &journal, is_deserted));
            } else if item_ids(&folder)?.contains(&id) {
                items.push(damaged(&folder, &id, is_deserted));
            }
        }
    }
    items.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
    Ok(items)
}

/// What is said of an item.
pub(crate) fn status_of(folder: &OwnFolder, id: &str, journal: &Journal, is_deserted: bool) -> ItemStatus {
    let bytes = match journal.kind {
        ItemKind::Create => {
            let facts = disk::stat_at(folder.descriptor(), Path::new(&image_name(id)));
            // A file has more room than bytes at its end, and one with holes more bytes than room.
            let held = |facts: Stat| {
                let room = u64::try_from(facts.st_blocks).unwrap_or(0) * 512;
                room.min(u64::try_from(facts.st_size).unwrap_or(0))
            };
            facts.map_or(0, held)
        }
        ItemKind::Update => logged_bytes(folder, id, journal),
    };
    ItemStatus {
        id: id.to_owned(),
        kind: journal.kind,
        destination: journal.destination(),
        state: journal.state,
        bytes,
        host: journal.host.clone(),
        pid: journal.pid,
        is_deserted,
        since: UNIX_EPOCH + Duration::from_nanos(journal.created_ns),
        error: journal.error.as_deref().map(|error| reason(error, is_deserted)),
    }
}

/// Why an item is not at its destination, and what helps: a process that is gone drains nothing any more.
fn reason(error: &str, is_deserted: bool) -> String {
    if is_deserted { error.replace(DRAIN_TRIES_AGAIN, RECOVER_TRIES_AGAIN) } else { error.to_owned() }
}

/// What is said of an item whose journal cannot be read.
pub(crate) fn damaged(folder: &OwnFolder, id: &str, is_deserted: bool) -> ItemStatus {
    let reason = read_journal(folder, id).err().map(|error| error.to_string());
    ItemStatus {
        id: id.to_owned(),
        kind: ItemKind::Update,
        destination: folder.path().join(id),
        state: ItemState::Failed,
        bytes: 0,
        host: String::new(),
        pid: 0,
        is_deserted,
        since: UNIX_EPOCH,
        error: reason,
    }
}

/// What was known of the destination of the update `id`; nothing where nothing was written of it.
pub(crate) fn facts_in(folder: &OwnFolder, id: &str) -> Result<Option<DestinationFacts>> {
    match folder.open_to_read(facts_name(id)) {
        Ok(file) => read_facts(&file).map_err(|error| error.at(folder.path().join(facts_name(id)).display())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if the update `id` has a file of facts, valid or not.
pub(crate) fn has_facts(folder: &OwnFolder, id: &str) -> Result<bool> {
    match folder.facts(facts_name(id)) {
        Err(error) if is_gone(&error) => Ok(false),
        facts => facts.map(|_| true),
    }
}

fn logged_bytes(folder: &OwnFolder, id: &str, journal: &Journal) -> u64 {
    let base = facts_in(folder, id).ok().flatten().map_or(0, |facts| facts.base);
    records_left(folder, journal, base).unwrap_or_default().iter().map(|record| record.len).sum()
}

/// Whether the log of the update `id` has anything that is not in its destination, if only a new length, or has lost what was promised.
pub(crate) fn has_records(folder: &OwnFolder, id: &str, journal: &Journal) -> Result<bool> {
    let (base, promised) = facts_in(folder, id)?.map_or((0, 0), |facts| (facts.base, facts.promised));
    let left = records_left(folder, journal, base)?;
    let last = left.iter().map(|record| record.sequence).max().unwrap_or(0);
    Ok(base <= promised && last < promised || left.iter().any(|record| record.kind != RecordKind::Mark))
}

fn records_left(folder: &OwnFolder, journal: &Journal, base: u64) -> Result<Vec<RecordHead>> {
    let segments = segments_of(folder, journal.log, ScanDepth::Heads)?;
    let records = segments.iter().flat_map(|segment| &segment.records).map(|record| record.head);
    Ok(records.filter(|record| record.sequence >= base).collect())
}

/// A segment of a log, as it was found.
#[derive(Debug)]
pub(crate) struct FoundSegment {
    pub(crate) file: File,
    pub(crate) name: String,
    pub(crate) len: u64,
    pub(crate) head: SegmentHead,
    pub(crate) records: Vec<FoundRecord>,
}

/// The segments of `log` in `folder`, in their order.
pub(crate) fn segments_of(folder: &OwnFolder, log: u64, depth: ScanDepth) -> Result<Vec<FoundSegment>> {
    let mut found = Vec::new();
    for name in folder.names()?.into_iter().filter(|name| name.ends_with(".log")) {
        let file = match folder.open_to_read(&name) {
            // Recycled and removed meanwhile.
            Err(error) if is_gone(&error) => continue,
            file => file?,
        };
        let len = FileStamp::of(&file)?.len;
        let read = |at: u64, into: &mut [u8]| disk::read_exact_at(&file, into, at).map_err(Error::from_io);
        let Some(head) = segment_head(&read, len)?.filter(|head| head.log == log) else { continue };
        let records = scan_segment(&read, len, &head, depth)?;
        found.push(FoundSegment { file, name, len, head, records });
    }
    found.sort_by_key(|segment| segment.head.number);
    Ok(found)
}

/// An item for some destination.
#[derive(Debug)]
pub(crate) struct FoundItem {
    pub(crate) folder: Arc<OwnFolder>,
    pub(crate) id: String,
    pub(crate) journal: Journal,
    pub(crate) is_deserted: bool,
}

impl FoundItem {
    /// Returns true for a new file that was sealed, whether it is staged or not.
    pub(crate) fn is_sealed(&self) -> bool {
        self.journal.image.is_some() || waits(self.journal.state)
    }

    /// Returns true for a new file whose process was killed before it was staged: `recover` only removes it, and nobody waits for it.
    pub(crate) fn is_lost(&self) -> bool {
        let journal = &self.journal;
        let was_never_staged = journal.image.is_none() && !journal.is_program_image;
        self.is_deserted && journal.kind == ItemKind::Create && was_never_staged
    }
}

/// The items for `file` in `area`, of all processes, in the order of their seals, with whether their process is gone. Those whose journals are damaged or of another
/// version are left out.
pub(crate) fn items_for(area: &OwnFolder, file: &WantedFile) -> Result<Vec<FoundItem>> {
    items_or(area, file, &|_, _| Ok(()))
}

/// The same for who opens `file` next; an error where a journal that may be for it cannot be read. One that was never synced and that a
/// power loss has damaged promises nothing.
pub(crate) fn all_items_for(area: &OwnFolder, file: &WantedFile) -> Result<Vec<FoundItem>> {
    items_or(area, file, &|folder, id| match read_journal(folder, id) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::Corrupt && is_lost_draft(folder, id)? => Ok(()),
        read => read.map(drop),
    })
}

/// Returns true for the journal of an item that was not synced before the machine was started again.
fn is_lost_draft(folder: &OwnFolder, id: &str) -> Result<bool> {
    Ok(boot_in(folder).is_some_and(|boot| boot != boot_id()) && is_draft(folder, id)?)
}

fn items_or(
    area: &OwnFolder,
    file: &WantedFile,
    without_journal: &dyn Fn(&OwnFolder, &str) -> Result<()>,
) -> Result<Vec<FoundItem>> {
    let mut found = Vec::new();
    for name in area.names()?.into_iter().filter(|name| name.starts_with(PROCESS_PREFIX)) {
        let folder = match area.open_subfolder(&name).map(Arc::new) {
            Err(error) if is_gone(&error) => continue,
            folder => folder?,
        };
        for id in item_ids(&folder)?.into_iter().filter(|id| file.may_be(id)) {
            let Some(journal) = find_journal(&folder, &id)? else {
                without_journal(&folder, &id)?;
                continue;
            };
            if file.is_of(&journal, facts_in(&folder, &id)?.map(|facts| facts.stamp).as_ref()) {
                let is_deserted = is_deserted(&name, &folder)?;
                found.push(FoundItem { folder: Arc::clone(&folder), id, journal, is_deserted });
            }
        }
    }
    found.sort_by_key(|item| item.journal.order_ns());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, path::Path};

    use super::*;

    #[test]
    fn an_item_has_the_bytes_that_were_written_and_one_without_a_process_is_for_recover() {
        let outer = tempfile::tempdir().unwrap();
        let folder = OwnFolder::create_in(outer.path(), "p-1").unwrap();
        let mut image = folder.create_new(image_name("a")).unwrap();
        image.write_all(b"ten bytes.").unwrap();
        let mut journal = Journal::new(ItemKind::Create, Path::new("/data/a"), String::new());
        journal.error = Some(format!("no space; its bytes stay in the staging area; {DRAIN_TRIES_AGAIN}"));
        let status = |is_deserted| status_of(&folder, "a", &journal, is_deserted);
        assert_eq!(status(false).bytes, 10);
        assert_eq!(status(false).error, journal.error);
        let error = status(true).error.unwrap();
        assert_eq!(error, "no space; its bytes stay in the staging area; 'forebay recover' tries again");
        image.set_len(1 << 30).unwrap();
        assert!(status(true).bytes < 1 << 20, "a hole takes nothing");
    }
}
