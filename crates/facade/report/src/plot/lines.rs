//! Lines with markers, over numbers, names or powers of ten.

use std::ops::Range;

use plotters::{
    backend::DrawingBackend,
    chart::{ChartBuilder, ChartContext},
    coord::{
        Shift,
        cartesian::Cartesian2d,
        ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged},
        types::RangedCoordf64,
    },
    drawing::DrawingArea,
    element::{Circle, EmptyElement, Text},
    series::{DashedLineSeries, LineSeries},
    style::{
        Color, TRANSPARENT,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::drawing::{DrawError, Spot, letters, tick_text};
use crate::colours::{self, AXIS, GRID, MUTED, TEXT};

pub(super) const HEIGHT: u32 = 560;

/// Most ticks that have room for their texts.
const MOST_TICKS: usize = 12;

/// Radius of a marker, and half the side of the place that shows its note.
const MARKER: i32 = 8;

/// Lines over one axis; values go up from 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinePlot {
    /// The quantity across.
    pub x_label: String,
    /// The quantity upwards, with its unit.
    pub y_label: String,
    /// Kind of the axis across.
    pub x_axis: XAxis,
    /// End of the axis upwards; by default what the values need.
    pub y_end: Option<f64>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Kind of the axis across.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum XAxis {
    /// Numbers, with round ones at the ticks.
    #[default]
    Round,
    /// Numbers, with ticks at these: epochs, counts of ranks.
    At(Vec<f64>),
    /// Names at 0, 1 and on.
    Names(Vec<String>),
    /// Seconds by powers of ten.
    LogSeconds,
}

/// One line of a plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Index of its colour.
    pub colour: usize,
    /// Its points; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
    /// A note for each point, which then has a marker that shows it; or none at all.
    pub notes: Vec<String>,
    /// True for a line of reference, such as a target or an ideal.
    pub is_dashed: bool,
}

impl Line {
    /// Returns the points that can be drawn, with their notes.
    fn finite(&self) -> impl Iterator<Item = ((f64, f64), Option<&String>)> {
        let notes = self.notes.iter().map(Some).chain(std::iter::repeat(None));
        self.points.iter().copied().zip(notes).filter(|((x, y), _)| x.is_finite() && y.is_finite())
    }
}

impl XAxis {
    /// Returns the place of `x` on a linear axis.
    fn place(&self, x: f64) -> f64 {
        if *self == Self::LogSeconds { x.max(1e-9).log10() } else { x }
    }

    /// Returns the axis for `places`.
    fn scale(&self, places: &[f64]) -> Ticked {
        let ticks: Vec<f64> = match self {
            Self::Round | Self::LogSeconds => Vec::new(),
            Self::At(ticks) => ticks.clone(),
            Self::Names(names) => (0..names.len()).map(|index| index as f64).collect(),
        };
        let all = || places.iter().chain(&ticks).copied();
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        if *self == Self::LogSeconds {
            // Whole powers of ten at both ends, so that there are ticks to read.
            let (first, last) = (least.floor(), most.ceil().max(least.floor() + 1.0));
            let powers = (0..20).map(|power| first + f64::from(power));
            return Ticked { ends: first..last, ticks: powers.take_while(|power| *power <= last).collect() };
        }
        // A single epoch stands in the middle.
        let pad = if most > least { 0.03 * (most - least) } else { 0.5 };
        let ends = least - pad..most + pad;
        if *self == Self::Round {
            let ticks = RangedCoordf64::from(ends.clone()).key_points(BoldPoints(8));
            return Ticked { ends, ticks };
        }
        let every = ticks.len().div_ceil(MOST_TICKS).max(1);
        Ticked { ends, ticks: ticks.into_iter().step_by(every).collect() }
    }

    /// Returns the text of the tick at `place`.
    fn text(&self, place: f64) -> String {
        match self {
            Self::Round | Self::At(_) => tick_text(&place),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "ticks of names are indices"
            )]
            Self::Names(names) => names.get(place as usize).cloned().unwrap_or_default(),
            Self::LogSeconds => {
                let (power, unit) = match place {
                    _ if place < -6.5 => (place + 9.0, "ns"),
                    _ if place < -3.5 => (place + 6.0, "µs"),
                    _ if place < -0.5 => (place + 3.0, "ms"),
                    _ => (place, "s"),
                };
                format!("{:.0} {unit}", 10f64.powf(power))
            }
        }
    }
}

/// A linear axis with ticks at given places. `WithKeyPoints` of plotters is the same for whole numbers only.
struct Ticked {
    ends: Range<f64>,
    ticks: Vec<f64>,
}

type Chart<'a, D> = ChartContext<'a, D, Cartesian2d<Ticked, RangedCoordf64>>;

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.ends.clone()).map(value, limit)
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.ends.clone()
    }
}

impl LinePlot {
    /// Returns index of colour and name of each line that has a colour.
    pub(super) fn legend(&self) -> Vec<(usize, String)> {
        let coloured = self.lines.iter().filter(|line| !line.is_dashed);
        coloured.map(|line| (line.colour, line.name.clone())).collect()
    }

    pub(super) fn draw<D: DrawingBackend>(
        &self,
        area: &DrawingArea<D, Shift>,
    ) -> Result<Vec<Spot>, DrawError<D>> {
        let points = || self.lines.iter().flat_map(Line::finite).map(|(point, _)| point);
        let places: Vec<f64> = points().map(|(x, _)| self.x_axis.place(x)).collect();
        let x_range = self.x_axis.scale(&places);
        let x_ends = x_range.range();
        let most = points().map(|(_, y)| y).fold(0.0, f64::max);
        let needed = if most > 1e-9 { most * 1.05 } else { 1.0 };
        let y_end = self.y_end.filter(|end| *end > 0.0).unwrap_or(needed);
        let mut chart = ChartBuilder::on(area)
            .margin_top(28)
            .margin_right(28)
            .x_label_area_size(88)
            .y_label_area_size(124)
            .build_cartesian_2d(x_range, 0.0..y_end)?;
        let mut mesh = chart.configure_mesh();
        if self.x_axis != XAxis::LogSeconds {
            mesh.disable_x_mesh();
        }
        mesh.y_labels(7)
            .max_light_lines(0)
            .bold_line_style(GRID.stroke_width(2))
            .axis_style(TRANSPARENT)
            .set_all_tick_mark_size(7)
            .label_style(letters(&MUTED))
            .axis_desc_style(letters(&TEXT))
            .x_label_formatter(&|place| self.x_axis.text(*place))
            .y_label_formatter(&tick_text)
            .x_desc(&*self.x_label)
            .y_desc(&*self.y_label)
            .draw()?;
        let bottom = [(x_ends.start, 0.0), (x_ends.end, 0.0)];
        chart.draw_series(LineSeries::new(bottom, AXIS.stroke_width(2)))?;
        self.draw_lines(&mut chart, y_end)
    }

    fn draw_lines<D: DrawingBackend>(
        &self,
        chart: &mut Chart<'_, D>,
        y_end: f64,
    ) -> Result<Vec<Spot>, DrawError<D>> {
        let place = |(x, y): (f64, f64)| (self.x_axis.place(x), y.clamp(0.0, y_end));
        // Lines of reference and their names lie below the others, so that they cover no value.
        for line in self.lines.iter().filter(|line| line.is_dashed) {
            let points: Vec<_> = line.finite().map(|(point, _)| place(point)).collect();
            chart.draw_series(DashedLineSeries::new(points.clone(), 10, 10, AXIS.stroke_width(3)))?;
            // On the side of the line that has more room.
            let Some(end) = points.last() else { continue };
            let (down, anchor) = if end.1 > y_end / 2.0 { (10, VPos::Top) } else { (-10, VPos::Bottom) };
            let letters = letters(&MUTED).pos(Pos::new(HPos::Right, anchor));
            let name = Text::new(line.name.clone(), (0, down), letters);
            chart.draw_series([EmptyElement::at(*end) + name])?;
        }
        let mut spots = Vec::new();
        for line in self.lines.iter().filter(|line| !line.is_dashed) {
            let colour = colours::series(line.colour);
            let points = line.finite().map(|(point, _)| place(point));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(4)))?;
            let marked = line.finite().filter_map(|(point, note)| Some((place(point), note?)));
            for (at, note) in marked {
                chart.draw_series([Circle::new(at, MARKER, colour.filled())])?;
                let (x, y) = chart.backend_coord(&at);
                let (side, note) = (2 * MARKER, note.clone());
                spots.push(Spot { x: x - MARKER, y: y - MARKER, width: side, height: side, note });
            }
        }
        Ok(spots)
    }
}
