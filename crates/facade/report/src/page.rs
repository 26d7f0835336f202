//! A page as plain data, and the template that it fills.

use minijinja::{Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use crate::{
    colours::{self, CssColour},
    plot::{Drawing, Plot},
    time::iso_time,
};

/// Facts as one self-contained page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The command that made it.
    pub command: String,
    /// Its subject.
    pub title: String,
    /// Start of what it is about, in seconds since 1970.
    pub started_unix_s: Option<f64>,
    /// A few words after the start, such as the number of runs.
    pub extent: String,
    /// Verdicts and warnings.
    pub badges: Vec<Badge>,
    /// The numbers that are looked at first.
    pub tiles: Vec<Tile>,
    /// Several runs side by side, before the plots.
    pub summary: Option<Table>,
    /// Plots.
    pub cards: Vec<Card>,
    /// Tables, after the plots.
    pub tables: Vec<Table>,
}

/// A verdict or a warning, in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Badge {
    /// Its meaning, which gives it a colour.
    pub kind: BadgeKind,
    /// Its words.
    pub text: String,
}

/// Meaning of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BadgeKind {
    /// A test was passed.
    Pass,
    /// A test was not passed.
    Fail,
    /// The reader has to take care.
    Warn,
}

/// One number with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tile {
    /// Its name.
    pub name: String,
    /// The number, with its unit.
    pub value: String,
    /// Where it comes from.
    pub more: String,
}

/// A plot under a heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// The quantity.
    pub heading: String,
    /// Its meaning, in a sentence.
    pub why: String,
    /// The plot.
    pub plot: Plot,
}

/// A table under a heading; the first column is aligned to the left, numbers in the others to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Its subject.
    pub heading: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
    /// A sentence below.
    pub note: String,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Its value.
    pub text: String,
    /// A lesser value after it, such as a ratio.
    pub aside: String,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, aside: String::new() }
    }
}

/// The fields that the template names.
#[derive(Serialize)]
struct View<'a> {
    command: &'a str,
    title: &'a str,
    start: Option<String>,
    extent: &'a str,
    badges: &'a [Badge],
    tiles: &'a [Tile],
    summary: Option<&'a Table>,
    cards: Vec<DrawnCard<'a>>,
    tables: &'a [Table],
    colours: Vec<CssColour>,
}

#[derive(Serialize)]
struct DrawnCard<'a> {
    heading: &'a str,
    why: &'a str,
    plot: Drawing,
}

impl Card {
    fn drawn(&self) -> DrawnCard<'_> {
        DrawnCard { heading: &self.heading, why: &self.why, plot: self.plot.draw() }
    }
}

impl Page {
    /// Returns the page as an HTML document.
    pub fn html(&self) -> String {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let mut environment = Environment::new();
        environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // The name ends in `.html`, which turns escaping on.
        let html = environment.render_named_str("page.html", include_str!("page.html"), Serde(self.view()));
        let html = html.expect("the template names only fields of its view");
        // Control characters are not allowed in a document, whatever a file was called.
        html.replace(|letter: char| letter.is_control() && letter != '\n', "\u{fffd}")
    }

    fn view(&self) -> View<'_> {
        View {
            command: &self.command,
            title: &self.title,
            start: self.started_unix_s.map(|start| iso_time(start)[..19].replace('T', " ")),
            extent: &self.extent,
            badges: &self.badges,
            tiles: &self.tiles,
            summary: self.summary.as_ref(),
            cards: self.cards.iter().map(Card::drawn).collect(),
            tables: &self.tables,
            colours: colours::css(),
        }
    }
}
