//! NPZ: several arrays of NumPy's in one zip file.
//!
//! Members that are only stored are read in place; deflated ones are one chunk each, inflated as a whole.

mod directory;

use std::io::Read;

use flate2::bufread::DeflateDecoder;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use crate::{
    Format, Found,
    npy::{ArrayPlace, NpyHeader},
};
use directory::{Method, ZipMember};
use forebay_container::{
    ChunkTable, Container, Extent, Extents, Filter, Refused, SourceIndex, Variable,
    names::{container, names_given_twice},
};

/// The NPZ format of NumPy: `numpy.savez` and `numpy.savez_compressed`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Npz;

/// What members that are arrays are called.
const ENDING: &str = ".npy";

impl Format for Npz {
    fn name(&self) -> &str {
        "npz"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        // Many formats are zip files: only the name of the first member tells.
        let head = &found.head;
        let is_zip = head.starts_with(b"PK\x03\x04");
        let name_len = head.get(26..28).map_or(0, |len| usize::from(u16::from_le_bytes([len[0], len[1]])));
        let name = head.get(30..).and_then(|rest| rest.get(..name_len));
        Ok(is_zip && name.is_some_and(|name| name.ends_with(ENDING.as_bytes())))
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let file = found.need_file()?;
        let mut variables: Vec<Variable> = Vec::new();
        let mut refused = Vec::new();
        for member in directory::members(&**file)? {
            let name = member.name.strip_suffix(ENDING).unwrap_or(&member.name).to_owned();
            match variable(&**file, &member, &name) {
                Ok(variable) => variables.push(variable),
                Err(error) => {
                    refused.push(Refused::of(name, &error));
                }
            }
        }
        let twice = names_given_twice(variables.iter().map(|variable| variable.name.as_str()));
        variables.retain(|variable| !twice.contains(&variable.name));
        refused.extend(twice.into_iter().map(|name| {
            let why = format!("two members called '{name}'");
            Refused { name, why, corrupt: true }
        }));
        let described = container(self.name(), vec![file.id().clone()], variables);
        Ok(Container { refused, ..described })
    }
}

fn variable(file: &dyn Source, member: &ZipMember, name: &str) -> Result<Variable> {
    if !member.name.ends_with(ENDING) {
        return Err(Error::new(ErrorKind::Unsupported, "is no NPY file"));
    }
    if name.is_empty() || name.starts_with('/') || name.ends_with('/') {
        return Err(Error::new(ErrorKind::Unsupported, "has no name a variable can have"));
    }
    let data = directory::data_of(file, member)?;
    match member.method {
        Method::Stored => stored(file, data, name),
        Method::Deflated => deflated(file, member, data, name),
        Method::Other(number) => {
            let error = Error::new(ErrorKind::Unsupported, format!("is compressed by method {number}"));
            Err(error.hint("write it with numpy.savez or numpy.savez_compressed"))
        }
    }
}

fn stored(file: &dyn Source, data: ByteRange, name: &str) -> Result<Variable> {
    let start = file.fetch_one(ByteRange::at(data.start, data.len().min(Found::HEAD_BYTES)))?;
    let wanted = NpyHeader::wanted_len(&start)?;
    let header = match wanted <= start.len() as u64 {
        true => NpyHeader::parse(&start)?,
        false => NpyHeader::parse(&file.fetch_one(ByteRange::checked(data.start, wanted, data.end)?)?)?,
    };
    header
        .variable(name, ArrayPlace { source: SourceIndex(0), start: data.start + header.len, end: data.end })
}

/// The header is inflated now, the values when they are read.
fn deflated(file: &dyn Source, member: &ZipMember, data: ByteRange, name: &str) -> Result<Variable> {
    let damaged = |error| Error::new(ErrorKind::Corrupt, "its deflate stream is damaged").because(error);
    let mut start = Vec::new();
    let mut taken = Found::HEAD_BYTES;
    // Headers are short: more of the stream is fetched only where the first bytes do not have all of it.
    let header = loop {
        let stored = file.fetch_one(ByteRange::at(data.start, data.len().min(taken)))?;
        start.clear();
        let inflated = DeflateDecoder::new(&stored[..]).take(taken).read_to_end(&mut start);
        let wanted = NpyHeader::wanted_len(&start);
        if wanted.as_ref().is_ok_and(|wanted| *wanted <= start.len() as u64) {
            break NpyHeader::parse(&start)?;
        }
        if taken >= data.len() && taken >= wanted? {
            inflated.map_err(damaged)?;
            return Err(Error::new(ErrorKind::Corrupt, "ends inside its header"));
        }
        taken = taken.saturating_mul(8);
    };
    let values_len = header.values_len()?;
    if header.len.checked_add(values_len) != Some(member.len) {
        let what = format!("{} bytes where its header speaks of {values_len} and its own", member.len);
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    // No deflate stream says so much with so little.
    if values_len / 1040 > data.len() {
        return Err(Error::new(ErrorKind::Corrupt, format!("{values_len} bytes from {}", data.len())));
    }
    let mut variable = header.bare_variable(name);
    if values_len == 0 {
        return Ok(variable);
    }
    variable.filters = header.turn_whole()?.into_iter().collect();
    let head = usize::try_from(header.len).ok().and_then(|len| start.get(..len)).unwrap_or_default();
    let len = u32::try_from(header.len).unwrap_or(u32::MAX);
    variable.filters.push(Filter::NpyHeader { len, crc32c: crc32c::crc32c(head) });
    variable.filters.push(Filter::RawDeflate { crc32: member.sum });
    variable.layout = "compressed".into();
    let extent = Extent { source: SourceIndex(0), range: data, skipped: 0 };
    variable.extents = Extents::Chunks(ChunkTable::one(extent));
    Ok(variable)
}
