//! Zarr, ADIOS2 and Silo: what a damaged store or file claims does not end the process.

use std::sync::Arc;

use forebay_container::Selection;
use forebay_format::{Bp3, Bp4, Bp5, Format, Found, Opened, Silo, Zarr, describe};
use forebay_process::ErrorKind;
use forebay_source::{Locator, MemoryOrigin};

use crate::{corpus, play, unpack};

/// A chunk that is no gzip asked for more and more room, up to the budget, and ended the process.
#[test]
fn a_damaged_chunk_of_strings_is_an_error_and_asks_for_no_more_room() {
    play("zarr strings");
}

pub(crate) fn zarr_strings() {
    let document = r#"{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "order": "C",
        "fill_value": "", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "CODEC", "level": 1}}"#;
    let bomb = |zeros: usize| zstd::bulk::compress(&vec![0; zeros], 1).unwrap();
    let long = bomb(64 << 20);
    for (codec, chunk, wanted) in [
        ("gzip", vec![7; 100_000], ErrorKind::Corrupt),
        ("zlib", vec![7; 100_000], ErrorKind::Corrupt),
        ("zstd", vec![7; 100_000], ErrorKind::Corrupt),
        ("zstd", long.repeat(32), ErrorKind::Full),
    ] {
        let origin = MemoryOrigin::default()
            .with("s/.zarray", document.replace("CODEC", codec).into_bytes())
            .with("s/0", chunk);
        let origin = Arc::new(origin);
        let container = describe(&*origin, &Locator::new("s")).unwrap();
        // As a budget that was said by hand: more than the process can have.
        let opened = Opened::new(origin, Arc::new(container)).with_budget(1 << 40);
        let variable = &opened.container().variables[0];
        let error = opened.read(variable, &Selection::all(&variable.grid.shape)).unwrap_err();
        assert_eq!(error.kind(), wanted, "{codec}: {error}");
    }
}

#[test]
fn damaged_zarr_stores_are_read_in_little_address_space() {
    play("zarr");
}

#[test]
fn damaged_adios_files_are_read_in_little_address_space() {
    play("adios");
}

#[test]
fn damaged_silo_files_are_read_in_little_address_space() {
    play("silo");
}

/// How many times each seed is damaged.
const DAMAGES: usize = 60;

/// Reads the fuzzer's corpus of `format`: what fuzzing found as it is, and the seeds as they are and damaged.
pub(crate) fn read_corpus(format: &str) {
    let mut values = 0;
    for (_, found) in corpus::found(format) {
        values += read_as(format, &found);
    }
    for (_, good) in corpus::seeds(format) {
        values += read_as(format, &good);
        let mut state = good.len() as u64 | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..DAMAGES {
            let mut bad = good.clone();
            for _ in 0..=random() % 4 {
                let at = usize::try_from(random() % bad.len() as u64).unwrap();
                bad[at] = match random() % 4 {
                    0 => 0xff,
                    1 => b'9',
                    _ => bad[at] ^ 1 << (random() % 8),
                };
            }
            read_as(format, &bad);
        }
    }
    assert!(values > 0);
}

/// Takes `bytes` for what the fuzzer does; gives how many variables could be read.
fn read_as(format: &str, bytes: &[u8]) -> usize {
    match format {
        "zarr" => read_at(&Zarr, unpack::zarr(bytes), "s"),
        "adios" => {
            let folders =
                read_at(&Bp5, unpack::adios(bytes), "f.bp") + read_at(&Bp4, unpack::adios(bytes), "f.bp");
            folders + read_at(&Bp3, MemoryOrigin::default().with("f", bytes.to_vec()), "f")
        }
        _ => read_at(&Silo, MemoryOrigin::default().with("f", bytes.to_vec()), "f"),
    }
}

fn read_at(format: &dyn Format, origin: MemoryOrigin, at: &str) -> usize {
    let (origin, at) = (Arc::new(origin), Locator::new(at));
    let Ok(found) = Found::look(&*origin, &at) else { return 0 };
    let Ok(container) = format.describe(&found) else { return 0 };
    let opened = Opened::new(origin, Arc::new(container));
    let read = |variable: &forebay_container::Variable| {
        opened.read(variable, &Selection::all(&variable.grid.shape)).is_ok()
    };
    opened.container().variables.iter().filter(|variable| read(variable)).count()
}
