//! The files that a walk has opened, what lies in them by name, and the sources and parts that extents point to.

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
    sync::Arc,
};

use forebay_container::{SourceIndex, Variable};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, Origin, Source, SourceId};

use crate::{file::File, group, message::link::Target, overlap};

/// The HDF5 library follows 16 links to links.
pub(crate) const MOST_HOPS: usize = 16;
/// Mappings of a few bytes can stand for any number of lines.
const MOST_PIECES: usize = 1 << 17;

/// An object: which file, and the address of its header.
pub(crate) type ObjectAddress = (usize, u64);

/// The files that a walk has opened.
pub(crate) struct OpenFiles<'a> {
    origin: &'a dyn Origin,
    files: Vec<Rc<File>>,
    opened: HashMap<Locator, usize>,
    /// What extents point to, and where each stands.
    pub(crate) sources: Vec<SourceId>,
    source_numbers: HashMap<SourceId, u32>,
    /// Variables that others are mapped to, and where each stands.
    pub(crate) parts: Vec<Variable>,
    part_numbers: HashMap<String, usize>,
    /// How often an element of each part reads plain values.
    pub(crate) part_reads: Vec<u64>,
    /// The links of groups that names were looked up in.
    links: HashMap<ObjectAddress, Rc<HashMap<String, Target>>>,
    /// Files that were looked for and are not there.
    pub(crate) absent: BTreeSet<Locator>,
    /// Pieces that mappings between boxes of different shape may still be cut into.
    pub(crate) pieces_left: usize,
}

impl<'a> OpenFiles<'a> {
    /// No files yet, of those that `origin` has.
    pub(crate) fn new(origin: &'a dyn Origin) -> Self {
        Self {
            origin,
            files: Vec::new(),
            opened: HashMap::new(),
            sources: Vec::new(),
            source_numbers: HashMap::new(),
            parts: Vec::new(),
            part_numbers: HashMap::new(),
            part_reads: Vec::new(),
            links: HashMap::new(),
            absent: BTreeSet::new(),
            pieces_left: MOST_PIECES,
        }
    }

    /// True when a SWMR writer has one of them open.
    pub(crate) fn has_swmr(&self) -> bool {
        self.files.iter().any(|file| file.swmr)
    }

    /// Makes sure that no file has changed that a SWMR writer has open: what was read may be half of a change.
    pub(crate) fn verify_growing(&self) -> Result<()> {
        self.files.iter().filter(|file| file.swmr).try_for_each(|file| file.source().verify())
    }

    /// The file at `at`, opened once.
    pub(crate) fn open(&mut self, at: &Locator) -> Result<usize> {
        if let Some(number) = self.opened.get(at) {
            return Ok(*number);
        }
        let source = self.open_source(at)?;
        let index = self.add_source(source.id().clone());
        Ok(self.keep(at, Rc::new(File::open(source, index)?)))
    }

    /// Takes over `file`, the first of the walk, which lies at `at`.
    pub(crate) fn adopt(&mut self, at: &Locator, file: Rc<File>) {
        self.add_source(file.source().id().clone());
        self.keep(at, file);
    }

    fn keep(&mut self, at: &Locator, file: Rc<File>) -> usize {
        self.files.push(file);
        self.opened.insert(at.clone(), self.files.len() - 1);
        self.files.len() - 1
    }

    /// The source at `at`; one that is not there is remembered.
    fn open_source(&mut self, at: &Locator) -> Result<Arc<dyn Source>> {
        // Each entry of a virtual data set may name it, and far away each question takes a while.
        if self.absent.contains(at) {
            return Err(Error::new(ErrorKind::NotFound, "no such file").at(at));
        }
        let opened = self.origin.open(at);
        if let Err(error) = &opened
            && error.kind() == ErrorKind::NotFound
        {
            self.absent.insert(at.clone());
        }
        opened
    }

    /// Where extents into the source `id` point.
    fn add_source(&mut self, id: SourceId) -> SourceIndex {
        let next = u32::try_from(self.sources.len()).expect("fewer than 2^32 files were opened");
        let number = *self.source_numbers.entry(id.clone()).or_insert(next);
        if number == next {
            self.sources.push(id);
        }
        SourceIndex(number)
    }

    /// The part called `name`, described by `describe` when it is first asked for.
    pub(crate) fn part(
        &mut self,
        name: &str,
        describe: impl FnOnce(&mut Self) -> Result<Variable>,
    ) -> Result<usize> {
        if let Some(number) = self.part_numbers.get(name) {
            return Ok(*number);
        }
        let part = describe(self)?;
        self.part_reads.push(overlap::reads_of(&part, &self.part_reads));
        self.parts.push(part);
        let number = self.parts.len() - 1;
        self.part_numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// A raw file beside file `of`: where extents into it point, and how long it is.
    pub(crate) fn raw_source(&mut self, of: usize, name: &str) -> Result<(SourceIndex, u64)> {
        let at = self.locator(of).beside(name);
        let id = self.open_source(&at)?.id().clone();
        let len = id.len;
        Ok((self.add_source(id), len))
    }

    /// The file called `name` by file `of`: beside it, or by its last part when it was moved.
    pub(crate) fn open_beside(&mut self, of: usize, name: &str) -> Result<usize> {
        if name == "." {
            return Ok(of);
        }
        let at = self.locator(of).beside(name);
        match (self.open(&at), name.rsplit_once('/')) {
            (Err(error), Some((_, last))) if error.kind() == ErrorKind::NotFound => {
                let moved = self.locator(of).beside(last);
                self.open(&moved)
            }
            (result, _) => result,
        }
    }

    /// Where file `of` lies.
    fn locator(&self, of: usize) -> Locator {
        self.files[of].source().id().locator.clone()
    }

    /// File number `number`.
    pub(crate) fn file(&self, number: usize) -> Rc<File> {
        Rc::clone(&self.files[number])
    }

    /// The object a link of `group` leads to.
    pub(crate) fn target(&mut self, group: ObjectAddress, to: &Target, hops: usize) -> Result<ObjectAddress> {
        if hops == 0 {
            return Err(Error::new(ErrorKind::NotFound, "links to links without end"));
        }
        match to {
            Target::Object(address) => Ok((group.0, *address)),
            Target::Path(path) => self.find_from(group, path, hops),
            Target::External { file, path } => {
                let place = |error: Error| error.at(format!("external link to '{file}'"));
                let file = self.open_beside(group.0, file).map_err(place)?;
                self.find(file, path).map_err(place)
            }
            Target::Broken(why) => Err(Error::corrupt(why.clone())),
            Target::Unknown(kind) => {
                Err(Error::new(ErrorKind::Unsupported, format!("a user-defined link of kind {kind}")))
            }
        }
    }

    /// The object at `path` of file number `file`.
    pub(crate) fn find(&mut self, file: usize, path: &str) -> Result<ObjectAddress> {
        let root = (file, self.files[file].root);
        self.find_from(root, path, MOST_HOPS)
    }

    fn find_from(&mut self, group: ObjectAddress, path: &str, hops: usize) -> Result<ObjectAddress> {
        let mut at = if path.starts_with('/') { (group.0, self.files[group.0].root) } else { group };
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            let links = self.links_of(at)?;
            let Some(to) = links.get(part) else {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("link to '{path}', where '{part}' is missing"),
                ));
            };
            at = self.target(at, to, hops - 1)?;
        }
        Ok(at)
    }

    fn links_of(&mut self, object: ObjectAddress) -> Result<Rc<HashMap<String, Target>>> {
        if let Some(links) = self.links.get(&object) {
            return Ok(Rc::clone(links));
        }
        let file = self.file(object.0);
        let header = file.header(object.1)?;
        let links = group::links(&file, &header)?.into_iter().map(|link| (link.name, link.to)).collect();
        let links = Rc::new(links);
        self.links.insert(object, Rc::clone(&links));
        Ok(links)
    }
}
