//! A word on reading rows of a variable at random.

use forebay::{
    Variable,
    container::{RowCost, row_cost},
};
use serde::Serialize;

/// Up to this many bytes read or decoded per byte used, random rows come about as fast as rows in order: other
/// work of a training step hides a factor of two.
const GOOD_FACTOR: f64 = 2.0;
/// Up to this factor a few more threads make up for it; beyond, most of the machine works on bytes nobody wants.
const FAIR_FACTOR: f64 = 8.0;
/// A variable no longer than this is decoded once and kept: labels and coordinates, mostly.
const KEPT_BYTES: u64 = 1 << 20;
/// Rows shorter than this are not worth a chunk of their own: its place in the index and its request cost more.
const LEAST_CHUNK_BYTES: u64 = 4096;

/// How well rows can be read at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Good,
    Fair,
    Poor,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
        }
    }
}

fn factor(cost: &RowCost) -> f64 {
    cost.read_factor().max(cost.decode_factor())
}

/// True when a variable is decoded once and kept, whatever a row of it costs by itself.
fn is_kept(variable: &Variable, cost: &RowCost) -> bool {
    variable.logical_len().max(cost.decoded) <= KEPT_BYTES
}

/// The word on `cost`, which is that of a row of `variable`.
fn judge(variable: &Variable, cost: &RowCost) -> Verdict {
    let factor = factor(cost);
    if factor <= GOOD_FACTOR || is_kept(variable, cost) {
        return Verdict::Good;
    }
    if factor <= FAIR_FACTOR { Verdict::Fair } else { Verdict::Poor }
}

/// What would help a variable whose rows are dear.
fn hint(variable: &Variable, cost: &RowCost) -> String {
    let rows = variable.grid.chunk.first().copied().unwrap_or(1);
    if rows == 1 {
        return "chunks reach far past the array's border: rechunk to a shape that divides the array's"
            .into();
    }
    if cost.used < LEAST_CHUNK_BYTES {
        return "rows are short: shuffle in blocks, so that each chunk is decoded once".into();
    }
    format!("rechunk so that a chunk holds fewer rows than {rows}, or shuffle in blocks")
}

/// What a row read at random costs. In JSON: sizes in bytes, factors per byte used.
#[derive(Debug, Serialize)]
pub(crate) struct RandomRowCost {
    pub(crate) used_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) decoded_bytes: u64,
    pub(crate) read_factor: f64,
    pub(crate) decode_factor: f64,
    pub(crate) verdict: Verdict,
    /// True when the whole variable is decoded once and kept: what a row costs by itself is not paid again and again.
    pub(crate) kept: bool,
    pub(crate) hint: Option<String>,
}

impl RandomRowCost {
    /// The cost of a row of `variable`, where there is one.
    pub(crate) fn of(variable: &Variable) -> Option<Self> {
        let cost = row_cost(variable)?;
        let verdict = judge(variable, &cost);
        Some(Self {
            used_bytes: cost.used,
            read_bytes: cost.read,
            decoded_bytes: cost.decoded,
            read_factor: cost.read_factor(),
            decode_factor: cost.decode_factor(),
            verdict,
            kept: factor(&cost) > GOOD_FACTOR && is_kept(variable, &cost),
            hint: (verdict == Verdict::Poor).then(|| hint(variable, &cost)),
        })
    }
}

#[cfg(test)]
mod tests {
    use forebay::container::{ChunkTable, Dtype, Extents, Grid, Number};

    use super::*;

    fn variable(shape: &[u64], chunk: &[u64]) -> Variable {
        Variable {
            name: "v".into(),
            dtype: Dtype::native(Number::F64),
            grid: Grid { shape: shape.to_vec(), chunk: chunk.to_vec() },
            max_shape: shape.iter().copied().map(Some).collect(),
            layout: "chunked".into(),
            filters: vec![],
            fill: vec![],
            extents: Extents::Chunks(ChunkTable::default()),
            heap: None,
            attributes: vec![],
            dimensions: vec![],
            type_name: None,
        }
    }

    fn cost(used: u64, decoded: u64) -> RowCost {
        RowCost { used, read: used, decoded }
    }

    #[test]
    fn the_greater_factor_decides() {
        let large = variable(&[1000, 1000], &[10, 1000]);
        let word = |decoded| judge(&large, &cost(8000, decoded)).word();
        assert_eq!(
            [word(0), word(16_000), word(16_001), word(64_000), word(64_001)],
            ["good", "good", "fair", "fair", "poor"]
        );
    }

    #[test]
    fn a_variable_that_is_decoded_once_and_kept_is_good_whatever_a_row_costs() {
        let labels = variable(&[100_000], &[100_000]);
        assert_eq!(judge(&labels, &cost(8, 800_000)), Verdict::Good);
        // A small array in a vast chunk is not.
        assert_eq!(judge(&labels, &cost(8, 8_000_000)), Verdict::Poor);
    }

    #[test]
    fn a_hint_fits_what_is_wrong() {
        let hinted = |chunk: &[u64], used| hint(&variable(&[1000, 1000], chunk), &cost(used, 1 << 30));
        assert!(hinted(&[1, 5000], 8000).contains("border"));
        assert!(hinted(&[64, 1000], 80).contains("shuffle in blocks, so that"));
        assert!(hinted(&[64, 1000], 8000).contains("fewer rows than 64"));
    }
}
