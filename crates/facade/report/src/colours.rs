//! Colours of plots. A plot is drawn in those of light pages; the style sheet replaces each by a variable, which dark mode changes.

use plotters::style::RGBColor;
use serde::Serialize;

/// A colour of plots, and the CSS variable that replaces it.
#[derive(Clone, Copy, Debug)]
struct PlotColour {
    name: &'static str,
    light: RGBColor,
    dark: RGBColor,
}

/// Count of the colours of series.
pub(crate) const SERIES_COUNT: usize = 8;

/// Index of the grey among the colours of series.
pub(crate) const GREY: usize = SERIES_COUNT - 1;

pub(crate) const TEXT: RGBColor = ALL[SERIES_COUNT].light;
pub(crate) const MUTED: RGBColor = ALL[SERIES_COUNT + 1].light;
pub(crate) const GRID: RGBColor = ALL[SERIES_COUNT + 2].light;
pub(crate) const AXIS: RGBColor = ALL[SERIES_COUNT + 3].light;

/// All colours, series first: these are close to Okabe and Ito's, which readers with any kind of colour vision tell apart.
const ALL: [PlotColour; SERIES_COUNT + 4] = [
    colour("s0", 0x0072b2, 0x4aa8e0),
    colour("s1", 0xd55e00, 0xf08a3c),
    colour("s2", 0x009e73, 0x2fc79b),
    colour("s3", 0xcc79a7, 0xe39bc4),
    colour("s4", 0xb8860b, 0xe3b341),
    colour("s5", 0x56b4e9, 0x8fd0f5),
    colour("s6", 0x7a5cc2, 0xa98ff0),
    colour("s7", 0x8c959f, 0x8b949e),
    colour("text", 0x1a1f27, 0xe8ebef),
    colour("muted", 0x5b6573, 0x9aa5b3),
    colour("line", 0xdfe3e8, 0x2c343e),
    colour("axis", 0x9aa4b1, 0x566170),
];

const fn colour(name: &'static str, light: u32, dark: u32) -> PlotColour {
    PlotColour { name, light: rgb(light), dark: rgb(dark) }
}

const fn rgb(hex: u32) -> RGBColor {
    let [_, red, green, blue] = hex.to_be_bytes();
    RGBColor(red, green, blue)
}

/// Returns the colour of the series `index`; colours repeat.
pub(crate) fn series(index: usize) -> RGBColor {
    ALL[index % SERIES_COUNT].light
}

/// Returns the CSS variable of the series `index`.
pub(crate) fn series_name(index: usize) -> &'static str {
    ALL[index % SERIES_COUNT].name
}

/// A colour in the words of a style sheet.
#[derive(Debug, Serialize)]
pub(crate) struct CssColour {
    name: &'static str,
    light: String,
    dark: String,
}

/// Returns all colours for the style sheet.
pub(crate) fn css() -> Vec<CssColour> {
    // Attribute selectors compare letters, and plotters writes capitals.
    let hex = |RGBColor(red, green, blue)| format!("#{red:02X}{green:02X}{blue:02X}");
    let css = |colour: &PlotColour| CssColour {
        name: colour.name,
        light: hex(colour.light),
        dark: hex(colour.dark),
    };
    ALL.iter().map(css).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_colours_are_the_same_in_light_as_each_is_replaced_by_its_own_variable() {
        let light: BTreeSet<String> = css().into_iter().map(|colour| colour.light).collect();
        assert_eq!(light.len(), ALL.len());
        assert!(light.contains("#0072B2"), "{light:?}");
    }
}
