//! The arithmetic against the plainest model of it: every element picked by hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use forebay_container::{ArrayPart, Grid, Selection, Span};
use proptest::prelude::*;

/// A shape, a chunk shape and a selection that fits.
fn cases() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Vec<Span>)> {
    let axis = (0u64..12, 1u64..7).prop_flat_map(|(len, chunk)| {
        (Just(len), Just(chunk), 0..=len, 1u64..5).prop_flat_map(|(len, chunk, start, step)| {
            let most = (len - start).div_ceil(step);
            (Just(len), Just(chunk), Just(start), 0..=most, Just(step))
        })
    });
    prop::collection::vec(axis, 0..4).prop_map(|axes| {
        let shape = axes.iter().map(|axis| axis.0).collect();
        let chunk = axes.iter().map(|axis| axis.1).collect();
        let spans = axes.iter().map(|axis| Span { start: axis.2, count: axis.3, step: axis.4 }).collect();
        (shape, chunk, spans)
    })
}

/// All places of an array of `shape`, in C order.
fn places(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![vec![]], |so_far, n| {
        so_far.iter().flat_map(|place| (0..*n).map(|at| [&place[..], &[at]].concat())).collect()
    })
}

fn index(place: &[u64], shape: &[u64]) -> usize {
    let index = place.iter().zip(shape).fold(0, |index, (at, n)| index * n + at);
    usize::try_from(index).unwrap()
}

/// A byte that tells elements apart.
fn value(place: &[u64]) -> u8 {
    place.iter().fold(17u8, |value, at| value.wrapping_mul(31).wrapping_add(u8::try_from(at % 251).unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn chunks_hold_every_selected_element_exactly_once((shape, chunk, spans) in cases()) {
        let grid = Grid { shape: shape.clone(), chunk: chunk.clone() };
        let selection = Selection::new(spans.clone());
        selection.check(&shape).unwrap();
        let out_shape = selection.shape();
        let mut out = vec![None; usize::try_from(selection.element_count()).unwrap()];
        let mut last = None;
        for overlap in grid.overlaps(&selection) {
            prop_assert!(last < Some(overlap.chunk), "chunks come in grid order, each once");
            last = Some(overlap.chunk);
            let corner = grid.chunk_at(overlap.chunk);
            for place in places(&overlap.in_chunk.shape()) {
                let spans = overlap.in_chunk.spans();
                let within: Vec<u64> = place.iter().zip(spans).map(|(at, span)| span.start + at * span.step).collect();
                prop_assert!(within.iter().zip(&chunk).all(|(at, len)| at < len));
                let whole: Vec<u64> =
                    within.iter().zip(&corner).zip(&chunk).map(|((at, corner), len)| corner * len + at).collect();
                let to: Vec<u64> = place.iter().zip(&overlap.in_selection).map(|(at, start)| at + start).collect();
                let slot = &mut out[index(&to, &out_shape)];
                prop_assert!(slot.is_none(), "an element comes from one chunk");
                *slot = Some(value(&whole));
            }
        }
        for place in places(&out_shape) {
            let whole: Vec<u64> = place.iter().zip(&spans).map(|(at, span)| span.start + at * span.step).collect();
            prop_assert_eq!(out[index(&place, &out_shape)], Some(value(&whole)));
        }
    }

    #[test]
    fn a_copy_by_runs_is_a_copy_by_elements((shape, _, spans) in cases(), margin in 0u64..3, start in 0u64..3) {
        let selection = Selection::new(spans.clone());
        let to_shape: Vec<u64> = selection.shape().iter().map(|n| n + margin + start).collect();
        let to_start = vec![start; shape.len()];
        let from: Vec<u8> = places(&shape).iter().map(|place| value(place)).collect();
        let size = to_shape.iter().product::<u64>();
        let mut to = vec![0u8; usize::try_from(size).unwrap()];
        let part = ArrayPart { from_shape: &shape, selection: &selection, to_shape: &to_shape, to_start: &to_start };
        let runs: Vec<_> = part.runs().collect();
        prop_assert!(runs.is_sorted_by(|one, next| one.to + one.count <= next.to && one.from < next.from));
        part.copy(&from, &mut to, 1);
        let mut wanted = vec![0u8; to.len()];
        for place in places(&selection.shape()) {
            let whole: Vec<u64> = place.iter().zip(&spans).map(|(at, span)| span.start + at * span.step).collect();
            let there: Vec<u64> = place.iter().map(|at| at + start).collect();
            wanted[index(&there, &to_shape)] = value(&whole);
        }
        prop_assert_eq!(to, wanted);
    }

    #[test]
    fn chunk_numbers_count_the_grid((shape, chunk, _) in cases()) {
        let grid = Grid { shape, chunk };
        for number in 0..grid.chunk_count() {
            prop_assert_eq!(grid.chunk_number(&grid.chunk_at(number)), Some(number));
        }
        prop_assert_eq!(places(&grid.chunks()).len() as u64, grid.chunk_count());
    }

    #[test]
    fn a_span_fits_exactly_when_its_last_index_does(start in 0u64..40, count in 0u64..40, step in 1u64..9, len in 0u64..60) {
        let span = Span { start, count, step };
        let fits = (0..count).all(|at| start + at * step < len);
        prop_assert_eq!(span.fits(len), fits);
        prop_assert_eq!(Selection::new(vec![span]).check(&[len]).is_ok(), fits);
    }

    #[test]
    fn vast_numbers_never_wrap(start in any::<u64>(), count in any::<u64>(), step in any::<u64>(), len in any::<u64>()) {
        let fits = Span { start, count, step }.fits(len);
        let exact = count == 0 || u128::from(start) + u128::from(count - 1) * u128::from(step) < u128::from(len);
        prop_assert_eq!(fits, exact);
        let grid = Grid { shape: vec![len, start], chunk: vec![step.max(1), count.max(1)] };
        let product = |sizes: &[u64]| sizes.iter().map(|n| u128::from(*n)).product::<u128>().min(u64::MAX.into());
        prop_assert_eq!(u128::from(grid.element_count()), product(&grid.shape));
        prop_assert_eq!(u128::from(grid.chunk_count()), product(&grid.chunks()));
    }
}
