//! A folder of NPY files of one shape and type: each file is one sample.

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Locator, Origin, SourceExt, SourceId};

use super::{NAME, NpyHeader};
use crate::{Format, Found};
use forebay_container::{
    ChunkTable, Container, Extent, Extents, Filter, SourceIndex, Variable,
    names::{container, texts},
};

/// A folder of NPY files, one sample each.
#[derive(Clone, Copy, Debug, Default)]
pub struct NpyFolder;

/// So many headers are read when the folder is described, 10 us each on a local disk: then parts of samples can be read
/// in place. Of more files only the first header is read, and each other one when its sample is.
const MOST_HEADERS: usize = 1000;

impl Format for NpyFolder {
    fn name(&self) -> &str {
        "npy-folder"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        if found.file.is_some() {
            return Ok(false);
        }
        let Ok(listed) = found.origin.list(found.at) else { return Ok(false) };
        let mut files = Vec::new();
        for at in &listed {
            match is_sample(found.at, at) {
                Some(true) => files.push(at),
                Some(false) => {}
                None => return Ok(false),
            }
        }
        // Files of different shapes are different variables, not samples of one.
        let (Some(first), Some(last)) = (files.first(), files.last()) else { return Ok(false) };
        let (Ok(first), Ok(last)) = (start_of(found.origin, first), start_of(found.origin, last)) else {
            return Ok(false);
        };
        Ok(files.len() > 1 && first == last)
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let mut files = found.origin.survey(found.at)?;
        files.retain(|id| is_sample(found.at, &id.locator) == Some(true));
        let Some(first) = files.first() else {
            return Err(Error::new(ErrorKind::NotFound, "no NPY file is left in the folder"));
        };
        let start = start_of(found.origin, &first.locator)?;
        let header = NpyHeader::parse(&start).map_err(|error| error.at(&first.locator))?;
        let end = header.values_len()?.checked_add(header.len);
        if let Some(other) = files.iter().find(|id| Some(id.len) != end) {
            let what = format!(
                "has {} bytes where a sample of shape {:?} takes {}",
                other.len,
                header.shape,
                end.unwrap_or(0)
            );
            let error = Error::new(ErrorKind::Invalid, what).at(&other.locator);
            return Err(
                error.hint("name the files one by one, as by `*.npy`, if they are no samples of one shape")
            );
        }
        let is_checked = files.len() <= MOST_HEADERS;
        if is_checked {
            check_headers(found.origin, &files, &start)?;
        }
        let data = samples(&files, &header, (!is_checked).then_some(&start))?;
        let names: Vec<&str> = files.iter().map(|id| below(found.at, &id.locator)).collect();
        let path = texts("path", &names);
        Ok(container(self.name(), files, vec![data, path]))
    }
}

/// The name of `at` as seen from `folder`.
fn below<'a>(folder: &Locator, at: &'a Locator) -> &'a str {
    let folder = folder.as_str().trim_end_matches('/');
    at.as_str().strip_prefix(folder).unwrap_or(at.as_str()).trim_start_matches('/')
}

/// True for a sample, false for a note among them, `None` for what makes the folder another kind of folder.
fn is_sample(folder: &Locator, at: &Locator) -> Option<bool> {
    let name = below(folder, at);
    let is_note = name.split('/').any(|step| step.starts_with('.'))
        || [".txt", ".md", ".json", ".csv"].iter().any(|ending| name.ends_with(ending));
    match name.ends_with(".npy") && name.matches('/').count() <= 1 {
        true => Some(true),
        false if is_note => Some(false),
        false => None,
    }
}

/// The header of the file at `at`, as bytes.
fn start_of(origin: &dyn Origin, at: &Locator) -> Result<Vec<u8>> {
    let read = || -> Result<Vec<u8>> {
        let file = origin.open(at)?;
        let len = file.id().len;
        let start = file.fetch_one(ByteRange::at(0, len.min(Found::HEAD_BYTES)))?;
        let wanted = ByteRange::checked(0, NpyHeader::wanted_len(&start)?, len)?;
        if wanted.len() <= start.len() as u64 {
            return Ok(wanted.cut(&start, 0).to_vec());
        }
        Ok(file.fetch_one(wanted)?.to_vec())
    };
    read().map_err(|error| error.at(at))
}

fn check_headers(origin: &dyn Origin, files: &[SourceId], wanted: &[u8]) -> Result<()> {
    for id in files {
        if start_of(origin, &id.locator)? != wanted {
            let error = Error::new(ErrorKind::Invalid, "its type or shape is not that of the first file");
            return Err(error
                .hint("give all files one shape and type, or name them one by one")
                .at(&id.locator));
        }
    }
    Ok(())
}

/// The variable of all samples; where headers were not read, `header_bytes` are what each file must start with.
fn samples(files: &[SourceId], header: &NpyHeader, header_bytes: Option<&Vec<u8>>) -> Result<Variable> {
    let count = files.len() as u64;
    let mut variable = header.bare_variable(NAME);
    variable.grid.shape.insert(0, count);
    variable.grid.chunk.insert(0, 1);
    variable.max_shape.insert(0, Some(count));
    variable.layout = "chunked".into();
    if header.values_len()? == 0 {
        return Ok(variable);
    }
    variable.filters = header.turn_whole()?.into_iter().collect();
    let mut start = header.len;
    if let Some(bytes) = header_bytes {
        start = 0;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        variable.filters.push(Filter::NpyHeader { len, crc32c: crc32c::crc32c(bytes) });
    }
    let place = |(index, id): (u32, &SourceId)| {
        let range = ByteRange { start, end: id.len };
        (u64::from(index), Extent { source: SourceIndex(index), range, skipped: 0 })
    };
    variable.extents = Extents::Chunks(ChunkTable::new((0..).zip(files).map(place).collect(), count)?);
    Ok(variable)
}
