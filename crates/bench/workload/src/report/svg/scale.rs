//! From values to places on the page, and where ticks stand.

/// A linear or logarithmic axis between two places on the page.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    is_log: bool,
}

impl Scale {
    /// Values from `from` to `to`, drawn between `start` and `end`.
    pub(in crate::report) fn linear((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, start, end, is_log: false }
    }

    /// The same by powers of ten; values are above 0.
    pub(in crate::report) fn log((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        let from = if from > 0.0 { from } else { 1e-9 };
        let to = if to > from { to } else { from * 10.0 };
        Self { from, to, start, end, is_log: true }
    }

    /// Where `value` is drawn; values beyond the ends are drawn at them.
    pub(in crate::report) fn at(&self, value: f64) -> f64 {
        let part = if self.is_log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self.start + part * (self.end - self.start)
    }

    /// Values that ticks stand at: about `count` round ones, or the powers of ten.
    pub(in crate::report) fn ticks(&self, count: usize) -> Vec<f64> {
        if self.is_log {
            let first = self.from.log10().ceil();
            let powers = (0..20).map(|power| 10f64.powf(first + f64::from(power)));
            return powers.take_while(|tick| *tick <= self.to * 1.0001).collect();
        }
        let step = round_step((self.to - self.from) / count.max(1) as f64);
        let first = (self.from / step).ceil();
        let ticks = (0..50).map(|number| (first + f64::from(number)) * step);
        ticks.take_while(|tick| *tick <= self.to + step * 1e-6).collect()
    }
}

/// The end of an axis from 0 that has room for `most`, at a round value.
pub(in crate::report) fn round_end(most: f64, count: usize) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let step = round_step(most / count.max(1) as f64);
    (most / step).ceil() * step
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is no smaller than `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= least * 0.999_999);
    step.unwrap_or(10.0) * power
}

/// `value` with as many digits as a tick needs.
pub(in crate::report) fn tick_text(value: f64) -> String {
    let text = match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_axis() {
        let scale = Scale::linear((0.0, 100.0), (0.0, 1.0));
        assert_eq!(scale.ticks(5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(round_end(764.0, 5), 800.0);
        assert_eq!(Scale::log((2e-5, 0.3), (0.0, 1.0)).ticks(0), [1e-4, 1e-3, 1e-2, 1e-1]);
        assert_eq!([0.0, 1.50, 250.0, 0.125].map(tick_text), ["0", "1.5", "250", "0.125"]);
    }

    proptest! {
        #[test]
        fn every_value_is_drawn_within_the_axis(from in 0.0f64..1e9, len in 0.0f64..1e12, value in any::<f64>()) {
            for scale in [Scale::linear((from, from + len), (40.0, 500.0)), Scale::log((from, from + len), (40.0, 500.0))] {
                prop_assert!((40.0..=500.0).contains(&scale.at(value)));
                prop_assert!(scale.ticks(5).len() <= 50);
            }
            prop_assert!(round_end(len, 5) >= len);
        }
    }
}
