//! Stacked horizontal bars, a row for each run.

use std::fmt::Write;

use super::{
    markup::{COLOURS, escaped, legend},
    scale::{Scale, round_end, tick_text},
};

const WIDTH: f64 = 560.0;
const LEFT: f64 = 10.0;
const RIGHT: f64 = 546.0;
const ROW: f64 = 52.0;

/// One bar: its parts follow each other.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct BarRow {
    pub(in crate::report) name: String,
    /// The number of the part's name, its length, and what it says when pointed at.
    pub(in crate::report) parts: Vec<(usize, f64, String)>,
}

/// A plot of stacked bars.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct BarPlot {
    pub(in crate::report) title: String,
    pub(in crate::report) x_label: String,
    /// The end of the axis; what the bars need where it is not given.
    pub(in crate::report) x_end: Option<f64>,
    /// The names of parts, each with a colour of its own.
    pub(in crate::report) names: Vec<String>,
    pub(in crate::report) rows: Vec<BarRow>,
}

impl BarPlot {
    /// The plot as SVG with its legend.
    pub(in crate::report) fn draw(&self) -> String {
        let longest =
            self.rows.iter().map(|row| row.parts.iter().map(|part| part.1).sum()).fold(0.0, f64::max);
        let end = self.x_end.unwrap_or_else(|| round_end(longest, 5));
        let x = Scale::linear((0.0, end), (LEFT, RIGHT));
        let bottom = ROW * self.rows.len() as f64 + 6.0;
        let height = bottom + 46.0;
        let title = escaped(&self.title);
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">");
        let mut draw = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("text grows");
        for tick in x.ticks(5) {
            let at = x.at(tick);
            let text = tick_text(tick);
            let anchor = if tick == 0.0 {
                "start"
            } else if at > RIGHT - 12.0 {
                "end"
            } else {
                "middle"
            };
            draw(format_args!(
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"4\" y2=\"{bottom}\"/>"
            ));
            draw(format_args!(
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
                bottom + 17.0
            ));
        }
        for (number, row) in self.rows.iter().enumerate() {
            let top = ROW * number as f64;
            draw(format_args!(
                "<text class=\"label\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
                top + 18.0,
                escaped(&row.name)
            ));
            let mut from = 0.0;
            for (part, len, note) in &row.parts {
                let (start, stop) = (x.at(from), x.at(from + len));
                from += len;
                draw(format_args!(
                    "<rect class=\"c{}\" x=\"{start:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"22\"><title>{}</title></rect>",
                    part % COLOURS,
                    top + 25.0,
                    (stop - start).max(0.0),
                    escaped(note)
                ));
            }
        }
        draw(format_args!(
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            height - 8.0,
            escaped(&self.x_label)
        ));
        svg.push_str("</svg>");
        // One bar has room to say how long its parts are.
        if let [row] = &self.rows[..] {
            let notes: Vec<(usize, &str)> =
                row.parts.iter().map(|(part, _, note)| (*part, &**note)).collect();
            return svg + &legend(&notes);
        }
        let used =
            |number: &usize| self.rows.iter().any(|row| row.parts.iter().any(|part| part.0 == *number));
        let entries: Vec<(usize, &str)> =
            (0..self.names.len()).filter(used).map(|number| (number, &*self.names[number])).collect();
        svg + &legend(&entries)
    }
}
