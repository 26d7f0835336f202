//! Data sets that libhdf5 keeps open from one read to the next: to open a file takes it longer than to read a sample.

use std::path::{Path, PathBuf};

use forebay_libhdf5::{Hdf5Calls, hdf5_types::hid_t};
use forebay_source::SourceId;

/// Data sets that are kept open: a sample has a few fields.
const MOST_OPEN: usize = 8;

/// Files that one data set may lead to and be kept open: each is asked before every read whether it was changed.
pub(super) const MOST_FILES: usize = 32;

/// Which data set, of which versions of its files.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptRequest<'a> {
    pub(super) path: &'a Path,
    pub(super) name: &'a str,
    /// Its file, and those that its links and mappings lead to.
    pub(super) sources: &'a [SourceId],
    /// Whether it may stay open.
    pub(super) may_be_kept: bool,
}

/// Data sets that were read, the latest last.
#[derive(Debug, Default)]
pub(super) struct RecentDatasets(Vec<RecentDataset>);

#[derive(Debug)]
struct RecentDataset {
    path: PathBuf,
    name: String,
    sources: Vec<SourceId>,
    /// The data set and its file, where they are kept open.
    open: Option<(hid_t, hid_t)>,
}

impl RecentDataset {
    fn is(&self, wanted: &KeptRequest<'_>) -> bool {
        self.path == wanted.path && self.name == wanted.name && self.sources == wanted.sources
    }

    fn close(&mut self, calls: &Hdf5Calls) {
        if let Some((data, file)) = self.open.take() {
            calls.data_close(data);
            calls.file_close(file);
        }
    }
}

impl RecentDatasets {
    /// True when the parts of `wanted` were opened before.
    pub(super) fn knows(&self, wanted: &KeptRequest<'_>) -> bool {
        self.0.iter().any(|known| known.is(wanted))
    }

    /// The data set and the file of `wanted`, where they are open.
    pub(super) fn find(&mut self, wanted: &KeptRequest<'_>) -> Option<(hid_t, hid_t)> {
        if !wanted.may_be_kept {
            return None;
        }
        let at = self.0.iter().position(|known| known.is(wanted))?;
        let known = self.0.remove(at);
        let open = known.open;
        self.0.push(known);
        open
    }

    /// Closes what is open of other versions of the files of `wanted`, or all where these are not known: the library has one
    /// view of a file, and would give what it knows of the old one.
    pub(super) fn close_other_versions(&mut self, calls: &Hdf5Calls, wanted: &KeptRequest<'_>) {
        if !wanted.may_be_kept {
            return self.0.iter_mut().for_each(|known| known.close(calls));
        }
        // By whatever name: the library knows files by their numbers.
        let is_same_file = |one: &SourceId, other: &SourceId| match (one.version.file, other.version.file) {
            (Some(one), Some(other)) => one.inode == other.inode,
            _ => one.locator == other.locator,
        };
        let is_other = |source: &SourceId| {
            wanted.sources.iter().any(|now| is_same_file(now, source) && now.version != source.version)
        };
        self.0.retain_mut(|known| {
            let is_old = known.sources.iter().any(is_other);
            if is_old {
                known.close(calls);
            }
            !is_old
        });
    }

    /// Keeps `wanted`, and what `open` has opened of it unless that is too much; what was read longest ago is closed. True when
    /// `open` is kept.
    pub(super) fn keep(&mut self, calls: &Hdf5Calls, wanted: &KeptRequest<'_>, open: (hid_t, hid_t)) -> bool {
        self.0.retain(|known| !known.is(wanted));
        while self.0.len() >= MOST_OPEN {
            self.0.remove(0).close(calls);
        }
        let is_kept = wanted.may_be_kept && calls.leaves_files_unlocked();
        self.0.push(RecentDataset {
            path: wanted.path.to_owned(),
            name: wanted.name.to_owned(),
            sources: wanted.sources.to_vec(),
            open: is_kept.then_some(open),
        });
        is_kept
    }
}
