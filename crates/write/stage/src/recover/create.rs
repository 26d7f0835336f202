//! A new file that a killed process had sealed, published.

use std::{ffi::OsStr, fs::File};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, disk};

use crate::{
    area::status::ItemState,
    create::{
        destination::{Destination, temporary_name},
        image_manifest::ImageSums,
        image_state::{create_temporary, open_image},
        image_sums::{complete, read_verified, renew_dress, stretches, sums_of},
        pointer,
        publication::{self, PublishOrder, PublishTurn},
    },
    on_disk::{
        item_files::{find_journal, is_draft, item_ids, write_journal},
        journal::Journal,
        stamp::FileStamp,
    },
    range_set::{RangeSet, held_of},
    recover::{
        recovery::{RecoverVerdict, Recovery},
        writers::has_writers,
    },
};

/// Bytes of one write to the destination.
const RUN_BYTES: u64 = 8 << 20;

/// Decides what is to become of the file.
pub(crate) fn judge(recovery: &Recovery<'_>, journal: &Journal) -> Result<RecoverVerdict> {
    if journal.is_program_image {
        return judge_program_image(recovery, journal);
    }
    let Some(image) = &journal.image else { return Ok(RecoverVerdict::Discard) };
    let place = recovery.destination(journal)?;
    if journal.is_published(&place)? {
        return Ok(RecoverVerdict::Finish);
    }
    if !recovery.is_forced
        && publication::order(Some(recovery.area), &place, journal)? == PublishOrder::Superseded
    {
        return Ok(RecoverVerdict::Discard);
    }
    if !journal.passed.is_empty() {
        let left = journal.temporary().map(|name| reopen(recovery, &place, name)).transpose()?.flatten();
        if left.is_none() {
            let error =
                Error::new(ErrorKind::NotFound, "what went straight to its directory was removed since");
            return Ok(RecoverVerdict::Refuse(error.hint(recovery.discard_hint())));
        }
    }
    if recovery.is_forced {
        let held = open_image(recovery.folder, recovery.id)?;
        return Ok(forced_verdict(is_as_sealed(&held, image)?));
    }
    if !recovery.is_same_boot && is_image_lost(recovery.folder, recovery.id)? {
        return Ok(RecoverVerdict::Discard);
    }
    if recovery.follows_refused_update {
        let what = "a write to the file that it replaces has to be recovered first";
        let error = Error::new(ErrorKind::Unavailable, what);
        return Ok(RecoverVerdict::Refuse(error.hint("decide about that one, and run this again")));
    }
    check_image(recovery, image)?;
    Ok(match publication::order(Some(recovery.area), &place, journal)? {
        PublishOrder::Next { .. } => RecoverVerdict::Finish,
        PublishOrder::Superseded => RecoverVerdict::Discard,
        PublishOrder::Changed => {
            let is_there = place.stamp()?.is_some();
            let what = if is_there { "was changed by others since" } else { "was removed since" };
            RecoverVerdict::Refuse(recovery.changed(what))
        }
    })
}

/// Returns true for a file that was never promised to anybody.
pub(crate) fn was_never_staged(
    folder: &OwnFolder,
    id: &str,
    journal: &Journal,
    is_same_boot: bool,
) -> Result<bool> {
    let is_lost = || Ok(!is_same_boot && (is_draft(folder, id)? || is_image_lost(folder, id)?));
    if journal.image.is_none() { Ok(!journal.is_program_image) } else { is_lost() }
}

/// Returns whether there is no image. The journal that says that a file is sealed may reach the disk before the image's name does; a file
/// is staged when the directory is synced behind both, so a power loss takes the image of none that was promised.
fn is_image_lost(folder: &OwnFolder, id: &str) -> Result<bool> {
    match open_image(folder, id) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Refuses an image shorter than what was sealed, with a hint that the failed read of a copy would not have.
fn check_image(recovery: &Recovery<'_>, image: &ImageSums) -> Result<()> {
    let held = open_image(recovery.folder, recovery.id)?;
    let last = image.held.last().map_or(0, |range| range.1);
    if FileStamp::of(&held)?.len < last { Err(changed_image(recovery)) } else { Ok(()) }
}

fn changed_image(recovery: &Recovery<'_>) -> Error {
    let hint = format!(
        "'--apply {0}' publishes them as they are, '--discard {0}' forgets what was staged",
        recovery.id
    );
    Error::corrupt("bytes in the staging area are not those that were sealed").hint(hint)
}

/// Decides about a file that a program wrote to the area by descriptors of its own, which earlier versions of forebay staged: nothing
/// says whether it is older than what the destination has by now, so the user has to.
fn judge_program_image(recovery: &Recovery<'_>, journal: &Journal) -> Result<RecoverVerdict> {
    if !recovery.is_forced {
        let what = "was staged by 'forebay run --stage-writes' of an earlier version";
        return Ok(RecoverVerdict::Refuse(recovery.changed(what)));
    }
    let image = open_image(recovery.folder, recovery.id).map_err(|error| match error.kind() {
        ErrorKind::NotFound => error.hint(recovery.discard_hint()),
        _ => error,
    })?;
    if has_writers(&image)? {
        let error = Error::new(ErrorKind::Unavailable, "is still open for writing by a process");
        return Ok(RecoverVerdict::Refuse(error.hint("recover again after its end")));
    }
    Ok(match &journal.image {
        Some(sealed) => forced_verdict(is_program_image_as_sealed(&image, sealed)?),
        None => RecoverVerdict::Finish,
    })
}

fn forced_verdict(is_as_sealed: bool) -> RecoverVerdict {
    if is_as_sealed { RecoverVerdict::Finish } else { RecoverVerdict::SealAnew }
}

/// Copies, verifies and publishes the file, or what of that is left to do. With `seals_anew` its image is sealed as it is now.
pub(crate) fn finish(recovery: &Recovery<'_>, journal: &mut Journal, seals_anew: bool) -> Result<()> {
    let place = recovery.destination(journal)?;
    if journal.is_published(&place)? {
        // Where a hard link gave the file its name, the other name may be left.
        journal.temporary().map_or(Ok(()), |name| place.remove(name))?;
    } else if let Err(error) = publish(recovery, journal, &place, seals_anew) {
        // The room at the destination is somebody's: the next try copies it again. What went straight there is nowhere else.
        if journal.passed.is_empty() {
            let _ = journal.temporary().map_or(Ok(()), |name| place.remove(name));
        }
        return Err(error);
    }
    place.sync_directory()?;
    let Some(latest) = journal.latest() else { return Ok(()) };
    let _turn = PublishTurn::take(Some(recovery.area), &latest)?;
    let pointer = place.beside(&latest).map_or_else(|| Destination::open(&latest), Ok)?;
    pointer::point(&pointer, &place, journal.created_ns)
}

fn publish(
    recovery: &Recovery<'_>,
    journal: &mut Journal,
    place: &Destination,
    seals_anew: bool,
) -> Result<()> {
    let held = open_image(recovery.folder, recovery.id)?;
    let image = match journal.image.clone() {
        Some(image) if !seals_anew => image,
        sealed => seal_anew(recovery, journal, &held, sealed)?,
    };
    let file = copy(recovery, journal, place, &image, &held)?;
    let replaced = complete(&file, &image, place, journal)?;
    let turn = PublishTurn::take(Some(recovery.area), place.path())?;
    // Others may have published theirs meanwhile.
    let is_new = match publication::order(Some(recovery.area), place, journal)? {
        PublishOrder::Next { is_new } => is_new,
        _ if recovery.is_forced => false,
        _ => return Err(recovery.changed("was changed by others since")),
    };
    renew_dress(&file, place, journal, replaced)?;
    let stamp = FileStamp::of(&file)?;
    journal.published = Some(stamp);
    journal.expected.push(Some(stamp));
    write_journal(recovery.folder, recovery.id, journal, true)?;
    tell_later_ones(recovery, journal, stamp)?;
    publication::note(recovery.area, recovery.id, journal, stamp)?;
    let temporary = journal.temporary().unwrap_or_default();
    place.publish(temporary, is_new)?;
    drop(turn);
    Ok(())
}

/// Returns whether the image has the bytes that were sealed.
fn is_as_sealed(held: &File, image: &ImageSums) -> Result<bool> {
    if FileStamp::of(held)?.len < image.held.last().map_or(0, |range| range.1) {
        return Ok(false);
    }
    let mut buffer = Vec::new();
    for stretch in stretches(image, RUN_BYTES) {
        match read_verified(held, image, stretch, &mut buffer, |_, _| Ok(())) {
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            read => read?,
        }
    }
    Ok(true)
}

/// Returns whether an image that a program wrote has the bytes that were sealed, and zeros everywhere else.
fn is_program_image_as_sealed(held: &File, image: &ImageSums) -> Result<bool> {
    let len = FileStamp::of(held)?.len;
    if len != image.len || !is_as_sealed(held, image)? {
        return Ok(false);
    }
    let (sealed, mut buffer) = (RangeSet::of(&image.held), Vec::new());
    for (start, end) in held_of(held, len).ranges() {
        for (from, until, _) in sealed.pieces(start, end).into_iter().filter(|piece| !piece.2) {
            if !has_zeros(held, from, until, &mut buffer)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns whether all bytes of `file` from `start` to `end` are zeros.
fn has_zeros(file: &File, start: u64, end: u64, buffer: &mut Vec<u8>) -> Result<bool> {
    let mut at = start;
    while at < end {
        let step = (end - at).min(RUN_BYTES);
        buffer.resize(usize::try_from(step).unwrap_or(0), 0);
        disk::read_exact_at(file, buffer, at).map_err(Error::from_io)?;
        if buffer.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += step;
    }
    Ok(true)
}

/// Seals an image as it is now: one that was never sealed, or whose bytes changed since, where the user has said that it is to be applied.
/// Its place among others for the same destination stays the one that it had.
fn seal_anew(
    recovery: &Recovery<'_>,
    journal: &mut Journal,
    held: &File,
    sealed: Option<ImageSums>,
) -> Result<ImageSums> {
    disk::sync_data(held).map_err(Error::from_io)?;
    let facts = disk::stat(held).map_err(Error::from_io)?;
    let len = u64::try_from(facts.st_size).unwrap_or(0);
    let (len, ranges) = match &sealed {
        // What went past the image is not in it.
        Some(sealed) if !journal.is_program_image => {
            let mut ranges = RangeSet::of(&sealed.held);
            ranges.cut(len);
            (sealed.len, ranges)
        }
        _ => (len, held_of(held, len)),
    };
    let sums = sums_of(Some(held), len, &ranges)?;
    if journal.is_program_image {
        let mode = facts.st_mode & 0o777;
        (journal.requested_mode, journal.mode) = (mode, mode);
    }
    journal.image = Some(sums.clone());
    journal.state = ItemState::Sealed;
    journal.sealed_ns = journal.order_ns();
    write_journal(recovery.folder, recovery.id, journal, true)?;
    Ok(sums)
}

fn copy(
    recovery: &Recovery<'_>,
    journal: &mut Journal,
    place: &Destination,
    image: &ImageSums,
    held: &File,
) -> Result<File> {
    let file = temporary(recovery, journal, place)?;
    let mut buffer = Vec::new();
    for stretch in stretches(image, RUN_BYTES) {
        let copied = read_verified(held, image, stretch, &mut buffer, |offset, bytes| {
            disk::write_all_at(&file, bytes, offset).map_err(Error::from_io)?;
            recovery.tell(bytes.len() as u64)
        });
        copied.map_err(
            |error| if error.kind() == ErrorKind::Corrupt { changed_image(recovery) } else { error },
        )?;
    }
    Ok(file)
}

/// The temporary file: the one that holds what went straight there, or a new one.
fn temporary(recovery: &Recovery<'_>, journal: &mut Journal, place: &Destination) -> Result<File> {
    if let Some(name) = journal.temporary() {
        if !journal.passed.is_empty() {
            let found = reopen(recovery, place, name)?;
            return found.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "is gone").at(place.path().with_file_name(name).display())
            });
        }
        place.remove(name)?;
    }
    let name = temporary_name(place.path());
    journal.set_temporary(Some(&name));
    write_journal(recovery.folder, recovery.id, journal, true)?;
    create_temporary(place, &name, journal.new_mode())
}

/// Opens the temporary file that holds what went straight there, unless somebody else put it there and the user has not said that it
/// counts.
fn reopen(recovery: &Recovery<'_>, place: &Destination, name: &OsStr) -> Result<Option<File>> {
    place.reopen(name, recovery.is_forced).map_err(|error| match error.kind() {
        ErrorKind::Denied => error.hint(format!(
            "'--apply {0}' publishes it as it is, '--discard {0}' forgets what was staged",
            recovery.id
        )),
        _ => error,
    })
}

/// Tells the files that are to take the place of a claim that nothing will be there: an exclusive creation that was never staged gives the
/// name back.
pub(crate) fn tell_of_claim(recovery: &Recovery<'_>, journal: &Journal) -> Result<()> {
    let Some(claim) = journal.claim.filter(|_| journal.is_exclusive) else { return Ok(()) };
    for (folder, id) in recovery.items.iter().filter(|(_, id)| id != recovery.id) {
        let Some(mut waiting) = find_journal(folder, id)? else { continue };
        if waiting.destination() == journal.destination()
            && waiting.expected.contains(&Some(claim))
            && !waiting.expected.contains(&None)
        {
            waiting.expected.push(None);
            write_journal(folder, id, &waiting, true)?;
        }
    }
    Ok(())
}

/// Tells later files for the same destination what it is about to be.
fn tell_later_ones(recovery: &Recovery<'_>, journal: &Journal, stamp: FileStamp) -> Result<()> {
    for id in item_ids(recovery.folder)?.iter().filter(|id| *id != recovery.id) {
        let Some(mut later) = find_journal(recovery.folder, id)? else { continue };
        if later.destination() == journal.destination() && later.order_ns() >= journal.order_ns() {
            later.expected.push(Some(stamp));
            write_journal(recovery.folder, id, &later, true)?;
        }
    }
    Ok(())
}
