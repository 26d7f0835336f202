//! Where the chunks of a variable lie: by its description, or by the indexes of its shards.
//!
//! A shard's index is read when a chunk of the shard is first needed, and kept: to open a store of ten thousand shards must
//! not take ten thousand requests.

use forebay_container::{
    Extent, Extents, Grid, InShard, Selection, ShardIndex, Shards, SourceIndex, Variable,
};
use forebay_source::{ByteRange, Error, ErrorKind, Result, SourceExt, run_concurrently};

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
        let missing = self.unread(files)?;
        if missing.len() < 2 {
            return Ok(());
        }
        run_concurrently(missing, |file| self.shard_index(shards, grid, file).map(drop))
    }

    /// Calls `each` with the indexes of shards that a plan of `selection` would read first, for callers that may not wait.
    pub fn unread_indexes(
        &self,
        variable: &Variable,
        selection: &Selection,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        let Extents::Shards(shards) = &variable.extents else { return Ok(()) };
        self.list_unread(shards, &variable.grid, shards.touching(selection).map(|(_, file)| file), each)
    }

    /// As [`unread_indexes`](Self::unread_indexes), for the chunks `numbers`.
    pub fn unread_indexes_of_chunks(
        &self,
        variable: &Variable,
        numbers: impl Iterator<Item = u64>,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        let Extents::Shards(shards) = &variable.extents else { return Ok(()) };
        let files = numbers.filter_map(|number| Some(shards.find(&variable.grid, number)?.file));
        self.list_unread(shards, &variable.grid, files, each)
    }

    fn list_unread(
        &self,
        shards: &Shards,
        grid: &Grid,
        files: impl Iterator<Item = Extent>,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        for file in self.unread(files)? {
            each(file.source, shards.index_range(grid, file)?);
        }
        Ok(())
    }

    /// The shards among `files` whose index was not read yet.
    fn unread(&self, files: impl Iterator<Item = Extent>) -> Result<Vec<Extent>> {
        let source_count = self.container().sources.len();
        let mut missing: Vec<Extent> = Vec::new();
        for file in files {
            let is_read = self.shard_indexes.slot(file.source, source_count)?.get().is_some();
            if !is_read && missing.last() != Some(&file) {
                missing.push(file);
            }
        }
        Ok(missing)
    }
}
