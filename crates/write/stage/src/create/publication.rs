//! New files of several processes for one destination, published in the order in which they were sealed.
//!
//! A process knows what its own files leave at a destination ([`Lineage`](crate::create::lineage::Lineage)). While files of other
//! processes for it wait in the area, `published-CHECKSUM` says what was published last and when that was sealed: an older
//! file is then forgotten, a newer one takes its place, and anything else at the destination was changed by others.

use std::{
    fs::File,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{ByteLock, OwnFolder, disk, nonce};
use serde::{Deserialize, Serialize};

use crate::{
    area::status::ItemKind,
    create::destination::Destination,
    on_disk::{item_files::sync_folder, item_name::WantedFile, journal::Journal, stamp::FileStamp},
    recover::survey::items_for,
};

const TURNS: &str = "publishing";
const MAGIC: &[u8; 8] = b"FBPUBL\0\x01";
/// Another process holds its turn for a look at the destination and a rename.
const TURN_LIMIT: Duration = Duration::from_secs(60);
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// What is to be done with a new file that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishOrder {
    /// It takes the place of what is there, or the name that nothing has.
    Next { is_new: bool },
    /// What is there was sealed later.
    Superseded,
    /// What is there was made by others, or was removed by them.
    Changed,
}

/// What was published last at a destination.
#[derive(Debug, Serialize, Deserialize)]
struct Publication {
    destination: Vec<u8>,
    stamp: FileStamp,
    sealed_ns: u64,
}

/// Keeps other processes that share the area from publishing at a destination, until it is dropped.
#[derive(Debug)]
pub(crate) struct PublishTurn {
    _lock: Option<ByteLock>,
}

impl PublishTurn {
    /// The turn for `destination`; without a folder that processes share there is nobody to wait for.
    pub(crate) fn take(area: Option<&Arc<OwnFolder>>, destination: &Path) -> Result<Self> {
        let Some(area) = area else { return Ok(Self { _lock: None }) };
        let file: Arc<File> = Arc::new(area.open_or_create(TURNS)?);
        let began = Instant::now();
        loop {
            if let Some(lock) = ByteLock::take(Arc::clone(&file), u64::from(sum_of(destination))) {
                return Ok(Self { _lock: Some(lock) });
            }
            if began.elapsed() > TURN_LIMIT {
                let error = Error::new(ErrorKind::Unavailable, "another process is publishing a file there");
                return Err(error.at(destination.display()));
            }
            thread::sleep(TURN_PAUSE);
        }
    }
}

/// Decides what is to be done with the file of `journal`, now that it is its turn.
pub(crate) fn order(
    area: Option<&Arc<OwnFolder>>,
    destination: &Destination,
    journal: &Journal,
) -> Result<PublishOrder> {
    let now = destination.stamp()?;
    let next = PublishOrder::Next { is_new: now.is_none() };
    if journal.expected.contains(&now) {
        return Ok(next);
    }
    let known = match area {
        Some(area) => read(area, destination.path())?,
        None => None,
    };
    Ok(match known.filter(|known| Some(known.stamp) == now) {
        Some(known) if known.sealed_ns < journal.sealed_ns => next,
        Some(_) => PublishOrder::Superseded,
        None => PublishOrder::Changed,
    })
}

/// Says that the file of item `id` with this stamp is about to be published, where other items wait for the same destination.
pub(crate) fn note(area: &OwnFolder, id: &str, journal: &Journal, stamp: FileStamp) -> Result<()> {
    let destination = journal.destination();
    let waiting = items_for(area, &WantedFile::by_path(&destination))?;
    if !waiting.iter().any(|item| item.id != id && item.journal.kind == ItemKind::Create) {
        // Nobody will ask.
        let _ = area.remove_file(name_of(&destination));
        return Ok(());
    }
    let published = Publication {
        destination: destination.as_os_str().as_bytes().to_vec(),
        stamp,
        sealed_ns: journal.sealed_ns,
    };
    let body = postcard::to_stdvec(&published)
        .map_err(|error| Error::new(ErrorKind::Bug, "publication cannot be encoded").because(error))?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    write_synced(area, &name_of(&destination), &bytes)
}

/// Writes a file in `area` in place of an older one, synced before it gets its name: items of others that a power loss leaves find it.
fn write_synced(area: &OwnFolder, name: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{name}.{:016x}", nonce());
    let file = area.create_new(&temporary)?;
    let at = |error| Error::from_io(error).at(area.path().join(&temporary).display());
    let written = disk::write_all_at(&file, bytes, 0).and_then(|()| disk::sync_all(&file)).map_err(at);
    if let Err(error) = written.and_then(|()| area.rename(&temporary, name)) {
        let _ = area.remove_file(&temporary);
        return Err(error);
    }
    sync_folder(area)
}

/// Reads what was published last at `destination`; nothing where nobody said so, or where what was said is damaged.
fn read(area: &OwnFolder, destination: &Path) -> Result<Option<Publication>> {
    let bytes = match area.read(name_of(destination)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let Some(body) = bytes.get(MAGIC.len() + 4..) else { return Ok(None) };
    let sum = crc32c::crc32c(body).to_le_bytes();
    let is_sound = bytes[..MAGIC.len()] == *MAGIC && bytes[MAGIC.len()..][..4] == sum;
    let found: Option<Publication> = is_sound.then(|| postcard::from_bytes(body).ok()).flatten();
    Ok(found.filter(|found| found.destination == destination.as_os_str().as_bytes()))
}

fn sum_of(destination: &Path) -> u32 {
    crc32c::crc32c(destination.as_os_str().as_bytes())
}

fn name_of(destination: &Path) -> String {
    format!("published-{:08x}", sum_of(destination))
}
