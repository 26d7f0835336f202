//! Parts of a drawing: letters, numbers at ticks, notes, legends.

use plotters::{
    backend::DrawingBackend,
    drawing::DrawingAreaErrorKind,
    style::{IntoFont, RGBColor, TextStyle},
};
use serde::Serialize;

/// Size of letters in units of a drawing; plotters writes it divided by 1.24.
const LETTERS: f64 = 30.0;

pub(super) type DrawError<D> = DrawingAreaErrorKind<<D as DrawingBackend>::ErrorType>;

/// A plot as SVG, with what the page adds to it.
#[derive(Debug, Serialize)]
pub(crate) struct Drawing {
    pub(super) svg: String,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) spots: Vec<Spot>,
    pub(super) legend: Vec<LegendEntry>,
}

/// A colour and its meaning.
#[derive(Debug, Serialize)]
pub(super) struct LegendEntry {
    pub(super) colour: &'static str,
    pub(super) text: String,
}

/// A place in a plot that shows a note when pointed at.
#[derive(Debug, Serialize)]
pub(super) struct Spot {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) note: String,
}

/// Returns the style of texts.
pub(super) fn letters(colour: &'static RGBColor) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", LETTERS).into_font()).color(colour)
}

/// Returns `value` with the digits that a tick needs.
pub(super) fn tick_text(value: &f64) -> String {
    // Sums of steps are off in the last digits.
    let digits = 4.0 - value.abs().max(1e-9).log10().floor();
    let unit = 10f64.powf(digits.max(0.0));
    ((value * unit).round() / unit).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_digits_that_only_rounding_made() {
        let texts = [0.0, 0.1 + 0.2, 1.5, 250.0, 0.125, 2e-5, 12_000_000.0].map(|value| tick_text(&value));
        assert_eq!(texts, ["0", "0.3", "1.5", "250", "0.125", "0.00002", "12000000"]);
    }
}
