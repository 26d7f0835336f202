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
    range_set::{RangeSet, held_of},
    recovery::{RecoverVerdict, Recovery},
    room::write_journal,
    stamp::FileStamp,
    status::ItemState,
    survey::{item_ids, read_journal},
    writer_lease::has_writers,
};

/// Bytes of one write to the destination.
const RUN_BYTES: u64 = 8 << 20;

/// What is to become of the file.
pub(crate) fn judge(recovery: &Recovery<'_>, journal: &Journal) -> Result<RecoverVerdict> {
    if journal.is_program_image() {
        return judge_program_image(recovery, journal);
    }
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

/// Decides about a file that a program wrote to the area by descriptors of its own, which earlier versions of forebay staged. Nothing says
/// whether the destination is newer, so nothing is done with it unless the user asks for it by name.
fn judge_program_image(recovery: &Recovery<'_>, journal: &Journal) -> Result<RecoverVerdict> {
    if !recovery.is_forced {
        let what = "was staged by 'forebay run --stage-writes' of an earlier version";
        return Ok(RecoverVerdict::Refuse(recovery.changed(what)));
    }
    let discards = format!("'--discard {}' forgets what was staged", recovery.id);
    let image = open_image(recovery.folder, recovery.id).map_err(|error| match error.kind() {
        ErrorKind::NotFound => error.hint(discards),
        _ => error,
    })?;
    if has_writers(&image)? {
        let error = Error::new(ErrorKind::Unavailable, "is still open for writing by a process");
        return Ok(RecoverVerdict::Refuse(error.hint("recover again after its end")));
    }
    Ok(match &journal.image {
        Some(sealed) if !is_as_sealed(&image, sealed)? => RecoverVerdict::SealAnew,
        _ => RecoverVerdict::Finish,
    })
}

/// Returns whether `image` holds the bytes that were sealed, and zeros everywhere else.
fn is_as_sealed(image: &File, sealed: &ImageSums) -> Result<bool> {
    let len = image.metadata().map_err(Error::from_io)?.len();
    if len != sealed.len {
        return Ok(false);
    }
    let mut buffer = Vec::new();
    for stretch in stretches(sealed, RUN_BYTES) {
        match read_verified(image, sealed, stretch, &mut buffer, |_, _| Ok(())) {
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            read => read?,
        }
    }
    let held = RangeSet::of(&sealed.held);
    for (start, end) in held_of(image, len).ranges() {
        for (from, until, _) in held.pieces(start, end).into_iter().filter(|piece| !piece.2) {
            if !has_zeros(image, from, until, &mut buffer)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns whether all bytes of `image` from `start` to `end` are zeros.
fn has_zeros(image: &File, start: u64, end: u64, buffer: &mut Vec<u8>) -> Result<bool> {
    let mut at = start;
    while at < end {
        let step = (end - at).min(RUN_BYTES);
        buffer.resize(usize::try_from(step).unwrap_or(0), 0);
        image.read_exact_at(buffer, at).map_err(Error::from_io)?;
        if buffer.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += step;
    }
    Ok(true)
}

/// Seals a file that a program wrote, as it is now. Its place among others for the same destination stays the one that it had.
fn seal(recovery: &Recovery<'_>, journal: &mut Journal) -> Result<ImageSums> {
    let image = open_image(recovery.folder, recovery.id)?;
    let facts = image.metadata().map_err(Error::from_io)?;
    image.sync_data().map_err(Error::from_io)?;
    let sums = sums_of(Some(&image), facts.len(), &held_of(&image, facts.len()))?;
    journal.mode = facts.permissions().mode() & 0o7777;
    journal.image = Some(sums.clone());
    journal.state = ItemState::Sealed;
    journal.sealed_ns = journal.order_ns();
    write_journal(recovery.folder, recovery.id, journal, true)?;
    Ok(sums)
}

/// Copies, verifies and publishes the file, or what of that is left to do.
pub(crate) fn finish(recovery: &Recovery<'_>, journal: &mut Journal) -> Result<()> {
    let destination = journal.destination();
    if !journal.is_published()? {
        let image = match journal.image.clone() {
            Some(image) => image,
            None if journal.is_program_image() => seal(recovery, journal)?,
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
