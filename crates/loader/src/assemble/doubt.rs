//! Bytes that were copied and have yet to be vouched for.

use forebay_container::SourceIndex;
use forebay_source::{Result, Source};

use super::Assembler;
use crate::layout::{Storage, Stretch};

/// Sources that a batch was copied from and that have yet to vouch for it, each once.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    doubts: Vec<Doubt>,
    /// Fields take from the same files in the same order: where the next one is expected that is known already.
    next: usize,
}

/// A source by its place among the files of a set: many batches on their way count no references to it.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    origin: Origin,
    /// Tells sources apart, and is good for nothing else.
    address: usize,
}

/// Where bytes came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The place of the field among those of the set.
    pub(super) column: usize,
    /// True for the column numbers of its sparse rows.
    pub(super) is_indices: bool,
    /// The file.
    pub(super) part: u32,
    /// Which of its sources.
    pub(super) source: SourceIndex,
}

impl Doubts {
    /// True when all is to be believed.
    pub(crate) fn is_empty(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Says that another field begins, which takes from at most `count` sources.
    pub(super) fn begin_field(&mut self, count: usize) {
        self.next = 0;
        if self.doubts.is_empty() {
            self.doubts.reserve_exact(count);
        }
    }

    /// Adds `source`, unless it is there.
    pub(super) fn add(&mut self, source: &dyn Source, origin: Origin) {
        let address = std::ptr::from_ref(source).addr();
        let is_there = |doubt: Option<&Doubt>| doubt.is_some_and(|doubt| doubt.address == address);
        if is_there(self.doubts.get(self.next)) {
            self.next += 1;
        } else if !is_there(self.doubts.last()) {
            self.doubts.push(Doubt { origin, address });
        }
    }
}

impl Assembler {
    /// Makes sure that what was copied from the sources of `doubts` is theirs.
    pub(crate) fn vouch(&self, doubts: &Doubts) -> Result<()> {
        for Doubt { origin, .. } in &doubts.doubts {
            self.vouch_for(*origin)?;
        }
        Ok(())
    }

    fn vouch_for(&self, origin: Origin) -> Result<()> {
        let (mut column, mut layout) =
            (&self.set.columns[origin.column], &self.layout.columns[origin.column]);
        if origin.is_indices
            && let (Some(dense), Some(indices)) = (&column.dense, &layout.indices)
        {
            (column, layout) = (&dense.indices, indices);
        }
        let part = &column.parts[origin.part as usize];
        let source = match &layout.parts[origin.part as usize] {
            Storage::Rows(Stretch::One { source, .. }) => source.get(&part.opened)?,
            _ => part.opened.source(origin.source)?,
        };
        source.vouch().map_err(|error| error.at(format!("variable '{}'", part.variable().name)))
    }
}
