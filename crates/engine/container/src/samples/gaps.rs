//! Where the values of an axis leave a gap.

use std::ops::Range;

/// From one row to the next, so many times the usual step is a gap: months differ by a tenth, and a month that is missing
/// makes it twice as long.
const GAP: f64 = 1.5;

/// The stretches of `values` without a gap, in their order; `files` are the rows of each file.
///
/// # Errors
///
/// The number of a file at whose border values go back: files are in another order than their values.
pub fn stretches(values: &[f64], files: &[Range<u64>]) -> Result<Vec<Range<u64>>, usize> {
    let total = values.len() as u64;
    let steps: Vec<f64> = values.windows(2).map(|two| two[1] - two[0]).collect();
    let usual = median(&steps).unwrap_or(1.0);
    let (mut stretches, mut start) = (Vec::new(), 0);
    for (row, step) in (1u64..).zip(&steps) {
        // Axes may fall, such as those of pressure.
        let times = step / usual;
        if times > 0.0 && times <= GAP {
            continue;
        }
        let border = files.iter().position(|rows| rows.start == row && rows.end > row);
        if let Some(file) = border.filter(|_| times <= 0.0) {
            return Err(file);
        }
        stretches.push(start..row);
        start = row;
    }
    stretches.push(start..total);
    Ok(stretches)
}

/// The usual step: that in the middle of all that are steps.
fn median(steps: &[f64]) -> Option<f64> {
    let mut steps: Vec<f64> = steps.iter().copied().filter(|step| step.is_finite() && *step != 0.0).collect();
    let middle = steps.len() / 2;
    (!steps.is_empty()).then(|| *steps.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_step_that_is_longer_than_months_differ() {
        let days = [0.0, 31.0, 59.0, 90.0, 151.0, 181.0];
        assert_eq!(stretches(&days, &[0..4, 4..6]), Ok(vec![0..4, 4..6]));
        let falling: Vec<f64> = days.iter().map(|day| -day).collect();
        assert_eq!(stretches(&falling, &[0..6]), Ok(vec![0..4, 4..6]));
        assert_eq!(stretches(&[5.0], &[0..1]), Ok(vec![0..1]));
        assert_eq!(stretches(&[0.0, 1.0, f64::NAN, 3.0], &[0..4]), Ok(vec![0..2, 2..3, 3..4]));
    }

    #[test]
    fn a_file_whose_values_lie_before_those_of_the_file_before_it_is_named() {
        assert_eq!(stretches(&[5.0, 6.0, 7.0, 1.0, 2.0], &[0..3, 3..3, 3..5]), Err(2));
        // Within a file it is a gap.
        assert_eq!(stretches(&[5.0, 6.0, 7.0, 1.0, 2.0], &[0..5]), Ok(vec![0..3, 3..5]));
    }
}
