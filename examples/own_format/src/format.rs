//! How such files are recognised and described.

use forebay::{
    Container, Result, Variable,
    container::{ChunkTable, Dtype, Extent, Extents, Grid, Group, Number, Opaque, SourceIndex},
    format::{Format, Found},
    source::ByteRange,
};

use crate::{
    header::{HEADER_LEN, Header, MAGIC, STAMP_LEN},
    packed::READER,
};

/// Frames of a detector.
#[derive(Clone, Copy, Debug, Default)]
pub struct DetectorFrames;

impl Format for DetectorFrames {
    fn name(&self) -> &str {
        "detector-frames"
    }

    /// By content, never by name: the first bytes are at hand, nothing need be read.
    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        Ok(found.head.starts_with(MAGIC))
    }

    /// From the header alone: no frame is touched.
    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let file = found.need_file()?;
        let header = Header::read(&**file)?;
        let variables = if header.is_packed { vec![packed(&header)] } else { raw(&header)? };
        Ok(Container {
            format: self.name().into(),
            sources: vec![file.id().clone()],
            groups: vec![Group { name: String::new(), attributes: Vec::new() }],
            variables,
            ..Container::default()
        })
    }
}

/// The array of all frames.
fn frames(header: &Header) -> Variable {
    let shape = vec![header.frame_count, header.height, header.width];
    let mut frames = Variable::new("frames", Dtype::native(Number::U16), shape);
    frames.dimensions = ["frame", "y", "x"].map(String::from).to_vec();
    frames
}

/// Raw frames lie at equal distances: forebay reads them where they are.
///
/// A chunk is a frame and has all of its rows, so samples go to a batch without a step between. Variables stand sorted
/// by name.
fn raw(header: &Header) -> Result<Vec<Variable>> {
    let table = |first: u64, len: u64| {
        let extent = Extent { source: SourceIndex(0), range: ByteRange::at(first, len), skipped: 0 };
        ChunkTable::regular(extent, header.record_len(), header.frame_count).map(Extents::Chunks)
    };
    let mut frames = frames(header);
    frames.layout = "records".into();
    frames.grid =
        Grid { shape: frames.grid.shape, chunk: vec![1, header.height.max(1), header.width.max(1)] };
    frames.extents = table(HEADER_LEN + STAMP_LEN, header.frame_len())?;
    let mut stamps = Variable::new("stamps", Dtype::native(Number::I64), vec![header.frame_count]);
    stamps.layout = "records".into();
    stamps.grid.chunk = vec![1];
    stamps.dimensions = vec!["frame".into()];
    stamps.extents = table(HEADER_LEN, STAMP_LEN)?;
    Ok(vec![frames, stamps])
}

/// Packed frames have no extents that forebay could use: the reader of that name is asked for them.
fn packed(header: &Header) -> Variable {
    let mut frames = frames(header);
    frames.layout = "packed".into();
    frames.extents = Extents::Opaque(Opaque {
        library: READER.into(),
        why: "its frames are packed by runs".into(),
        name: "frames".into(),
        source: SourceIndex(0),
    });
    frames
}
