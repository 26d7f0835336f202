//! The files that hold the values, and whether a block lies in one of them.

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Locator, SourceId};

use crate::Found;
use forebay_container::SourceIndex;

/// Where data file `N` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataFileLayout {
    /// `data.N` in the folder that was found.
    Inside,
    /// `NAME.dir/NAME.N` beside the file that was found.
    Beside,
    /// In the file that was found itself: the first source.
    Itself,
}

/// Data files by number. What they hold is not looked at, only that it is there.
#[derive(Debug)]
pub(super) struct DataFiles<'a> {
    found: &'a Found<'a>,
    layout: DataFileLayout,
    /// Files of the folder by name, where the origin can tell without opening them.
    surveyed: Option<HashMap<Locator, SourceId>>,
    known: HashMap<u64, Option<SourceIndex>>,
    sources: Vec<SourceId>,
}

impl<'a> DataFiles<'a> {
    /// The data files of what was found; `sources` are those already in use.
    pub(super) fn new(found: &'a Found<'a>, layout: DataFileLayout, sources: Vec<SourceId>) -> Self {
        let survey = || found.origin.survey(found.at).ok().filter(|ids| !ids.is_empty());
        let surveyed = if layout == DataFileLayout::Inside { survey() } else { None };
        let surveyed = surveyed.map(|ids| ids.into_iter().map(|id| (id.locator.clone(), id)).collect());
        Self { found, layout, surveyed, known: HashMap::new(), sources }
    }

    /// All sources, in the order of their indexes.
    pub(super) fn into_sources(self) -> Vec<SourceId> {
        self.sources
    }

    /// Where `len` bytes from `at` on of data file `file` are.
    pub(super) fn place(&mut self, file: u64, at: u64, len: u64) -> Result<(SourceIndex, ByteRange)> {
        let index = match self.known.get(&file) {
            Some(index) => *index,
            None => {
                let index = self.open(file)?;
                self.known.insert(file, index);
                index
            }
        };
        let source = index.and_then(|index| Some((index, self.sources.get(index.0 as usize)?)));
        let Some((index, source)) = source else {
            let what = format!("its values are in {}, which is not there", self.locator(file));
            return Err(Error::new(ErrorKind::Corrupt, what).hint("copy all that belongs to the file"));
        };
        ByteRange::checked(at, len, source.len)
            .map(|range| (index, range))
            .map_err(|error| error.at(&source.locator).hint("restore the file"))
    }

    fn locator(&self, file: u64) -> Locator {
        let at = self.found.at;
        match self.layout {
            DataFileLayout::Inside => at.inside(&format!("data.{file}")),
            DataFileLayout::Beside => {
                let name = at.as_str().rsplit('/').next().unwrap_or_default();
                at.beside(&format!("{name}.dir/{name}.{file}"))
            }
            DataFileLayout::Itself => at.clone(),
        }
    }

    fn open(&mut self, file: u64) -> Result<Option<SourceIndex>> {
        if self.layout == DataFileLayout::Itself {
            return Ok(Some(SourceIndex(0)));
        }
        let locator = self.locator(file);
        let id = match &self.surveyed {
            Some(ids) => ids.get(&locator).cloned(),
            None => match self.found.origin.open(&locator) {
                Ok(source) => Some(source.id().clone()),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => None,
                Err(error) => return Err(error),
            },
        };
        let Some(id) = id else { return Ok(None) };
        let index = u32::try_from(self.sources.len())
            .map_err(|_| Error::corrupt("more files than can be counted"))?;
        self.sources.push(id);
        Ok(Some(SourceIndex(index)))
    }
}
