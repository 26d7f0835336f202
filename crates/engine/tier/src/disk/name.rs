//! What the files of a mirror are called.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::block::SourceKey;

/// Which mirror: of which version of which source, in blocks of which length. Two lengths of blocks are two mirrors, so
/// that jobs with different settings leave each other's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct MirrorName {
    pub(super) key: SourceKey,
    pub(super) block_len: u64,
}

/// What the files of mirrors and unfinished maps end in.
pub(super) const MAP: &str = "map";
pub(super) const BYTES: &str = "bytes";
pub(super) const UNFINISHED: &str = "new";

impl MirrorName {
    /// The name of the folder in which its files lie: a folder with a million files is slow.
    pub(super) fn folder_name(self) -> String {
        format!("{:02x}", self.key.first())
    }

    /// The path of a file of the mirror in the tier's folder.
    fn path(self, rest: &str) -> PathBuf {
        Path::new(&self.folder_name()).join(format!("{self}.{rest}"))
    }

    /// The map.
    pub(super) fn map(self) -> PathBuf {
        self.path(MAP)
    }

    /// The bytes that belong to the map with `nonce`.
    pub(super) fn bytes(self, nonce: u64) -> PathBuf {
        self.path(&format!("{nonce:016x}.{BYTES}"))
    }

    /// A map that is not there yet, or not any more, as `nonce` tells it from others.
    pub(super) fn unfinished(self, nonce: u64) -> PathBuf {
        self.path(&format!("{nonce:016x}.{UNFINISHED}"))
    }

    /// The mirror that a file called so is about, if it is one of ours.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let (key, block_len) = stem(path)?.split_once('-')?;
        Some(Self { key: SourceKey::parse(key)?, block_len: u64::from_str_radix(block_len, 16).ok()? })
    }
}

impl fmt::Display for MirrorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.key, self.block_len)
    }
}

fn stem(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.split('.').next()
}

/// True for what the file at `path` ends in.
pub(super) fn ends_in(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// True for names of mirrors whose block length is not in the name, as they once were: nothing can be made of them.
pub(super) fn is_outdated(path: &Path) -> bool {
    stem(path).and_then(SourceKey::parse).is_some()
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, SourceId, Version};

    use super::*;

    #[test]
    fn a_name_is_found_again_in_each_of_its_files_and_nowhere_else() {
        let id = SourceId { locator: Locator::new("a"), len: 1, version: Version::named("v") };
        let name = MirrorName { key: SourceKey::of(&id), block_len: 1 << 20 };
        for path in [name.map(), name.bytes(7), name.unfinished(7)] {
            assert_eq!(MirrorName::of(&path), Some(name), "{}", path.display());
            assert!(!is_outdated(&path));
        }
        for foreign in ["usage", "notes-5.map", "3f.map"] {
            assert_eq!(MirrorName::of(Path::new(foreign)), None, "{foreign}");
        }
        assert!(is_outdated(Path::new(&format!("3f/{}.bytes", name.key))));
    }
}
