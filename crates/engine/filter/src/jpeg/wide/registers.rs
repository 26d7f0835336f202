//! The inner loops for AVX2: the transform by its instructions, the others as the compiler makes them of the plain loops.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_or_si128, _mm_setr_epi16, _mm_srli_si128, _mm_testz_si128, _mm256_add_epi32,
    _mm256_adds_epi16, _mm256_cvtepi16_epi32, _mm256_cvtepu16_epi32, _mm256_extract_epi64,
    _mm256_mullo_epi32, _mm256_packs_epi32, _mm256_packus_epi16, _mm256_permute2x128_si256,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_slli_epi32,
    _mm256_srai_epi32, _mm256_sub_epi32, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
    _mm256_unpacklo_epi64,
};

use crate::jpeg::{
    header::ColorModel,
    idct::{self, CONST_BITS, PASS_BITS},
    rgb, spread,
};

#[target_feature(enable = "avx2")]
pub(super) fn write_three(color: ColorModel, samples: [&[u8]; 3], out: &mut [u8]) {
    rgb::write_three(color, samples, out);
}

#[target_feature(enable = "avx2")]
pub(super) fn across(from: &[u8], to: &mut [u8]) {
    spread::across(from, to);
}

#[target_feature(enable = "avx2")]
pub(super) fn both(near: &[u8], far: &[u8], to: &mut [u8]) {
    spread::both(near, far, to);
}

/// Eight numbers in each of eight registers.
type EightByEight = [__m256i; 8];

/// The numbers of [`idct::transform`], eight columns and then eight rows at a time.
#[target_feature(enable = "avx2")]
pub(super) fn transform(coefficients: &[i16; 64], table: &[u16; 64], out: &mut [u8], stride: usize) {
    let (rows, factors) = (coefficients.as_chunks::<8>().0, table.as_chunks::<8>().0);
    let rows: [__m128i; 8] = std::array::from_fn(|row| load(rows[row]));
    let all_but_first =
        rows[1..].iter().fold(_mm_srli_si128::<2>(rows[0]), |all, row| _mm_or_si128(all, *row));
    if _mm_testz_si128(all_but_first, all_but_first) == 1 {
        return idct::transform_first(coefficients[0], table[0], out, stride);
    }
    let scaled = std::array::from_fn(|row| {
        let factors = load(factors[row].map(u16::cast_signed));
        _mm256_mullo_epi32(_mm256_cvtepi16_epi32(rows[row]), _mm256_cvtepu16_epi32(factors))
    });
    let rows = transposed(pass::<{ CONST_BITS - PASS_BITS }>(scaled));
    store_columns(pass::<{ CONST_BITS + PASS_BITS + 3 }>(rows), out, stride);
}

#[target_feature(enable = "avx2")]
fn load(eight: [i16; 8]) -> __m128i {
    let [a, b, c, d, e, f, g, h] = eight;
    _mm_setr_epi16(a, b, c, d, e, f, g, h)
}

#[target_feature(enable = "avx2")]
fn add(one: __m256i, other: __m256i) -> __m256i {
    _mm256_add_epi32(one, other)
}

#[target_feature(enable = "avx2")]
fn sub(one: __m256i, other: __m256i) -> __m256i {
    _mm256_sub_epi32(one, other)
}

#[target_feature(enable = "avx2")]
fn times(lanes: __m256i, factor: i32) -> __m256i {
    _mm256_mullo_epi32(lanes, _mm256_set1_epi32(factor))
}

/// The steps of [`idct`]; what rounds the results is added once, before they part.
#[target_feature(enable = "avx2")]
fn pass<const SHIFT: i32>(input: EightByEight) -> EightByEight {
    let half = _mm256_set1_epi32(1 << (SHIFT - 1));
    // The even part.
    let z1 = times(add(input[2], input[6]), 4433);
    let two = add(z1, times(input[6], -15137));
    let three = add(z1, times(input[2], 6270));
    let zero = add(_mm256_slli_epi32::<CONST_BITS>(add(input[0], input[4])), half);
    let one = add(_mm256_slli_epi32::<CONST_BITS>(sub(input[0], input[4])), half);
    let even = [add(zero, three), add(one, two), sub(one, two), sub(zero, three)];
    // The odd part.
    let [t0, t1, t2, t3] = [input[7], input[5], input[3], input[1]];
    let (z3, z4) = (add(t0, t2), add(t1, t3));
    let z5 = times(add(z3, z4), 9633);
    let z1 = times(add(t0, t3), -7373);
    let z2 = times(add(t1, t2), -20995);
    let z3 = add(times(z3, -16069), z5);
    let z4 = add(times(z4, -3196), z5);
    let odd = [
        add(times(t3, 12299), add(z1, z4)),
        add(times(t2, 25172), add(z2, z3)),
        add(times(t1, 16819), add(z2, z4)),
        add(times(t0, 2446), add(z1, z3)),
    ];
    let mut out = [half; 8];
    for number in 0..4 {
        out[number] = _mm256_srai_epi32::<SHIFT>(add(even[number], odd[number]));
        out[7 - number] = _mm256_srai_epi32::<SHIFT>(sub(even[number], odd[number]));
    }
    out
}

#[target_feature(enable = "avx2")]
fn transposed(rows: EightByEight) -> EightByEight {
    // Pairs of rows, then fours; the halves of registers are put right at last.
    let mut pairs = rows;
    for (pair, rows) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(rows.as_chunks::<2>().0) {
        *pair = [_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[0], rows[1])];
    }
    let mut fours = pairs;
    for (four, pairs) in fours.as_chunks_mut::<4>().0.iter_mut().zip(pairs.as_chunks::<4>().0) {
        *four = [
            _mm256_unpacklo_epi64(pairs[0], pairs[2]),
            _mm256_unpackhi_epi64(pairs[0], pairs[2]),
            _mm256_unpacklo_epi64(pairs[1], pairs[3]),
            _mm256_unpackhi_epi64(pairs[1], pairs[3]),
        ];
    }
    let mut columns = fours;
    for column in 0..4 {
        columns[column] = _mm256_permute2x128_si256::<0x20>(fours[column], fours[4 + column]);
        columns[4 + column] = _mm256_permute2x128_si256::<0x31>(fours[column], fours[4 + column]);
    }
    columns
}

/// Stores `columns` as rows of samples.
#[target_feature(enable = "avx2")]
fn store_columns(columns: EightByEight, out: &mut [u8], stride: usize) {
    let (four, _) = columns.as_chunks::<4>();
    let (left, right) = (rows_of_four(four[0]), rows_of_four(four[1]));
    let (first, second) = (_mm256_unpacklo_epi32(left, right), _mm256_unpackhi_epi32(left, right));
    let rows = [
        _mm256_extract_epi64::<0>(first),
        _mm256_extract_epi64::<1>(first),
        _mm256_extract_epi64::<0>(second),
        _mm256_extract_epi64::<1>(second),
        _mm256_extract_epi64::<2>(first),
        _mm256_extract_epi64::<3>(first),
        _mm256_extract_epi64::<2>(second),
        _mm256_extract_epi64::<3>(second),
    ];
    for (row, out) in rows.iter().zip(out.chunks_mut(stride)) {
        out[..8].copy_from_slice(&row.to_le_bytes());
    }
}

/// Samples of four columns, row by row: the first four rows in one half of the register, the last four in the other.
#[target_feature(enable = "avx2")]
fn rows_of_four([one, two, three, four]: [__m256i; 4]) -> __m256i {
    // Packing keeps to the limits, as `clamp` would.
    let middle = _mm256_set1_epi16(128);
    let left = _mm256_adds_epi16(_mm256_packs_epi32(one, two), middle);
    let right = _mm256_adds_epi16(_mm256_packs_epi32(three, four), middle);
    let by_row = _mm256_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7,
        11, 15,
    );
    _mm256_shuffle_epi8(_mm256_packus_epi16(left, right), by_row)
}
