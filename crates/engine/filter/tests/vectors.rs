//! Chunks written by other implementations come back bit for bit, and damaged ones never harm.

use std::path::PathBuf;

use forebay_filter::{Filter, Scratch, undo, undo_all};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Index {
    len: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    filters: Vec<Named>,
    mask: u32,
    raw: (usize, usize),
    want: (usize, usize),
}

/// A filter as an HDF5 file names it.
#[derive(Clone, Deserialize)]
struct Named {
    id: u32,
    params: Vec<u32>,
}

fn filters_of(named: &[Named]) -> Vec<Filter> {
    named.iter().map(|filter| Filter::from_hdf5(filter.id, "", filter.params.clone())).collect()
}

struct Vectors {
    cases: Vec<Case>,
    bytes: Vec<u8>,
}

impl Vectors {
    /// The set kept with the tests, or the one in the folder `FILTER_VECTORS` names.
    fn open() -> Self {
        let home = PathBuf::from(std::env::var_os("FILTER_VECTORS").unwrap_or_else(|| "tests/data".into()));
        let read = |name: &str| std::fs::read(home.join(name)).expect("made by make_filter_vectors.py");
        let index: Index = serde_json::from_slice(&read("filters.json")).expect("an index of cases");
        let packed = read("filters.bin.zz");
        let mut bytes = vec![0; index.len];
        libdeflater::Decompressor::new()
            .zlib_decompress(&packed, &mut bytes)
            .expect("the bytes of all cases");
        Self { cases: index.cases, bytes }
    }

    fn slice(&self, (start, len): (usize, usize)) -> &[u8] {
        &self.bytes[start..start + len]
    }
}

#[test]
fn chunks_of_other_writers_come_back_bit_for_bit() {
    let vectors = Vectors::open();
    let mut scratch = Scratch::default();
    let mut wrong = Vec::new();
    for case in &vectors.cases {
        let want = vectors.slice(case.want);
        let mut out = vec![0xa5; want.len()];
        match undo_all(&filters_of(&case.filters), case.mask, vectors.slice(case.raw), &mut out, &mut scratch)
        {
            Ok(()) if out == want => {}
            Ok(()) => {
                let place = out.iter().zip(want).position(|(out, want)| out != want);
                wrong.push(format!("{}: differs from byte {place:?} of {}", case.name, want.len()));
            }
            Err(error) => wrong.push(format!("{}: {error}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), vectors.cases.len(), wrong.join("\n"));
}

#[test]
fn a_place_of_the_wrong_length_is_never_filled() {
    let vectors = Vectors::open();
    let mut scratch = Scratch::default();
    for case in &vectors.cases {
        for len in [case.want.1 - 1, case.want.1 + 1] {
            let mut out = vec![0; len];
            let result = undo_all(
                &filters_of(&case.filters),
                case.mask,
                vectors.slice(case.raw),
                &mut out,
                &mut scratch,
            );
            assert!(result.is_err(), "{} into {len} bytes", case.name);
        }
    }
}

/// Damages the stored bytes and the parameters of a case.
fn damage(raw: &[u8], filters: &[Named], hits: &[(u16, u8)], cut: u16) -> (Vec<u8>, Vec<Filter>) {
    let (mut raw, mut filters) = (raw.to_vec(), filters.to_vec());
    for &(place, bits) in hits {
        let place = usize::from(place);
        // Headers are short and decide most, so every other hit is on the front.
        let place = if bits % 2 == 0 { place % 48 } else { place };
        if let Some(byte) = raw.get_mut(place) {
            *byte ^= bits;
        } else if let Some(param) = filters.iter_mut().flat_map(|filter| &mut filter.params).nth(place % 24) {
            *param ^= u32::from(bits).rotate_left(u32::from(bits) * 7 % 32);
        }
    }
    raw.truncate(raw.len() - usize::from(cut) % (raw.len() + 1));
    (raw, filters_of(&filters))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_damaged_chunk_gives_an_error_or_bytes_and_nothing_worse(
        pick in any::<prop::sample::Index>(),
        hits in prop::collection::vec((any::<u16>(), 1u8..), 0..6),
        cut in prop_oneof![Just(0u16), any::<u16>()],
    ) {
        thread_local!(static VECTORS: Vectors = Vectors::open());
        VECTORS.with(|vectors| {
            let case = &vectors.cases[pick.index(vectors.cases.len())];
            let (raw, filters) = damage(vectors.slice(case.raw), &case.filters, &hits, cut);
            let mut out = vec![0; case.want.1];
            let _ = undo_all(&filters, case.mask, &raw, &mut out, &mut Scratch::default());
            if let Some(filter) = filters.last() && let Ok(len) = undo(filter, &raw, &mut out) {
                assert!(len <= out.len());
            }
        });
    }

    #[test]
    fn noise_gives_an_error_or_bytes_and_nothing_worse(
        id in prop::sample::select(&[1u32, 2, 3, 4, 5, 6, 307, 32000, 32001, 32004, 32008, 32013, 32015, 32022, 32026][..]),
        params in prop::collection::vec(prop_oneof![0u32..40, any::<u32>()], 0..24),
        input in prop::collection::vec(any::<u8>(), 0..400),
        out_len in 0usize..2000,
    ) {
        let filter = Filter::from_hdf5(id, "", params);
        let mut out = vec![0; out_len];
        if let Ok(len) = undo(&filter, &input, &mut out) {
            prop_assert!(len <= out_len);
        }
    }
}
