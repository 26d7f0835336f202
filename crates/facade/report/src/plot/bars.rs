//! Stacked horizontal bars, a row for each run.

use plotters::{
    backend::DrawingBackend,
    chart::ChartBuilder,
    coord::Shift,
    drawing::DrawingArea,
    element::{Rectangle, Text},
    style::{
        Color, TRANSPARENT,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::drawing::{DrawError, Spot, letters, tick_text};
use crate::colours::{self, GREY, GRID, MUTED, TEXT};

const ROW_HEIGHT: u32 = 104;
const LABELS_HEIGHT: u32 = 88;
const MARGIN: u32 = 8;

/// Bars of parts that follow each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarPlot {
    /// The quantity across, with its unit.
    pub x_label: String,
    /// End of the axis; by default what the bars need.
    pub x_end: Option<f64>,
    /// The bars, downwards.
    pub rows: Vec<BarRow>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarRow {
    /// Its name.
    pub name: String,
    /// Its parts.
    pub parts: Vec<BarPart>,
}

/// A part of a bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarPart {
    /// Its name: parts of the same name have the same colour.
    pub name: String,
    /// Its length.
    pub len: f64,
    /// Its name and length as people read them.
    pub note: String,
    /// True for what is left after all else, which is grey.
    pub is_rest: bool,
}

impl BarPlot {
    pub(super) fn height(&self) -> u32 {
        let rows = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        rows.saturating_mul(ROW_HEIGHT).saturating_add(2 * MARGIN + LABELS_HEIGHT)
    }

    /// Returns names of parts with the indices of their colours, in order of appearance, what is left at the end.
    fn colours(&self) -> Vec<(usize, &str)> {
        let mut names: Vec<(usize, &str)> = Vec::new();
        let parts = || self.rows.iter().flat_map(|row| &row.parts);
        for part in parts().filter(|part| !part.is_rest) {
            if names.iter().all(|(_, name)| *name != part.name) {
                names.push((names.len() % GREY, &part.name));
            }
        }
        names.extend(parts().find(|part| part.is_rest).map(|part| (GREY, &*part.name)));
        names
    }

    /// Returns index of colour and text of each entry.
    pub(super) fn legend(&self) -> Vec<(usize, String)> {
        let colours = self.colours();
        // One bar has room to say how long its parts are.
        if let [row] = &self.rows[..] {
            return row.parts.iter().map(|part| (colour_of(part, &colours), part.note.clone())).collect();
        }
        colours.into_iter().map(|(colour, name)| (colour, name.to_owned())).collect()
    }

    pub(super) fn draw<D: DrawingBackend>(
        &self,
        area: &DrawingArea<D, Shift>,
    ) -> Result<Vec<Spot>, DrawError<D>> {
        let lens = |row: &BarRow| row.parts.iter().map(len).sum();
        let longest: f64 = self.rows.iter().map(lens).fold(0.0, f64::max);
        let needed = if longest > 1e-9 { longest * 1.02 } else { 1.0 };
        let end = self.x_end.filter(|end| *end > 0.0).unwrap_or(needed);
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_left(20)
            .margin_right(28)
            .x_label_area_size(LABELS_HEIGHT)
            .build_cartesian_2d(0.0..end, self.rows.len() as f64..0.0)?;
        chart
            .configure_mesh()
            .axis_style(TRANSPARENT)
            .disable_y_mesh()
            .y_labels(0)
            .x_labels(7)
            .max_light_lines(0)
            .bold_line_style(GRID.stroke_width(2))
            .set_all_tick_mark_size(5)
            .label_style(letters(&MUTED))
            .axis_desc_style(letters(&TEXT))
            .x_label_formatter(&tick_text)
            .x_desc(&*self.x_label)
            .draw()?;
        let (colours, mut spots) = (self.colours(), Vec::new());
        for (index, row) in self.rows.iter().enumerate() {
            let top = index as f64;
            let letters = letters(&TEXT).pos(Pos::new(HPos::Left, VPos::Bottom));
            chart.draw_series([Text::new(row.name.clone(), (0.0, top + 0.42), letters)])?;
            let mut from = 0.0;
            for part in &row.parts {
                let corners = [(from, top + 0.48), (f64::min(from + len(part), end), top + 0.9)];
                from += len(part);
                let colour = colours::series(colour_of(part, &colours));
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                let [(x, y), (right, bottom)] = corners.map(|corner| chart.backend_coord(&corner));
                let (width, height) = (right - x, bottom - y);
                spots.push(Spot { x, y, width, height, note: part.note.clone() });
            }
        }
        Ok(spots)
    }
}

fn colour_of(part: &BarPart, colours: &[(usize, &str)]) -> usize {
    let known = colours.iter().find(|(_, name)| *name == part.name);
    known.map_or(GREY, |(colour, _)| *colour)
}

/// Returns the length of `part` that can be drawn.
fn len(part: &BarPart) -> f64 {
    if part.len.is_finite() { part.len.max(0.0) } else { 0.0 }
}
