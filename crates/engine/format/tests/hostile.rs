//! Files that lie: whatever the bytes, the answer is a value or an error, soon, and within bounded memory.
//!
//! `FOREBAY_HOSTILE` is the folder that `tests/matrix/make_hostile.py` wrote; `make test` sets it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

#[path = "support/corpus.rs"]
mod corpus;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_container::Selection;
use forebay_format::{Opened, describe};
use forebay_source::{Locator, MemoryOrigin};
use rayon::prelude::*;

/// A file of a few kilobytes takes milliseconds; a walk that never ends takes for ever.
const LONGEST: Duration = Duration::from_secs(60);
/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 4 << 20;

/// Describes `bytes` and reads every variable; gives how many values and errors came back.
fn read_all(bytes: Vec<u8>) -> (usize, usize) {
    let origin = Arc::new(MemoryOrigin::default().with("f.h5", bytes));
    let Ok(container) = describe(&*origin, &Locator::new("f.h5")) else { return (0, 1) };
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES);
    let (mut values, mut errors) = (0, 0);
    for variable in &opened.container().variables {
        match opened.read(variable, &Selection::all(&variable.grid.shape)) {
            Ok(_) => values += 1,
            Err(_) => errors += 1,
        }
    }
    (values, errors)
}

fn files(variable: &str, ending: &[&str]) -> Vec<PathBuf> {
    let folder = std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is set by `make test`"));
    let has_ending =
        |path: &Path| path.extension().is_some_and(|found| ending.iter().any(|wanted| found == *wanted));
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| has_ending(path));
    files.sort();
    files
}

fn timed(path: &Path, bytes: Vec<u8>) -> (usize, usize) {
    let start = Instant::now();
    let answer = read_all(bytes);
    assert!(start.elapsed() < LONGEST, "{}: took {:?}", path.display(), start.elapsed());
    answer
}

#[test]
fn truncated_and_damaged_files_give_values_or_errors() {
    let files = files("FOREBAY_HOSTILE", &["h5", "nc"]);
    assert!(files.len() > 300, "only {} files", files.len());
    let answers: Vec<_> = files.par_iter().map(|path| timed(path, std::fs::read(path).unwrap())).collect();
    assert!(answers.iter().any(|(_, errors)| *errors > 0));
}

#[test]
fn flips_anywhere_in_small_files_never_harm() {
    let mut small = files("FOREBAY_MATRIX", &["h5", "nc"]);
    small.retain(|path| path.metadata().unwrap().len() < 48 << 10);
    assert!(small.len() > 20);
    small.par_iter().for_each(|path| {
        let good = std::fs::read(path).unwrap();
        let mut state = good.len() as u64 | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..60 {
            let mut bad = good.clone();
            for _ in 0..=random() % 4 {
                let at = usize::try_from(random() % bad.len() as u64).unwrap();
                bad[at] = match random() % 4 {
                    0 => 0xff,
                    1 => 0,
                    _ => bad[at] ^ 1 << (random() % 8),
                };
            }
            timed(path, bad);
        }
    });
}

#[test]
fn the_fuzzers_corpus_never_harms() {
    let mut inputs = corpus::seeds("hdf5");
    inputs.extend(corpus::found("hdf5"));
    inputs.into_par_iter().for_each(|(path, bytes)| {
        timed(&path, bytes);
    });
}
