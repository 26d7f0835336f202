//! Draws by weight: by inversion of prefix sums with replacement, by removal from a Fenwick tree without.
//!
//! Weights become integers first, so that every machine draws the same: `max(1, round(w / sum * 2^62))`, and 0 for 0. Draw
//! `p` of an epoch is the number whose share of the integers holds `below(total)` of the key `(seed, epoch, p)`.

use std::sync::Arc;

use forebay_process::Result;

use super::checks::{check_count, invalid};
use crate::seed::{Purpose, SeedKey};

/// Draws by weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedDraws {
    /// Sums of the integer weights up to each number and including it.
    sums: Arc<[u64]>,
    len: u64,
    is_replaced: bool,
}

/// What all weights come to, but for rounding.
const TOTAL: f64 = 4_611_686_018_427_387_904.0;

impl WeightedDraws {
    /// `len` draws by `weights`, in which a number may come again where `is_replaced`.
    pub fn new(weights: &[f64], len: u64, is_replaced: bool) -> Result<Self> {
        check_count("the number of weights", weights.len() as u64)?;
        check_count("the number of draws", len)?;
        if let Some((number, weight)) =
            weights.iter().enumerate().find(|(_, weight)| !weight.is_finite() || **weight < 0.0)
        {
            return Err(invalid(format!("weight {number} is {weight}"), "give finite weights of at least 0"));
        }
        let largest = weights.iter().copied().fold(0.0, f64::max);
        if largest == 0.0 {
            return Err(invalid("no weight is above 0", "give some samples a weight above 0"));
        }
        let scale = TOTAL / weights.iter().map(|weight| weight / largest).sum::<f64>();
        let mut sum = 0u64;
        let sums = weights.iter().map(|weight| {
            sum += integer(weight / largest, scale);
            sum
        });
        let sums: Arc<[u64]> = sums.collect();
        let drawable = weights.iter().filter(|weight| **weight > 0.0).count() as u64;
        if !is_replaced && len > drawable {
            let what =
                format!("{len} draws without replacement from {drawable} samples that have a weight above 0");
            return Err(invalid(what, "draw fewer, or with replacement"));
        }
        Ok(Self { sums, len, is_replaced })
    }

    /// How many draws an epoch has.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn population(&self) -> u64 {
        self.sums.len() as u64
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    pub(super) fn each_word(&self, add: &mut dyn FnMut(u64)) {
        add(self.len);
        add(u64::from(self.is_replaced));
        self.sums.iter().for_each(|sum| add(*sum));
    }

    /// The number of draw `position`, with replacement.
    pub(super) fn number(&self, seed: u64, epoch: u64, position: u64) -> u64 {
        let total = self.sums.last().copied().unwrap_or(0);
        let mark = SeedKey::new(Purpose::Draw, seed, epoch).with(position).below(total);
        self.sums.partition_point(|sum| *sum <= mark) as u64
    }

    /// All draws of an epoch, without replacement: each removes what it drew.
    pub(super) fn table(&self, seed: u64, epoch: u64) -> Vec<u32> {
        let key = SeedKey::new(Purpose::Draw, seed, epoch);
        let mut left = FenwickTree::new(&self.sums);
        let mut total = self.sums.last().copied().unwrap_or(0);
        let draw = |position: u64| {
            let (number, weight) = left.remove(key.with(position).below(total));
            total -= weight;
            number
        };
        (0..self.len).map(draw).collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at least 0 and at most TOTAL, a float that u64 holds")]
fn integer(weight: f64, scale: f64) -> u64 {
    if weight == 0.0 { 0 } else { ((weight * scale).round() as u64).max(1) }
}

/// Sums of weights that can be taken out one by one, in logarithmic time.
struct FenwickTree {
    nodes: Vec<u64>,
    weights: Vec<u64>,
}

impl FenwickTree {
    fn new(sums: &[u64]) -> Self {
        let mut before = 0;
        let weights: Vec<u64> = sums.iter().map(|sum| *sum - std::mem::replace(&mut before, *sum)).collect();
        // Node i holds what the numbers i - lowbit(i) to i - 1 weigh.
        let sum_to = |count: usize| if count == 0 { 0 } else { sums[count - 1] };
        let nodes = (0..=sums.len()).map(|node| sum_to(node) - sum_to(node & node.wrapping_sub(1))).collect();
        Self { nodes, weights }
    }

    /// Takes out the number whose share holds `mark`, and gives what it weighed.
    fn remove(&mut self, mark: u64) -> (u32, u64) {
        let (mut number, mut mark) = (0, mark);
        let mut width = self.weights.len().checked_ilog2().map_or(0, |bits| 1usize << bits);
        while width > 0 {
            if let Some(sum) = self.nodes.get(number + width).filter(|sum| **sum <= mark) {
                mark -= *sum;
                number += width;
            }
            width /= 2;
        }
        let weight = std::mem::take(&mut self.weights[number]);
        let mut node = number + 1;
        while let Some(sum) = self.nodes.get_mut(node) {
            *sum -= weight;
            node += node & node.wrapping_neg();
        }
        (u32::try_from(number).unwrap_or(u32::MAX), weight)
    }
}
