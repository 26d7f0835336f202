//! Plots as plain data, and their drawings.
//!
//! | file | idea |
//! |---|---|
//! | `lines` | lines with markers: epochs, distributions, scaling |
//! | `bars` | stacked bars: stages, tiers |
//! | `drawing` | what a drawing consists of: letters, numbers at ticks, notes, legends |

mod bars;
mod drawing;
mod lines;

use plotters::{backend::SVGBackend, drawing::IntoDrawingArea};

use crate::colours;

use drawing::LegendEntry;

pub use bars::{BarPart, BarPlot, BarRow};
pub(crate) use drawing::Drawing;
pub use lines::{Line, LinePlot, XAxis};

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Lines with markers.
    Lines(LinePlot),
    /// Stacked bars.
    Bars(BarPlot),
}

/// Units across a plot. plotters rounds to whole ones, so that they are half a pixel where two plots stand side by side.
const WIDTH: u32 = 1120;

impl Plot {
    /// Draws the plot.
    pub(crate) fn draw(&self) -> Drawing {
        let (height, legend) = match self {
            Self::Lines(plot) => (lines::HEIGHT, plot.legend()),
            Self::Bars(plot) => (plot.height(), plot.legend()),
        };
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let spots = match self {
            Self::Lines(plot) => plot.draw(&area),
            Self::Bars(plot) => plot.draw(&area),
        };
        let spots = spots.and_then(|spots| area.present().map(|()| spots));
        let spots = spots.expect("a string takes any drawing");
        drop(area);
        // A single entry explains nothing.
        let legend = if legend.len() < 2 { Vec::new() } else { legend };
        let entry = |(series, text)| LegendEntry { colour: colours::series_name(series), text };
        Drawing { svg, width: WIDTH, height, spots, legend: legend.into_iter().map(entry).collect() }
    }
}
