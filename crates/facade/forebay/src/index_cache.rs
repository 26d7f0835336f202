//! Descriptions of files, kept in the user's cache folder.
//!
//! An entry is named by a hash of the source's id, so a changed file never meets its old description. Whatever is
//! wrong with an entry or with the folder makes it a miss: nothing here can fail a read.

use std::{
    io::Read,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use forebay_container::{Container, Extents, load, save};
use forebay_format::CSV_HEADER;
use forebay_process::ErrorKind;
use forebay_scratch::{FileFacts, OwnFolder};
use forebay_source::{Locator, Origin, SourceId};
use sha2::{Digest, Sha256};

use crate::{DescribeCost, told_containers::ToldContainers};

/// So many chunks are described in 0.2 ms, saved in 0.1 ms and loaded in 0.03 ms: fewer are not worth a file.
const LEAST_CHUNKS: usize = 1024;
/// Twice as many are described in 0.3 ms, saved and loaded in 0.1 ms each.
const LEAST_VARIABLES: usize = 100;
/// When the folder holds more, the entries used longest ago leave.
const MOST_BYTES: u64 = 1 << 30;
/// No writer takes longer for an entry.
const LONGEST_WRITE: Duration = Duration::from_secs(3600);
/// A larger index is not read back: 4 GiB describe a hundred million chunks.
const MOST_ENTRY_BYTES: u64 = 4 << 30;

/// A folder of saved descriptions.
#[derive(Clone, Debug)]
pub struct IndexCache {
    /// None where the user has no cache folder.
    folder: Option<PathBuf>,
    since_listed: Arc<SinceListed>,
    /// What another rank has described, which is looked at first.
    told: Option<Arc<ToldContainers>>,
}

/// What was put since the folder was last listed, which takes as long as it has entries.
#[derive(Debug, Default)]
struct SinceListed {
    /// Entries ever put.
    puts: AtomicU64,
    bytes: AtomicU64,
}

impl SinceListed {
    /// True when the folder is to be listed after one more entry of `len` bytes: when the number of entries put has
    /// doubled, or a sixteenth of what the folder may hold was put.
    fn is_due(&self, len: u64) -> bool {
        let puts = self.puts.fetch_add(1, Relaxed) + 1;
        let bytes = self.bytes.fetch_add(len, Relaxed).saturating_add(len);
        let is_due = puts.is_power_of_two() || bytes > MOST_BYTES / 16;
        if is_due {
            self.bytes.store(0, Relaxed);
        }
        is_due
    }
}

impl IndexCache {
    /// The cache in `folder`, which is made when first needed, for this user alone.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), since_listed: Arc::default(), told: None }
    }

    /// The cache of this user, if there is one, behind what another rank has told.
    pub fn told(containers: Arc<ToldContainers>) -> Self {
        let own = Self::of_user();
        let folder = own.and_then(|own| own.folder);
        Self { folder, since_listed: Arc::default(), told: Some(containers) }
    }

    /// The cache of this user: `$FOREBAY_CACHE`, `$XDG_CACHE_HOME/forebay` or `~/.cache/forebay`.
    pub fn of_user() -> Option<Self> {
        cache_folder("index").map(Self::at)
    }

    /// The description of the source `id`, if it was saved and everything it points to is unchanged.
    pub fn get(&self, origin: &dyn Origin, id: &SourceId) -> Option<Container> {
        if !id.version.is_settled(SystemTime::now()) {
            return None;
        }
        if let Some(container) = self.told.as_ref().and_then(|told| told.get(origin, id)) {
            return Some(container);
        }
        // A folder that belongs to another user, or that others may look into, is not used.
        let folder = OwnFolder::open(self.folder.as_ref()?).ok()?;
        let container = load(&read_entry(&folder, &entry_name(id)?)?).ok()?;
        let (first, others) = container.sources.split_first()?;
        let unchanged =
            |known: &SourceId| origin.open(&known.locator).is_ok_and(|source| source.id() == known);
        let is_absent =
            |at: &Locator| origin.open(at).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let is_current =
            first == id && others.iter().all(unchanged) && container.absent.iter().all(is_absent);
        is_current.then_some(container)
    }

    /// Saves the description of the source `id`, where that saves time and the source has stopped changing.
    pub fn put(&self, id: &SourceId, container: &Container, cost: DescribeCost) {
        let now = SystemTime::now();
        let settled = container.sources.iter().all(|source| source.version.is_settled(now));
        // A file that a SWMR writer has open is about to change, however long ago it last did.
        if !settled || container.swmr || !(has_many_parts(container) || cost.is_high(id)) {
            return;
        }
        let Some(name) = entry_name(id) else { return };
        let Ok(bytes) = save(container) else { return };
        let Some(folder) = &self.folder else { return };
        let Ok(folder) = OwnFolder::create_all(folder) else { return };
        let is_written = folder.write_atomically(&name, &bytes).is_ok();
        if is_written && self.since_listed.is_due(bytes.len() as u64) {
            shrink(&folder);
        }
    }
}

/// The folder `name` in the cache folder of this user, if there is one.
pub(crate) fn cache_folder(name: &str) -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = from("FOREBAY_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|folder| folder.join("forebay")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/forebay")))?;
    folder.is_absolute().then(|| folder.join(name))
}

/// The name of the entry for the source `id`.
fn entry_name(id: &SourceId) -> Option<String> {
    let mut bytes = postcard::to_stdvec(id).ok()?;
    // What is said of a CSV file depends on this setting too.
    bytes.extend(std::env::var_os(CSV_HEADER).unwrap_or_default().as_encoded_bytes());
    let hash = Sha256::digest(&bytes);
    Some(hash[..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Removes the entries used longest ago until the rest fit.
fn shrink(folder: &OwnFolder) {
    let mut entries = Vec::new();
    let mut total: u64 = 0;
    // Whatever else lies here is not ours to remove.
    for name in folder.names().unwrap_or_default() {
        let Ok(facts) = folder.facts(&name) else { continue };
        if is_abandoned(&name, facts.modified()) {
            let _ = folder.remove_file(&name);
        } else if is_entry_name(&name) {
            total = total.saturating_add(facts.len);
            entries.push((facts.modified(), facts.len, name));
        }
    }
    entries.sort();
    for (_, len, name) in entries {
        if total <= MOST_BYTES {
            break;
        }
        total -= len;
        // Another process may have been faster.
        let _ = folder.remove_file(name);
    }
}

/// True for what a writer that was killed has left behind.
fn is_abandoned(name: &str, modified: SystemTime) -> bool {
    let is_ours = name.split_once('.').is_some_and(|(entry, _)| is_entry_name(entry));
    is_ours && SystemTime::now().duration_since(modified).is_ok_and(|age| age > LONGEST_WRITE)
}

fn is_entry_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// True when a description is made sooner from a saved index, even where all of the file lies in memory.
fn has_many_parts(container: &Container) -> bool {
    let chunks = |extents: &Extents| match extents {
        Extents::Chunks(table) if !table.is_regular() => table.len(),
        Extents::Shards(shards) => shards.files.len(),
        Extents::Boxes(boxes) => boxes.len(),
        Extents::Segments(joined) => joined.len(),
        _ => 0,
    };
    let all = container.variables.iter().chain(&container.parts);
    all.map(|variable| chunks(&variable.extents)).sum::<usize>() >= LEAST_CHUNKS
        || container.variables.len() >= LEAST_VARIABLES
}

/// The bytes of the entry `name`, if it is a plain file of this user; using it makes it young.
fn read_entry(folder: &OwnFolder, name: &str) -> Option<Vec<u8>> {
    let mut file = folder.open_to_read(name).ok()?;
    let len = FileFacts::of(&file).ok()?.len;
    if len > MOST_ENTRY_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(len).ok()?);
    file.read_to_end(&mut bytes).ok()?;
    let _ = file.set_modified(SystemTime::now());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saving_many_descriptions_lists_their_folder_a_few_times() {
        let since_listed = SinceListed::default();
        let small = (0..10_000).filter(|_| since_listed.is_due(20_000)).count();
        assert!(small < 20, "{small} times for ten thousand small ones");
        let large = (0..100).filter(|_| since_listed.is_due(MOST_BYTES / 10)).count();
        assert_eq!(large, 100, "what may not fit is looked after");
    }
}
