//! Pictures: one JPEG or PNG file, or a folder of them, in which folders are classes.
//!
//! Every file is one chunk of `image`, decoded by a filter; `encoded` has the files as they are, end to end.

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Locator, SourceExt, SourceId};

use crate::{Format, Found};
use forebay_container::{
    Array, Attribute, ByteOrder, ChunkTable, Container, Dtype, Extent, Extents, Filter, Number, Padding,
    Segments, SourceIndex, Values, Variable,
    names::{container, offsets, texts},
};
use forebay_filter::image::{Size, is_image, size_of};

/// Pictures in JPEG or PNG files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Images;

/// Endings of files that are pictures.
const ENDINGS: [&str; 3] = [".jpg", ".jpeg", ".png"];
/// Endings of files that may lie among them.
const NOTES: [&str; 8] = [".txt", ".md", ".csv", ".json", ".xml", ".yaml", ".yml", ".html"];
/// The size stands in the first bytes, but a preview may stand before it.
const START_BYTES: u64 = 1 << 20;

impl Format for Images {
    fn name(&self) -> &str {
        "images"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        if found.file.is_some() {
            return Ok(is_image(&found.head));
        }
        let Ok(listed) = found.origin.list(found.at) else { return Ok(false) };
        let mut first = None;
        for at in &listed {
            match ImageEntryKind::of(found.at, at) {
                ImageEntryKind::Picture => first = first.or(Some(at)),
                ImageEntryKind::Note => {}
                ImageEntryKind::Other => return Ok(false),
            }
        }
        let Some(first) = first else { return Ok(false) };
        Ok(is_image(&Found::look(found.origin, first)?.head))
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let files = match &found.file {
            Some(file) => vec![file.id().clone()],
            None => found
                .origin
                .survey(found.at)?
                .into_iter()
                .filter(|id| ImageEntryKind::of(found.at, &id.locator) == ImageEntryKind::Picture)
                .collect(),
        };
        let Some(first) = files.first() else {
            return Err(Error::new(ErrorKind::NotFound, "no JPEG or PNG file is left in the folder"));
        };
        let source = found.origin.open(&first.locator)?;
        let start = source.fetch_one(ByteRange::at(0, source.id().len.min(START_BYTES)))?;
        let size = size_of(&start).map_err(|error| error.at(&first.locator))?;
        let folder = found.file.is_none().then_some(found.at);
        let mut variables = vec![image(&files, size)?];
        variables.extend(encoded(&files)?);
        variables.extend(folder.map(|folder| paths(folder, &files)));
        variables.extend(folder.and_then(|folder| labels(folder, &files)));
        Ok(container(self.name(), files, variables))
    }
}

/// What a file in a folder is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageEntryKind {
    Picture,
    Note,
    Other,
}

impl ImageEntryKind {
    fn of(folder: &Locator, at: &Locator) -> Self {
        let name = below(folder, at);
        if name.split('/').any(|step| step.starts_with('.')) {
            return Self::Note;
        }
        let ends_in = |endings: &[&str]| {
            let tail = |len: usize| name.len().checked_sub(len).and_then(|start| name.get(start..));
            endings
                .iter()
                .any(|ending| tail(ending.len()).is_some_and(|tail| tail.eq_ignore_ascii_case(ending)))
        };
        // One level of folders are classes; whole trees are several sets.
        if ends_in(&ENDINGS) && name.matches('/').count() <= 1 {
            Self::Picture
        } else if ends_in(&NOTES) {
            Self::Note
        } else {
            Self::Other
        }
    }
}

/// The name of `at` as seen from `folder`.
fn below<'a>(folder: &Locator, at: &'a Locator) -> &'a str {
    let folder = folder.as_str().trim_end_matches('/');
    at.as_str().strip_prefix(folder).unwrap_or(at.as_str()).trim_start_matches('/')
}

fn image(files: &[SourceId], size: Size) -> Result<Variable> {
    let Size { height, width, channels, bits } = size;
    let number = if bits == 16 { Number::U16 } else { Number::U8 };
    // PNG files have the high byte first.
    let dtype = Dtype::Number { number, order: if bits == 16 { ByteOrder::Big } else { ByteOrder::NATIVE } };
    let inner = [height, width, channels].map(u64::from);
    let count = files.len() as u64;
    let mut variable = Variable::new("image", dtype, [&[count][..], &inner].concat());
    variable.grid.chunk = [&[1][..], &inner].concat();
    variable.layout = "chunked".into();
    variable.dimensions = ["sample", "y", "x", "channel"].map(String::from).to_vec();
    variable.filters = vec![Filter::Image { height, width, channels, bits }];
    let extent = |(index, id): (u32, &SourceId)| {
        let range = ByteRange::at(0, id.len);
        (u64::from(index), Extent { source: SourceIndex(index), range, skipped: 0 })
    };
    variable.extents = Extents::Chunks(ChunkTable::new((0..).zip(files).map(extent).collect(), count)?);
    Ok(variable)
}

fn encoded(files: &[SourceId]) -> Result<[Variable; 2]> {
    let ranges = (0..).zip(files).map(|(index, id)| (SourceIndex(index), ByteRange::at(0, id.len)));
    let joined = Segments::over(ranges)?;
    let mut flat = Variable::new("encoded", Dtype::native(Number::U8), vec![joined.stored_len()]);
    flat.layout = "files".into();
    let offsets = offsets("encoded", files.iter().map(|id| id.len));
    if joined.stored_len() > 0 {
        flat.extents = Extents::Segments(joined);
    }
    Ok([flat, offsets])
}

fn paths(folder: &Locator, files: &[SourceId]) -> Variable {
    let names: Vec<&str> = files.iter().map(|id| below(folder, &id.locator)).collect();
    texts("path", &names)
}

/// The class of each file, by the folder it lies in; `None` where some lie in none.
fn labels(folder: &Locator, files: &[SourceId]) -> Option<Variable> {
    let classes: Option<Vec<&str>> =
        files.iter().map(|id| below(folder, &id.locator).split_once('/').map(|(class, _)| class)).collect();
    let classes = classes?;
    let mut names = classes.clone();
    names.sort_unstable();
    names.dedup();
    let number = |class: &&str| names.binary_search(class).ok().and_then(|index| i64::try_from(index).ok());
    let bytes = classes.iter().flat_map(|class| number(class).unwrap_or(-1).to_le_bytes()).collect();
    let mut variable = Variable::new("label", Dtype::native(Number::I64), vec![classes.len() as u64]);
    variable.layout = "inline".into();
    variable.extents = Extents::Inline(bytes);
    let named = texts("classes", &names);
    if let (Extents::Inline(bytes), dtype @ Dtype::Text { padding: Padding::NulPadded, .. }) =
        (named.extents, named.dtype)
    {
        let value = Array { dtype, shape: vec![names.len() as u64], values: Values::Fixed(bytes) };
        variable.attributes.push(Attribute { name: "classes".into(), value: Ok(value) });
    }
    Some(variable)
}
