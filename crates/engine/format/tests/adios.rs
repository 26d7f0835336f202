//! ADIOS folders that lie: whatever the bytes, the answer is a value or an error, soon, and within bounded memory.
//!
//! The folders are the fuzzer's seeds; `fuzz/make_adios_seeds.py` made them, and says how they are packed.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{path::Path, sync::Arc};

use forebay_container::{Container, Extents, Selection, Values, load, save};
use forebay_format::{Opened, describe};
use forebay_source::{Locator, MemoryOrigin};
use rayon::prelude::*;

/// What is read of a variable at most: a file can claim any shape.
const MOST_BYTES: u64 = 1 << 20;

/// The files of a folder, by name.
type Folder = Vec<(&'static str, Vec<u8>)>;

fn seed(name: &str) -> Vec<u8> {
    let folder = Path::new("../../../fuzz/corpus/adios");
    std::fs::read(folder.join(name)).unwrap()
}

fn unpacked(name: &str) -> Folder {
    let packed = seed(name);
    let mut rest = &packed[..];
    let names = ["f.bp/md.idx", "f.bp/md.0", "f.bp/mmd.0", "f.bp/data.0"];
    let next = |name: &'static str| {
        let (len, after) = rest.split_first_chunk::<4>().unwrap();
        let (file, after) = after.split_at(usize::try_from(u32::from_le_bytes(*len)).unwrap());
        rest = after;
        (name, file.to_vec())
    };
    names.map(next).into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect()
}

/// All folders: of the newest format, of the one before, and of the one before that, whose values are beside it.
fn folders() -> Vec<Folder> {
    let names = ["mixed", "blocks", "operator", "one"];
    let packed = names.iter().flat_map(|name| [format!("seed_{name}_bp4"), format!("seed_{name}_bp5")]);
    let mut folders: Vec<Folder> = packed.map(|name| unpacked(&name)).collect();
    folders.push(vec![("f.bp", seed("seed_bp3")), ("f.bp.dir/f.bp.0", vec![7; 2000])]);
    folders
}

fn described(folder: &Folder) -> Result<Opened, forebay_process::Error> {
    let add = |origin: MemoryOrigin, (name, bytes): &(&str, Vec<u8>)| origin.with(name, bytes.clone());
    let origin = Arc::new(folder.iter().fold(MemoryOrigin::default(), add));
    let container: Container = describe(&*origin, &Locator::new("f.bp"))?;
    assert_eq!(load(&save(&container).unwrap()).unwrap(), container);
    Ok(Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES))
}

/// Reads all that `folder` has.
fn read_all(folder: &Folder) {
    let Ok(opened) = described(folder) else { return };
    for variable in &opened.container().variables {
        if let Ok(array) = opened.read(variable, &Selection::all(&variable.grid.shape)) {
            assert_eq!(array.shape, variable.grid.shape);
        }
    }
}

/// `folder` with file `index` changed.
fn changed(folder: &Folder, index: usize, change: impl FnOnce(&mut Vec<u8>)) -> Folder {
    let mut changed = folder.clone();
    change(&mut changed[index].1);
    changed
}

#[test]
fn good_folders_have_the_values_that_were_put() {
    for name in ["seed_mixed_bp4", "seed_mixed_bp5"] {
        let opened = described(&unpacked(name)).unwrap();
        assert!(opened.container().refused.is_empty(), "{:?}", opened.container().refused);
        let read = |name: &str| {
            let variable = opened.variable(name).unwrap();
            let array = opened.read(variable, &Selection::all(&variable.grid.shape)).unwrap();
            let Values::Fixed(bytes) = array.values else { panic!("not fixed") };
            (variable.dimensions.join(","), array.shape, bytes)
        };
        let ints = |from: i32| (from..from + 6).flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
        assert_eq!(read("array"), (String::new(), vec![2, 3], ints(1)), "{name}");
        let both = [ints(0), ints(1)].concat();
        assert_eq!(read("array@steps"), ("step,,".into(), vec![2, 2, 3], both), "{name}");
        assert_eq!(read("text"), (String::new(), vec![], b"texttext".to_vec()));
        assert_eq!(read("text@steps"), ("step".into(), vec![2], b"text\0\0\0\0texttext".to_vec()));
        let floats = |values: [f32; 2]| values.iter().flat_map(|v| v.to_le_bytes().repeat(4)).collect();
        assert_eq!(read("local"), ("block,,".into(), vec![2, 2, 2], floats([1.0, 2.0])), "{name}");
        assert_eq!(read("local@steps").0, "step,block,,");
        assert!(matches!(opened.variable("value").unwrap().extents, Extents::Inline(_)));
    }
}

/// `bytes` with the byte `after` bytes behind the first `name` changed to `to`.
fn change_behind(bytes: &mut [u8], name: &[u8], after: usize, to: u8) {
    let at = bytes.windows(name.len()).position(|part| part == name).unwrap();
    bytes[at + name.len() + after] = to;
}

/// A type that is not known refused the whole file.
#[test]
fn a_variable_or_attribute_of_an_unknown_type_refuses_itself_and_not_the_file() {
    let attribute = |opened: &Opened, name: &str| {
        let all = &opened.container().groups[0].attributes;
        all.iter().find(|attribute| attribute.name == name).unwrap().value.clone()
    };
    let folder = unpacked("seed_mixed_bp4");
    let bad = changed(&folder, 1, |index| change_behind(index, b"\x05\0array", 2, 99));
    let opened = described(&bad).unwrap();
    assert!(opened.variable("array").unwrap_err().to_string().contains("no such type: 99"));
    assert!(opened.variable("text").is_ok());
    let bad = changed(&folder, 1, |index| change_behind(index, b"\x06\0number", 2, 99));
    let opened = described(&bad).unwrap();
    assert!(attribute(&opened, "number").unwrap_err().contains("no such type: 99"));
    assert!(opened.variable("array").is_ok());
    let folder = unpacked("seed_mixed_bp5");
    let bad = changed(&folder, 1, |records| {
        let at = records.windows(6).position(|part| part == b"number").unwrap();
        records[at - 1] = b'!';
    });
    let opened = described(&bad).unwrap();
    assert!(opened.container().groups[0].attributes.iter().any(|attribute| attribute.value.is_err()));
    assert!(opened.variable("array").is_ok());
}

#[test]
fn folders_cut_anywhere_give_values_or_errors() {
    for folder in folders() {
        for (index, (_, file)) in folder.iter().enumerate() {
            (0..file.len()).into_par_iter().for_each(|len| {
                read_all(&changed(&folder, index, |bytes| bytes.truncate(len)));
            });
            read_all(&folder.iter().filter(|one| one.0 != folder[index].0).cloned().collect());
        }
    }
}

#[test]
fn a_byte_that_flips_anywhere_never_harms() {
    for folder in folders() {
        for (index, (name, file)) in folder.iter().enumerate() {
            if name.contains("data") {
                continue;
            }
            (0..file.len()).into_par_iter().for_each(|at| {
                read_all(&changed(&folder, index, |bytes| bytes[at] ^= 1 << (at % 8)));
                read_all(&changed(&folder, index, |bytes| bytes[at] = 0xff));
                read_all(&changed(&folder, index, |bytes| bytes[at] = 0));
            });
        }
    }
}

#[test]
fn a_table_that_names_one_step_many_times_is_no_bigger_for_it() {
    let folder = unpacked("seed_mixed_bp4");
    let many = changed(&folder, 0, |table| {
        let row = table[64..128].to_vec();
        for step in 3..20_000u64 {
            table.extend_from_slice(&step.to_le_bytes());
            table.extend_from_slice(&row[8..]);
        }
    });
    let error = described(&many).unwrap_err().to_string();
    assert!(error.contains("md.0: step"), "{error}");
}
