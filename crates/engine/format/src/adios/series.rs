//! What a file says of a variable: step by step, block by block, whatever version of the format it is.

use std::collections::BTreeMap;

use forebay_process::{Error, Result};

use super::kind::BpType;

/// How the blocks of one step make up the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One value for all writers.
    Value,
    /// One value for each writer.
    Values,
    /// Parts of an array of this shape.
    Global(Vec<u64>),
    /// Arrays of their own.
    Local,
    /// Parts that follow each other along this axis.
    Joined(usize),
}

/// Where the values of a block are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockPlace {
    /// One element that stands in the index itself.
    Value(Vec<u8>),
    /// From byte `at` on of data file `file`, as they are.
    Stored { file: u64, at: u64 },
    /// In `len` bytes from `at` on of data file `file`, changed as that filter undoes.
    Filtered { file: u64, at: u64, len: u64, filter: Filtered },
    /// Changed by this operator, which is not undone here.
    Operator(String),
}

/// What was done to the values of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filtered {
    /// One bzip2 stream, as ADIOS2 before 2.8 wrote it.
    Bzip2,
    /// What the block itself says at its start.
    Operator,
}

/// What one writer put at one step.
#[derive(Clone, Debug)]
pub(super) struct BpBlock {
    /// Its corner in the global array.
    pub(super) start: Vec<u64>,
    /// Its own shape.
    pub(super) count: Vec<u64>,
    /// Its values.
    pub(super) place: BlockPlace,
}

/// A variable at one step.
#[derive(Clone, Debug)]
pub(super) struct VariableStep {
    pub(super) form: Form,
    pub(super) blocks: Vec<BpBlock>,
}

/// A variable at all steps that have it.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) kind: BpType,
    /// By their numbers: writers list them step by step, or rank by rank.
    pub(super) steps: BTreeMap<u64, VariableStep>,
}

/// All variables of a file, and what is wrong with some of them.
#[derive(Debug, Default)]
pub(super) struct AllSeries {
    pub(super) series: BTreeMap<String, Result<Series>>,
}

impl AllSeries {
    /// Notes a block of the variable `name`, in whatever order steps come.
    pub(super) fn add(&mut self, name: &str, kind: BpType, (number, form): (u64, Form), block: BpBlock) {
        let known = self.series.entry(name.to_owned()).or_insert(Ok(Series { kind, steps: BTreeMap::new() }));
        let Ok(series) = known else { return };
        if series.kind != kind {
            *known = Err(Error::corrupt(format!("has another type at step {number}")));
            return;
        }
        let step =
            series.steps.entry(number).or_insert(VariableStep { form: form.clone(), blocks: Vec::new() });
        if step.form == form {
            step.blocks.push(block);
        } else {
            *known = Err(Error::corrupt(format!("blocks of step {number} disagree about its shape")));
        }
    }

    /// Notes that the variable `name` cannot be read.
    pub(super) fn refuse(&mut self, name: &str, why: forebay_process::Error) {
        self.series.insert(name.to_owned(), Err(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_come_rank_by_rank_are_joined_by_their_number() {
        let mut all = AllSeries::default();
        for rank in 0..2 {
            for number in [0, 1, 2] {
                let place = BlockPlace::Stored { file: 0, at: 100 * rank + number };
                let block = BpBlock { start: vec![rank], count: vec![1], place };
                all.add(
                    "v",
                    BpType::Number(forebay_container::Number::F64),
                    (number, Form::Global(vec![2])),
                    block,
                );
            }
        }
        let steps = &all.series["v"].as_ref().unwrap().steps;
        let blocks: Vec<_> = steps.iter().map(|(number, step)| (*number, step.blocks.len())).collect();
        assert_eq!(blocks, [(0, 2), (1, 2), (2, 2)]);
    }
}
