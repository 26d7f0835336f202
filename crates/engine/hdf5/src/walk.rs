//! Walks all links of a file and describes what they lead to.

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use forebay_container::{Alias, Attribute, Container, Dtype, Group, Refused, SCALE_LIST, Variable};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, Origin, SourceId};

use crate::{
    array,
    attributes::{attributes, references},
    axes,
    file::File,
    files::{MOST_HOPS, ObjectAddress, OpenFiles},
    group,
    message::{self, link::Target},
    swmr,
    walk_order::{LinkPlace, WalkOrder},
};

/// Groups nested deeper are refused: no one names them, and their names add up.
const MOST_DEPTH: usize = 2048;

/// Describes the file at `at`.
pub(crate) fn describe(origin: &dyn Origin, at: &Locator) -> Result<Container> {
    run(origin, at, None, NamedTypes::Passed).map(|(container, _)| container)
}

/// Describes the file at `at`, which is open as `file` already.
pub fn describe_opened(origin: &dyn Origin, at: &Locator, file: Rc<File>) -> Result<Container> {
    run(origin, at, Some(file), NamedTypes::Passed).map(|(container, _)| container)
}

/// Describes the file at `at`, and its named types with them.
pub(crate) fn describe_with_types(origin: &dyn Origin, at: &Locator) -> Result<(Container, Vec<NamedType>)> {
    run(origin, at, None, NamedTypes::Kept)
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
enum NamedTypes {
    Passed,
    Kept,
}

/// A file that a SWMR writer changes while it is described is described anew, this often at most.
const MOST_TRIES: usize = 32;

fn run(
    origin: &dyn Origin,
    at: &Locator,
    mut file: Option<Rc<File>>,
    types: NamedTypes,
) -> Result<(Container, Vec<NamedType>)> {
    let mut tries = 1;
    loop {
        let mut walk = new_walk(origin, types);
        // One that has changed since is opened anew by the next try.
        if let Some(file) = file.take() {
            walk.files.adopt(at, file);
        }
        let walked = walk.whole(at);
        match walk.files.verify_growing() {
            Ok(()) => return walked.and_then(|()| finished(walk)),
            Err(error) if tries == MOST_TRIES => return Err(swmr::explained(error)),
            Err(_) => tries += 1,
        }
    }
}

fn new_walk(origin: &dyn Origin, types: NamedTypes) -> ContainerWalk<'_> {
    ContainerWalk {
        types,
        named_types: Vec::new(),
        files: OpenFiles::new(origin),
        container: Container { format: "hdf5".into(), ..Container::default() },
        names: HashMap::new(),
        scales: HashMap::new(),
        enumerations: HashMap::new(),
        order: WalkOrder::default(),
        deferred: VecDeque::new(),
        external_hops: 0,
        name_bytes: 0,
    }
}

/// The description, sorted and with names for its axes, once all was walked.
fn finished(walk: ContainerWalk<'_>) -> Result<(Container, Vec<NamedType>)> {
    let ContainerWalk { mut container, files, names, scales, named_types, .. } = walk;
    walk.order.sort(&mut container.variables, &mut container.groups);
    container.swmr = files.has_swmr();
    container.sources = files.sources;
    container.parts = files.parts;
    container.absent = files.absent.into_iter().collect();
    container.sort_variables();
    container.aliases.sort_by(|left, right| left.name.cmp(&right.name));
    container.refused.sort_by(|left, right| left.name.cmp(&right.name));
    axes::name(&mut container, |variable, axis| {
        let scale = scales.get(variable)?.get(axis).copied().flatten()?;
        names.get(&scale).map(String::as_str)
    })?;
    name_types(&mut container, &walk.enumerations);
    Ok((container, named_types))
}

/// Tells variables what their types are called: by likeness, as the NetCDF library does, which writes a type with each variable and
/// once more under its name. Many may share one, so that a small file could say far more than it holds: then names are left out.
fn name_types(container: &mut Container, names: &HashMap<String, String>) {
    let mut left = name_allowance(container.sources.first());
    let is_enum = |variable: &&mut Variable| matches!(variable.dtype, Dtype::Enum { .. });
    for variable in container.variables.iter_mut().filter(is_enum) {
        let Some(name) = names.get(&variable.dtype.to_string()) else { continue };
        let Some(rest) = left.checked_sub(name.len() as u64) else { return };
        left = rest;
        variable.type_name = Some(name.clone());
    }
}

/// How many bytes of names a file may say.
fn name_allowance(own: Option<&SourceId>) -> u64 {
    own.map_or(0, |id| id.len).saturating_mul(64).saturating_add(16 << 20)
}

/// A name in a group that the walk has yet to reach.
struct Pending {
    group: ObjectAddress,
    to: Target,
    name: String,
    depth: usize,
}

/// A soft or external link that is yet to be followed.
struct Deferred {
    group: ObjectAddress,
    to: Target,
    name: String,
    external_hops: usize,
    /// Where it stands in the file.
    place: LinkPlace,
}

/// What is known while a file is walked.
struct ContainerWalk<'a> {
    types: NamedTypes,
    named_types: Vec<NamedType>,
    files: OpenFiles<'a>,
    container: Container,
    /// The first name of every object met.
    names: HashMap<ObjectAddress, String>,
    /// By the names of variables: the objects that stand for their axes.
    scales: HashMap<String, Vec<Option<ObjectAddress>>>,
    /// By what they are: the names of enumerations.
    enumerations: HashMap<String, String>,
    order: WalkOrder,
    /// Soft and external links that were met, first to last.
    deferred: VecDeque<Deferred>,
    /// External links that led to where the walk is now.
    external_hops: usize,
    name_bytes: u64,
}

impl ContainerWalk<'_> {
    /// Describes all that the file at `at` leads to.
    fn whole(&mut self, at: &Locator) -> Result<()> {
        let main = self.files.open(at)?;
        let root = self.files.file(main).root;
        self.object((main, root), String::new())?;
        // Soft and external links wait until everything has its own name: a second name is an alias.
        while let Some(link) = self.deferred.pop_front() {
            if let Err(error) = self.follow(&link) {
                self.refuse(link.name, &error);
            }
        }
        Ok(())
    }

    /// Describes `first`, known as `name`, and everything below it.
    fn object(&mut self, first: ObjectAddress, name: String) -> Result<()> {
        let mut stack = vec![Pending { group: first, to: Target::Object(first.1), name, depth: 0 }];
        let mut is_first = true;
        while let Some(Pending { group, to, name, depth }) = stack.pop() {
            self.order.meet();
            let Target::Object(address) = to else {
                let (external_hops, place) = (self.external_hops, self.order.last_met());
                self.deferred.push_back(Deferred { group, to, name, external_hops, place });
                continue;
            };
            let object = (group.0, address);
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
            let pending = |(to, name)| Pending { group: object, to, name, depth: depth + 1 };
            stack.extend(children.into_iter().rev().map(pending));
            is_first = false;
        }
        Ok(())
    }

    /// Names repeat the names above them: a file can say far more of them than it holds.
    fn count_name(&mut self, name: &str, depth: usize) -> Result<()> {
        self.name_bytes += name.len() as u64;
        let most = name_allowance(self.files.sources.first());
        if self.name_bytes > most || depth > MOST_DEPTH {
            let start: String = name.chars().take(64).collect();
            return Err(Error::corrupt("groups nested without end").at(format!("'{start}…'")));
        }
        Ok(())
    }

    fn one(&mut self, object: ObjectAddress, name: &str, children: &mut Vec<(Target, String)>) -> Result<()> {
        let file = self.files.file(object.0);
        let header = file.header(object.1)?;
        if header.has(message::LAYOUT) {
            let variable = array::describe(&mut self.files, object, &header, name, 0)?;
            if variable.attributes.iter().any(|attribute| attribute.name == SCALE_LIST) {
                let scales = references(&file, &header, SCALE_LIST)?.into_iter();
                let objects = scales.map(|address| Some((object.0, address?))).collect();
                self.scales.insert(name.to_owned(), objects);
            }
            self.order.add_variable();
            self.container.variables.push(variable);
            return Ok(());
        }
        if !group::is_group(&header) {
            // A type that cannot be made out has no variables that could be.
            let dtype = header.find(message::DATATYPE).and_then(|found| array::datatype(&file, found).ok());
            if let Some(dtype @ Dtype::Enum { .. }) = dtype {
                self.enumerations.entry(dtype.to_string()).or_insert_with(|| name.to_owned());
            }
            if self.types == NamedTypes::Kept && header.has(message::DATATYPE) {
                let attributes = attributes(&file, &header)?;
                self.named_types.push(NamedType { name: name.to_owned(), attributes });
            }
            return Ok(());
        }
        let attributes = attributes(&file, &header)?;
        self.order.add_group();
        self.container.groups.push(Group { name: name.to_owned(), attributes });
        for link in group::links(&file, &header)? {
            let child = if name.is_empty() { link.name } else { format!("{name}/{}", link.name) };
            children.push((link.to, child));
        }
        Ok(())
    }

    /// Gives the target of a soft or external link its second name.
    fn follow(&mut self, link: &Deferred) -> Result<()> {
        let target = self.files.target(link.group, &link.to, MOST_HOPS)?;
        self.external_hops = link.external_hops + usize::from(target.0 != link.group.0);
        if self.external_hops > MOST_HOPS {
            return Err(Error::new(ErrorKind::NotFound, "files that link to each other without end"));
        }
        self.order.follow(&link.place);
        self.object(target, link.name.clone())
    }

    fn refuse(&mut self, name: String, error: &Error) {
        self.container.refused.push(Refused::of(name, error));
    }
}
