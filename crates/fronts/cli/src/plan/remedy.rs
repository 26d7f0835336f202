//! What would make an epoch cheaper: each remedy is tried on paper before it is named.

use forebay::{SampleSet, loader::Estimate, plan::DEFAULT_LANES};

use crate::{
    Context,
    args::loader::{LoaderArgs, ShuffleArg},
};

/// Tries other settings of the loader.
pub(crate) struct Remedies<'a> {
    pub(crate) context: &'a Context,
    pub(crate) loader: &'a LoaderArgs,
    pub(crate) set: &'a SampleSet,
}

/// How often a remedy is made stronger before it is given up.
const TRIES: u32 = 6;
/// Tries are judged by this many samples, so that all of them together take a few seconds at most.
const MOST_SAMPLES: u64 = 300_000;

impl Remedies<'_> {
    /// Flags with which no unit is decoded twice in an epoch.
    pub(crate) fn against_decoding(&self, estimate: &Estimate) -> Vec<String> {
        let spill = format!("--spill-quota {} with --spill on a local disk", flag(estimate.unit_bytes));
        [self.block(), self.memory(estimate), Some(spill)].into_iter().flatten().collect()
    }

    /// A block shuffle that fits into memory, with fewer lanes if need be.
    fn block(&self) -> Option<String> {
        let world = self.loader.world().max(1);
        let given = self.loader.lanes();
        let is_told = self.loader.shuffle() == ShuffleArg::Block;
        for halvings in 0..=TRIES {
            // Ranks own whole lanes.
            let lanes = (given.unwrap_or(DEFAULT_LANES) >> halvings) / world * world;
            if lanes == 0 {
                return None;
            }
            if halvings == 0 && is_told {
                continue;
            }
            let options = match halvings {
                0 => self.loader.options_with(ShuffleArg::Block, self.context),
                _ => self.loader.options_with_lanes(lanes, self.context),
            };
            let tried = Estimate::within(self.set, &options, MOST_SAMPLES);
            let is_once = tried.is_ok_and(|tried| tried.first.decoded_again == 0);
            let more = if halvings == 0 { String::new() } else { format!(" --lanes {lanes}") };
            if is_once {
                return Some(format!("--shuffle block{more}"));
            }
        }
        None
    }

    /// Memory in which all units find room.
    pub(crate) fn memory(&self, estimate: &Estimate) -> Option<String> {
        let Estimate { first, unit_bytes, .. } = *estimate;
        let mut memory = unit_bytes.saturating_add(first.peak_memory_bytes);
        for _ in 0..TRIES {
            let mut options = self.loader.options(self.context);
            options.memory = Some(rounded(memory));
            let tried = Estimate::within(self.set, &options, MOST_SAMPLES);
            if tried.is_ok_and(|tried| tried.first.decoded_again == 0 && tried.first.spilled_bytes == 0) {
                return Some(format!("--memory {}", flag(memory)));
            }
            memory = memory.saturating_add(memory / 4);
        }
        None
    }
}

const MIB: u64 = 1 << 20;

/// Up to whole mebibytes, or gibibytes where those are many.
fn rounded(bytes: u64) -> u64 {
    let step = if bytes < 10 << 30 { MIB } else { 1 << 30 };
    bytes.div_ceil(step).max(1).saturating_mul(step)
}

/// A size as a flag takes it, rounded up: `640MiB`.
fn flag(bytes: u64) -> String {
    let bytes = rounded(bytes);
    if bytes < 10 << 30 { format!("{}MiB", bytes / MIB) } else { format!("{}GiB", bytes >> 30) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::size;

    #[test]
    fn a_size_for_a_flag_is_rounded_up_and_can_be_read_back() {
        for bytes in [0, 1, MIB, MIB + 1, 640 << 20, 10 << 30, (10 << 30) + 1] {
            let read = size::parse(&flag(bytes)).unwrap();
            assert!(read >= bytes && read == rounded(bytes), "{bytes}: {}", flag(bytes));
        }
        assert_eq!((flag(640 << 20).as_str(), flag((12 << 30) - 5).as_str()), ("640MiB", "12GiB"));
    }
}
