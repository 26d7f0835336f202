//! What the cells of a column are.

use forebay_filter::csv_cells::{float_of, integer_of, is_missing};

/// What the cells of a column are, as far as they were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CellKind {
    /// Whole numbers.
    Integer,
    /// Numbers; an empty cell and a word for what is missing are NaN.
    Float,
    /// Texts: the first cell that is not missing is no number.
    Text,
    /// Numbers, but for one cell.
    Bad(String),
}

/// One column.
#[derive(Clone, Debug)]
pub(super) struct CsvColumn {
    pub(super) name: String,
    pub(super) kind: CellKind,
    has_number: bool,
}

impl CsvColumn {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), kind: CellKind::Integer, has_number: false }
    }

    /// Looks at the cell that stands in `line`.
    pub(super) fn look(&mut self, cell: &[u8], line: u64) {
        match self.kind {
            CellKind::Integer if integer_of(cell).is_some() => self.has_number = true,
            CellKind::Integer | CellKind::Float if float_of(cell).is_some() => {
                self.kind = CellKind::Float;
                self.has_number |= !is_missing(cell);
            }
            CellKind::Integer | CellKind::Float if !self.has_number => self.kind = CellKind::Text,
            CellKind::Integer | CellKind::Float => {
                let cell: String = String::from_utf8_lossy(cell).chars().take(40).collect();
                self.kind =
                    CellKind::Bad(format!("line {line}, column '{}': '{cell}' is no number", self.name));
            }
            CellKind::Text | CellKind::Bad(_) => {}
        }
    }

    /// Why it cannot be read, if it cannot.
    pub(super) fn why(&self) -> Option<String> {
        match &self.kind {
            CellKind::Text => Some("its cells are texts, of which no tensor is made".to_owned()),
            CellKind::Bad(why) => Some(why.clone()),
            CellKind::Integer | CellKind::Float => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(cells: &[&str]) -> CellKind {
        let mut column = CsvColumn::new("x");
        for (line, cell) in (2..).zip(cells) {
            column.look(cell.as_bytes(), line);
        }
        column.kind
    }

    #[test]
    fn a_column_is_what_all_its_cells_are() {
        assert_eq!(kind_of(&["1", " -2 "]), CellKind::Integer);
        assert_eq!(kind_of(&["1", "2.5", "", "nan", "1e9"]), CellKind::Float);
        assert_eq!(kind_of(&["1", "NA", "n/a", "null", "-", "#N/A"]), CellKind::Float);
        assert_eq!(kind_of(&["NA", "2"]), CellKind::Float);
        assert_eq!(kind_of(&["a", "1"]), CellKind::Text);
        assert_eq!(kind_of(&["", "NA", "b"]), CellKind::Text, "what is missing tells nothing of the rest");
        assert_eq!(kind_of(&["1", "b"]), CellKind::Bad("line 3, column 'x': 'b' is no number".into()));
        assert_eq!(kind_of(&["9223372036854775808"]), CellKind::Float, "past the range of whole numbers");
    }
}
