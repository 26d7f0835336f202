//! Pages as documents: self-contained, escaped, with everything that they were made from.

use forebay_report::{
    Badge, BadgeKind, BarPart, BarPlot, BarRow, Card, Cell, Line, LinePlot, Page, Plot, Table, Tile, XAxis,
};
use proptest::prelude::*;

fn card(plot: Plot) -> Card {
    Card { heading: "heading".into(), why: "why".into(), plot }
}

fn page_of(plot: Plot) -> String {
    Page { cards: vec![card(plot)], ..Page::default() }.html()
}

/// Returns the values of the attribute `name` of each element `element`.
fn attributes<'a>(html: &'a str, element: &str, name: &str) -> Vec<&'a str> {
    let (opening, name) = (format!("<{element} "), format!(" {name}=\""));
    let value = |tag: &'a str| {
        let tag = &tag[..tag.find('>').expect("a tag ends")];
        let at = tag.find(&name)? + name.len();
        Some(&tag[at..at + tag[at..].find('"')?])
    };
    html.match_indices(&opening).filter_map(|(at, _)| value(&html[at..])).collect()
}

#[test]
fn every_text_of_a_page_is_in_it_and_escaped() {
    let text = |name: &str| format!("<{name}> & \"it's\"\u{7}");
    let cell = Cell { text: text("cell"), aside: text("aside") };
    let table = |name: &str| Table {
        heading: text(&format!("{name}-heading")),
        columns: vec![text(&format!("{name}-column"))],
        rows: vec![vec![cell.clone()]],
        note: text(&format!("{name}-note")),
    };
    let line = Line {
        name: text("dashed"),
        points: vec![(0.0, 1.0), (1.0, 1.0)],
        is_dashed: true,
        ..Line::default()
    };
    let lines = ["one", "two"].map(|name| Line {
        name: text(name),
        points: vec![(1.0, 2.0)],
        notes: vec![text(&format!("{name}-note"))],
        ..Line::default()
    });
    let bars = ["three", "four"].map(|name| BarRow {
        name: text(&format!("{name}-row")),
        parts: vec![BarPart {
            name: text(name),
            len: 1.0,
            note: text(&format!("{name}-part")),
            is_rest: false,
        }],
    });
    let page = Page {
        command: text("command"),
        title: text("title"),
        started_unix_s: Some(0.0),
        extent: text("extent"),
        badges: vec![Badge { kind: BadgeKind::Warn, text: text("badge") }],
        tiles: vec![Tile { name: text("name"), value: text("value"), more: text("more") }],
        summary: Some(table("summary")),
        cards: vec![
            Card {
                heading: text("card"),
                why: text("why"),
                plot: Plot::Lines(LinePlot {
                    x_label: text("x"),
                    y_label: text("y"),
                    x_axis: XAxis::Names(vec![text("tick")]),
                    lines: [line].into_iter().chain(lines).collect(),
                    ..LinePlot::default()
                }),
            },
            card(Plot::Bars(BarPlot { x_label: text("len"), rows: bars.to_vec(), ..BarPlot::default() })),
        ],
        tables: vec![table("table")],
    };
    let html = page.html();
    let names = [
        "command",
        "title",
        "extent",
        "badge",
        "name",
        "value",
        "more",
        "summary-heading",
        "summary-column",
        "summary-note",
        "cell",
        "aside",
        "card",
        "why",
        "x",
        "y",
        "tick",
        "dashed",
        "one",
        "two",
        "one-note",
        "two-note",
        "len",
        "three",
        "four",
        "three-row",
        "four-row",
        "three-part",
        "four-part",
        "table-heading",
        "table-column",
        "table-note",
    ];
    for name in names {
        assert!(html.contains(&format!("&lt;{name}&gt; &amp; &quot;it")), "{name} is not in the page");
        assert!(!html.contains(&format!("<{name}> &")), "{name} is not escaped");
    }
    assert!(!html.contains('\u{7}'), "a control character");
    assert!(html.contains("1970-01-01 00:00:00 UTC, "));
    assert!(
        html.find("summary-heading") < html.find("<figure")
            && html.find("<figure") < html.find("table-heading")
    );
}

#[test]
fn a_page_is_one_file_that_asks_for_nothing_else() {
    let html = page_of(Plot::Lines(LinePlot {
        lines: vec![Line { points: vec![(0.0, 1.0), (1.0, 2.0)], ..Line::default() }],
        ..LinePlot::default()
    }));
    // The name of a namespace, which nothing fetches.
    let html = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for foreign in ["http:", "https:", "<script", "<link", "<image", "src=", "href=", "url(", "@import"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

#[test]
fn plots_use_only_colours_that_dark_mode_replaces() {
    let lines = (0..9).map(|colour| Line {
        name: format!("line {colour}"),
        colour,
        points: vec![(0.0, 1.0), (1.0, 2.0)],
        notes: vec!["note".into(); 2],
        is_dashed: colour == 8,
    });
    let part = |index: usize| BarPart {
        name: index.to_string(),
        len: 1.0,
        is_rest: index == 8,
        ..BarPart::default()
    };
    let bars = BarPlot {
        rows: vec![BarRow { name: "bar".into(), parts: (0..9).map(part).collect() }],
        ..BarPlot::default()
    };
    for plot in [Plot::Lines(LinePlot { lines: lines.collect(), ..LinePlot::default() }), Plot::Bars(bars)] {
        let html = page_of(plot);
        for element in ["polyline", "line", "circle", "rect", "text"] {
            for name in ["fill", "stroke"] {
                for colour in attributes(&html, element, name) {
                    let is_replaced =
                        html.contains(&format!("figure [{name}=\"{colour}\"] {{ {name}: var(--"));
                    assert!(colour == "none" || is_replaced, "{element} {name} {colour}");
                }
            }
        }
    }
}

#[test]
fn points_stand_at_their_values_and_show_their_notes() {
    let line = |name: &str, points: &[(f64, f64)], notes: &[&str]| Line {
        name: name.into(),
        points: points.to_vec(),
        notes: notes.iter().map(|&note| note.to_owned()).collect(),
        ..Line::default()
    };
    let html = page_of(Plot::Lines(LinePlot {
        x_axis: XAxis::At(vec![1.0, 2.0, 4.0]),
        y_end: Some(100.0),
        lines: vec![
            line("one", &[(1.0, 0.0), (2.0, 50.0), (4.0, 400.0)], &["low", "middle", "beyond the end"]),
            line("two", &[(1.0, f64::NAN), (4.0, 50.0)], &["left out", "kept"]),
        ],
        ..LinePlot::default()
    }));
    let numbers = |name| -> Vec<i32> {
        attributes(&html, "circle", name).into_iter().map(|text| text.parse().expect("a number")).collect()
    };
    let (x, y) = (numbers("cx"), numbers("cy"));
    assert_eq!(x.len(), 4, "a marker for each point that is finite");
    assert_eq!((x[2] - x[0]) / (x[1] - x[0]), 3, "{x:?}");
    assert!((y[0] - y[1] - (y[1] - y[2])).abs() <= 1 && y[1] == y[3], "{y:?}");
    for note in ["low", "middle", "beyond the end", "kept"] {
        assert!(html.contains(&format!("<title>{note}</title>")), "{note}");
    }
    assert!(!html.contains("left out"));
}

#[test]
fn parts_of_bars_are_as_long_as_their_values_and_what_is_left_is_grey() {
    let part = |name: &str, len, is_rest| BarPart {
        name: name.into(),
        len,
        note: format!("{name}: {len}"),
        is_rest,
    };
    let rows = [("first", 1.0), ("second", 2.0)].map(|(name, len)| BarRow {
        name: name.into(),
        parts: vec![part("read", len, false), part("other", len, true), part("compute", 3.0 * len, false)],
    });
    let html = page_of(Plot::Bars(BarPlot { x_end: Some(10.0), rows: rows.to_vec(), ..BarPlot::default() }));
    let bars = &html[html.find("<figure").expect("a plot")..html.find("class=\"spots\"").expect("notes")];
    let widths: Vec<i32> =
        attributes(bars, "rect", "width").into_iter().map(|text| text.parse().expect("a number")).collect();
    assert_eq!(widths.len(), 6);
    for (width, parts) in widths.iter().zip([1, 1, 3, 2, 2, 6]) {
        assert!((width - parts * widths[0]).abs() <= parts + 1, "{widths:?}");
    }
    let fills = attributes(bars, "rect", "fill");
    assert_eq!(fills[..3], fills[3..], "parts of a name have one colour");
    assert_eq!(fills[1], "#8C959F");
    let legend: Vec<_> =
        ["read", "compute", "other"].map(|name| html.find(&format!("</span>{name}<"))).to_vec();
    assert!(legend.is_sorted() && legend.iter().all(Option::is_some), "{legend:?}");
    // The legend of a single bar has the lengths.
    let html = page_of(Plot::Bars(BarPlot { rows: rows[..1].to_vec(), ..BarPlot::default() }));
    assert!(html.contains("</span>read: 1<") && html.contains("</span>other: 1<"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_values_are_drawn_inside_the_plot(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..8),
        positive in prop::collection::vec((1e-12..1e15, 0.0..1e15), 0..8),
        axis in 0..3,
    ) {
        for points in [points, positive] {
            let x_axis = match axis {
                0 => XAxis::Round,
                1 => XAxis::At(points.iter().map(|(x, _)| *x).filter(|x| x.is_finite()).collect()),
                _ => XAxis::LogSeconds,
            };
            let notes = vec!["note".into(); points.len()];
            let parts = points.iter().map(|(_, len)| BarPart { len: *len, ..BarPart::default() }).collect();
            let lines = vec![Line { points, notes, ..Line::default() }];
            let html = page_of(Plot::Lines(LinePlot { x_axis, lines, ..LinePlot::default() }));
            for (name, most) in [("cx", 1120), ("cy", 560)] {
                for place in attributes(&html, "circle", name) {
                    let place: i32 = place.parse().expect("a number");
                    prop_assert!((0..=most).contains(&place), "{name} {place}");
                }
            }
            let rows = vec![BarRow { name: "bar".into(), parts }];
            page_of(Plot::Bars(BarPlot { rows, ..BarPlot::default() }));
        }
    }
}
