//! A new file that a killed process had sealed, published.

use std::{fs::File, os::unix::fs::FileExt};

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    image_state::image_name,
    image_sums::{complete, read_verified, stretches},
    journal::{ImageSums, Journal},
    publication::{self, PublishOrder, PublishTurn},
    publish,
    recovery::{RecoverVerdict, Recovery},
    room::write_journal,
    stamp::FileStamp,
    survey::{item_ids, read_journal},
};

/// Bytes of one write to the destination.
const RUN_BYTES: u64 = 8 << 20;

/// What is to become of the file.
pub(crate) fn judge(recovery: &Recovery<'_>, journal: &Journal) -> Result<RecoverVerdict> {
    if journal.is_published()? {
        return Ok(RecoverVerdict::Finish);
    }
    if journal.image.is_none() {
        return Ok(RecoverVerdict::Discard);
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

/// Copies, verifies and publishes the file, or what of that is left to do.
pub(crate) fn finish(recovery: &Recovery<'_>, journal: &mut Journal) -> Result<()> {
    let destination = journal.destination();
    if !journal.is_published()? {
        let Some(image) = journal.image.clone() else { return Ok(()) };
        let file = copy(recovery, journal, &image)?;
        complete(&file, &image, &destination, journal)?;
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

fn copy(recovery: &Recovery<'_>, journal: &mut Journal, image: &ImageSums) -> Result<File> {
    let file = temporary(recovery, journal)?;
    let held = recovery.folder.open_to_read(image_name(recovery.id))?;
    let mut buffer = Vec::new();
    for stretch in stretches(image, RUN_BYTES) {
        read_verified(&held, image, stretch, &mut buffer, |offset, bytes| {
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
