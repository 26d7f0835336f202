//! Where the chunks of a variable lie: by its description, or by the indexes of its shards.
//!
//! A shard's index is read when a chunk of the shard is first needed, and kept: to open a store of ten thousand shards must
//! not take ten thousand requests.

use forebay_container::{Extent, Extents, Grid, InShard, Selection, ShardIndex, Shards, Variable};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, SourceExt, run_concurrently};

use crate::Opened;

impl Opened {
    /// Where chunk `number` of `variable` lies; `None` when it was never written. This may read the index of a shard.
    #[inline]
    pub(crate) fn chunk_extent(&self, variable: &Variable, number: u64) -> Result<Option<Extent>> {
        match &variable.extents {
            Extents::Chunks(table) => Ok(table.get(number)),
            Extents::Shards(shards) => self.extent_in_shard(shards, &variable.grid, number),
            _ => Err(Error::new(ErrorKind::Unsupported, "not stored in chunks")),
        }
    }

    fn extent_in_shard(&self, shards: &Shards, grid: &Grid, number: u64) -> Result<Option<Extent>> {
        let Some(place) = shards.find(grid, number) else { return Ok(None) };
        let index = self.shard_index(shards, grid, place.file)?;
        shards.extent(index, place).map_err(|error| {
            let start = shards.index_range(grid, place.file).map_or(0, |range| range.start);
            let InShard { file, position, .. } = place;
            self.at_shard(error.at(format!("chunk {position} of the index at {start:#x}")), file)
        })
    }

    /// The index of the shard `file`.
    fn shard_index(&self, shards: &Shards, grid: &Grid, file: Extent) -> Result<&ShardIndex> {
        let slot = self.shard_indexes.slot(file.source, self.container().sources.len())?;
        if slot.get().is_none() {
            let index =
                self.read_shard_index(shards, grid, file).map_err(|error| self.at_shard(error, file))?;
            // Another thread may have been faster: the index is the same.
            let _ = slot.set(index);
        }
        slot.get().ok_or_else(|| Error::new(ErrorKind::Bug, "an index vanished"))
    }

    fn read_shard_index(&self, shards: &Shards, grid: &Grid, file: Extent) -> Result<ShardIndex> {
        let range = shards.index_range(grid, file)?;
        let place = |error: Error| error.at(format!("index at {:#x}", range.start));
        if range.len() > self.budget() {
            let what = format!("an index of {} bytes, and memory for {}", range.len(), self.budget());
            return Err(place(Error::new(ErrorKind::Full, what)));
        }
        let bytes = self.source(file.source)?.fetch_one(range).map_err(place)?;
        shards.index(&bytes).map_err(place)
    }

    fn at_shard(&self, error: Error, file: Extent) -> Error {
        match self.container().sources.get(file.source.0 as usize) {
            Some(id) => error.at(&id.locator),
            None => error,
        }
    }

    /// Reads the indexes that `selection` of `variable` needs, all at once: one after the other they would take a round trip
    /// each.
    pub(crate) fn read_indexes_of(&self, variable: &Variable, selection: &Selection) -> Result<()> {
        let Extents::Shards(shards) = &variable.extents else { return Ok(()) };
        self.read_missing_indexes(shards, &variable.grid, shards.touching(selection).map(|(_, file)| file))
    }

    /// As [`read_indexes_of`](Self::read_indexes_of), for the chunks `numbers`.
    pub(crate) fn read_indexes_of_chunks(&self, variable: &Variable, numbers: &[u64]) -> Result<()> {
        let Extents::Shards(shards) = &variable.extents else { return Ok(()) };
        let grid = &variable.grid;
        let files = numbers.iter().filter_map(|number| Some(shards.find(grid, *number)?.file));
        self.read_missing_indexes(shards, grid, files)
    }

    fn read_missing_indexes(
        &self,
        shards: &Shards,
        grid: &Grid,
        files: impl Iterator<Item = Extent>,
    ) -> Result<()> {
        let missing = self.unread(files);
        if missing.len() < 2 {
            return Ok(());
        }
        run_concurrently(missing, |file| self.shard_index(shards, grid, file).map(drop))
    }

    /// The shards whose indexes a plan of `selection` would read first, for callers that may not wait.
    pub fn unread_shards(&self, variable: &Variable, selection: &Selection) -> Vec<UnreadShard> {
        let Extents::Shards(shards) = &variable.extents else { return Vec::new() };
        self.with_indexes(shards, &variable.grid, shards.touching(selection).map(|(_, file)| file))
    }

    /// As [`unread_shards`](Self::unread_shards), for the chunks `numbers`.
    pub fn unread_shards_of_chunks(
        &self,
        variable: &Variable,
        numbers: impl Iterator<Item = u64>,
    ) -> Vec<UnreadShard> {
        let Extents::Shards(shards) = &variable.extents else { return Vec::new() };
        let files = numbers.filter_map(|number| Some(shards.find(&variable.grid, number)?.file));
        self.with_indexes(shards, &variable.grid, files)
    }

    fn with_indexes(
        &self,
        shards: &Shards,
        grid: &Grid,
        files: impl Iterator<Item = Extent>,
    ) -> Vec<UnreadShard> {
        // An error of a file is reported when it is read.
        let index = |file: Extent| shards.index_range(grid, file).ok();
        self.unread(files).into_iter().map(|file| UnreadShard { file, index: index(file) }).collect()
    }

    /// The shards among `files` whose index was not read yet, each once.
    fn unread(&self, files: impl Iterator<Item = Extent>) -> Vec<Extent> {
        let source_count = self.container().sources.len();
        let is_read = |file: &Extent| {
            let slot = self.shard_indexes.slot(file.source, source_count);
            slot.is_ok_and(|slot| slot.get().is_some())
        };
        let mut missing: Vec<Extent> = files.filter(|file| !is_read(file)).collect();
        missing.sort_unstable_by_key(|file| file.source);
        missing.dedup_by_key(|file| file.source);
        missing
    }
}

/// A shard whose index was not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadShard {
    /// The shard's file.
    pub file: Extent,
    /// Where its index lies; `None` where the file is too short for one.
    pub index: Option<ByteRange>,
}
