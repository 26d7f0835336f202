//! What killed processes left in an area, finished or discarded.

pub(crate) mod create;
pub(crate) mod discard;
pub(crate) mod recovery;
pub(crate) mod survey;
pub(crate) mod update;
pub(crate) mod writers;

use std::{
    cell::Cell,
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, SharedFolder, boot_id};

use crate::{
    area::{
        room::{PROCESS_PREFIX, boot_in, is_of_other_boot, open_area, other_host, remove_if_empty},
        status::{DrainProgress, ItemKind, ItemStatus},
    },
    create::{
        destination::Destination,
        publication::{self, PublishOrder},
    },
    on_disk::{
        item_files::{find_journal, is_draft, item_ids, read_journal},
        journal::Journal,
    },
    recover::{
        discard::{discard_item, remove_item},
        recovery::{RecoverTurn, RecoverVerdict, Recovery, UpdateSibling, interrupted},
        survey::{PROCESS_LOCK, damaged, process_folders, status_of},
    },
};

/// Who asks whether a process is gone holds its lock for a moment: a lock that is still held after so many looks is that of the process.
const LOOKS: usize = 4;
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// What to do where the journals alone do not decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverOptions {
    /// Items that are applied although their destination was changed by others.
    pub apply: Vec<String>,
    /// Items that are removed, with their bytes.
    pub discard: Vec<String>,
    /// Other machines whose items are recovered here: their processes are gone, which only the user can know.
    pub hosts: Vec<String>,
    /// Says what would be done, and does nothing.
    pub dry_run: bool,
}

/// What `recover` has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Items that are in their destinations now.
    pub finished: Vec<ItemStatus>,
    /// Items that were removed: never sealed or flushed, or discarded as asked.
    pub discarded: Vec<ItemStatus>,
    /// Items that stay, and why: their `error` says how to choose.
    pub refused: Vec<ItemStatus>,
    /// Items of processes that still run, or that may: the `error` of those on other machines says how to choose.
    pub in_use: Vec<ItemStatus>,
}

/// Finishes or discards every item in the area in `folder` whose process is gone; may be called again at any time. Of several calls at once
/// one works, and the others wait for it.
///
/// Where a destination was changed by others since, nothing is applied: the item is among the refused, with an error that says
/// how to choose.
pub fn recover(
    folder: &Path,
    options: &RecoverOptions,
    progress: &dyn Fn(DrainProgress) -> ControlFlow<()>,
) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    let Some(area) = open_area(folder)? else {
        check_names(options, &[])?;
        return Ok(recovered);
    };
    check_names(options, &names_in(&area)?)?;
    let _turn = RecoverTurn::take(&area, &|| {
        if progress(DrainProgress::default()).is_break() {
            return Err(interrupted());
        }
        thread::sleep(LOOK_PAUSE);
        Ok(())
    })?;
    // Those that are named count as gone.
    let is_left =
        |name: &str| other_host(name).is_none_or(|host| options.hosts.iter().any(|named| named == host));
    let boot = boot_id();
    let names = area.names()?.into_iter().filter(|name| name.starts_with(PROCESS_PREFIX));
    let (left, mut in_use): (Vec<_>, Vec<_>) = names.partition(|name| is_left(name));
    let (deserted, busy) = take_deserted(&area, left)?;
    in_use.extend(busy);
    for name in in_use {
        match area.open_subfolder(&name) {
            Ok(folder) => recovered.in_use.extend(items_in_use(&folder, other_host(&name))?),
            // Its process has ended meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let is_same_boot = |journal: &Journal| !boot.is_empty() && boot == journal.boot;
    let items = items_in_order(&deserted, &is_same_boot)?;
    let (items_left, bytes) = total_left(&items)?;
    let (items_left, bytes_done) = (Cell::new(items_left), Cell::new(0));
    let report = |added: u64| {
        bytes_done.set(bytes_done.get() + added);
        progress(DrainProgress {
            items_left: items_left.get(),
            bytes_left: bytes.saturating_sub(bytes_done.get()),
            bytes_done: bytes_done.get(),
        })
    };
    // Before anything is applied: afterwards the destination is not as any of them left it.
    let siblings = siblings_of(&items, &is_same_boot)?;
    for (folder, id) in &items {
        // Read only now: an earlier item for the same destination may have changed it.
        let journal = read_journal(folder, id);
        let destination = journal.as_ref().map(Journal::destination).unwrap_or_default();
        let recovery = Recovery {
            area: &area,
            folder,
            id,
            is_same_boot: match &journal {
                Ok(journal) => is_same_boot(journal),
                Err(_) => boot_in(folder) == Some(&boot),
            },
            is_forced: options.apply.contains(id),
            siblings: siblings.get(&destination).map_or(&[], Vec::as_slice),
            follows_refused_update: has_refused_update(&recovered, &destination),
            items: &items,
            progress: &report,
        };
        recover_item(&recovery, journal, options, &mut recovered)?;
        items_left.set(items_left.get().saturating_sub(1));
    }
    discard_superseded(&area, &items, options, &mut recovered)?;
    for held in &deserted {
        if options.dry_run {
            held.leave();
        } else {
            remove_if_empty(held);
        }
    }
    Ok(recovered)
}

/// Takes the locks of those of the process directories `names` that nobody holds, and returns the names of the others.
fn take_deserted(area: &Arc<OwnFolder>, names: Vec<String>) -> Result<(Vec<SharedFolder>, Vec<String>)> {
    let (mut deserted, mut busy) = (Vec::new(), names);
    for look in 0..LOOKS {
        let mut held_by_others = Vec::new();
        for name in std::mem::take(&mut busy) {
            match SharedFolder::take_deserted(area, &name, is_of_other_boot(&name))? {
                Some(held) => deserted.push(held),
                None => held_by_others.push(name),
            }
        }
        busy = held_by_others;
        // Without a lock there is nothing to wait for.
        let has_lock =
            |name: &String| area.open_subfolder(name).is_ok_and(|folder| folder.facts(PROCESS_LOCK).is_ok());
        if look + 1 == LOOKS || !busy.iter().any(has_lock) {
            break;
        }
        thread::sleep(LOOK_PAUSE);
    }
    Ok((deserted, busy))
}

/// Discards new files that were refused before a later version took their place: others had changed the destination between the two.
fn discard_superseded(
    area: &Arc<OwnFolder>,
    items: &[(Arc<OwnFolder>, String)],
    options: &RecoverOptions,
    recovered: &mut Recovered,
) -> Result<()> {
    let has_later = |refused: &ItemStatus| {
        let is_later =
            |done: &ItemStatus| done.kind == ItemKind::Create && done.destination == refused.destination;
        refused.kind == ItemKind::Create && recovered.finished.iter().any(is_later)
    };
    let (candidates, kept): (Vec<_>, Vec<_>) =
        std::mem::take(&mut recovered.refused).into_iter().partition(has_later);
    recovered.refused = kept;
    for mut status in candidates {
        let found = items.iter().find(|(_, id)| *id == status.id);
        let journal = found.and_then(|(folder, id)| Some((folder, read_journal(folder, id).ok()?)));
        let is_superseded = match &journal {
            // The user decides, as nothing says when it was written.
            Some((_, journal)) if journal.is_program_image => false,
            _ if options.dry_run => true,
            Some((_, journal)) => {
                let place = Destination::open(&journal.destination())?;
                publication::order(Some(area), &place, journal)? == PublishOrder::Superseded
            }
            None => false,
        };
        let (true, Some((folder, journal))) = (is_superseded, journal) else {
            recovered.refused.push(status);
            continue;
        };
        if !options.dry_run {
            discard_item(folder, &status.id, &journal, false)?;
        }
        status.error = Some("a later version of it is in its place".to_owned());
        recovered.discarded.push(status);
    }
    Ok(())
}

/// The items of a process that still runs, or may, on the machine `host`.
fn items_in_use(folder: &OwnFolder, host: Option<&str>) -> Result<Vec<ItemStatus>> {
    let mut items = Vec::new();
    for id in item_ids(folder)? {
        let Some(journal) = find_journal(folder, &id)? else { continue };
        let mut status = status_of(folder, &id, &journal, false);
        if let Some(host) = host {
            let what = format!(
                "belongs to host {host}, where its process may run; '--host {host}' recovers it here"
            );
            status.error = Some(what);
        }
        items.push(status);
    }
    Ok(items)
}

fn recover_item(
    recovery: &Recovery<'_>,
    journal: Result<Journal>,
    options: &RecoverOptions,
    recovered: &mut Recovered,
) -> Result<()> {
    let (folder, id) = (recovery.folder, recovery.id);
    let is_named = options.discard.iter().any(|name| name == id);
    // Nothing was promised of what was never synced, and a power loss may have left any part of it.
    let is_lost = !recovery.is_same_boot && is_draft(folder, id)?;
    let mut journal = match journal {
        Ok(journal) => journal,
        // Nothing says for which destination it is: later items for the same one have to wait.
        Err(error) if ![ErrorKind::Corrupt, ErrorKind::Unsupported].contains(&error.kind()) && !is_named => {
            return Err(error);
        }
        Err(error) => {
            let discards = is_named || is_lost && error.kind() == ErrorKind::Corrupt;
            let mut status = damaged(folder, id, true);
            if discards {
                if !options.dry_run {
                    remove_item(folder, id)?;
                }
                recovered.discarded.push(status);
            } else {
                let hint = format!("'--discard {id}' forgets what was staged");
                status.error = Some(error.hint(hint).to_string());
                recovered.refused.push(status);
            }
            return Ok(());
        }
    };
    if journal.is_exclusive && !recovery.is_same_boot {
        // A power loss takes a name that was not synced, and nobody else's file has it then.
        journal.expected.push(None);
    }
    let mut status = status_of(folder, id, &journal, true);
    let verdict = match journal.kind {
        _ if is_named || is_lost => Ok(RecoverVerdict::Discard),
        ItemKind::Create => create::judge(recovery, &journal),
        ItemKind::Update => update::judge(recovery, &journal),
    };
    let verdict = verdict.unwrap_or_else(RecoverVerdict::Refuse);
    let seals_anew = matches!(verdict, RecoverVerdict::SealAnew);
    if seals_anew {
        journal.published = None;
        status.error =
            Some("bytes were changed after they were sealed: they are sealed again as they are".to_owned());
    }
    let done = match (&verdict, options.dry_run) {
        (RecoverVerdict::Refuse(_), _) | (_, true) => Ok(()),
        (RecoverVerdict::Discard, false) => match journal.kind {
            ItemKind::Create => create::tell_of_claim(recovery, &journal),
            ItemKind::Update => update::tell_what_it_left(recovery, &journal, is_named),
        }
        .and_then(|()| discard_item(folder, id, &journal, is_named)),
        (RecoverVerdict::Finish | RecoverVerdict::SealAnew, false) => match journal.kind {
            ItemKind::Create => create::finish(recovery, &mut journal, seals_anew),
            ItemKind::Update => update::finish(recovery, &journal),
        }
        .and_then(|()| remove_item(folder, id)),
    };

    match (verdict, done) {
        (RecoverVerdict::Refuse(error), _) | (_, Err(error)) => {
            status.error = Some(error.at(status.destination.display()).to_string());
            recovered.refused.push(status);
        }
        (RecoverVerdict::Finish, Ok(())) => {
            // Of an earlier try.
            status.error = None;
            recovered.finished.push(status);
        }
        (RecoverVerdict::SealAnew, Ok(())) => recovered.finished.push(status),
        (RecoverVerdict::Discard, Ok(())) => recovered.discarded.push(status),
    }
    // Where the user has had enough, the rest is left as it is.
    recovery.tell(0)
}

fn has_refused_update(recovered: &Recovered, destination: &Path) -> bool {
    let is_one = |item: &ItemStatus| item.kind == ItemKind::Update && item.destination == destination;
    recovered.refused.iter().any(is_one)
}

/// Items of all processes in the order of their recovery: new files that were never staged, then the others, the oldest first. One that
/// was never staged may have taken the name of one that was, and gives it back.
fn items_in_order(
    deserted: &[SharedFolder],
    is_same_boot: &dyn Fn(&Journal) -> bool,
) -> Result<Vec<(Arc<OwnFolder>, String)>> {
    let mut items = Vec::new();
    for folder in deserted.iter().map(SharedFolder::folder) {
        for id in item_ids(folder)? {
            let order = find_journal(folder, &id)?.map_or((true, u64::MAX), |journal| {
                // What cannot be looked at is reported when its turn comes.
                let was_never_staged = journal.kind == ItemKind::Create
                    && create::was_never_staged(folder, &id, &journal, is_same_boot(&journal))
                        .unwrap_or(false);
                (!was_never_staged, journal.order_ns())
            });
            items.push((order, (Arc::clone(folder), id)));
        }
    }
    items.sort_by_key(|(order, _)| *order);
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

/// The updates among `items`, by their destinations.
fn siblings_of(
    items: &[(Arc<OwnFolder>, String)],
    is_same_boot: &dyn Fn(&Journal) -> bool,
) -> Result<HashMap<PathBuf, Vec<UpdateSibling>>> {
    let mut siblings: HashMap<PathBuf, Vec<UpdateSibling>> = HashMap::new();
    for (folder, id) in items {
        let Some(journal) = find_journal(folder, id)? else { continue };
        if journal.kind == ItemKind::Update
            && let Some(one) = update::sibling(folder, id, &journal, is_same_boot(&journal))?
        {
            siblings.entry(one.destination.clone()).or_default().push(one);
        }
    }
    Ok(siblings)
}

fn total_left(items: &[(Arc<OwnFolder>, String)]) -> Result<(u64, u64)> {
    let mut bytes = 0;
    for (folder, id) in items {
        bytes += find_journal(folder, id)?.map_or(0, |journal| status_of(folder, id, &journal, true).bytes);
    }
    Ok((items.len() as u64, bytes))
}

fn names_in(area: &OwnFolder) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (folder, _) in process_folders(area)? {
        names.extend(item_ids(&folder)?);
    }
    Ok(names)
}

/// Refuses names that no item has: a mistyped one must not look as if it had been done.
fn check_names(options: &RecoverOptions, known: &[String]) -> Result<()> {
    let asked = options.apply.iter().chain(&options.discard);
    if let Some(unknown) = asked.clone().find(|name| !known.contains(name)) {
        let error = Error::new(ErrorKind::NotFound, "no such item in the staging area");
        return Err(error.hint("'forebay stage ls' lists them").at(unknown));
    }
    match options.apply.iter().find(|name| options.discard.contains(name)) {
        Some(both) => Err(Error::invalid("is to be applied and discarded at once").at(both)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{create::image_manifest::ImageSums, on_disk::item_files::write_journal};

    #[test]
    fn a_name_that_a_file_took_which_was_never_staged_is_given_back_before_others_are_judged() {
        let root = tempfile::tempdir().unwrap();
        let area = Arc::new(OwnFolder::create_in(root.path(), "area").unwrap());
        let (process, _) = SharedFolder::open(&area, "p-1", Duration::from_secs(9)).unwrap();
        let journal = |order: u64, kind, image: Option<ImageSums>| Journal {
            created_ns: order,
            sealed_ns: image.as_ref().map_or(0, |_| order),
            image,
            ..Journal::new(kind, Path::new("/file"), String::new())
        };
        let journals = [
            ("sealed-late", journal(4, ItemKind::Create, Some(ImageSums::default()))),
            ("sealed", journal(1, ItemKind::Create, Some(ImageSums::default()))),
            ("update", journal(2, ItemKind::Update, None)),
            ("open", journal(3, ItemKind::Create, None)),
            ("lost", journal(5, ItemKind::Create, Some(ImageSums::default()))),
        ];
        for (id, journal) in &journals {
            write_journal(process.folder(), id, journal, true).unwrap();
            if *id != "lost" {
                process.folder().create_new(format!("{id}.data")).unwrap();
            }
        }
        let ids = |is_same_boot| -> Vec<String> {
            let items = items_in_order(std::slice::from_ref(&process), &|_| is_same_boot).unwrap();
            items.into_iter().map(|(_, id)| id).collect()
        };
        assert_eq!(ids(false), ["open", "lost", "sealed", "update", "sealed-late"]);
        assert_eq!(ids(true), ["open", "sealed", "update", "sealed-late", "lost"]);
    }
}
