//! A Silo file as arrays and objects, whichever kind of file it is.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Locator, Origin, Source, SourceExt};

use super::{
    hdf5, names,
    object::{MemberValue, Object, integers},
    pdb,
};
use crate::decode::with_workspace;
use forebay_container::{Container, Extent, Extents, Variable};

/// Names of blocks compress well; but a file whose members come to this many times its length lies.
const MOST_RATIO: u64 = 64;
/// Small files are allowed this much on top.
const LEAST_ALLOWANCE: u64 = 16 << 20;
/// Arrays no longer than this are kept once read: shapes and times, which many objects name.
const KEPT_BYTES: u64 = 64;

/// Members that name another object, which can be read under this one's name as well.
const RELATIONS: [&str; 4] = ["zonelist", "facelist", "phzonelist", "edgelist"];

/// A Silo file as arrays and objects.
#[derive(Debug)]
pub(super) struct Tree {
    /// Where it was found.
    pub(super) at: Locator,
    /// The arrays under the names they are stored by.
    pub(super) container: Container,
    /// The objects by full name.
    pub(super) objects: BTreeMap<String, Object>,
    source: Arc<dyn Source>,
    /// Bytes of members that may still be read.
    allowance: Cell<u64>,
    /// Short arrays that were read, by stored name, as native elements.
    read: RefCell<HashMap<String, Vec<u8>>>,
}

impl Tree {
    /// Reads the file at `at`.
    pub(super) fn open(origin: &dyn Origin, at: &Locator) -> Result<Self> {
        let source = origin.open(at)?;
        let head = source.fetch_one(ByteRange::at(0, source.id().len.min(64)))?;
        let (container, objects) = if pdb::is_pdb(&head) {
            pdb::describe(&*source)?
        } else if forebay_hdf5::source_has(&source, hdf5::ARRAYS) {
            hdf5::describe(origin, at)?
        } else {
            let what = "not a Silo file: neither HDF5 with a group '/.silo' nor PDB";
            return Err(Error::new(ErrorKind::Unsupported, what));
        };
        let objects = objects.into_iter().map(|object| (object.name.clone(), object)).collect();
        let allowance = source.id().len.saturating_mul(MOST_RATIO).saturating_add(LEAST_ALLOWANCE);
        let allowance = Cell::new(allowance);
        let tree = Self { at: at.clone(), container, objects, source, allowance, read: RefCell::default() };
        tree.prefetch();
        Ok(tree)
    }

    /// Reads the short arrays that say shapes and times with one request: PDB files have many of them.
    fn prefetch(&self) {
        let is_short = |extent: &Extent| extent.range.len() <= KEPT_BYTES;
        let mut wanted = BTreeMap::new();
        for object in self.objects.values() {
            for name in ["dims", "cycle", "time", "dtime"].into_iter().filter_map(|name| object.array(name)) {
                let Ok(variable) = self.container.variable(name) else { continue };
                let extent = single(variable).filter(is_short).filter(|_| variable.filters.is_empty());
                if let Some(extent) = extent {
                    wanted.insert(name, (variable, extent));
                }
            }
        }
        let ranges: Vec<ByteRange> = wanted.values().map(|(_, extent)| extent.range).collect();
        // Code that needs one that is missing reads it again, and reports what is wrong.
        let Ok(fetched) = self.source.fetch(&ranges) else { return };
        let mut read = self.read.borrow_mut();
        for ((name, (variable, _)), bytes) in wanted.into_iter().zip(fetched) {
            let mut bytes = bytes.to_vec();
            forebay_container::native::make_native(&variable.dtype, &mut bytes);
            read.insert(name.to_owned(), bytes);
        }
    }

    /// The array stored as `name`.
    pub(super) fn stored(&self, name: &str) -> Result<&Variable> {
        self.container.variable(name)
    }

    /// The native elements of the short array stored as `name`.
    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        if let Some(bytes) = self.read.borrow().get(name) {
            return Ok(bytes.clone());
        }
        let variable = self.stored(name)?;
        let place = |error: Error| error.at(format!("variable '{name}'"));
        let Some(extent) = single(variable) else {
            return Err(place(Error::new(ErrorKind::Unsupported, "is not stored in one piece")));
        };
        if extent.source.0 != 0 {
            return Err(place(Error::new(ErrorKind::Unsupported, "lies in another file")));
        }
        let Some(left) = self.allowance.get().checked_sub(variable.chunk_len().max(16)) else {
            return Err(place(Error::new(
                ErrorKind::Corrupt,
                "members that come to many times the file's length",
            )));
        };
        self.allowance.set(left);
        let stored = self.source.fetch_one(extent.range).map_err(place)?;
        let decoded = with_workspace(|space| {
            space.decode(variable, variable.chunk_len(), extent, &stored).map(<[u8]>::to_vec)
        });
        let bytes = decoded.map_err(place)?;
        if bytes.len() as u64 <= KEPT_BYTES {
            self.read.borrow_mut().insert(name.to_owned(), bytes.clone());
        }
        Ok(bytes)
    }

    /// Other objects that belong to `object`: `(member, full name)`.
    pub(super) fn relations(&self, object: &Object) -> Vec<(&'static str, String)> {
        let target = |member: &'static str| {
            let named = names::resolve(&object.name, object.text(member)?);
            self.objects.contains_key(&named).then_some((member, named))
        };
        RELATIONS.into_iter().filter_map(target).collect()
    }

    /// The integers of member `name`: its own, or those of the array it names.
    pub(super) fn integers(&self, object: &Object, name: &str) -> Result<Option<Vec<i64>>> {
        match object.member(name) {
            Some(MemberValue::Integers(values)) => Ok(Some(values.clone())),
            Some(MemberValue::Array(stored)) => {
                let dtype = &self.stored(stored)?.dtype;
                Ok(integers(dtype, &self.bytes(stored)?))
            }
            _ => Ok(None),
        }
    }

    /// The text of member `name`: its own, or that of the array it names.
    pub(super) fn text(&self, object: &Object, name: &str) -> Result<Option<String>> {
        match object.member(name) {
            Some(MemberValue::Text(text)) => Ok(Some(text.clone())),
            Some(MemberValue::Array(stored)) => {
                let bytes = self.bytes(stored)?;
                let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                Ok(Some(String::from_utf8_lossy(text).into_owned()))
            }
            _ => Ok(None),
        }
    }
}

/// Where the values of an array lie that is stored in one piece.
pub(super) fn single(variable: &Variable) -> Option<Extent> {
    match &variable.extents {
        Extents::Chunks(table) if is_one_chunk(variable) => table.get(0),
        _ => None,
    }
}

/// True for an array that is one chunk, no larger than itself.
pub(super) fn is_one_chunk(variable: &Variable) -> bool {
    variable.grid.chunk_count() <= 1 && variable.chunk_len() == variable.logical_len()
}
