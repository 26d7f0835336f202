//! The table of symbols: one line each, fields that end in a byte of one.

use std::collections::HashSet;

use forebay_process::{Error, ErrorKind, Result};

use super::header::FIELD_END;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// Full name, without the leading slash.
    pub(super) name: String,
    /// The type's name.
    pub(super) kind: String,
    pub(super) count: u64,
    pub(super) address: u64,
    /// Elements per dimension.
    pub(super) dims: Vec<u64>,
}

/// What stands behind the table.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// Names of arrays that lie in several pieces.
    pub(super) in_blocks: HashSet<String>,
    /// True when the first of an array's dims is the fastest.
    is_first_fastest: bool,
}

/// Silo writes this for arrays whose first index is the fastest.
const FIRST_FASTEST: &[u8] = b"Major-Order:102";

/// The symbols in `table`, which begins with them, and what follows them.
pub(super) fn read(table: &[u8]) -> Result<(Vec<Symbol>, Extras)> {
    // What has no end is no line.
    let mut lines = table.split_inclusive(|byte| *byte == b'\n').map_while(|line| line.strip_suffix(b"\n"));
    let mut symbols = Vec::new();
    for line in lines.by_ref().skip_while(|line| line.is_empty()) {
        if line.is_empty() {
            let mut extras = Extras::default();
            read_extras(lines, &mut extras);
            return Ok((symbols, extras));
        }
        let shown = String::from_utf8_lossy(line.get(..60).unwrap_or(line));
        let symbol = parse(line)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("no symbol in the line {shown:?}")))?;
        symbols.push(symbol);
    }
    Err(Error::new(ErrorKind::Corrupt, "the symbol table has no end").hint("the file is cut off"))
}

fn parse(line: &[u8]) -> Option<Symbol> {
    let mut fields = line.split(|byte| *byte == FIELD_END).map(str::from_utf8);
    let mut next = || fields.next()?.ok();
    let (name, kind) = (next()?.trim_start_matches('/').to_owned(), next()?.trim().to_owned());
    let (count, address) = (next()?.trim().parse().ok()?, next()?.trim().parse().ok()?);
    let mut dims = Vec::new();
    // The index of the first element, then how many there are.
    while let Some(first) = next().filter(|field| !field.is_empty()) {
        let _: i64 = first.trim().parse().ok()?;
        dims.push(next()?.trim().parse().ok()?);
    }
    Some(Symbol { name, kind, count, address, dims })
}

fn read_extras<'a>(lines: impl Iterator<Item = &'a [u8]>, extras: &mut Extras) {
    let mut is_in_blocks = false;
    for line in lines {
        if is_in_blocks {
            let name = line.split(|byte| *byte == FIELD_END).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name);
            if name.len() > 1 {
                extras.in_blocks.insert(name.trim_start_matches('/').to_owned());
            }
        }
        extras.is_first_fastest |= line == FIRST_FASTEST;
        is_in_blocks |= line == b"Blocks:";
    }
}

impl Symbol {
    /// The shape in C order.
    pub(super) fn shape(&self, extras: &Extras) -> Result<Vec<u64>> {
        let mut shape = if self.dims.is_empty() { vec![self.count] } else { self.dims.clone() };
        if shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len)) != Some(self.count) {
            let what = format!("{} elements of shape {:?}", self.count, self.dims);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        if extras.is_first_fastest {
            shape.reverse();
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_end_at_an_empty_line_and_pieces_are_named_behind_it() {
        let table =
            b"/a\x01integer\x0112\x01160\x010\x013\x010\x014\x01\n/dir/\x01Directory\x011\x0199\x01\n\n\
            Major-Order:101\nBlocks:\n/a\x012\x01160\x014\x01200\x018\x01\n\x02\n";
        let (symbols, extras) = read(table).unwrap();
        assert_eq!(symbols.len(), 2);
        assert_eq!(symbols[0].shape(&extras).unwrap(), [3, 4]);
        assert_eq!(symbols[1].name, "dir/");
        assert_eq!(extras.in_blocks.into_iter().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_table_without_an_end_and_a_shape_that_does_not_add_up_are_corrupt() {
        assert_eq!(read(b"/a\x01integer\x011\x010\x01\n").unwrap_err().kind(), ErrorKind::Corrupt);
        let (symbols, extras) = read(b"/a\x01integer\x015\x010\x010\x013\x01\n\n").unwrap();
        assert_eq!(symbols[0].shape(&extras).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
