//! Sources that bytes were copied from, and whether they are unchanged.

use std::sync::Arc;

use forebay_batch::Verify;
use forebay_container::SourceIndex;
use forebay_process::Result;
use forebay_source::Source;

use crate::{
    layout::{SetLayout, Storage, StoredRows, walk::FieldRead},
    set::SampleSet,
};

/// Sources that a batch was copied from and that have yet to be verified, each once.
#[derive(Debug, Default)]
pub(super) struct UnverifiedSources {
    sources: Vec<UnverifiedSource>,
    /// Fields are copied from the same files in the same order: the next known source that is expected.
    next: usize,
}

/// A source by its place among the files of a set: many batches on their way count no references to it.
#[derive(Clone, Copy, Debug)]
struct UnverifiedSource {
    place: SourcePlace,
    /// Tells sources apart, and is never used as an address.
    address: usize,
}

/// The place of a source among the files of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourcePlace {
    /// The place of the field among those of the set.
    pub(super) column: usize,
    /// True for the column numbers of its sparse rows.
    pub(super) is_indices: bool,
    /// The file.
    pub(super) part: u32,
    /// Which of its sources.
    pub(super) source: SourceIndex,
}

impl UnverifiedSources {
    /// True when all bytes are right for certain.
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Says that another field begins, which is copied from at most `count` sources.
    pub(super) fn begin_field(&mut self, count: usize) {
        self.next = 0;
        if self.sources.is_empty() {
            self.sources.reserve_exact(count);
        }
    }

    /// Adds `source`, unless it is there.
    pub(super) fn add(&mut self, source: &dyn Source, place: SourcePlace) {
        let address = std::ptr::from_ref(source).addr();
        let is_same = |known: Option<&UnverifiedSource>| known.is_some_and(|known| known.address == address);
        if is_same(self.sources.get(self.next)) {
            self.next += 1;
        } else if !is_same(self.sources.last()) {
            self.sources.push(UnverifiedSource { place, address });
        }
    }

    /// Asks each source of `set`, which is read as `layout` says, whether its bytes are those that were copied.
    pub(super) fn verify(&self, set: &SampleSet, layout: &SetLayout) -> Result<()> {
        for UnverifiedSource { place, .. } in &self.sources {
            let whole = FieldRead::of(set, layout, place.column);
            let field = whole.indices().filter(|_| place.is_indices).unwrap_or(whole);
            let part = &field.column.parts[place.part as usize];
            let source = match &field.layout.parts[place.part as usize] {
                Storage::Rows(StoredRows::Contiguous { source, .. }) => source.get(&part.opened)?,
                _ => part.opened.source(place.source)?,
            };
            source.verify().map_err(|error| error.at(format!("variable '{}'", part.variable().name)))?;
        }
        Ok(())
    }
}

/// The sources of a batch, which outlive the call that made it.
#[derive(Debug)]
pub(super) struct UnverifiedFiles {
    pub(super) set: Arc<SampleSet>,
    pub(super) layout: Arc<SetLayout>,
    pub(super) sources: UnverifiedSources,
}

impl Verify for UnverifiedFiles {
    fn verify(&self) -> Result<()> {
        self.sources.verify(&self.set, &self.layout)
    }
}
