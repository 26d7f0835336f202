//! Twice as many samples of a row, with three quarters of the nearer one and one of the farther between two.

/// Twice as many samples of a row.
#[inline(always)]
pub(super) fn across(from: &[u8], to: &mut [u8]) {
    let [first, .., last] = from else { return };
    let len = to.len();
    for (out, three) in to[2..].chunks_exact_mut(2).zip(from.windows(3)) {
        let middle = 3 * u16::from(three[1]);
        out[0] = ((middle + u16::from(three[0]) + 1) >> 2) as u8;
        out[1] = ((middle + u16::from(three[2]) + 2) >> 2) as u8;
    }
    to[0] = *first;
    to[1] = ((3 * u16::from(*first) + u16::from(from[1]) + 2) >> 2) as u8;
    to[len - 2] = ((3 * u16::from(*last) + u16::from(from[from.len() - 2]) + 1) >> 2) as u8;
    to[len - 1] = *last;
}

/// Twice as many samples of a row that lies nearer to `near` than to `far`.
#[inline(always)]
pub(super) fn both(near: &[u8], far: &[u8], to: &mut [u8]) {
    let sum = |at: usize| 3 * u16::from(near[at]) + u16::from(far[at]);
    let (last, len) = (near.len() - 1, to.len());
    let windows = near.windows(3).zip(far.windows(3));
    for (out, (near, far)) in to[2..].chunks_exact_mut(2).zip(windows) {
        let sum = |at: usize| 3 * u16::from(near[at]) + u16::from(far[at]);
        let middle = 3 * sum(1);
        out[0] = ((middle + sum(0) + 8) >> 4) as u8;
        out[1] = ((middle + sum(2) + 7) >> 4) as u8;
    }
    to[0] = ((4 * sum(0) + 8) >> 4) as u8;
    to[1] = ((3 * sum(0) + sum(1) + 7) >> 4) as u8;
    to[len - 2] = ((3 * sum(last) + sum(last - 1) + 8) >> 4) as u8;
    to[len - 1] = ((4 * sum(last) + 7) >> 4) as u8;
}
