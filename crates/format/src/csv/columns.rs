//! What the cells of a column are.

use forebay_filter::csv_cells::{float_of, integer_of, is_missing};

/// What the cells of a column are, as far as they were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    has_number: bool,
}

impl Column {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), kind: Kind::Integer, has_number: false }
    }

    /// Looks at the cell that stands in `line`.
    pub(super) fn look(&mut self, cell: &[u8], line: u64) {
        match self.kind {
            Kind::Integer if integer_of(cell).is_some() => self.has_number = true,
            Kind::Integer | Kind::Float if float_of(cell).is_some() => {
                self.kind = Kind::Float;
                self.has_number |= !is_missing(cell);
            }
            Kind::Integer | Kind::Float if !self.has_number => self.kind = Kind::Text,
            Kind::Integer | Kind::Float => {
                let cell: String = String::from_utf8_lossy(cell).chars().take(40).collect();
                self.kind = Kind::Bad(format!("line {line}, column '{}': '{cell}' is no number", self.name));
            }
            Kind::Text | Kind::Bad(_) => {}
        }
    }

    /// Why it cannot be read, if it cannot.
    pub(super) fn why(&self) -> Option<String> {
        match &self.kind {
            Kind::Text => Some("its cells are texts, of which no tensor is made".to_owned()),
            Kind::Bad(why) => Some(why.clone()),
            Kind::Integer | Kind::Float => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(cells: &[&str]) -> Kind {
        let mut column = Column::new("x");
        for (line, cell) in (2..).zip(cells) {
            column.look(cell.as_bytes(), line);
        }
        column.kind
    }

    #[test]
    fn a_column_is_what_all_its_cells_are() {
        assert_eq!(kind_of(&["1", " -2 "]), Kind::Integer);
        assert_eq!(kind_of(&["1", "2.5", "", "nan", "1e9"]), Kind::Float);
        assert_eq!(kind_of(&["1", "NA", "n/a", "null", "-", "#N/A"]), Kind::Float);
        assert_eq!(kind_of(&["NA", "2"]), Kind::Float);
        assert_eq!(kind_of(&["a", "1"]), Kind::Text);
        assert_eq!(kind_of(&["", "NA", "b"]), Kind::Text, "what is missing tells nothing of the rest");
        assert_eq!(kind_of(&["1", "b"]), Kind::Bad("line 3, column 'x': 'b' is no number".into()));
        assert_eq!(kind_of(&["9223372036854775808"]), Kind::Float, "past the range of whole numbers");
    }
}
