//! Silo files that lie: an error or a right shape, never a panic.

use std::sync::Arc;

use forebay_container::{Selection, load, save};
use forebay_format::{Format, Found, Opened, Silo};
use forebay_source::{Locator, MemoryOrigin};

/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 256 << 10;

const PDB: &[u8] = include_bytes!("../../../../fuzz/corpus/silo/seed_pdb");
const PDB_BIG: &[u8] = include_bytes!("../../../../fuzz/corpus/silo/seed_sun");
const PDB_BLOCKS: &[u8] = include_bytes!("../../../../fuzz/corpus/silo/seed_pdb_blocks");
const HDF5: &[u8] = include_bytes!("../../../../fuzz/corpus/silo/seed_hdf5");

/// Describes `bytes` and reads all that is there; how many variables could be read.
fn read_all(bytes: Vec<u8>) -> usize {
    let origin = Arc::new(MemoryOrigin::default().with("f.silo", bytes));
    let at = Locator::new("f.silo");
    let found = Found::look(&*origin, &at).expect("it is there");
    let _ = Silo.probe(&found);
    let Ok(container) = Silo.describe(&found) else { return 0 };
    let saved = save(&container).expect("a container can be saved");
    assert_eq!(load(&saved).expect("what was saved loads"), container);
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES).on_caller_thread();
    let is_read = |variable: &&forebay_container::Variable| {
        let shape = &variable.grid.shape;
        opened.read(variable, &Selection::all(shape)).is_ok_and(|array| array.shape == *shape)
    };
    opened.container().variables.iter().filter(is_read).count()
}

#[test]
fn the_seeds_themselves_are_read() {
    for (bytes, least) in [(PDB, 5), (PDB_BIG, 5), (PDB_BLOCKS, 50), (HDF5, 5)] {
        let count = read_all(bytes.to_vec());
        assert!(count >= least, "{count} of {least}");
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_reads_what_is_there() {
    for len in 0..PDB.len() {
        read_all(PDB[..len].to_vec());
    }
    for len in (0..HDF5.len()).step_by(5) {
        assert_eq!(read_all(HDF5[..len].to_vec()), 0);
    }
}

#[test]
fn a_byte_changed_anywhere_is_an_error_or_another_value() {
    for bytes in [PDB, PDB_BIG] {
        for at in 0..bytes.len() {
            for change in [0x01, 0x10, 0x7f, 0xff] {
                let mut changed = bytes.to_vec();
                changed[at] ^= change;
                read_all(changed);
            }
        }
    }
    for at in 0..HDF5.len() {
        let mut changed = HDF5.to_vec();
        changed[at] ^= 0xff;
        read_all(changed);
    }
}

#[test]
fn digits_that_grow_never_ask_for_memory() {
    // Every number in the tables stands as digits: nines claim more than any file has. From their first on, and from some others.
    let is_digit = |bytes: &[u8], at: usize| bytes[at].is_ascii_digit();
    for bytes in [PDB, PDB_BLOCKS] {
        let starts = |at: &usize| at.is_multiple_of(7) || *at == 0 || !is_digit(bytes, at - 1);
        for at in (0..bytes.len()).filter(|at| is_digit(bytes, *at)).filter(starts) {
            let mut changed = bytes.to_vec();
            let end = (at..bytes.len()).find(|end| !bytes[*end].is_ascii_digit()).unwrap_or(bytes.len());
            changed[at..end].fill(b'9');
            if at % 3 == 0 {
                changed.splice(end..end, *b"9999999999");
            }
            read_all(changed);
        }
    }
}

#[test]
fn many_symbols_that_share_one_object_end() {
    let text = |bytes: &[u8]| bytes.windows(9).position(|window| window == b"Group *\x011").unwrap();
    let table_line = {
        let at = text(PDB);
        let start = PDB[..at].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        let end = at + PDB[at..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
        (start, PDB[start..end].to_vec())
    };
    let mut bytes = PDB.to_vec();
    let lines: Vec<u8> = (0..20_000)
        .flat_map(|number: u32| [format!("/n{number}").as_bytes(), &table_line.1].concat())
        .collect();
    bytes.splice(table_line.0..table_line.0, lines);
    read_all(bytes);
}
