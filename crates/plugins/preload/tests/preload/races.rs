//! Threads that close, read or are cancelled in the midst of what the library does for another one.

use std::fs;

use forebay_scratch::RunCounter;

use crate::support::{Set, c_program};

/// What `races` prints on a copy of a file of numbers from 0 on.
fn on_copy(how: &str, rounds: &str) -> String {
    let set = Set::new(&[]);
    let numbers: Vec<u8> = (0..200_000_u64).flat_map(u64::to_le_bytes).collect();
    fs::write(set.path("a"), numbers).unwrap();
    set.settle();
    set.place(&["a"]);
    let ran = set.run(c_program("races"), &[how, set.path("a").to_str().unwrap(), rounds]);
    assert!(ran.count(RunCounter::OpensOnCopy) > 0, "{:?}", ran.counts);
    ran.good()
}

#[test]
fn a_number_that_was_closed_and_given_to_another_file_is_not_laid_over() {
    assert_eq!(on_copy("stolen", "150"), "stolen 0\n");
}

#[test]
fn a_thread_reads_each_byte_once_while_another_begins_to_write_to_the_file() {
    assert_eq!(on_copy("twice", "100"), "twice 0\n");
}

#[test]
fn a_thread_may_be_cancelled_while_it_opens_and_reads_files() {
    assert_eq!(on_copy("cancel-open", "30"), "cancelled 30\n");
    let set = Set::new(&[("b", 24 << 20)]);
    // Cold, so that it is read block by block.
    let ran = set.run(c_program("races"), &["cancel-read", set.path("b").to_str().unwrap(), "30"]);
    assert_eq!(ran.good(), "cancelled 30\n");
}
