//! The format from outside: values, batches, and files that lie.

use std::sync::Arc;

use forebay::{
    Loader, Locator, Opened, Options, Origin, Result, SampleSpec, Selection, SetSpec, Values,
    loader::FieldSpec, plan::Shuffle,
};
use forebay_source::{MemoryOrigin, check};
use own_format::{Packing, register, write};

const HEIGHT: u32 = 3;
const WIDTH: u32 = 5;

fn frames(count: u16) -> Vec<Vec<u16>> {
    (0..count).map(|number| (0..15).map(|at| number * 100 + at / 4).collect()).collect()
}

/// The values of the whole variable, read from `bytes` in memory.
fn read(bytes: Vec<u8>, slice: &str) -> Result<Vec<u16>> {
    let origin: Arc<dyn Origin> = Arc::new(MemoryOrigin::default().with("a.det", bytes));
    let container = forebay::describe(&*origin, &Locator::new("a.det"))?;
    let file = Opened::new(origin, Arc::new(container));
    let variable = file.variable("frames")?;
    let array = file.read(variable, &Selection::parse(slice, &variable.grid.shape)?)?;
    let Values::Fixed(bytes) = array.values else { return Ok(Vec::new()) };
    Ok(bytes.chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]])).collect())
}

#[test]
fn frames_are_read_alike_however_they_are_stored() {
    register();
    for packing in [Packing::Raw, Packing::Runs] {
        let bytes = || write(&frames(4), HEIGHT, WIDTH, packing);
        assert_eq!(read(bytes(), "").unwrap(), frames(4).concat(), "{packing:?}");
        let some: Vec<u16> =
            [1usize, 3].iter().flat_map(|number| frames(4)[*number][6..9].to_vec()).collect();
        assert_eq!(read(bytes(), "1::2, 1, 1:4").unwrap(), some, "{packing:?}");
    }
}

#[test]
fn batches_are_loaded_from_a_file_on_disk() {
    register();
    let folder = tempfile::tempdir().unwrap();
    for (packing, name) in [(Packing::Raw, "raw.det"), (Packing::Runs, "packed.det")] {
        let path = folder.path().join(name);
        std::fs::write(&path, write(&frames(50), HEIGHT, WIDTH, packing)).unwrap();
        let name = path.to_string_lossy().into_owned();
        assert_eq!(forebay::open_file(&name).unwrap().container().format, "detector-frames");
        let fields = SampleSpec { fields: vec![FieldSpec::new("frames")] };
        let set = forebay::open_set(SetSpec { files: vec![vec![name]], fields }, None).unwrap();
        let options = Options { batch_size: 8, shuffle: Shuffle::Full, seed: 1, ..Options::default() };
        let loader = Loader::new(Arc::new(set), options).unwrap();
        let mut seen = Vec::new();
        for batch in loader.batches().unwrap() {
            let batch = batch.unwrap();
            let field = batch.field("frames").unwrap();
            assert_eq!(field.shape[1..], [u64::from(HEIGHT), u64::from(WIDTH)]);
            for (sample, bytes) in batch.samples.iter().zip(field.bytes.chunks_exact(30)) {
                let number = sample.unwrap();
                let expected = &frames(50)[usize::try_from(number).unwrap()];
                assert!(expected.iter().flat_map(|value| value.to_ne_bytes()).eq(bytes.iter().copied()));
                seen.push(number);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn a_file_that_lies_gives_an_error_and_nothing_worse() {
    register();
    for packing in [Packing::Raw, Packing::Runs] {
        let whole = write(&frames(3), HEIGHT, WIDTH, packing);
        for len in 0..whole.len() {
            assert!(read(whole[..len].to_vec(), "").is_err(), "{packing:?} cut to {len}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                // Values may differ; a shape that the file cannot fill may not come back.
                if let Ok(values) = read(flipped, "") {
                    assert!(values.len() <= whole.len(), "{packing:?} bit {bit} of {at}");
                }
            }
        }
    }
}

#[test]
fn an_error_says_where_and_what_helps() {
    register();
    let mut bytes = write(&frames(3), HEIGHT, WIDTH, Packing::Raw);
    bytes[23] = 0xff;
    let error = read(bytes, "").unwrap_err().to_string();
    assert!(error.starts_with("a.det: offset 0x10: ") && error.ends_with("; restore the file"), "{error}");
}

/// Who writes a `Source` or an `Origin` of their own tests it by the clauses of the contract, like this.
#[test]
fn what_the_format_reads_by_keeps_its_contract() {
    let bytes = write(&frames(9), HEIGHT, WIDTH, Packing::Raw);
    let origin = MemoryOrigin::default().with("a.det", bytes.clone());
    let at = Locator::new("a.det");
    check::every_source_clause(&*origin.open(&at).unwrap(), &bytes);
    check::reopening_gives_an_equal_id(&origin, &at);
}
