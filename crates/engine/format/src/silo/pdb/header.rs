//! The first bytes of a PDB file: how numbers are stored, and where the tables lie.

use forebay_process::{Error, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use forebay_container::ByteOrder;

const MAGIC: &[u8] = b"!<<PDB:II>>!";
/// The header ends well before this many bytes.
const MOST_BYTES: u64 = 1024;
/// What fields of the text parts end with.
pub(super) const FIELD_END: u8 = 1;

/// True when a file begins like a PDB file.
pub(in crate::silo) fn is_pdb(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// How a number is stored: bytes, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberLayout {
    pub(super) len: usize,
    pub(super) order: Option<ByteOrder>,
}

/// The first bytes of a PDB file.
#[derive(Clone, Debug)]
pub(super) struct PdbHeader {
    pub(super) short: NumberLayout,
    pub(super) int: NumberLayout,
    pub(super) long: NumberLayout,
    /// Without an order where a float is none of the IEEE ones.
    pub(super) float: NumberLayout,
    pub(super) double: NumberLayout,
    /// Address of the chart of types.
    pub(super) chart: u64,
    /// Address of the symbol table, after the chart.
    pub(super) symbols: u64,
}

impl PdbHeader {
    /// Reads the header of the file in `source`; its addresses lie inside the file.
    pub(super) fn read(source: &dyn Source) -> Result<Self> {
        let len = source.id().len;
        let bytes = source.fetch_one(ByteRange::at(0, len.min(MOST_BYTES)))?;
        let header =
            Self::parse(&bytes).ok_or_else(|| Error::corrupt("the header ends too soon").at("offset 0xd"))?;
        if header.chart >= header.symbols || header.symbols > len {
            let what = format!(
                "types at {:#x} and symbols at {:#x} in a file of {len} bytes",
                header.chart, header.symbols
            );
            return Err(
                Error::corrupt(&what).hint("the file is cut off or damaged; restore it from its source")
            );
        }
        Ok(header)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        // The magic and a new line; a length byte, which counts itself.
        let formats = bytes.get(MAGIC.len() + 1..)?;
        let (head, rest) = formats.split_at_checked(usize::from(*formats.first()?))?;
        let [_, _, short, int, long, float, double, short_order, int_order, long_order, layout @ ..] = head
        else {
            return None;
        };
        let (float_order, layout) = layout.split_at_checked(usize::from(*float))?;
        let (double_order, layout) = layout.split_at_checked(usize::from(*double))?;
        let (float_format, double_format) = (layout.get(..7)?, layout.get(7..14)?);
        let mut lines = rest.split(|byte| *byte == b'\n');
        let mut biases = fields(lines.next()?);
        let (float_bias, double_bias) = (biases.next()??, biases.next()??);
        let mut addresses = fields(lines.next()?);
        let fixed = |len: &u8, order: &u8| NumberLayout {
            len: usize::from(*len),
            order: match order {
                1 => Some(ByteOrder::Big),
                2 => Some(ByteOrder::Little),
                _ => None,
            },
        };
        let real = |order: &[u8], format: &[u8], bias: u64| NumberLayout {
            len: order.len(),
            order: order_of(order).filter(|_| is_ieee(format, bias)),
        };
        Some(Self {
            short: fixed(short, short_order),
            int: fixed(int, int_order),
            long: fixed(long, long_order),
            float: real(float_order, float_format, float_bias),
            double: real(double_order, double_format, double_bias),
            chart: addresses.next()??,
            symbols: addresses.next()??,
        })
    }
}

/// The fields of a line, as numbers; what is cut before its end would be another number.
fn fields(line: &[u8]) -> impl Iterator<Item = Option<u64>> + '_ {
    let fields = line.split_inclusive(|byte| *byte == FIELD_END);
    fields.map(|field| str::from_utf8(field.strip_suffix(&[FIELD_END])?).ok()?.trim().parse().ok())
}

/// The order that the bytes of a number stand in, counted from the most significant one.
pub(super) fn order_of(order: &[u8]) -> Option<ByteOrder> {
    let is_big = order.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at + 1);
    let is_little = order.iter().rev().enumerate().all(|(at, byte)| usize::from(*byte) == at + 1);
    match (is_big, is_little) {
        (true, _) => Some(ByteOrder::Big),
        (_, true) => Some(ByteOrder::Little),
        _ => None,
    }
}

/// True for the layouts of IEEE 754: bits, exponent and mantissa bits, where sign, exponent and mantissa start, whether
/// the leading one is stored.
pub(super) fn is_ieee(format: &[u8], bias: u64) -> bool {
    matches!((format, bias), ([32, 8, 23, 0, 1, 9, 0], 127) | ([64, 11, 52, 0, 1, 12, 0], 1023))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Silo 4.11 begins its files.
    const LITTLE: &[u8] = b"!<<PDB:II>>!\n\x24\x08\x02\x04\x08\x04\x08\x02\x02\x02\x04\x03\x02\x01\
        \x08\x07\x06\x05\x04\x03\x02\x01\x20\x08\x17\x00\x01\x09\x00\x40\x0b\x34\x00\x01\x0c\x00\
        127\x011023\x01\n16371\x0116610\x01\n";

    #[test]
    fn a_header_says_how_numbers_are_stored_and_where_the_tables_lie() {
        let header = PdbHeader::parse(LITTLE).unwrap();
        assert_eq!((header.chart, header.symbols), (16371, 16610));
        assert_eq!(header.long, NumberLayout { len: 8, order: Some(ByteOrder::Little) });
        assert_eq!(header.double, NumberLayout { len: 8, order: Some(ByteOrder::Little) });
        assert!((0..LITTLE.len() - 1).all(|len| PdbHeader::parse(&LITTLE[..len]).is_none()));
    }

    #[test]
    fn a_float_that_is_not_ieee_has_no_order_we_know() {
        let mut bytes = LITTLE.to_vec();
        bytes[MAGIC.len() + 1 + 22] = 33;
        assert_eq!(PdbHeader::parse(&bytes).unwrap().float.order, None);
    }
}
