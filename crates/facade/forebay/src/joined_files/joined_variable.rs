//! One variable of several files: which file has which of its rows, and how it is found there.

use std::ops::Range;

use forebay_container::Variable;
use forebay_format::Opened;
use forebay_process::{Error, Result};

use super::time_shift::TimeShift;

/// A variable that goes on from file to file.
#[derive(Debug)]
pub(super) struct JoinedVariable {
    /// The first row of each file, and one past the last of all.
    pub(super) starts: Vec<u64>,
    /// By how much the times of each file are moved.
    pub(super) shifts: Vec<Option<TimeShift>>,
}

impl JoinedVariable {
    /// The files that have some of `rows`, and which of their own rows these are; at least one.
    pub(super) fn parts(&self, rows: Range<u64>) -> Vec<(usize, Range<u64>)> {
        let own = |number: usize| {
            let (start, end) = (self.starts[number], self.starts[number + 1]);
            rows.start.max(start)..rows.end.min(end)
        };
        let count = self.starts.len() - 1;
        let parts = (0..count).filter(|number| !own(*number).is_empty());
        let parts: Vec<_> = parts
            .map(|number| {
                (number, own(number).start - self.starts[number]..own(number).end - self.starts[number])
            })
            .collect();
        if parts.is_empty() { vec![(0, 0..0)] } else { parts }
    }
}

/// The variable that the file `opened` has under `name`.
pub(super) fn own<'a>(opened: &'a Opened, name: &str) -> Result<&'a Variable> {
    // A leading slash: the stored name.
    opened.variable(&format!("/{name}"))
}

/// `error`, with the variable and the file it is about.
pub(super) fn place(opened: &Opened, name: &str, error: Error) -> Error {
    let error = error.at(format!("variable '{name}'"));
    match opened.container().sources.first() {
        Some(id) => error.at(&id.locator),
        None => error,
    }
}
