//! Reports as one self-contained HTML page: no script, no network, light and dark.
//!
//! ```text
//! Page ─┬─ badges, tiles, tables ──────────────► page.html (minijinja) ─► String
//!       └─ cards: LinePlot, BarPlot ─► plotters ─► SVG ─┘
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `page`, `page.html` | a page as plain data; the only markup, with its style sheet |
//! | `plot`, `plot/` | plots as plain data, drawn as SVG: lines, stacked bars |
//! | `colours` | the colours of plots, in light and dark |
//! | `number` | bytes, counts and times as people read them |
//! | `time` | dates by ISO 8601 |

mod colours;
mod number;
mod page;
mod plot;
mod time;

pub use number::{bytes_text, count_text, time_text};
pub use page::{Badge, BadgeKind, Card, Cell, Page, Table, Tile};
pub use plot::{BarPart, BarPlot, BarRow, Line, LinePlot, Plot, XAxis};
pub use time::iso_time;
