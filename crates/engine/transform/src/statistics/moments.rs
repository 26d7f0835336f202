//! Count, mean, variance and bounds of numbers, merged in a way that depends on their order alone.

/// What is known of some numbers: Welford's quantities, merged as Chan, Golub and LeVeque do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    /// Numbers that are NaN, of which nothing else is known.
    pub(crate) missing: u64,
    pub(crate) mean: f64,
    /// The sum of squared distances from the mean.
    pub(crate) squares: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, missing: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Moments {
    /// Of `values`, in two passes: the second is about the mean of the first.
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let mut moments = Self::default();
        let mut sum = 0.0;
        for value in values.clone() {
            if value.is_nan() {
                moments.missing += 1;
                continue;
            }
            moments.count += 1;
            sum += value;
            moments.min = moments.min.min(value);
            moments.max = moments.max.max(value);
        }
        if moments.count == 0 {
            return moments;
        }
        moments.mean = sum / moments.count as f64;
        let (mut squares, mut rest) = (0.0, 0.0);
        for value in values.filter(|value| !value.is_nan()) {
            let distance = value - moments.mean;
            squares += distance * distance;
            rest += distance;
        }
        // What rounding left in the mean.
        moments.squares = (squares - rest * rest / moments.count as f64).max(0.0);
        moments.mean += rest / moments.count as f64;
        moments
    }

    /// Of both: those of `other` come after these.
    pub(crate) fn merge(self, other: Self) -> Self {
        let (min, max) = (self.min.min(other.min), self.max.max(other.max));
        let missing = self.missing + other.missing;
        let (few, more) = (self.count as f64, other.count as f64);
        if self.count == 0 || other.count == 0 {
            let known = if self.count == 0 { other } else { self };
            return Self { missing, min, max, ..known };
        }
        let (all, distance) = (few + more, other.mean - self.mean);
        Self {
            count: self.count + other.count,
            missing,
            mean: self.mean + distance * (more / all),
            squares: self.squares + other.squares + distance * distance * (few * more / all),
            min,
            max,
        }
    }

    /// The standard deviation of all of them, as NumPy's `std` gives it.
    pub(crate) fn std(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { (self.squares / self.count as f64).sqrt() }
    }
}

/// Moments that come one after another, merged pairwise: errors grow with the logarithm of their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct PairwiseMoments(Vec<(u32, Moments)>);

impl PairwiseMoments {
    pub(crate) fn push(&mut self, mut moments: Moments) {
        let mut level = 0;
        while let Some((_, before)) = self.0.pop_if(|(other, _)| *other == level) {
            moments = before.merge(moments);
            level += 1;
        }
        self.0.push((level, moments));
    }

    pub(crate) fn total(&self) -> Moments {
        let merged =
            self.0.iter().rev().map(|(_, moments)| *moments).reduce(|later, before| before.merge(later));
        merged.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_give_what_the_whole_gives() {
        let values: Vec<f64> = (0..10_000).map(|n| f64::from(n % 97) * 0.37 + 1e6).collect();
        let whole = Moments::of(values.iter().copied());
        let mut parts = PairwiseMoments::default();
        values.chunks(123).for_each(|part| parts.push(Moments::of(part.iter().copied())));
        let parts = parts.total();
        assert_eq!((parts.count, parts.min, parts.max), (whole.count, whole.min, whole.max));
        assert!((parts.mean - whole.mean).abs() < 1e-9 && (parts.std() - whole.std()).abs() < 1e-9);
        let mean = values.iter().sum::<f64>() / 1e4;
        let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e4).sqrt();
        assert!((whole.std() - std).abs() < 1e-9, "{} and {std}", whole.std());
    }

    #[test]
    fn what_is_missing_is_counted_and_nothing_else() {
        let moments = Moments::of([1.0, f64::NAN, 3.0].into_iter());
        assert_eq!((moments.count, moments.missing, moments.mean, moments.max), (2, 1, 2.0, 3.0));
        let none = Moments::of([f64::NAN].into_iter()).merge(Moments::of([5.0].into_iter()));
        assert_eq!((none.count, none.missing, none.mean, none.std()), (1, 1, 5.0, 0.0));
    }
}
