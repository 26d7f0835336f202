//! What a file says of a variable: step by step, block by block, whatever version of the format it is.

use std::collections::BTreeMap;

use forebay_source::Result;

use super::{cursor::corrupt, kind::Kind};

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
pub(super) enum Place {
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
pub(super) struct Block {
    /// Its corner in the global array.
    pub(super) start: Vec<u64>,
    /// Its own shape.
    pub(super) count: Vec<u64>,
    /// Its values.
    pub(super) place: Place,
}

/// A variable at one step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Which step, from 0.
    pub(super) number: u64,
    pub(super) form: Form,
    pub(super) blocks: Vec<Block>,
}

/// A variable at all steps that have it.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) kind: Kind,
    pub(super) steps: Vec<Step>,
}

/// All variables of a file, and what is wrong with some of them.
#[derive(Debug, Default)]
pub(super) struct AllSeries {
    pub(super) series: BTreeMap<String, Result<Series>>,
}

impl AllSeries {
    /// Notes a block of the variable `name`; steps must come in rising order.
    pub(super) fn add(&mut self, name: &str, kind: Kind, (number, form): (u64, Form), block: Block) {
        let known = self.series.entry(name.to_owned()).or_insert(Ok(Series { kind, steps: Vec::new() }));
        let Ok(series) = known else { return };
        if series.kind != kind {
            *known = Err(corrupt(format!("has another type at step {number}")));
            return;
        }
        match series.steps.last_mut() {
            Some(step) if step.number == number && step.form != form => {
                *known = Err(corrupt(format!("blocks of step {number} disagree about its shape")));
            }
            Some(step) if step.number == number => step.blocks.push(block),
            _ => series.steps.push(Step { number, form, blocks: vec![block] }),
        }
    }

    /// Notes that the variable `name` cannot be read.
    pub(super) fn refuse(&mut self, name: &str, why: forebay_source::Error) {
        self.series.insert(name.to_owned(), Err(why));
    }
}
