//! From coefficients to samples: the accurate integer transform of libjpeg ("islow"), bit for bit.

/// Bits of the constants below.
pub(super) const CONST_BITS: i32 = 13;
/// Bits that the first pass keeps.
pub(super) const PASS_BITS: i32 = 2;

/// Eight numbers side by side: each step works on eight columns at once.
type SimdLanes = [i32; 8];

/// Transforms one block of coefficients, which `table` scales, into rows of `out` that are `stride` apart.
pub(super) fn transform(coefficients: &[i16; 64], table: &[u16; 64], out: &mut [u8], stride: usize) {
    if coefficients[1..].iter().all(|coefficient| *coefficient == 0) {
        return transform_first(coefficients[0], table[0], out, stride);
    }
    let mut rows = [[0i32; 8]; 8];
    for (at, value) in rows.as_flattened_mut().iter_mut().enumerate() {
        *value = i32::from(coefficients[at]).wrapping_mul(i32::from(table[at]));
    }
    let columns = transposed(&pass(&rows, CONST_BITS - PASS_BITS));
    let rows = transposed(&pass(&columns, CONST_BITS + PASS_BITS + 3));
    for (row, out) in rows.iter().zip(out.chunks_mut(stride)) {
        for (value, out) in row.iter().zip(out) {
            *out = to_sample(*value);
        }
    }
}

/// Transforms a block whose first coefficient is the only one.
pub(super) fn transform_first(coefficient: i16, factor: u16, out: &mut [u8], stride: usize) {
    let value = i32::from(coefficient).wrapping_mul(i32::from(factor)) << PASS_BITS;
    let sample = to_sample(value.wrapping_add(1 << (PASS_BITS + 2)) >> (PASS_BITS + 3));
    for row in out.chunks_mut(stride).take(8) {
        row[..8].fill(sample);
    }
}

fn to_sample(value: i32) -> u8 {
    u8::try_from((value + 128).clamp(0, 255)).unwrap_or(0)
}

fn transposed(from: &[SimdLanes; 8]) -> [SimdLanes; 8] {
    let mut to = [[0; 8]; 8];
    for (row, from) in from.iter().enumerate() {
        for (column, value) in from.iter().enumerate() {
            to[column][row] = *value;
        }
    }
    to
}

fn each(one: &SimdLanes, other: &SimdLanes, step: impl Fn(i32, i32) -> i32) -> SimdLanes {
    std::array::from_fn(|lane| step(one[lane], other[lane]))
}

fn add(one: &SimdLanes, other: &SimdLanes) -> SimdLanes {
    each(one, other, i32::wrapping_add)
}

fn sub(one: &SimdLanes, other: &SimdLanes) -> SimdLanes {
    each(one, other, i32::wrapping_sub)
}

fn times(one: &SimdLanes, factor: i32) -> SimdLanes {
    one.map(|value| value.wrapping_mul(factor))
}

/// One-dimensional transforms of eight columns, each result divided by 2 to `shift` and rounded.
fn pass(input: &[SimdLanes; 8], shift: i32) -> [SimdLanes; 8] {
    // The even part.
    let z1 = times(&add(&input[2], &input[6]), 4433);
    let two = add(&z1, &times(&input[6], -15137));
    let three = add(&z1, &times(&input[2], 6270));
    let zero = add(&input[0], &input[4]).map(|value| value << CONST_BITS);
    let one = sub(&input[0], &input[4]).map(|value| value << CONST_BITS);
    let even = [add(&zero, &three), add(&one, &two), sub(&one, &two), sub(&zero, &three)];
    // The odd part.
    let [t0, t1, t2, t3] = [&input[7], &input[5], &input[3], &input[1]];
    let (z3, z4) = (add(t0, t2), add(t1, t3));
    let z5 = times(&add(&z3, &z4), 9633);
    let z1 = times(&add(t0, t3), -7373);
    let z2 = times(&add(t1, t2), -20995);
    let z3 = add(&times(&z3, -16069), &z5);
    let z4 = add(&times(&z4, -3196), &z5);
    let odd = [
        add(&times(t3, 12299), &add(&z1, &z4)),
        add(&times(t2, 25172), &add(&z2, &z3)),
        add(&times(t1, 16819), &add(&z2, &z4)),
        add(&times(t0, 2446), &add(&z1, &z3)),
    ];
    let rounded = |lanes: SimdLanes| lanes.map(|value| value.wrapping_add(1 << (shift - 1)) >> shift);
    let mut out = [[0; 8]; 8];
    for number in 0..4 {
        out[number] = rounded(add(&even[number], &odd[number]));
        out[7 - number] = rounded(sub(&even[number], &odd[number]));
    }
    out
}
