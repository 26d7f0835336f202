//! The header of an NPY file: magic, version, length, and a Python literal that says what follows.

use forebay_process::{Error, ErrorKind, Result};

use super::{
    dtype,
    literal::{self, Literal},
};
use forebay_container::Dtype;

/// What every NPY file starts with.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// A longer header is no header: NumPy itself refuses to read beyond 10,000 bytes by default.
const MOST_HEADER_BYTES: u64 = 1 << 20;
/// NumPy's own limit.
const MOST_AXES: usize = 64;

/// What the header of an NPY file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    /// Bytes before the first value.
    pub(crate) len: u64,
    /// The element type.
    pub(crate) dtype: Dtype,
    /// What NumPy calls the type, where ours says less.
    pub(crate) note: Option<String>,
    /// True when the first axis runs fastest.
    pub(crate) is_fortran_order: bool,
    /// Elements per axis.
    pub(crate) shape: Vec<u64>,
}

impl NpyHeader {
    /// How long the header is whose first bytes are `start`, its magic included.
    pub(crate) fn wanted_len(start: &[u8]) -> Result<u64> {
        Ok(Frame::of(start)?.len())
    }

    /// Reads the header that `bytes` start with.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let frame = Frame::of(bytes)?;
        let text = usize::try_from(frame.len()).ok().and_then(|end| bytes.get(frame.text_start..end));
        let text = text.ok_or_else(|| Error::corrupt("ends inside its header"))?;
        let text: String = match frame.is_utf8 {
            true => String::from_utf8_lossy(text).into_owned(),
            // Latin-1: each byte is the code point of the same number.
            false => text.iter().map(|byte| char::from(*byte)).collect(),
        };
        let literal = literal::parse(&text).map_err(|error| error.at("its header"))?;
        Self::from_literal(frame.len(), &literal).map_err(|error| error.at("its header"))
    }

    fn from_literal(len: u64, literal: &Literal) -> Result<Self> {
        let Literal::Dict(pairs) = literal else { return Err(Error::corrupt("is not a dict")) };
        let get = |name: &str| {
            let found = pairs.iter().find(|(key, _)| *key == Literal::Text(name.into()));
            found.map(|(_, value)| value).ok_or_else(|| Error::corrupt(format!("has no '{name}'")))
        };
        let Literal::Bool(is_fortran_order) = *get("fortran_order")? else {
            return Err(Error::corrupt("'fortran_order' is neither True nor False"));
        };
        let shape =
            literal::whole_numbers(get("shape")?).ok_or_else(|| Error::corrupt("'shape' is no tuple"))?;
        if shape.len() > MOST_AXES {
            return Err(Error::corrupt(format!("'shape' has {} axes", shape.len())));
        }
        let (dtype, note) = dtype::from_descr(get("descr")?).map_err(|error| error.at("'descr'"))?;
        Ok(Self { len, dtype, note, is_fortran_order, shape })
    }
}

/// Where the header's text lies.
struct Frame {
    text_start: usize,
    text_len: u64,
    is_utf8: bool,
}

impl Frame {
    fn of(bytes: &[u8]) -> Result<Self> {
        let rest =
            bytes.strip_prefix(MAGIC).ok_or_else(|| Error::corrupt("does not start with NumPy's magic"))?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (len_bytes, is_utf8) = match rest {
            [1, 0, ..] => (2, false),
            [2, 0, ..] => (4, false),
            [3, 0, ..] => (4, true),
            [major, minor, ..] => {
                let what = format!("is of NPY version {major}.{minor}");
                return Err(
                    Error::new(ErrorKind::Unsupported, what).hint("this build reads 1.0, 2.0 and 3.0")
                );
            }
            _ => return Err(Error::corrupt("ends after its magic")),
        };
        let text_len =
            number(rest.get(2..2 + len_bytes).ok_or_else(|| Error::corrupt("ends after its version"))?);
        if text_len > MOST_HEADER_BYTES {
            return Err(Error::corrupt(format!("has a header of {text_len} bytes")));
        }
        Ok(Self { text_start: MAGIC.len() + 2 + len_bytes, text_len, is_utf8 })
    }

    fn len(&self) -> u64 {
        self.text_start as u64 + self.text_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_container::{ByteOrder, Number};

    fn file(text: &str) -> Vec<u8> {
        let len = u16::try_from(text.len()).unwrap().to_le_bytes();
        [MAGIC, &[1, 0], &len, text.as_bytes()].concat()
    }

    #[test]
    fn a_header_says_type_order_and_shape() {
        let bytes = file("{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4L), }   \n");
        let header = NpyHeader::parse(&bytes).unwrap();
        assert_eq!(header.dtype, Dtype::Number { number: Number::F32, order: ByteOrder::Big });
        assert!(header.is_fortran_order);
        assert_eq!((header.shape, header.len), (vec![3, 4], bytes.len() as u64));
    }

    #[test]
    fn pickled_objects_are_refused_by_name() {
        let error =
            NpyHeader::parse(&file("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("pickle"), "{error}");
    }

    #[test]
    fn a_header_that_is_cut_or_without_a_part_is_corrupt() {
        let whole = file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}");
        for end in 0..whole.len() {
            assert_eq!(NpyHeader::parse(&whole[..end]).unwrap_err().kind(), ErrorKind::Corrupt, "{end}");
        }
        for text in ["{}", "(1, 2)", "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}"] {
            assert_eq!(NpyHeader::parse(&file(text)).unwrap_err().kind(), ErrorKind::Corrupt, "{text}");
        }
    }
}
