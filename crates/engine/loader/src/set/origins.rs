//! Where samples were cut out of their arrays.

use std::sync::Arc;

use forebay_container::sample_index::SampleIndex;
use forebay_format::Opened;

use crate::set::{SampleSet, column::Column};

/// Along which axis samples begin where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisOrigins {
    /// What the files call the axis; nothing where they do not name it.
    pub name: Option<String>,
    /// Its position; nothing for the number of the file.
    pub axis: Option<usize>,
    /// The first index of each sample.
    pub starts: Vec<u64>,
}

impl SampleSet {
    /// Where `samples` begin, along each axis they are cut along, in the first field that is not the same for all; and in
    /// which file, where there are several that do not follow each other.
    pub fn origins(&self, samples: &[u64]) -> Vec<AxisOrigins> {
        let is_cut = |column: &&Column| !matches!(column.parts[0].index, SampleIndex::Repeated(_));
        let Some(column) = self.columns.iter().find(is_cut) else { return Vec::new() };
        let variable = column.parts[0].variable();
        let corners: Vec<(u64, Vec<u64>)> = samples.iter().map(|sample| column.origin(*sample)).collect();
        let mut origins: Vec<AxisOrigins> = column
            .cut_axes()
            .into_iter()
            .map(|axis| AxisOrigins {
                name: variable.dimensions.get(axis).filter(|name| !name.is_empty()).cloned(),
                axis: Some(axis),
                starts: corners.iter().map(|(_, corner)| corner[axis]).collect(),
            })
            .collect();
        if column.file_numbers() > 1 {
            let starts = corners.iter().map(|(file, _)| *file).collect();
            origins.push(AxisOrigins { name: Some("file".to_owned()), axis: None, starts });
        }
        origins
    }
}

impl Column {
    /// The axes that samples are cut along.
    fn cut_axes(&self) -> Vec<usize> {
        let part = &self.parts[0];
        let ndim = part.variable().grid.shape.len();
        match &part.index {
            SampleIndex::Rows { .. } => vec![0],
            SampleIndex::Ragged { axis, .. } | SampleIndex::Slabs { axis, .. } => vec![*axis],
            SampleIndex::Whole | SampleIndex::Repeated(_) => Vec::new(),
            SampleIndex::Windows(windows) => (0..ndim).filter(|axis| windows.axes[*axis].count > 1).collect(),
            SampleIndex::Series(own) => {
                let inner = own.windows().inner().iter().enumerate();
                let cut = inner.filter(|(_, axis)| axis.window.count > 1).map(|(at, _)| at + 1);
                std::iter::once(0).chain(cut).collect()
            }
            SampleIndex::Corners(_) => (0..ndim).collect(),
        }
    }

    /// How many files samples may be in, where those do not follow each other.
    fn file_numbers(&self) -> usize {
        if self.series().is_some() { 1 } else { self.file_lens().len() }
    }

    /// The file of `sample`, and the first index of it along each axis.
    fn origin(&self, sample: u64) -> (u64, Vec<u64>) {
        if let Some(windows) = self.series() {
            return (0, windows.origin(sample));
        }
        let at = self.locate(sample);
        let part = self.part(at);
        let mut spans = Vec::new();
        part.index.spans(at.number, &part.variable().grid.shape, &mut spans);
        (self.file_of(at.part as usize), spans.iter().map(|span| span.start).collect())
    }

    /// The file that part `part` is of.
    fn file_of(&self, part: usize) -> u64 {
        if !self.is_grouped {
            return part as u64;
        }
        let borders = |two: &&[crate::set::column::ColumnPart]| !same(&two[0].opened, &two[1].opened);
        self.parts[..=part].windows(2).filter(borders).count() as u64
    }
}

fn same(one: &Arc<Opened>, other: &Arc<Opened>) -> bool {
    Arc::ptr_eq(one, other)
}
