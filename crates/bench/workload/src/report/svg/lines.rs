//! Lines with markers, over linear or logarithmic values.

use std::fmt::Write;

use super::{
    markup::{COLOURS, escaped, legend},
    scale::{Scale, round_end, tick_text},
};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 546.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 236.0;

/// One line of a plot.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct PlotLine {
    pub(in crate::report) name: String,
    pub(in crate::report) colour: usize,
    pub(in crate::report) points: Vec<(f64, f64)>,
    /// What a point says when it is pointed at; points without a text have no marker.
    pub(in crate::report) notes: Vec<String>,
    /// A line of reference: a target, an ideal.
    pub(in crate::report) is_dashed: bool,
}

/// A plot of lines; values go up from 0.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct LinePlot {
    pub(in crate::report) title: String,
    pub(in crate::report) x_label: String,
    pub(in crate::report) y_label: String,
    /// The top of the axis; what the values need where it is not given.
    pub(in crate::report) y_end: Option<f64>,
    /// Powers of ten across, with texts for the ticks.
    pub(in crate::report) x_log_text: Option<fn(f64) -> String>,
    /// Ticks across, where they are not round numbers: epochs, counts of ranks.
    pub(in crate::report) x_ticks: Vec<f64>,
    /// What stands at the ticks 0, 1 and on, instead of these numbers.
    pub(in crate::report) x_names: Vec<String>,
    pub(in crate::report) series: Vec<PlotLine>,
}

impl LinePlot {
    /// The plot as SVG with its legend.
    pub(in crate::report) fn draw(&self) -> String {
        let (x, y) = (self.x_scale(), self.y_scale());
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.title)
        );
        self.draw_axes(&mut svg, &x, &y);
        // Lines of reference lie below the others.
        let (dashed, solid): (Vec<&PlotLine>, Vec<&PlotLine>) =
            self.series.iter().partition(|series| series.is_dashed);
        dashed.into_iter().chain(solid).for_each(|series| draw_series(&mut svg, series, &x, &y));
        svg.push_str("</svg>");
        let entries: Vec<(usize, &str)> = self
            .series
            .iter()
            .filter(|series| !series.is_dashed)
            .map(|series| (series.colour, &*series.name))
            .collect();
        svg + &legend(&entries)
    }

    fn x_text(&self, tick: f64) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a tick with a name is a place in a list"
        )]
        let named = self.x_names.get(tick as usize);
        match (named, self.x_log_text) {
            (Some(name), _) => name.clone(),
            (None, Some(text)) => text(tick),
            (None, None) => tick_text(tick),
        }
    }

    fn x_scale(&self) -> Scale {
        let values = || self.series.iter().flat_map(|series| &series.points).map(|(x, _)| *x);
        let (least, most) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        if self.x_log_text.is_some() {
            // Whole powers of ten at both ends, so that there are ticks to read.
            let ends =
                (10f64.powf(least.max(1e-9).log10().floor()), 10f64.powf(most.max(1e-9).log10().ceil()));
            return Scale::log(ends, (LEFT, RIGHT));
        }
        // A single epoch stands in the middle.
        let pad = if most > least { 0.0 } else { 0.5 };
        Scale::linear((least - pad, most + pad), (LEFT + 14.0, RIGHT - 14.0))
    }

    fn y_scale(&self) -> Scale {
        let most = self.series.iter().flat_map(|series| &series.points).map(|(_, y)| *y).fold(0.0, f64::max);
        let end = self.y_end.unwrap_or_else(|| round_end(most * 1.02, 5));
        Scale::linear((0.0, end), (BOTTOM, TOP))
    }

    fn draw_axes(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let mut draw = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("text grows");
        for tick in y.ticks(5) {
            let at = y.at(tick);
            draw(format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
            ));
            draw(format_args!(
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                tick_text(tick)
            ));
        }
        let ticks = if self.x_ticks.is_empty() { x.ticks(7) } else { thinned(&self.x_ticks, 12) };
        for tick in ticks {
            let at = x.at(tick);
            let text = self.x_text(tick);
            if self.x_log_text.is_some() {
                draw(format_args!(
                    "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>"
                ));
            }
            draw(format_args!(
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 18.0,
                escaped(&text)
            ));
        }
        draw(format_args!(
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>"
        ));
        draw(format_args!(
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            HEIGHT - 6.0,
            escaped(&self.x_label)
        ));
        draw(format_args!(
            "<text class=\"label\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(TOP, BOTTOM),
            escaped(&self.y_label)
        ));
    }
}

/// At most `most` of `ticks`, evenly chosen, the first among them.
fn thinned(ticks: &[f64], most: usize) -> Vec<f64> {
    let every = ticks.len().div_ceil(most).max(1);
    ticks.iter().copied().step_by(every).collect()
}

fn draw_series(svg: &mut String, series: &PlotLine, x: &Scale, y: &Scale) {
    let colour = series.colour % COLOURS;
    let places: Vec<(f64, f64)> = series.points.iter().map(|(px, py)| (x.at(*px), y.at(*py))).collect();
    let path: Vec<String> = places.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
    let class = if series.is_dashed { "line target".to_owned() } else { format!("line s{colour}") };
    write!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", path.join(" ")).expect("text grows");
    if let (true, Some((px, py))) = (series.is_dashed, places.last()) {
        // On the side of the line that has more room.
        let at = if *py < f64::midpoint(TOP, BOTTOM) { py + 16.0 } else { py - 7.0 };
        let name = escaped(&series.name);
        write!(svg, "<text class=\"note\" x=\"{px:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{name}</text>")
            .expect("text grows");
    }
    for ((px, py), note) in places.iter().zip(&series.notes) {
        let note = escaped(note);
        write!(svg, "<circle class=\"dot c{colour}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"4\"><title>{note}</title></circle>")
            .expect("text grows");
    }
}
