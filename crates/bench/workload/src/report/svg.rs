//! Plots as inline SVG: colours come from the page's style sheet, so that they follow light and dark.
//!
//! | file | idea |
//! |---|---|
//! | `markup` | text that is safe in a page, legends |
//! | `scale` | from values to places on the page, and where ticks stand |
//! | `lines` | lines with markers: epochs, distributions, scaling |
//! | `bars` | stacked bars: stages, tiers |

mod bars;
mod lines;
mod markup;
mod scale;

pub(super) use bars::{BarPlot, BarRow};
pub(super) use lines::{LinePlot, PlotLine};
pub(super) use markup::{COLOURS, escaped};
