//! A new file that a killed process had sealed, published.

use std::{
    fs::File,
    os::unix::fs::{FileExt, PermissionsExt},
};

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    image_state::open_image,
    image_sums::{complete, read_verified, stretches, sums_of},
    journal::{ImageSums, Journal},
    publication::{self, PublishOrder, PublishTurn},
    publish,
    range_set::held_of,
    recovery::{RecoverVerdict, Recovery},
    room::write_journal,
    stamp::{FileStamp, now_ns},
    status::ItemState,
    survey::{item_ids, read_journal},
    writer_lease::has_writers,
};

/// Bytes of one write to the destination.
const RUN_BYTES: u64 = 8 << 20;

/// What is to become of the file.
pub(crate) fn judge(recovery: &Recovery<'_>, journal: &Journal) -> Result<RecoverVerdict> {
    if journal.is_published()? {
        return Ok(RecoverVerdict::Finish);
    }
    if journal.image.is_none() {
        return if journal.is_shared { judge_unsealed(recovery) } else { Ok(RecoverVerdict::Discard) };
    }
    let temporary = journal.temporary().map(|path| path.exists());
    if !journal.passed.is_empty() && temporary != Some(true) {
        let error = Error::new(ErrorKind::NotFound, "what went straight to its folder was removed since");
        let hint = format!("'--discard {}' forgets what was staged", recovery.id);
        return Ok(RecoverVerdict::Refuse(error.hint(hint)));
    }
    if recovery.is_forced {
        return Ok(RecoverVerdict::Finish);
    }
    Ok(match publication::order(Some(recovery.area), journal)? {
        PublishOrder::Next => RecoverVerdict::Finish,
        PublishOrder::Superseded => RecoverVerdict::Discard,
        PublishOrder::Changed => {
            let is_there = FileStamp::at(&journal.destination())?.is_some();
            let what = if is_there { "was changed by others since" } else { "was removed since" };
            RecoverVerdict::Refuse(recovery.changed(what))
        }
    })
}

/// What is to become of a file that programs wrote and that nobody has sealed: as without staging, what they have written is there.
fn judge_unsealed(recovery: &Recovery<'_>) -> Result<RecoverVerdict> {
    let Ok(image) = open_image(recovery.folder, recovery.id) else { return Ok(RecoverVerdict::Discard) };
    if has_writers(&image)? {
        let error = Error::new(ErrorKind::Unavailable, "is still open for writing by a process");
        return Ok(RecoverVerdict::Refuse(error.hint("recover again after its end")));
    }
    if recovery.is_same_boot || recovery.is_forced {
        return Ok(RecoverVerdict::Finish);
    }
    Ok(RecoverVerdict::Refuse(
        recovery.changed("may not be whole: the machine went down before it was sealed"),
    ))
}

/// Seals a file that programs wrote.
fn seal(recovery: &Recovery<'_>, journal: &mut Journal) -> Result<ImageSums> {
    let image = open_image(recovery.folder, recovery.id)?;
    let facts = image.metadata().map_err(Error::from_io)?;
    image.sync_data().map_err(Error::from_io)?;
    let sums = sums_of(Some(&image), facts.len(), &held_of(&image, facts.len()))?;
    journal.mode = facts.permissions().mode() & 0o7777;
    journal.image = Some(sums.clone());
    journal.state = ItemState::Sealed;
    journal.sealed_ns = now_ns();
    journal.expected.push(FileStamp::at(&journal.destination())?);
    write_journal(recovery.folder, recovery.id, journal, true)?;
    Ok(sums)
}

/// Copies, verifies and publishes the file, or what of that is left to do.
pub(crate) fn finish(recovery: &Recovery<'_>, journal: &mut Journal) -> Result<()> {
    let destination = journal.destination();
    if !journal.is_published()? {
        let image = match journal.image.clone() {
            Some(image) => image,
            None if journal.is_shared => seal(recovery, journal)?,
            None => return Ok(()),
        };
        let held = open_image(recovery.folder, recovery.id)?;
        let file = copy(recovery, journal, &image, &held)?;
        complete(&file, &image, Some(&held), journal)?;
        let stamp = FileStamp::of(&file)?;
        let turn = PublishTurn::take(Some(recovery.area), &destination)?;
        // Others may have published theirs meanwhile.
        if !recovery.is_forced && publication::order(Some(recovery.area), journal)? != PublishOrder::Next {
            return Err(recovery.changed("was changed by others since"));
        }
        journal.published = Some(stamp);
        journal.expected.push(Some(stamp));
        write_journal(recovery.folder, recovery.id, journal, true)?;
        tell_later_ones(recovery, journal, stamp)?;
        publication::note(recovery.area, recovery.id, journal, stamp)?;
        let temporary = journal.temporary().unwrap_or_default();
        publish::rename(&temporary, &destination)?;
        drop(turn);
    }
    publish::sync_folder_of(&destination)?;
    let created_ns = journal.created_ns;
    let Some(pointer) = journal.latest() else { return Ok(()) };
    let _turn = PublishTurn::take(Some(recovery.area), &pointer)?;
    publish::point(&pointer, &destination, created_ns)
}

fn copy(recovery: &Recovery<'_>, journal: &mut Journal, image: &ImageSums, held: &File) -> Result<File> {
    let file = temporary(recovery, journal)?;
    let mut buffer = Vec::new();
    for stretch in stretches(image, RUN_BYTES) {
        read_verified(held, image, stretch, &mut buffer, |offset, bytes| {
            file.write_all_at(bytes, offset).map_err(Error::from_io)?;
            recovery.tell(bytes.len() as u64)
        })?;
    }
    Ok(file)
}

/// The temporary file: the one that holds what went straight there, or a new one.
fn temporary(recovery: &Recovery<'_>, journal: &mut Journal) -> Result<File> {
    if let Some(path) = journal.temporary() {
        if !journal.passed.is_empty() {
            let found = publish::reopen_temporary(&path)?;
            return found.ok_or_else(|| Error::new(ErrorKind::NotFound, "is gone").at(path.display()));
        }
        let _ = std::fs::remove_file(path);
    }
    journal.set_temporary(Some(&publish::temporary_name(&journal.destination())));
    write_journal(recovery.folder, recovery.id, journal, true)?;
    publish::create_temporary(&journal.temporary().unwrap_or_default())
}

/// Tells later files for the same destination what it is about to be.
fn tell_later_ones(recovery: &Recovery<'_>, journal: &Journal, stamp: FileStamp) -> Result<()> {
    for id in item_ids(recovery.folder).iter().filter(|id| *id != recovery.id) {
        let Ok(mut later) = read_journal(recovery.folder, id) else { continue };
        if later.destination() == journal.destination() && later.order_ns() >= journal.order_ns() {
            later.expected.push(Some(stamp));
            write_journal(recovery.folder, id, &later, true)?;
        }
    }
    Ok(())
}
