//! The chart of types: how each is stored.

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};

use super::header::{FIELD_END, NumberLayout, PdbHeader, is_ieee, order_of};
use forebay_container::{ByteOrder, Dtype, Number};

/// The types of a file.
#[derive(Debug, Default)]
pub(super) struct Types {
    primitives: HashMap<String, Primitive>,
    /// Bytes of types made of others.
    structs: HashMap<String, u64>,
}

/// A type that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Primitive {
    /// Stored as a tensor has it.
    Plain(Dtypes),
    /// Stored as no machine of today has it: a library turns it into this.
    Foreign(Number),
}

/// A plain number, which can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dtypes {
    number: Number,
    order: ByteOrder,
}

impl Types {
    /// The types that the header implies, the chart names, and the table at the end of the file describes.
    pub(super) fn read(header: &PdbHeader, chart: &[u8], table: &[u8]) -> Self {
        let mut types = Self::default();
        types.add_implied(header);
        for line in chart.split(|byte| *byte == b'\n').take_while(|line| !line.starts_with(&[2])) {
            let mut fields = texts(line);
            let (Some(name), Some(len)) = (fields.next(), fields.next()) else { continue };
            if let Ok(len) = len.trim().parse() {
                types.structs.insert(name.trim().to_owned(), len);
            }
        }
        let lines =
            table.split(|byte| *byte == b'\n').skip_while(|line| *line != b"Primitive-Types:").skip(1);
        for line in lines.take_while(|line| !line.starts_with(&[2])) {
            let fields: Vec<&str> = texts(line).collect();
            if let Some((name, primitive)) = described(&fields) {
                types.primitives.insert(name.to_owned(), primitive);
            }
        }
        types
    }

    fn add_implied(&mut self, header: &PdbHeader) {
        let long_long = NumberLayout { len: 8, ..header.int };
        let fixed = [
            ("short", header.short),
            ("int", header.int),
            ("integer", header.int),
            ("long", header.long),
            ("long_long", long_long),
        ];
        for (name, stored) in fixed {
            if let Some(primitive) = integer(stored, true) {
                self.primitives.insert(name.into(), primitive);
            }
        }
        for (name, stored) in [("float", header.float), ("double", header.double), ("REAL", header.double)] {
            if let Some(primitive) = real(name, stored) {
                self.primitives.insert(name.into(), primitive);
            }
        }
        let byte = Dtypes { number: Number::U8, order: ByteOrder::NATIVE };
        self.primitives.insert("char".into(), Primitive::Plain(byte));
    }

    /// Bytes of the struct called `name`, where the chart has one.
    pub(super) fn struct_len(&self, name: &str) -> Option<u64> {
        self.structs.get(name).copied()
    }

    /// What elements of type `name` are, and why a library must read them, where it must.
    pub(super) fn find(&self, name: &str) -> Result<(Dtype, Option<String>)> {
        match self.primitives.get(name) {
            Some(Primitive::Plain(Dtypes { number, order })) => {
                Ok((Dtype::Number { number: *number, order: *order }, None))
            }
            Some(Primitive::Foreign(number)) => {
                Ok((Dtype::native(*number), Some(format!("stored as a '{name}' of another make of machine"))))
            }
            None => {
                let what = format!("elements of type '{name}', which is no number");
                Err(Error::new(ErrorKind::Unsupported, what))
            }
        }
    }
}

fn texts(line: &[u8]) -> impl Iterator<Item = &str> {
    line.split(|byte| *byte == FIELD_END).filter_map(|field| str::from_utf8(field).ok())
}

fn integer(stored: NumberLayout, is_signed: bool) -> Option<Primitive> {
    let number = Number::integer(stored.len, is_signed)?;
    Some(match stored.order {
        Some(order) => Primitive::Plain(Dtypes { number, order }),
        None => Primitive::Foreign(number),
    })
}

/// A float called `name`; a library turns a foreign one into what this machine calls so.
fn real(name: &str, stored: NumberLayout) -> Option<Primitive> {
    let number = match stored.len {
        4 => Number::F32,
        8 => Number::F64,
        _ => return None,
    };
    Some(match stored.order {
        Some(order) => Primitive::Plain(Dtypes { number, order }),
        None => Primitive::Foreign(if name == "float" { Number::F32 } else { Number::F64 }),
    })
}

/// A line such as `float|4|4|-1|ORDER|4|3|2|1|FLOAT|32|8|23|0|1|9|0|127|` or `int|4|4|2|DEFORDER|FIX|`.
fn described<'a>(fields: &[&'a str]) -> Option<(&'a str, Primitive)> {
    let [name, len, _align, order, layout @ ..] = fields else { return None };
    let len: usize = len.parse().ok()?;
    let (order_word, layout) = layout.split_first()?;
    let (orders, layout) = match *order_word {
        "ORDER" => layout.split_at_checked(len)?,
        _ => (&layout[..0], layout),
    };
    let bytes =
        |fields: &[&str]| fields.iter().map(|field| field.parse::<u8>().ok()).collect::<Option<Vec<u8>>>();
    let (kind, layout) = layout.split_first()?;
    let says = |word: &str| {
        layout.iter().position(|field| *field == word).and_then(|at| layout.get(at + 1)) == Some(&"1")
    };
    let primitive = match *kind {
        "FIX" => {
            let order = match (*order, says("ONESCMP")) {
                ("1", false) => Some(ByteOrder::Big),
                ("2", false) => Some(ByteOrder::Little),
                _ => None,
            };
            integer(NumberLayout { len, order }, !says("UNSGNED"))?
        }
        "FLOAT" => {
            let format = bytes(layout.get(..7)?)?;
            let bias = layout.get(7)?.parse().ok()?;
            let order = order_of(&bytes(orders)?).filter(|_| is_ieee(&format, bias));
            real(name, NumberLayout { len, order })?
        }
        _ => return None,
    };
    // Other words for types: `REAL`, `integer`; and pointers, which are no values.
    (*name != "*").then_some((name, primitive))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Option<(&str, Primitive)> {
        let fields: Vec<&str> = text.split('|').collect();
        described(&fields)
    }

    #[test]
    fn lines_describe_numbers_of_either_order_and_foreign_ones() {
        let plain = |number, order| Primitive::Plain(Dtypes { number, order });
        assert_eq!(line("int|4|4|2|DEFORDER|FIX|"), Some(("int", plain(Number::I32, ByteOrder::Little))));
        assert_eq!(
            line("u_long|8|8|1|DEFORDER|FIX|UNSGNED|1|ONESCMP|0|"),
            Some(("u_long", plain(Number::U64, ByteOrder::Big)))
        );
        assert_eq!(
            line("float|4|4|-1|ORDER|1|2|3|4|FLOAT|32|8|23|0|1|9|0|127|"),
            Some(("float", plain(Number::F32, ByteOrder::Big)))
        );
        assert_eq!(
            line("double|8|8|-1|ORDER|1|2|3|4|5|6|7|8|FLOAT|64|15|48|0|1|16|1|16384|"),
            Some(("double", Primitive::Foreign(Number::F64)))
        );
        assert_eq!(line("char|1|1|-1|DEFORDER|NO-CONV|"), None);
    }
}
