//! Files of this machine, read through the tiers of the configuration.

use std::{
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    slice,
    sync::{Arc, Once, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_config::{Config, Overrides, Settings, names::RealNames, tiered};
use forebay_source::{
    ByteRange, Error, ErrorKind, FileOrigin, Fill, Locator, Origin, Result, Source, SourceExt, text_of_path,
};
use forebay_tier::{Stats, Tiered};

use crate::interface::FileStatistics;

/// The scheme of paths that are read through the tiers.
pub(crate) const SCHEME: &str = "forebay";

static FILES: OnceLock<TierFiles> = OnceLock::new();
static END: Once = Once::new();

/// Where files are read from, and the tiers between. Both notice a fork by themselves.
#[derive(Debug)]
pub(crate) struct TierFiles {
    config: Config,
    origin: Arc<dyn Origin>,
    tiers: Option<Arc<Tiered>>,
}

/// The files of this process, read through the tiers of `config`, or of the environment and the file that it names. They are opened
/// once: another configuration is refused later.
pub(crate) fn open_files(config: Option<Config>) -> Result<&'static TierFiles> {
    if let Some(files) = FILES.get() {
        return match config {
            Some(other) if other != files.config => {
                let what = "files under forebay:// are read through other tiers already";
                Err(Error::invalid(what).hint("a process has one configuration of them, the first"))
            }
            _ => Ok(files),
        };
    }
    let config = config.map_or_else(|| Ok(Settings::load(&Overrides::default())?.config), Ok::<_, Error>)?;
    let opened = TierFiles::new(config)?;
    END.call_once(|| {
        // SAFETY: the function has the type that is asked for, and this library is never unloaded.
        let _registered = unsafe { libc::atexit(at_exit) };
    });
    // Of two threads that come here at once one opened its tiers for nothing.
    Ok(FILES.get_or_init(|| opened))
}

/// The files of this process, where they were opened.
pub(crate) fn files() -> Result<&'static TierFiles> {
    FILES.get().ok_or_else(|| Error::new(ErrorKind::Bug, "the file system was not initialised"))
}

/// The folder of a job and what waits to be copied end with the process.
extern "C" fn at_exit() {
    let closed = crate::status::guarded(|| {
        if let Some(tiers) = FILES.get().and_then(|files| files.tiers.as_ref()) {
            tiers.close();
        }
        Ok(())
    });
    // Nobody is left to read it.
    drop(closed);
}

impl TierFiles {
    /// Files read through the tiers of `config`, or directly where it has none.
    pub(crate) fn new(config: Config) -> Result<Self> {
        // A program's file is never mapped: its program expects no signal from it.
        let files = Arc::new(FileOrigin::new().without_mapping());
        let tiers = tiered(Arc::clone(&files) as Arc<dyn Origin>, &config, None, None)?;
        let origin = tiers.clone().map_or(files as Arc<dyn Origin>, |tiers| tiers as Arc<dyn Origin>);
        Ok(Self { config, origin, tiers })
    }

    /// Opens a file, as it is now. Links among its folders are followed, so that a file has one copy whatever it is called by.
    pub(crate) fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let name = RealNames::default().of_file(&text_of_path(path));
        self.origin.open(&Locator::new(name))
    }

    /// What was read from where; nothing without tiers.
    pub(crate) fn stats(&self) -> Option<Stats> {
        self.tiers.as_ref().map(|tiers| tiers.stats())
    }
}

/// Fills `into` from `offset` on, as far as the file goes; gives how many bytes that is.
pub(crate) fn read_at(source: &dyn Source, offset: u64, into: &mut [u8]) -> Result<usize> {
    let there = usize::try_from(source.id().len.saturating_sub(offset)).unwrap_or(usize::MAX);
    let len = there.min(into.len());
    if len > 0 {
        let range = ByteRange::at(offset, len as u64);
        source.fetch_into(&mut [Fill { range, into: &mut into[..len] }])?;
    }
    Ok(len)
}

/// Bytes that begin where a page does, as those of a file that TensorFlow maps by itself: it asks for 64 bytes at least.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4096))]
struct MemoryPage([u8; 4096]);

/// A file in memory.
#[derive(Debug)]
pub(crate) struct WholeFile {
    pages: Vec<MemoryPage>,
    len: usize,
}

impl WholeFile {
    /// Reads all bytes of a file.
    pub(crate) fn read(source: &dyn Source) -> Result<Self> {
        let len = usize::try_from(source.id().len).unwrap_or(usize::MAX);
        let count = len.div_ceil(size_of::<MemoryPage>());
        let mut pages = Vec::new();
        pages.try_reserve_exact(count).map_err(|error| {
            let what = format!("no memory for the {len} bytes of the file");
            Error::new(ErrorKind::Full, what).because(error).at(&source.id().locator)
        })?;
        pages.resize(count, MemoryPage([0; 4096]));
        // SAFETY: the pages lie end to end, are bytes and nothing else, and `len` of them are there.
        let into = unsafe { slice::from_raw_parts_mut(pages.as_mut_ptr().cast::<u8>(), len) };
        read_at(source, 0, into)?;
        Ok(Self { pages, len })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: as above; they stay as they are as long as this does.
        unsafe { slice::from_raw_parts(self.pages.as_ptr().cast::<u8>(), self.len) }
    }
}

/// What the file system says of a file or folder. Copies are of bytes alone: names and times are the origin's.
pub(crate) fn statistics(path: &Path) -> Result<FileStatistics> {
    let found = fs::metadata(path).map_err(|error| at_path(error, path))?;
    let modified = found.modified().unwrap_or(UNIX_EPOCH);
    let (length, is_directory) = (i64::try_from(found.len()).unwrap_or(i64::MAX), found.is_dir());
    Ok(FileStatistics { length, mtime_nsec: nanoseconds(modified), is_directory })
}

/// A time as nanoseconds since 1970, before which they are negative.
fn nanoseconds(time: SystemTime) -> i64 {
    let whole = |span: std::time::Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -whole(before.duration()), whole)
}

/// The names in a folder, sorted; each as bytes that hold no NUL.
pub(crate) fn names_in(path: &Path) -> Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(path).map_err(|error| at_path(error, path))?;
    let names = entries.map(|entry| Ok(entry.map_err(|error| at_path(error, path))?.file_name().into_vec()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// The path in `uri`: that of `forebay:///a` is `/a`. Anything else stands for itself, to be refused by its name.
pub(crate) fn path_in(uri: &[u8]) -> &[u8] {
    let rest = uri.strip_prefix(SCHEME.as_bytes()).and_then(|rest| rest.strip_prefix(b"://"));
    match rest {
        // What stands before the path would be a host, which `forebay://data/a` does not mean.
        Some(path) if path.starts_with(b"/") => path,
        _ => uri,
    }
}

/// `path` as that of a file of this machine.
pub(crate) fn local_path(path: &[u8]) -> Result<&Path> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    if !path.is_absolute() {
        let error = Error::invalid("is not an absolute path of this machine").at(path.display());
        return Err(error.hint("three slashes begin one, as in forebay:///data/train.tfrecord"));
    }
    Ok(path)
}

fn at_path(error: std::io::Error, path: &Path) -> Error {
    Error::from_io(error).at(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_tiers() -> TierFiles {
        TierFiles::new(Config::default()).unwrap()
    }

    #[test]
    fn a_name_is_a_path_after_three_slashes_and_nothing_else() {
        assert_eq!(path_in(b"forebay:///data/a"), b"/data/a");
        assert_eq!(path_in(b"forebay:///"), b"/");
        for other in [&b"forebay://data/a"[..], b"forebay://", b"forebay:/data", b"/data/a", b""] {
            assert_eq!(path_in(other), other);
        }
        assert_eq!(local_path(b"/data/a").unwrap(), Path::new("/data/a"));
        let error = local_path(b"forebay://data/a").unwrap_err();
        assert!(error.to_string().starts_with("forebay://data/a: "), "{error}");
    }

    #[test]
    fn bytes_are_those_of_the_file_up_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"0123456789").unwrap();
        let source = without_tiers().open(&path).unwrap();
        let mut into = [0; 4];
        assert_eq!(read_at(&*source, 3, &mut into).unwrap(), 4);
        assert_eq!(&into, b"3456");
        assert_eq!(read_at(&*source, 8, &mut into).unwrap(), 2);
        assert_eq!(&into[..2], b"89");
        for past_the_end in [10, 11, u64::MAX] {
            assert_eq!(read_at(&*source, past_the_end, &mut into).unwrap(), 0);
        }
        let whole = WholeFile::read(&*source).unwrap();
        assert_eq!(whole.bytes(), b"0123456789");
        assert_eq!(whole.bytes().as_ptr().addr() % 64, 0);
        assert!(without_tiers().stats().is_none());
    }

    #[test]
    fn a_folder_has_its_names_and_a_file_its_length() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        fs::write(folder.path().join("a"), b"123").unwrap();
        assert_eq!(names_in(folder.path()).unwrap(), [b"a", b"b"]);
        let (file, inside) =
            (statistics(&folder.path().join("a")).unwrap(), statistics(folder.path()).unwrap());
        assert_eq!((file.length, file.is_directory, inside.is_directory), (3, false, true));
        assert!(file.mtime_nsec > 1_600_000_000 * 1_000_000_000);
        let error = statistics(&folder.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(names_in(&folder.path().join("a")).is_err());
        assert_eq!(nanoseconds(UNIX_EPOCH - std::time::Duration::from_secs(1)), -1_000_000_000);
    }
}
