//! Walks all links of a file and describes what they lead to.

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
    sync::Arc,
};

use forebay_source::{Error, ErrorKind, Locator, Origin, Result, Source, SourceId};

use super::{
    array,
    attributes::{attributes, references},
    axes,
    file::File,
    group,
    header::Header,
    message::{self, link::Target},
    overlap,
};
use crate::swmr;
use forebay_container::{Alias, Attribute, Container, Group, Refused, SCALE_LIST, SourceIndex, Variable};

/// The HDF5 library follows 16 links to links.
const MOST_HOPS: usize = 16;
/// Groups nested deeper are refused: no one names them, and their names add up.
const MOST_DEPTH: usize = 2048;

/// Mappings of a few bytes can stand for any number of lines.
const MOST_PIECES: usize = 1 << 17;

/// An object: which file, and the address of its header.
pub(crate) type Object = (usize, u64);

/// Describes the file at `at`.
pub(crate) fn describe(origin: &dyn Origin, at: &Locator) -> Result<Container> {
    run(origin, at, None, Types::Passed).map(|(container, _)| container)
}

/// Describes the file at `at`, which is open as `file` already.
pub fn describe_opened(origin: &dyn Origin, at: &Locator, file: Rc<File>) -> Result<Container> {
    run(origin, at, Some(file), Types::Passed).map(|(container, _)| container)
}

/// Describes the file at `at`, and its named types with them.
pub(crate) fn describe_with_types(origin: &dyn Origin, at: &Locator) -> Result<(Container, Vec<NamedType>)> {
    run(origin, at, None, Types::Kept)
}

/// A type that stands under a name of its own: formats on top of HDF5 hang attributes on them.
#[derive(Debug)]
pub struct NamedType {
    /// Its full name.
    pub name: String,
    /// Named values that belong to it.
    pub attributes: Vec<Attribute>,
}

/// What a walk does with named types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Types {
    Passed,
    Kept,
}

/// A file that a SWMR writer changes while it is described is described anew, this often at most.
const MOST_TRIES: usize = 32;

fn run(
    origin: &dyn Origin,
    at: &Locator,
    mut file: Option<Rc<File>>,
    types: Types,
) -> Result<(Container, Vec<NamedType>)> {
    let mut tries = 1;
    loop {
        let mut walk = new_walk(origin, types);
        // One that has changed since is opened anew by the next try.
        if let Some(file) = file.take() {
            walk.adopt(at, file);
        }
        let walked = walk.whole(at);
        match walk.vouch_for_growing() {
            Ok(()) => return walked.and_then(|()| finished(walk)),
            Err(error) if tries == MOST_TRIES => return Err(swmr::explained(error)),
            Err(_) => tries += 1,
        }
    }
}

fn new_walk(origin: &dyn Origin, types: Types) -> Walk<'_> {
    Walk {
        types,
        named_types: Vec::new(),
        origin,
        files: Vec::new(),
        opened: HashMap::new(),
        container: Container { format: "hdf5".into(), ..Container::default() },
        source_numbers: HashMap::new(),
        part_numbers: HashMap::new(),
        part_reads: Vec::new(),
        names: HashMap::new(),
        links: HashMap::new(),
        scales: HashMap::new(),
        deferred: Vec::new(),
        absent: BTreeSet::new(),
        external_hops: 0,
        pieces_left: MOST_PIECES,
        name_bytes: 0,
    }
}

/// The description, sorted and with names for its axes, once all was walked.
fn finished(walk: Walk<'_>) -> Result<(Container, Vec<NamedType>)> {
    let Walk { mut container, names, scales, absent, named_types, .. } = walk;
    container.absent = absent.into_iter().collect();
    container.variables.sort_by(|left, right| left.name.cmp(&right.name));
    container.variables.dedup_by(|later, earlier| later.name == earlier.name);
    container.aliases.sort_by(|left, right| left.name.cmp(&right.name));
    container.refused.sort_by(|left, right| left.name.cmp(&right.name));
    axes::name(&mut container, |variable, axis| {
        let scale = scales.get(variable)?.get(axis).copied().flatten()?;
        names.get(&scale).map(String::as_str)
    })?;
    Ok((container, named_types))
}

/// A soft or external link that is yet to be followed.
struct Deferred {
    group: Object,
    to: Target,
    name: String,
    external_hops: usize,
}

/// What is known while a file is walked.
pub(crate) struct Walk<'a> {
    types: Types,
    named_types: Vec<NamedType>,
    origin: &'a dyn Origin,
    files: Vec<Rc<File>>,
    opened: HashMap<Locator, usize>,
    pub(crate) container: Container,
    /// Positions in the container's sources and parts.
    source_numbers: HashMap<SourceId, u32>,
    part_numbers: HashMap<String, usize>,
    /// How often an element of each part reads plain values.
    pub(crate) part_reads: Vec<u64>,
    /// The first name of every object met.
    names: HashMap<Object, String>,
    /// The links of groups that names were looked up in.
    links: HashMap<Object, Rc<HashMap<String, Target>>>,
    /// By the names of variables: the objects that stand for their axes.
    scales: HashMap<String, Vec<Option<Object>>>,
    /// Soft and external links that were met.
    deferred: Vec<Deferred>,
    /// Files that were looked for and are not there.
    absent: BTreeSet<Locator>,
    /// External links that led to where the walk is now.
    external_hops: usize,
    /// Pieces that mappings between boxes of different shape may still be cut into.
    pub(crate) pieces_left: usize,
    name_bytes: u64,
}

impl Walk<'_> {
    /// Describes all that the file at `at` leads to.
    fn whole(&mut self, at: &Locator) -> Result<()> {
        let main = self.open(at)?;
        let root = self.files[main].root;
        self.object((main, root), String::new())?;
        // Soft and external links wait until everything has its own name: a second name is an alias.
        while let Some(link) = self.deferred.pop() {
            if let Err(error) = self.follow(&link) {
                self.refuse(link.name, &error);
            }
        }
        Ok(())
    }

    /// Makes sure that no file has changed that a SWMR writer has open: what was read may be half of a change.
    fn vouch_for_growing(&self) -> Result<()> {
        self.files.iter().filter(|file| file.swmr).try_for_each(|file| file.source().vouch())
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
    fn adopt(&mut self, at: &Locator, file: Rc<File>) {
        self.add_source(file.source().id().clone());
        self.keep(at, file);
    }

    fn keep(&mut self, at: &Locator, file: Rc<File>) -> usize {
        self.container.swmr |= file.swmr;
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
        let sources = &mut self.container.sources;
        let next = u32::try_from(sources.len()).expect("fewer than 2^32 files were opened");
        let number = *self.source_numbers.entry(id.clone()).or_insert(next);
        if number == next {
            sources.push(id);
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
        self.container.parts.push(part);
        let number = self.container.parts.len() - 1;
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

    fn locator(&self, of: usize) -> Locator {
        self.files[of].source().id().locator.clone()
    }

    /// File number `number`.
    pub(crate) fn file(&self, number: usize) -> Rc<File> {
        Rc::clone(&self.files[number])
    }

    /// Describes `first`, known as `name`, and everything below it.
    fn object(&mut self, first: Object, name: String) -> Result<()> {
        let mut stack = vec![(first, name, 0)];
        let mut is_first = true;
        while let Some((object, name, depth)) = stack.pop() {
            self.count_name(&name, depth)?;
            if let Some(known) = self.names.get(&object) {
                let alias = Alias { name, target: known.clone() };
                self.count_name(&alias.target, depth)?;
                self.container.aliases.push(alias);
                continue;
            }
            self.names.insert(object, name.clone());
            let mut children = Vec::new();
            if let Err(error) = self.one(object, &name, &mut children) {
                if is_first && name.is_empty() {
                    return Err(error);
                }
                self.refuse(name, &error);
            }
            stack.extend(children.into_iter().rev().map(|(child, name)| (child, name, depth + 1)));
            is_first = false;
        }
        Ok(())
    }

    /// Names repeat the names above them: a file can say far more of them than it holds.
    fn count_name(&mut self, name: &str, depth: usize) -> Result<()> {
        self.name_bytes += name.len() as u64;
        let own = self.container.sources.first().map_or(0, |id| id.len);
        if self.name_bytes > own.saturating_mul(64).saturating_add(16 << 20) || depth > MOST_DEPTH {
            let start: String = name.chars().take(64).collect();
            return Err(Error::corrupt("groups nested without end").at(format!("'{start}…'")));
        }
        Ok(())
    }

    fn one(&mut self, object: Object, name: &str, children: &mut Vec<(Object, String)>) -> Result<()> {
        let file = self.file(object.0);
        let header = Header::read(&file, object.1)?;
        if header.has(message::LAYOUT) {
            let variable = array::describe(self, object, &header, name, 0)?;
            if variable.attributes.iter().any(|attribute| attribute.name == SCALE_LIST) {
                let scales = references(&file, &header, SCALE_LIST)?.into_iter();
                let objects = scales.map(|address| Some((object.0, address?))).collect();
                self.scales.insert(name.to_owned(), objects);
            }
            self.container.variables.push(variable);
            return Ok(());
        }
        if !group::is_group(&header) {
            if self.types == Types::Kept && header.has(message::DATATYPE) {
                let attributes = attributes(&file, &header)?;
                self.named_types.push(NamedType { name: name.to_owned(), attributes });
            }
            return Ok(());
        }
        let attributes = attributes(&file, &header)?;
        self.container.groups.push(Group { name: name.to_owned(), attributes });
        for link in group::links(&file, &header)? {
            let child = if name.is_empty() { link.name } else { format!("{name}/{}", link.name) };
            match link.to {
                Target::Object(address) => children.push(((object.0, address), child)),
                to => {
                    let external_hops = self.external_hops;
                    self.deferred.push(Deferred { group: object, to, name: child, external_hops });
                }
            }
        }
        Ok(())
    }

    /// Gives the target of a soft or external link its second name.
    fn follow(&mut self, link: &Deferred) -> Result<()> {
        let target = self.target(link.group, &link.to, MOST_HOPS)?;
        self.external_hops = link.external_hops + usize::from(target.0 != link.group.0);
        if self.external_hops > MOST_HOPS {
            return Err(Error::new(ErrorKind::NotFound, "files that link to each other without end"));
        }
        self.object(target, link.name.clone())
    }

    /// The object a link of `group` leads to.
    fn target(&mut self, group: Object, to: &Target, hops: usize) -> Result<Object> {
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
    pub(crate) fn find(&mut self, file: usize, path: &str) -> Result<Object> {
        let root = (file, self.files[file].root);
        self.find_from(root, path, MOST_HOPS)
    }

    fn find_from(&mut self, group: Object, path: &str, hops: usize) -> Result<Object> {
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

    fn links_of(&mut self, object: Object) -> Result<Rc<HashMap<String, Target>>> {
        if let Some(links) = self.links.get(&object) {
            return Ok(Rc::clone(links));
        }
        let file = self.file(object.0);
        let header = Header::read(&file, object.1)?;
        let links = group::links(&file, &header)?.into_iter().map(|link| (link.name, link.to)).collect();
        let links = Rc::new(links);
        self.links.insert(object, Rc::clone(&links));
        Ok(links)
    }

    fn refuse(&mut self, name: String, error: &Error) {
        let corrupt = error.kind() == ErrorKind::Corrupt;
        self.container.refused.push(Refused { name, why: error.to_string(), corrupt });
    }
}
