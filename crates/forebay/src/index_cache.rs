//! Descriptions of files, kept in the user's cache folder.
//!
//! An entry is named by a hash of the source's id, so a changed file never meets its old description. Whatever is
//! wrong with an entry or with the folder makes it a miss: nothing here can fail a read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use forebay_container::{Container, Extents, load, save};
use forebay_format::CSV_HEADER;
use forebay_source::{ErrorKind, Locator, Origin, SourceId, descriptors::retry_when_exhausted};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

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
    folder: PathBuf,
    since_listed: Arc<SinceListed>,
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
        Self { folder: folder.into(), since_listed: Arc::default() }
    }

    /// The cache of this user: `$FOREBAY_CACHE`, `$XDG_CACHE_HOME/forebay` or `~/.cache/forebay`.
    pub fn of_user() -> Option<Self> {
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = from("FOREBAY_CACHE")
            .or_else(|| from("XDG_CACHE_HOME").map(|folder| folder.join("forebay")))
            .or_else(|| from("HOME").map(|home| home.join(".cache/forebay")))?;
        folder.is_absolute().then(|| Self::at(folder.join("index")))
    }

    /// The description of the source `id`, if it was saved and everything it points to is unchanged.
    pub fn get(&self, origin: &dyn Origin, id: &SourceId) -> Option<Container> {
        if !id.version.is_settled(SystemTime::now()) {
            return None;
        }
        self.check_folder()?;
        let path = self.path(id)?;
        let container = load(&read_own(&path)?).ok()?;
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
    pub fn put(&self, id: &SourceId, container: &Container) {
        let now = SystemTime::now();
        let settled = container.sources.iter().all(|source| source.version.is_settled(now));
        // A file that a SWMR writer has open is about to change, however long ago it last did.
        if !settled || container.swmr || !is_worth_saving(container) {
            return;
        }
        let Some(path) = self.path(id) else { return };
        let Ok(bytes) = save(container) else { return };
        let is_written = self.make_folder().is_some() && write_whole(&path, &bytes).is_some();
        if is_written && self.since_listed.is_due(bytes.len() as u64) {
            self.shrink();
        }
    }

    fn path(&self, id: &SourceId) -> Option<PathBuf> {
        let mut bytes = postcard::to_stdvec(id).ok()?;
        // What is said of a CSV file depends on this setting too.
        bytes.extend(std::env::var_os(CSV_HEADER).unwrap_or_default().as_encoded_bytes());
        let hash = Sha256::digest(&bytes);
        let name: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.folder.join(name))
    }

    /// The folder, made for this user alone.
    fn make_folder(&self) -> Option<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).ok()?;
        self.check_folder()
    }

    /// A folder that belongs to somebody else, or that others may look into, is not used.
    fn check_folder(&self) -> Option<()> {
        let folder = fs::symlink_metadata(&self.folder).ok()?;
        (folder.is_dir() && folder.uid() == rustix::process::geteuid().as_raw() && folder.mode() & 0o077 == 0)
            .then_some(())
    }

    /// Removes the entries used longest ago until the rest fit.
    fn shrink(&self) {
        let Ok(listed) = fs::read_dir(&self.folder) else { return };
        let mut entries: Vec<_> = listed
            .flatten()
            .filter_map(|entry| {
                // Whatever else lies here is not ours to remove.
                let name = entry.file_name().into_string().ok()?;
                let meta = entry.metadata().ok()?;
                if is_abandoned(&name, meta.modified().ok()?) {
                    let _ = fs::remove_file(entry.path());
                    return None;
                }
                is_entry_name(&name).then_some(())?;
                Some((meta.modified().ok()?, meta.len(), entry.path()))
            })
            .collect();
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in entries {
            if total <= MOST_BYTES {
                break;
            }
            total -= len;
            // Another process may have been faster.
            let _ = fs::remove_file(path);
        }
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

fn is_worth_saving(container: &Container) -> bool {
    let chunks = |extents: &Extents| match extents {
        Extents::Chunks(table) if !table.is_regular() => table.len(),
        Extents::Segments(joined) => joined.len(),
        _ => 0,
    };
    let all = container.variables.iter().chain(&container.parts);
    all.map(|variable| chunks(&variable.extents)).sum::<usize>() >= LEAST_CHUNKS
        || container.variables.len() >= LEAST_VARIABLES
}

/// The bytes of an entry, if it is a plain file of this user; using it makes it young.
fn read_own(path: &Path) -> Option<Vec<u8>> {
    // Neither a link nor a pipe that nobody writes to leads or holds us anywhere.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = File::options();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let mut file = retry_when_exhausted(|| options.open(path)).ok()?;
    let meta = file.metadata().ok()?;
    let ours =
        meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0;
    if !ours || meta.len() > MOST_ENTRY_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).ok()?);
    file.read_to_end(&mut bytes).ok()?;
    let _ = file.set_modified(SystemTime::now());
    Some(bytes)
}

/// Writes `bytes` to `path` so that a reader sees all of it or nothing.
fn write_whole(path: &Path, bytes: &[u8]) -> Option<()> {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
    let temporary = path.with_extension(format!("{}-{nanos}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file: File = retry_when_exhausted(|| options.open(&temporary))?;
        file.write_all(bytes)?;
        fs::rename(&temporary, path)
    };
    match write() {
        Ok(()) => Some(()),
        Err(_) => {
            let _ = fs::remove_file(&temporary);
            None
        }
    }
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
