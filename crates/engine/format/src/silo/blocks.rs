//! Multi-block objects: which blocks they are made of, in this file and in others.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    rc::Rc,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, Origin, SourceId};

use super::{
    fields::{self, SiloField},
    joined::Parts,
    names::{self, SiloBlock},
    object::Object,
    tree::Tree,
};
use forebay_container::{ChunkTable, Extent, Extents, SourceIndex, Variable};

/// Joins blocks, and keeps the files they lie in.
pub(super) struct Joiner<'a> {
    origin: &'a dyn Origin,
    main: &'a Tree,
    /// Files beside the main one, or why they cannot be read.
    others: HashMap<Locator, Result<Rc<Other>, String>>,
    /// Blocks that were met, by file and name.
    known: HashMap<(Option<String>, String), Rc<BlockFields>>,
    /// Blocks that were joined so far.
    joined_count: u64,
    /// All sources that extents point into.
    pub(super) sources: Vec<SourceId>,
    /// Arrays that joined ones are mapped from.
    pub(super) parts: Parts,
    /// Files that are named and not there.
    pub(super) absent: BTreeSet<Locator>,
}

/// A file beside the main one.
struct Other {
    tree: Tree,
    /// Where its sources stand among the joiner's.
    sources: Vec<SourceIndex>,
}

/// One block's arrays by suffix.
type BlockFields = BTreeMap<String, Variable>;

/// How the blocks of an object are named.
enum Names {
    /// One by one.
    Listed(String),
    /// By what is worked out from their numbers.
    Scheme { blocks: String, files: Option<String>, empty: Vec<i64>, count: i64 },
}

/// Beyond what the length of all files justifies: many small blocks in small files.
const LEAST_BLOCKS: u64 = 1 << 20;

impl<'a> Joiner<'a> {
    pub(super) fn new(origin: &'a dyn Origin, main: &'a Tree) -> Self {
        Self {
            origin,
            main,
            others: HashMap::new(),
            known: HashMap::new(),
            sources: main.container.sources.clone(),
            joined_count: 0,
            parts: Parts::new(main.container.parts.clone()),
            absent: BTreeSet::new(),
        }
    }

    /// The joined arrays of the multi-block object `object`.
    pub(super) fn join(&mut self, object: &Object) -> Result<Vec<SiloField>> {
        let blocks = self.blocks(object)?;
        let suffixes: BTreeSet<String> =
            blocks.iter().flatten().flat_map(|fields| fields.keys().cloned()).collect();
        let mut joined = Vec::new();
        for suffix in suffixes {
            self.count(blocks.len())?;
            let arrays: Vec<Option<&Variable>> =
                blocks.iter().map(|fields| fields.as_ref().and_then(|fields| fields.get(&suffix))).collect();
            let name = format!("{}{suffix}", object.name);
            let variables = self.parts.join(&name, &arrays)?;
            joined.extend(variables.into_iter().map(|variable| SiloField {
                variable,
                suffix: suffix.clone(),
                stored: None,
            }));
        }
        Ok(joined)
    }

    /// A few bytes can name the same blocks over and over: no more are joined than all files have bytes.
    fn count(&mut self, more: usize) -> Result<()> {
        self.joined_count = self.joined_count.saturating_add(more as u64);
        let len = self.sources.iter().fold(LEAST_BLOCKS, |sum, id| sum.saturating_add(id.len));
        if self.joined_count > len {
            return Err(Error::new(ErrorKind::Corrupt, "more blocks are named than the files can hold"));
        }
        Ok(())
    }

    /// The arrays of all blocks; none for an empty one.
    fn blocks(&mut self, object: &Object) -> Result<Vec<Option<Rc<BlockFields>>>> {
        let names = Self::names(self.main, object)?;
        let mut found = Vec::new();
        let mut take = |number: usize, name: &str| {
            self.count(1)?;
            let fields = self.block(object, &names::block(name));
            found.push(fields.map_err(|error| error.at(format!("block {number}")))?);
            Ok(())
        };
        match names {
            Names::Listed(text) => {
                names::list(&text).enumerate().try_for_each(|(number, name)| take(number, name))?;
            }
            Names::Scheme { blocks, files, empty, count } => {
                for (number, n) in (0..count).enumerate() {
                    let file = files.as_deref().map(|files| names::scheme(files, n)).transpose()?;
                    let name = names::scheme(&blocks, n)?;
                    let name = file.map_or(name.clone(), |file| format!("{file}:{name}"));
                    take(number, if empty.contains(&n) { names::EMPTY } else { &name })?;
                }
            }
        }
        let count = block_count(object);
        if count.is_some_and(|count| usize::try_from(count).ok() != Some(found.len())) {
            let what = format!("{} names for {} blocks", found.len(), count.unwrap_or(0));
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        Ok(found)
    }

    /// How the blocks of `object` are named.
    fn names(main: &Tree, object: &Object) -> Result<Names> {
        for member in ["varnames", "meshnames", "matnames", "specnames"] {
            // A multi-block variable may list the names of materials as well: those of its own come first.
            if let Some(text) = main.text(object, member)? {
                return Ok(Names::Listed(text));
            }
        }
        let scheme = |names: [&str; 2]| -> Result<Option<String>> {
            for name in names {
                if let Some(text) = main.text(object, name)?.filter(|text| !text.is_empty()) {
                    return Ok(Some(text));
                }
            }
            Ok(None)
        };
        let Some(blocks) = scheme(["block_ns", "block_ns_name"])? else {
            return Err(Error::new(ErrorKind::Corrupt, "names no blocks"));
        };
        Ok(Names::Scheme {
            blocks,
            files: scheme(["file_ns", "file_ns_name"])?,
            empty: main.integers(object, "empty_list")?.unwrap_or_default(),
            count: block_count(object).unwrap_or(0),
        })
    }

    /// The arrays of one block, their extents as the joiner's sources stand.
    fn block(&mut self, object: &Object, block: &SiloBlock) -> Result<Option<Rc<BlockFields>>> {
        let SiloBlock::Named { file, name } = block else { return Ok(None) };
        let key = (file.clone(), names::resolve(file.as_ref().map_or(&object.name, |_| ""), name));
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(Rc::clone(known)));
        }
        let fields = match file {
            None => {
                let found = find(self.main, &[&key.1, &names::resolve("", name)], name)?;
                fields::of(self.main, found)?
            }
            Some(file) => {
                let place = |error: Error| error.at(format!("file '{file}'"));
                let other = self.other(file)?;
                let found = find(&other.tree, &[&key.1], name).map_err(place)?;
                let mut fields = fields::of(&other.tree, found).map_err(place)?;
                for field in &mut fields {
                    relocate(&mut field.variable, &other.sources).map_err(place)?;
                    field.variable.name = format!("{}:{}", other.tree.at, field.variable.name);
                }
                fields
            }
        };
        let fields = Rc::new(fields.into_iter().map(|field| (field.suffix, field.variable)).collect());
        self.known.insert(key, Rc::clone(&fields));
        Ok(Some(fields))
    }

    /// The file called `name`: beside the main one, or by its last part when it was moved.
    fn other(&mut self, name: &str) -> Result<Rc<Other>> {
        let at = self.main.at.beside(name);
        match (self.open(&at), name.rsplit_once('/')) {
            (Err(error), Some((_, last))) if error.kind() == ErrorKind::NotFound => {
                self.open(&self.main.at.beside(last))
            }
            (result, _) => result,
        }
    }

    fn open(&mut self, at: &Locator) -> Result<Rc<Other>> {
        if !self.others.contains_key(at) {
            let opened = Tree::open(self.origin, at);
            if let Err(error) = &opened
                && error.kind() == ErrorKind::NotFound
            {
                self.absent.insert(at.clone());
                return Err(
                    Error::new(ErrorKind::NotFound, "a block lies in a file that is not there").at(at)
                );
            }
            let other = opened.map_err(|error| error.to_string()).map(|tree| {
                let sources = tree.container.sources.iter().map(|id| self.add_source(id)).collect();
                Rc::new(Other { tree, sources })
            });
            self.others.insert(at.clone(), other);
        }
        match self.others.get(at) {
            Some(Ok(other)) => Ok(Rc::clone(other)),
            Some(Err(why)) => Err(Error::new(ErrorKind::Unsupported, why.clone()).at(at)),
            None => Err(Error::new(ErrorKind::Bug, "a file vanished")),
        }
    }

    fn add_source(&mut self, id: &SourceId) -> SourceIndex {
        let known = self.sources.iter().position(|known| known == id);
        let number = known.unwrap_or_else(|| {
            self.sources.push(id.clone());
            self.sources.len() - 1
        });
        SourceIndex(u32::try_from(number).unwrap_or(u32::MAX))
    }
}

/// How many blocks `object` says it has.
fn block_count(object: &Object) -> Option<i64> {
    ["nblocks", "nvars", "nmats", "nspec"].iter().find_map(|name| object.integer(name))
}

/// The object of `tree` that one of `candidates` names.
fn find<'t>(tree: &'t Tree, candidates: &[&str], name: &str) -> Result<&'t Object> {
    let missing = || Error::new(ErrorKind::NotFound, format!("no object '{name}', which a block is to be"));
    let found = candidates.iter().find_map(|name| tree.objects.get(*name)).ok_or_else(missing)?;
    if found.kind.is_multi() {
        return Err(Error::new(ErrorKind::Unsupported, format!("block '{name}' is made of blocks itself")));
    }
    Ok(found)
}

/// Turns the indexes of a file's own sources into the joiner's.
fn relocate(variable: &mut Variable, sources: &[SourceIndex]) -> Result<()> {
    let moved = |index: SourceIndex| {
        let found = sources.get(index.0 as usize).copied();
        found.ok_or_else(|| Error::new(ErrorKind::Bug, "a source vanished"))
    };
    if let Some(heap) = &mut variable.heap {
        heap.source = moved(heap.source)?;
    }
    match &mut variable.extents {
        Extents::Chunks(table) => {
            let move_one = |(number, extent): (u64, Extent)| {
                Ok((number, Extent { source: moved(extent.source)?, ..extent }))
            };
            let pairs = table.iter().map(move_one).collect::<Result<Vec<_>>>()?;
            *table = ChunkTable::new(pairs, variable.grid.chunk_count())?;
            Ok(())
        }
        Extents::Opaque(opaque) => {
            opaque.source = moved(opaque.source)?;
            Ok(())
        }
        Extents::Inline(_) => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, "values that lie in yet another file")),
    }
}
