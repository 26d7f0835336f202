//! Objects in PDB: a struct of pointers, and behind it what they point to, each part led by a tag.
//!
//! ```text
//! 1|Group|3073|1| pointers 8|char|3129|1| name 7|char|…|1| kind 16|char *|…| members' names … members' values …
//! ```

use bytes::Bytes;
use forebay_filter::{ByteCursor, ByteOrder};
use forebay_process::{Error, Result};
use forebay_source::{ByteRange, Source};

use super::{header::FIELD_END, symbols::Symbol};
use crate::silo::{
    names,
    object::{MemberValue, Object, ObjectKind},
};

/// What is read of an object at first: those of common fields take 600 to 1,500 bytes.
const FIRST_BYTES: u64 = 2048;
/// Objects that are read with one request.
const BATCH: usize = 256;
/// Objects may lie over each other in a file that lies: all of them together are this many times its length at most.
const MOST_REREADS: u64 = 64;
/// Small files are allowed this much on top.
const LEAST_ALLOWANCE: u64 = 16 << 20;

/// Objects that could not be made out, by name.
type Broken = Vec<(String, Error)>;

/// The objects of `symbols`, whose struct takes `struct_len` bytes.
pub(super) fn read(
    source: &dyn Source,
    symbols: &[&Symbol],
    struct_len: u64,
) -> Result<(Vec<Object>, Broken)> {
    let mut reading = PdbReading {
        source,
        struct_len: usize::try_from(struct_len).unwrap_or(usize::MAX),
        allowance: source.id().len.saturating_mul(MOST_REREADS).saturating_add(LEAST_ALLOWANCE),
    };
    let (mut objects, mut broken) = (Vec::new(), Vec::new());
    for symbols in symbols.chunks(BATCH) {
        let inside: Vec<&&Symbol> =
            symbols.iter().filter(|symbol| symbol.address < source.id().len).collect();
        let ranges =
            inside.iter().map(|symbol| reading.range(symbol, FIRST_BYTES)).collect::<Result<Vec<_>>>()?;
        for (symbol, bytes) in inside.iter().zip(source.fetch(&ranges)?) {
            match reading.object(symbol, bytes) {
                Ok(object) => objects.push(object),
                Err(error) => broken.push((symbol.name.clone(), error)),
            }
        }
        for symbol in symbols.iter().filter(|symbol| symbol.address >= source.id().len) {
            let error = Error::corrupt("lies past the end of the file")
                .at(format!("object at {:#x}", symbol.address));
            broken.push((symbol.name.clone(), error));
        }
    }
    Ok((objects, broken))
}

struct PdbReading<'a> {
    source: &'a dyn Source,
    struct_len: usize,
    /// Bytes of objects that may still be read.
    allowance: u64,
}

impl PdbReading<'_> {
    fn range(&mut self, symbol: &Symbol, len: u64) -> Result<ByteRange> {
        let end = symbol.address.saturating_add(len).min(self.source.id().len);
        let range = ByteRange { start: symbol.address, end };
        let Some(left) = self.allowance.checked_sub(range.len()) else {
            return Err(Error::corrupt("objects that come to many times the file's length"));
        };
        self.allowance = left;
        Ok(range)
    }

    /// The object that begins with `bytes`, of which more are read where they do not suffice.
    fn object(&mut self, symbol: &Symbol, mut bytes: Bytes) -> Result<Object> {
        let place = |error: Error| error.at(format!("object at {:#x}", symbol.address));
        loop {
            let mut cursor = GroupReader(ByteCursor::new(&bytes, ByteOrder::Little));
            match cursor.object(symbol, self.struct_len) {
                Ok(object) => return Ok(object),
                Err(ObjectStop::Bad(what)) => return Err(place(Error::corrupt(what))),
                Err(ObjectStop::Short) => {}
            }
            let have = bytes.len() as u64;
            if symbol.address.saturating_add(have) >= self.source.id().len {
                return Err(place(Error::corrupt("ends past the end of the file")));
            }
            let range = self.range(symbol, have.saturating_mul(4)).map_err(place)?;
            bytes = self.source.fetch(&[range])?.remove(0);
        }
    }
}

/// Why an object does not come out of the bytes that were read.
enum ObjectStop {
    /// More bytes are needed.
    Short,
    /// No bytes will help.
    Bad(&'static str),
}

/// Reads the tags and texts of a group; they have no numbers in binary.
struct GroupReader<'a>(ByteCursor<'a>);

impl<'a> GroupReader<'a> {
    fn object(&mut self, symbol: &Symbol, struct_len: usize) -> Result<Object, ObjectStop> {
        let count = self.tag("Group")?;
        if count != 1 {
            return Err(ObjectStop::Bad("is not one object"));
        }
        self.take(struct_len)?;
        let _own_name = self.text()?;
        let kind = ObjectKind::of_word(&self.text()?);
        let names = self.texts()?;
        let values = self.texts()?;
        if names.len() != values.len() {
            return Err(ObjectStop::Bad("has more members than values, or fewer"));
        }
        let name = symbol.name.trim_matches('/').to_owned();
        let members = names.into_iter().zip(values.iter().map(|value| member(&name, value))).collect();
        Ok(Object { name, kind, members })
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ObjectStop> {
        self.0.take(len).map_err(|_| ObjectStop::Short)
    }

    /// How many items of `kind` follow: the tag is `count|kind|address|flag|` and a new line.
    fn tag(&mut self, kind: &str) -> Result<usize, ObjectStop> {
        // No tag is longer: a count, a type, an address.
        const MOST_TAG: usize = 128;
        let rest = self.0.rest();
        let Some(len) = rest.iter().take(MOST_TAG).position(|byte| *byte == b'\n') else {
            return Err(if rest.len() < MOST_TAG {
                ObjectStop::Short
            } else {
                ObjectStop::Bad("a tag without an end")
            });
        };
        let mut fields = rest[..len].split(|byte| *byte == FIELD_END).map(str::from_utf8);
        let mut next = || fields.next()?.ok().map(str::trim);
        let (Some(count), Some(found)) = (next().and_then(|count| count.parse().ok()), next()) else {
            return Err(ObjectStop::Bad("something else stands where a tag was due"));
        };
        let is_wanted = found.split_whitespace().eq(kind.split_whitespace());
        // Data that stand elsewhere belong to a pointer that was written before; Silo's objects have none.
        let is_here = count == 0 || next().and(next()) != Some("0");
        if !is_wanted || !is_here {
            return Err(ObjectStop::Bad("a tag of another type, or one that leads elsewhere"));
        }
        self.take(len + 1)?;
        Ok(count)
    }

    fn text(&mut self) -> Result<String, ObjectStop> {
        let len = self.tag("char")?;
        let bytes = self.take(len)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn texts(&mut self) -> Result<Vec<String>, ObjectStop> {
        let count = self.tag("char *")?;
        // Every text takes a tag: more of them than bytes is a lie, and no memory is taken for it.
        (0..count).map(|_| self.text()).collect()
    }
}

/// The value of a member of `object`: `'<i>5'`, `'<s>mesh'`, or the name of an array.
fn member(object: &str, value: &str) -> MemberValue {
    let literal = value
        .strip_prefix("'<")
        .and_then(|rest| rest.strip_suffix('\''))
        .and_then(|rest| rest.split_once('>'));
    match literal {
        Some(("i", digits)) => MemberValue::Integers(digits.parse().into_iter().collect()),
        Some(("f" | "d", digits)) => MemberValue::Reals(digits.parse().into_iter().collect()),
        Some((_, text)) => MemberValue::Text(text.to_owned()),
        None => MemberValue::Array(names::resolve(object, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_numbers_texts_or_names() {
        assert_eq!(member("a/b", "'<i>-7'"), MemberValue::Integers(vec![-7]));
        assert_eq!(member("a/b", "'<d>0.5'"), MemberValue::Reals(vec![0.5]));
        assert_eq!(member("a/b", "'<s>it's'"), MemberValue::Text("it's".into()));
        assert_eq!(member("a/b", "/x_data"), MemberValue::Array("x_data".into()));
        assert_eq!(member("a/b", "x_data"), MemberValue::Array("a/x_data".into()));
    }

    #[test]
    fn a_count_without_bytes_behind_it_ends() {
        let bytes = b"99999999999\x01char *\x011\x011\x01\n3\x01char\x011\x011\x01\nab\0";
        let mut cursor = GroupReader(ByteCursor::new(bytes, ByteOrder::Little));
        assert!(matches!(cursor.texts(), Err(ObjectStop::Short)));
    }
}
