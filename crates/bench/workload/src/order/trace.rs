//! Parts of a shuffled list, without the list: NumPy's shuffle is followed backwards from the places that are asked for.

use std::collections::HashMap;

use crate::random::Mt19937;

/// Draws that are made again at once: the states of the generator in between are kept, 2.5 KiB each.
const BLOCK: u64 = 1 << 20;

/// What `random.shuffle` of the numbers from 0 to `len` puts at `places`.
///
/// The shuffle swaps each place, from the last to the first, with one that is drawn. Backwards, from the first to the last, each swap
/// moves at most two of the places that are followed; draws are made twice, as they come in the other order. It takes a bit for each
/// number, where a list takes 64.
pub(super) fn shuffled_at(random: Mt19937, len: u64, places: &[u64]) -> Vec<u64> {
    let mut followed = FollowedPlaces::new(len, places);
    // The generator before each block of draws, and the last place that the block draws for.
    let (mut states, mut random, mut last) = (Vec::new(), random, len.saturating_sub(1));
    while last > 0 {
        states.push((random.clone(), last));
        let count = BLOCK.min(last);
        for place in (last - count + 1..=last).rev() {
            random.up_to(place);
        }
        last -= count;
    }
    let mut draws = Vec::new();
    for (mut random, last) in states.into_iter().rev() {
        let first = last - BLOCK.min(last) + 1;
        draws.clear();
        draws.extend((first..=last).rev().map(|place| random.up_to(place)));
        for (place, other) in (first..=last).zip(draws.iter().rev()) {
            followed.swap(place, *other);
        }
    }
    followed.found(places.len())
}

/// Places that are followed, each with the one it was asked for as.
struct FollowedPlaces {
    is_followed: Vec<u64>,
    asked: HashMap<u64, usize>,
}

impl FollowedPlaces {
    fn new(len: u64, places: &[u64]) -> Self {
        let words = usize::try_from(len.div_ceil(64)).expect("a bit for each number fits memory");
        let mut followed = Self { is_followed: vec![0; words], asked: HashMap::with_capacity(places.len()) };
        for (number, place) in places.iter().enumerate() {
            followed.mark(*place);
            followed.asked.insert(*place, number);
        }
        followed
    }

    fn swap(&mut self, one: u64, two: u64) {
        if one == two || !(self.has(one) || self.has(two)) {
            return;
        }
        let (first, second) = (self.take(one), self.take(two));
        if let Some(number) = first {
            self.mark(two);
            self.asked.insert(two, number);
        }
        if let Some(number) = second {
            self.mark(one);
            self.asked.insert(one, number);
        }
    }

    fn take(&mut self, place: u64) -> Option<usize> {
        if !self.has(place) {
            return None;
        }
        let (word, bit) = split(place);
        self.is_followed[word] &= !bit;
        self.asked.remove(&place)
    }

    fn has(&self, place: u64) -> bool {
        let (word, bit) = split(place);
        self.is_followed[word] & bit != 0
    }

    fn mark(&mut self, place: u64) {
        let (word, bit) = split(place);
        self.is_followed[word] |= bit;
    }

    fn found(self, count: usize) -> Vec<u64> {
        let mut found = vec![0; count];
        for (place, number) in self.asked {
            found[number] = place;
        }
        found
    }
}

fn split(place: u64) -> (usize, u64) {
    (usize::try_from(place / 64).expect("within the bits"), 1 << (place % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_shuffle_are_those_of_the_shuffled_list() {
        for len in [0, 1, 2, 3, 100, 4097, BLOCK + 17, 2 * BLOCK + 2] {
            let mut list: Vec<u64> = (0..len).collect();
            Mt19937::seeded(7).shuffle(&mut list);
            let places: Vec<u64> = (0..len).filter(|place| place % 37 == 0 || place + 3 > len).collect();
            let expected: Vec<u64> =
                places.iter().map(|place| list[usize::try_from(*place).unwrap()]).collect();
            assert_eq!(shuffled_at(Mt19937::seeded(7), len, &places), expected, "{len}");
        }
    }
}
