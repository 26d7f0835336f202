//! Numbers of samples of a rank, in order or shuffled, in as little memory as they take.

use crate::{
    order::{dealing::BatchDealing, trace::shuffled_at},
    random::Mt19937,
};

/// From so few of a list's places on, they are followed through the shuffle one by one, instead of shuffling the list.
const FEW: u64 = 32;

/// The numbers of a rank's samples.
#[derive(Clone, Debug)]
pub(super) enum SampleNumbers {
    /// In order from this one.
    InOrder(u64),
    /// Shuffled: one for each position of the rank's list.
    Listed(NumberList),
    /// Shuffled: those of the batches alone, each batch from a multiple of the batch size on.
    OfBatches { batch: u64, list: NumberList },
}

/// Numbers of 4 bytes where they fit.
#[derive(Clone, Debug)]
pub(super) enum NumberList {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

/// A list that is shuffled, and the part of it that a rank has.
pub(super) struct ShuffledPart {
    /// Draws the shuffle.
    pub(super) random: Mt19937,
    /// The first of the numbers that are shuffled.
    pub(super) first: u64,
    /// How many are shuffled.
    pub(super) len: u64,
    /// Where in the shuffled list the rank's part begins, and how long it is.
    pub(super) part: (u64, u64),
}

impl ShuffledPart {
    /// The numbers that the first `steps` batches of `dealing` need.
    pub(super) fn numbers(self, dealing: BatchDealing, batch: u64, steps: u64) -> SampleNumbers {
        let few = steps.checked_mul(batch).and_then(|needed| needed.checked_mul(FEW));
        match few.is_some_and(|few| few <= self.len) {
            true => self.of_batches(dealing, batch, steps),
            false => SampleNumbers::Listed(self.listed()),
        }
    }

    fn of_batches(self, dealing: BatchDealing, batch: u64, steps: u64) -> SampleNumbers {
        // Where in the list of batches, and where in the rank's.
        let slots = || {
            let batches = (0..steps).map_while(|step| Some((step * batch, dealing.batch(step)?)));
            batches.flat_map(|(first, dealt)| {
                (0..dealt.len).map(move |index| (first + index, dealing.position(dealt, index)))
            })
        };
        let mut places = Vec::with_capacity(index_of(steps * batch));
        places.extend(slots().map(|(_, position)| self.part.0 + position));
        let found = shuffled_at(self.random, self.len, &places);
        drop(places);
        let mut list = vec![0; index_of(steps * batch)];
        for ((slot, _), number) in slots().zip(found) {
            list[index_of(slot)] = self.first + number;
        }
        SampleNumbers::OfBatches { batch, list: NumberList::of(list, self.first + self.len) }
    }

    fn listed(mut self) -> NumberList {
        let (from, to) = (index_of(self.part.0), index_of(self.part.0 + self.part.1));
        let numbers = self.first..self.first + self.len;
        match u32::try_from(numbers.end) {
            Ok(end) => {
                let first = u32::try_from(self.first).expect("below the end");
                let mut all: Vec<u32> = (first..end).collect();
                self.random.shuffle(&mut all);
                all.truncate(to);
                all.drain(..from);
                NumberList::Short(all)
            }
            Err(_) => {
                let mut all: Vec<u64> = numbers.collect();
                self.random.shuffle(&mut all);
                all.truncate(to);
                all.drain(..from);
                NumberList::Long(all)
            }
        }
    }
}

impl SampleNumbers {
    /// The number at `position` of the rank's list, which is sample `index` of batch `step`.
    pub(super) fn at(&self, position: u64, step: u64, index: u64) -> u64 {
        match self {
            Self::InOrder(first) => first + position,
            Self::Listed(list) => list.get(position),
            Self::OfBatches { batch, list } => list.get(step * batch + index),
        }
    }

    /// Bytes that the numbers take.
    pub(super) fn byte_len(&self) -> usize {
        match self {
            Self::InOrder(_) => 0,
            Self::Listed(list) | Self::OfBatches { list, .. } => list.byte_len(),
        }
    }
}

impl NumberList {
    /// `numbers`, all of which are below `end`.
    fn of(numbers: Vec<u64>, end: u64) -> Self {
        if end > u64::from(u32::MAX) {
            return Self::Long(numbers);
        }
        Self::Short(numbers.into_iter().map(|number| u32::try_from(number).expect("below the end")).collect())
    }

    fn get(&self, index: u64) -> u64 {
        match self {
            Self::Short(list) => list[index_of(index)].into(),
            Self::Long(list) => list[index_of(index)],
        }
    }

    fn byte_len(&self) -> usize {
        match self {
            Self::Short(list) => 4 * list.len(),
            Self::Long(list) => 8 * list.len(),
        }
    }
}

fn index_of(number: u64) -> usize {
    usize::try_from(number).expect("an index of a list in memory")
}
