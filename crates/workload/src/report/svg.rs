//! Plots as inline SVG: colours come from the page's style sheet, so that they follow light and dark.
//!
//! | file | idea |
//! |---|---|
//! | `scale` | from values to places on the page, and where ticks stand |
//! | `lines` | lines with markers: epochs, distributions, scaling |
//! | `bars` | stacked bars: stages, tiers |

mod bars;
mod lines;
mod scale;

pub(super) use bars::{BarPlot, BarRow};
pub(super) use lines::{LinePlot, Series};
pub(super) use scale::Scale;

/// How many colours the style sheet has for series.
pub(super) const COLOURS: usize = 8;

/// `text` as it may stand in HTML and SVG.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in a document, whatever a file was called.
            _ if letter.is_control() && letter != '\n' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

/// The legend of a plot, where it has more than one entry.
pub(super) fn legend(entries: &[(usize, &str)]) -> String {
    if entries.len() < 2 {
        return String::new();
    }
    let items = entries.iter().map(|(colour, name)| {
        format!("<li><span class=\"key c{}\"></span>{}</li>", colour % COLOURS, escaped(name))
    });
    format!("<ul class=\"legend\">{}</ul>", items.collect::<String>())
}
