//! A block behind an operator of ADIOS2, which says in its own head what was done to it.
//!
//! ```text
//!   operator u8 │ version u8 │ 2 bytes │ head of the operator │ stream
//!   null    length u64
//!   blosc   length u64 │ 3 bytes │ 0 u32 │ chunks u32, none for bytes that were copied
//!   zfp     axes u64 │ lengths u64 … │ type i32 │ 3 bytes │ count u8 │ (length u8 │ text) twice for each
//! ```
//! Numbers are little-endian, as the machine was that wrote them.

use crate::error::copy_whole;
use forebay_process::{Error, ErrorKind, Result};
#[cfg(feature = "zfp")]
use zfp_rs::{ZfpConfig, ZfpDimensionality, ZfpScalarType, ZfpStreamAlignment};

#[cfg(feature = "zfp")]
use super::zfp;
use super::{
    blosc::{Chunk, decode_chunk},
    byte_cursor::ByteCursor,
};

/// The operators by number.
const NAMES: [&str; 9] = ["blosc", "bzip2", "libpressio", "mgard", "png", "sirius", "sz", "zfp", "mgardplus"];
const BLOSC: u8 = 0;
#[cfg(feature = "zfp")]
const ZFP: u8 = 7;
const NULL: u8 = 127;
/// The version of all heads so far.
const VERSION: u8 = 1;

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = ByteCursor::new(input, crate::ByteOrder::Little);
    let [operator, version, _, _] = cursor.array()?;
    match (operator, version) {
        (NULL, VERSION) => {
            let len = cursor.u64()?;
            if len != cursor.rest().len() as u64 {
                return Err(Error::corrupt(format!("{len} bytes said, {} there", cursor.rest().len())));
            }
            copy_whole(cursor.rest(), out)
        }
        (BLOSC, VERSION) => blosc(&mut cursor, out),
        #[cfg(feature = "zfp")]
        (ZFP, VERSION) => zfp(&mut cursor, out),
        _ => {
            let name = NAMES.get(usize::from(operator)).copied().unwrap_or("unknown");
            let what = format!("operator {name} ({operator}), version {version}, is not supported");
            Err(Error::new(ErrorKind::Unsupported, what)
                .hint("rewrite the variable without operators, or with blosc or zfp"))
        }
    }
}

fn blosc(cursor: &mut ByteCursor<'_>, out: &mut [u8]) -> Result<usize> {
    let len = cursor.u64()?;
    cursor.take(3)?;
    if cursor.u32()? != 0 {
        return Err(Error::corrupt("head of blosc is damaged"));
    }
    if cursor.u32()? == 0 {
        return copy_whole(cursor.rest(), out);
    }
    let mut written = 0;
    while !cursor.is_empty() {
        // A chunk says at its twelfth byte how long it is.
        let head: [u8; 16] = ByteCursor::new(cursor.rest(), crate::ByteOrder::Little).array()?;
        let stored_len = ByteCursor::new(&head[12..], crate::ByteOrder::Little).u32()? as usize;
        let chunk = cursor.take(stored_len.max(head.len()))?;
        let rest = out.get_mut(written..).unwrap_or_default();
        written += decode_chunk(&Chunk::parse(chunk)?, rest)?;
    }
    if written as u64 != len {
        return Err(Error::corrupt(format!("decodes to {written} bytes, {len} said")));
    }
    Ok(written)
}

#[cfg(feature = "zfp")]
fn zfp(cursor: &mut ByteCursor<'_>, out: &mut [u8]) -> Result<usize> {
    let ndim = cursor.u64()?;
    if !(1..=3).contains(&ndim) {
        return Err(Error::corrupt(format!("zfp of {ndim} axes")));
    }
    let mut shape = [0; 4];
    for len in shape.iter_mut().take(usize::try_from(ndim).unwrap_or(0)) {
        *len = usize::try_from(cursor.u64()?).unwrap_or(usize::MAX);
    }
    let scalar = match cursor.u32()? {
        3 => ZfpScalarType::I32,
        4 => ZfpScalarType::I64,
        9 => ZfpScalarType::F32,
        10 => ZfpScalarType::F64,
        other => return Err(Error::corrupt(format!("zfp of type {other}"))),
    };
    cursor.take(3)?;
    let mut config = None;
    for _ in 0..cursor.u8()? {
        let (key, value) = (text(cursor)?, text(cursor)?);
        config = config.or(configured(&key, &value, scalar, ndim));
    }
    let config = config.ok_or_else(|| Error::corrupt("zfp without accuracy, precision or rate"))?;
    zfp::ZfpHeader { scalar, shape, config, is_big_endian: false }.decode_any(cursor.rest(), out)
}

#[cfg(feature = "zfp")]
fn text(cursor: &mut ByteCursor<'_>) -> Result<String> {
    let len = cursor.u8()?;
    Ok(String::from_utf8_lossy(cursor.take(usize::from(len))?).into_owned())
}

#[cfg(feature = "zfp")]
/// How a stream was made for which `key` was `value`; `None` for keys that say nothing of it.
fn configured(key: &str, value: &str, scalar: ZfpScalarType, ndim: u64) -> Option<ZfpConfig> {
    let dims = match ndim {
        1 => ZfpDimensionality::D1,
        2 => ZfpDimensionality::D2,
        _ => ZfpDimensionality::D3,
    };
    match key {
        "accuracy" => Some(ZfpConfig::fixed_accuracy(value.trim().parse().ok()?)),
        "precision" => Some(ZfpConfig::fixed_precision(value.trim().parse().ok()?)),
        "rate" => {
            let rate = value.trim().parse().ok()?;
            ZfpConfig::fixed_rate(rate, scalar, dims, ZfpStreamAlignment::Unaligned).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_copied_come_back_and_other_operators_are_named() {
        let mut out = [0; 3];
        let null = [&[127, 1, 0, 0][..], &3u64.to_le_bytes(), b"abc"].concat();
        assert_eq!(decode(&null, &mut out).unwrap(), 3);
        let blosc = [&[0, 1, 0, 0][..], &3u64.to_le_bytes(), &[2, 11, 1], &[0; 8], b"def"].concat();
        assert_eq!(decode(&blosc, &mut out).unwrap(), 3);
        assert_eq!(&out, b"def");
        let error = decode(&[6, 1, 0, 0], &mut out).unwrap_err().to_string();
        assert!(error.contains("operator sz (6)"), "{error}");
        for len in 0..blosc.len() - 3 {
            assert!(decode(&blosc[..len], &mut out).is_err(), "{len}");
        }
    }
}
