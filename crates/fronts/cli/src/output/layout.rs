//! Lines of coloured pieces, broken where the terminal ends, and columns of text.

use unicode_width::UnicodeWidthStr;

use crate::output::color::{Paint, TextRole};

/// Text that looks one way.
#[derive(Clone, Debug)]
pub(crate) struct StyledText {
    role: TextRole,
    text: String,
}

/// Pieces with a space between them; what starts a piece may start a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrappedLine {
    pieces: Vec<StyledText>,
}

impl WrappedLine {
    /// Adds a piece.
    #[must_use]
    pub(crate) fn with(mut self, role: TextRole, text: impl Into<String>) -> Self {
        self.pieces.push(StyledText { role, text: text.into() });
        self
    }

    /// Adds the words of a sentence, each a piece.
    #[must_use]
    pub(crate) fn words(self, role: TextRole, text: &str) -> Self {
        text.split(' ').fold(self, |line, word| line.with(role, word))
    }

    /// The line as text: `first` before its first line, `rest` before the others, `width` letters at most.
    pub(crate) fn draw(&self, (first, rest): (&str, &str), width: Option<usize>, paint: Paint) -> String {
        let mut out = paint.paint(TextRole::Dim, first);
        let mut column = first.width();
        let mut run = StyledText { role: TextRole::Plain, text: String::new() };
        for (index, piece) in self.pieces.iter().enumerate() {
            let len = piece.text.width();
            let is_over = index > 0 && width.is_some_and(|width| column + 1 + len > width);
            if is_over || piece.role != run.role {
                out.push_str(&paint.paint(run.role, &run.text));
                run = StyledText { role: piece.role, text: String::new() };
            }
            if is_over {
                out.push('\n');
                out.push_str(&paint.paint(TextRole::Dim, rest));
                column = rest.width();
            } else if index > 0 {
                let between = if run.text.is_empty() { &mut out } else { &mut run.text };
                between.push(' ');
                column += 1;
            }
            run.text.push_str(&piece.text);
            column += len;
        }
        out.push_str(&paint.paint(run.role, &run.text));
        out
    }
}

/// Columns side by side: words to the left, figures to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let column_count = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..column_count).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::color::ColorMode;

    #[test]
    fn a_line_breaks_between_pieces_and_goes_on_under_its_bars() {
        let line =
            WrappedLine::default().words(TextRole::Plain, "one two three").with(TextRole::Name, "four five");
        let paint = Paint::for_stdout(ColorMode::Never);
        assert_eq!(line.draw(("> ", "| "), None, paint), "> one two three four five");
        assert_eq!(line.draw(("> ", "| "), Some(12), paint), "> one two\n| three\n| four five");
    }
}
