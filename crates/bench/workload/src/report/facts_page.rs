//! A page of facts about something else than a benchmark: tiles, lines over time, tables.

use crate::report::{
    html::{card, page_of, section, table},
    svg::{LinePlot, PlotLine, escaped},
    time::iso,
};

/// One number that is looked at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactTile {
    /// What it is.
    pub name: String,
    /// The number, with its unit.
    pub value: String,
    /// What it comes from.
    pub more: String,
}

/// Lines over the same time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactPlot {
    /// What is drawn.
    pub heading: String,
    /// What it says, in a sentence.
    pub why: String,
    /// What is drawn upwards, with its unit.
    pub y_label: String,
    /// A name, and points of seconds and values, for each line.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Facts as one self-contained page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactsPage {
    /// The command that made it.
    pub command: String,
    /// What it is about.
    pub title: String,
    /// When it began, in seconds since 1970.
    pub started_unix_s: f64,
    /// What the reader should be warned of.
    pub warnings: Vec<String>,
    /// The numbers that are looked at first.
    pub tiles: Vec<FactTile>,
    /// Plots.
    pub plots: Vec<FactPlot>,
    /// Tables: a heading, the names of columns, rows.
    pub tables: Vec<(String, Vec<String>, Vec<Vec<String>>)>,
}

impl FactsPage {
    /// The page.
    pub fn html(&self) -> String {
        let badges =
            self.warnings.iter().map(|text| format!("<span class=\"badge warn\">{}</span>", escaped(text)));
        let mut body = format!(
            "<header><p class=\"brand\">{}</p><h1>{}</h1><p class=\"when\">{} UTC</p>{}</header>\n",
            escaped(&self.command),
            escaped(&self.title),
            iso(self.started_unix_s)[..19].replace('T', " "),
            badges.collect::<String>()
        );
        let tiles = self.tiles.iter().map(tile);
        body += &format!("<div class=\"tiles\">{}</div>\n", tiles.collect::<String>());
        let plots = self.plots.iter().map(plot);
        body += &format!("<div class=\"cards\">{}</div>", plots.collect::<String>());
        for (heading, head, rows) in &self.tables {
            let safe = |cells: &Vec<String>| cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>();
            let rows: Vec<Vec<String>> = rows.iter().map(safe).collect();
            body += &section(heading, &table(&safe(head), &rows));
        }
        page_of(&self.command, &self.title, &body)
    }
}

fn tile(tile: &FactTile) -> String {
    let [name, value, more] = [&tile.name, &tile.value, &tile.more].map(|text| escaped(text));
    format!(
        "<div class=\"tile\"><p class=\"name\">{name}</p><p class=\"value\">{value}</p><p class=\"more\">{more}</p></div>"
    )
}

fn plot(plot: &FactPlot) -> String {
    let drawn = LinePlot {
        title: plot.heading.clone(),
        x_label: "seconds".into(),
        y_label: plot.y_label.clone(),
        series: (plot.lines.iter().enumerate())
            .map(|(colour, (name, points))| PlotLine {
                name: name.clone(),
                colour,
                points: points.clone(),
                ..PlotLine::default()
            })
            .collect(),
        ..LinePlot::default()
    };
    card(&plot.heading, &plot.why, &drawn.draw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_text_in_it_is_safe() {
        let page = FactsPage {
            command: "forebay run".into(),
            title: "python <train>.py".into(),
            warnings: vec!["a & b".into()],
            tiles: vec![FactTile { name: "reads".into(), value: "7".into(), more: String::new() }],
            plots: vec![FactPlot {
                lines: vec![("tiers".into(), vec![(0.0, 0.0), (1.0, 2.0)])],
                ..FactPlot::default()
            }],
            tables: vec![("Tiers".into(), vec!["name".into()], vec![vec!["<disk>".into()]])],
            started_unix_s: 0.0,
        };
        let html = page.html();
        assert!(
            html.contains("python &lt;train&gt;.py")
                && html.contains("a &amp; b")
                && html.contains("&lt;disk&gt;")
        );
        assert!(html.contains("<polyline") && html.contains("1970-01-01 00:00:00 UTC"));
        assert!(!html.contains("http") && !html.contains("<script"), "self-contained");
    }
}
