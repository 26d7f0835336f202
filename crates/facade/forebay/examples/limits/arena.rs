//! Memory for batches and chunks, in pages of a size that is asked for.

use memmap2::{Advice, MmapMut};

use crate::Outcome;

const LARGE_PAGE: usize = 2 << 20;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Pages {
    /// As `malloc` gives them.
    Small,
    /// Of 2 MiB, where the system has them: copies into them are faster, and so is the first touch.
    Large,
}

/// As much as loaders take at most.
const WARM_BYTES: usize = 512 << 20;

/// Touches memory and gives it back, as the loaders that are compared do: hosts of virtual machines take back what lies
/// idle, and to touch it then takes five times as long.
pub(crate) fn warm() -> Outcome<()> {
    let mut memory = Arena::new(WARM_BYTES, Pages::Large)?;
    memory.bytes().iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    Ok(())
}

/// Zeros that nobody has touched yet.
pub(crate) struct Arena {
    map: MmapMut,
    start: usize,
    len: usize,
}

impl Arena {
    pub(crate) fn new(len: usize, pages: Pages) -> Outcome<Self> {
        let map = MmapMut::map_anon(len.next_multiple_of(LARGE_PAGE) + LARGE_PAGE)?;
        if pages == Pages::Large {
            // A system without large pages is slower, and the limit with it.
            let _ = map.advise(Advice::HugePage);
        }
        let start = map.as_ptr().align_offset(LARGE_PAGE);
        Ok(Self { map, start, len })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.len]
    }
}
