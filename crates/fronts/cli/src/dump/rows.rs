//! Values as lines of text, and as a list in JSON.

use std::io::Write;

use forebay::{Array, Error, Result};

use crate::output::value;

/// Values as text: one row of the last axis per line, a space between values.
pub(crate) struct TextRows<W> {
    out: W,
    row_len: u64,
    column: u64,
}

impl<W: Write> TextRows<W> {
    /// Writes values of `shape` to `out`.
    pub(crate) fn new(out: W, shape: &[u64]) -> Self {
        Self { out, row_len: shape.last().copied().unwrap_or(1), column: 0 }
    }

    /// Writes the next values; a row may go on from one call to the next.
    pub(crate) fn put(&mut self, array: &Array) -> Result<()> {
        value::each(array, |value| {
            self.column += 1;
            let end = if self.column == self.row_len { '\n' } else { ' ' };
            self.column %= self.row_len.max(1);
            write!(self.out, "{value}{end}").map_err(Error::from_io)
        })
    }

    /// Ends the output.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.out.flush().map_err(Error::from_io)
    }
}

/// Values as one JSON object: the members of `head`, then `values`, a flat list.
pub(crate) struct JsonList<W> {
    out: W,
    is_first: bool,
}

impl<W: Write> JsonList<W> {
    /// Starts the object.
    pub(crate) fn new(mut out: W, head: &serde_json::Value) -> Result<Self> {
        let head = head.to_string();
        let members = head.strip_suffix('}').unwrap_or(&head);
        write!(out, "{members},\"values\":[").map_err(Error::from_io)?;
        Ok(Self { out, is_first: true })
    }

    /// Writes the next values.
    pub(crate) fn put(&mut self, array: &Array) -> Result<()> {
        value::each(array, |value| {
            let comma = if self.is_first { "" } else { "," };
            self.is_first = false;
            write!(self.out, "{comma}").map_err(Error::from_io)?;
            serde_json::to_writer(&mut self.out, &value).map_err(|error| Error::from_io(error.into()))
        })
    }

    /// Ends the object with what cut the values short.
    pub(crate) fn fail(&mut self, error: &Error) -> Result<()> {
        let text = serde_json::Value::from(error.to_string());
        let kind = format!("{:?}", error.kind());
        writeln!(self.out, "],\"error\":{text},\"kind\":\"{kind}\"}}")
            .and_then(|()| self.out.flush())
            .map_err(Error::from_io)
    }

    /// Ends the object.
    pub(crate) fn finish(&mut self) -> Result<()> {
        writeln!(self.out, "]}}").and_then(|()| self.out.flush()).map_err(Error::from_io)
    }
}

#[cfg(test)]
mod tests {
    use forebay::{
        Values,
        container::{Dtype, Number},
    };

    use super::*;

    fn bytes(values: &[u8]) -> Array {
        let dtype = Dtype::native(Number::U8);
        Array { dtype, shape: vec![values.len() as u64], values: Values::Fixed(values.to_vec()) }
    }

    #[test]
    fn a_row_goes_on_over_the_border_of_two_reads() {
        let mut out = Vec::new();
        let mut rows = TextRows::new(&mut out, &[2, 3]);
        rows.put(&bytes(&[1, 2])).unwrap();
        rows.put(&bytes(&[3, 4, 5, 6])).unwrap();
        assert_eq!(out, b"1 2 3\n4 5 6\n");
    }

    #[test]
    fn a_list_is_whole_json_however_it_was_read() {
        let mut out = Vec::new();
        let mut list = JsonList::new(&mut out, &serde_json::json!({ "shape": [3] })).unwrap();
        list.put(&bytes(&[1])).unwrap();
        list.put(&bytes(&[2, 3])).unwrap();
        list.finish().unwrap();
        assert_eq!(out, b"{\"shape\":[3],\"values\":[1,2,3]}\n");
    }
}
