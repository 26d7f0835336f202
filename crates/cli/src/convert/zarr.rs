//! A Zarr store, version 3: a folder for each group and variable, a file for each chunk.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay::{
    Array, Error, ErrorKind, Result, Values, Variable,
    format::{Attribute, Dtype},
};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    Done, Job, Written,
    codec::Codec,
    folder::{Folder, check_name},
    layout::{Layout, Slab, product, runs},
    zarr_type::ZarrType,
};
use crate::value;

/// Why a variable cannot be kept by a Zarr store, if it cannot.
pub(super) fn refusal(variable: &Variable) -> Option<String> {
    if let Some(why) = variable.dtype.refusal().or_else(|| check_name(&variable.name)) {
        return Some(why);
    }
    match ZarrType::of(&variable.dtype, &variable.fill) {
        Some(_) => None,
        None => Some(format!("Zarr has no type for {}", variable.dtype)),
    }
}

/// Writes the variables of `job`, in chunks of the shape `wanted` where they have as many axes.
pub(super) fn write(job: &Job<'_>, wanted: &[u64], codec: Codec) -> Result<Done> {
    job.interrupt.watch();
    let folder = Folder::create(job.output)?;
    let container = job.opened.container();
    for name in groups(&job.variables) {
        let known = container.groups.iter().find(|group| group.name == name);
        let attributes = known.map_or_else(Map::new, |group| attributes(&group.attributes));
        let about = json!({ "zarr_format": 3, "node_type": "group", "attributes": attributes });
        folder.write(&key(&name, "zarr.json"), about.to_string().as_bytes())?;
    }
    let mut written = Vec::with_capacity(job.variables.len());
    for variable in &job.variables {
        let place = |error: Error| error.at(format!("variable '{}'", variable.name));
        let kind = ZarrType::of(&variable.dtype, &variable.fill)
            .ok_or_else(|| place(Error::new(ErrorKind::Unsupported, "no type of Zarr")))?;
        let writing =
            Writing { job, folder: &folder, variable, kind, layout: Layout::new(variable, wanted), codec };
        match writing.all()? {
            Some(one) => written.push(one),
            None => return Ok(None),
        }
    }
    folder.finish()?;
    Ok(Some(written))
}

/// The root and all groups above `variables`, each once.
fn groups(variables: &[&Variable]) -> Vec<String> {
    let mut names = vec![String::new()];
    for variable in variables {
        names.extend(variable.name.match_indices('/').map(|(end, _)| variable.name[..end].to_owned()));
    }
    names.sort();
    names.dedup();
    names
}

fn key(name: &str, file: &str) -> String {
    if name.is_empty() { file.to_owned() } else { format!("{name}/{file}") }
}

/// Attributes as JSON; one that cannot be read is left out.
fn attributes(given: &[Attribute]) -> Map<String, Value> {
    let readable =
        given.iter().filter_map(|one| Some((one.name.clone(), json_of(one.value.as_ref().ok()?)?)));
    readable.collect()
}

/// The values of `array` as nested lists.
fn json_of(array: &Array) -> Option<Value> {
    let mut flat = Vec::new();
    let taken = value::each(array, |value| {
        flat.extend(serde_json::to_value(&value));
        Ok(())
    });
    taken.ok()?;
    let Some((_, inner)) = array.shape.split_first() else { return flat.pop() };
    for len in inner.iter().rev() {
        let len = usize::try_from(*len).ok().filter(|len| *len > 0)?;
        flat = flat.chunks(len).map(|row| Value::Array(row.to_vec())).collect();
    }
    Some(Value::Array(flat))
}

/// Elements that lie together: from where, to where, how many.
type Run = (usize, usize, usize);

/// One variable on its way into the store.
struct Writing<'a> {
    job: &'a Job<'a>,
    folder: &'a Folder,
    variable: &'a Variable,
    kind: ZarrType,
    layout: Layout,
    codec: Codec,
}

impl Writing<'_> {
    fn all(&self) -> Result<Option<Written>> {
        let name = &self.variable.name;
        self.folder.write(&key(name, "zarr.json"), self.about().to_string().as_bytes())?;
        let (chunks, stored) = (AtomicU64::new(0), AtomicU64::new(0));
        for slab in self.layout.slabs() {
            if self.job.interrupt.is_wanted() {
                return Ok(None);
            }
            let array = self.job.opened.read(self.variable, &slab.selection())?;
            slab.chunks(&self.layout.chunk).par_iter().try_for_each(|place| {
                let Some(chunk) = self.chunk(&array, &slab, place)? else { return Ok(()) };
                let bytes = self.codec.compress(chunk)?;
                chunks.fetch_add(1, Relaxed);
                stored.fetch_add(bytes.len() as u64, Relaxed);
                let steps: String = place.iter().map(|at| format!("/{at}")).collect();
                self.folder.write(&key(name, &format!("c{steps}")), &bytes)
            })?;
            self.job.bar.inc(product(&slab.shape()).saturating_mul(self.variable.dtype.stored_len() as u64));
        }
        Ok(Some(Written {
            name: name.clone(),
            shape: self.layout.shape.clone(),
            chunk: Some(self.layout.chunk.clone()),
            chunk_count: chunks.into_inner(),
            logical_bytes: self.variable.logical_len(),
            stored_bytes: stored.into_inner(),
        }))
    }

    /// What `zarr.json` says of the variable.
    fn about(&self) -> Value {
        let with_inner = |lens: &[u64]| [lens, &self.kind.inner].concat();
        let bytes = match self.kind.item_len {
            None => json!({ "name": "vlen-utf8" }),
            Some(1) => json!({ "name": "bytes" }),
            Some(_) => json!({ "name": "bytes", "configuration": { "endian": "little" } }),
        };
        let mut about = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": with_inner(&self.layout.shape),
            "data_type": self.kind.name,
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": with_inner(&self.layout.chunk) } },
            "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
            "fill_value": self.kind.fill,
            "codecs": std::iter::once(bytes).chain(self.codec.for_zarr()).collect::<Vec<_>>(),
            "attributes": attributes(&self.variable.attributes),
        });
        if !self.variable.dimensions.is_empty() {
            let named = |name: &String| if name.is_empty() { Value::Null } else { name.clone().into() };
            let unnamed = self.kind.inner.iter().map(|_| Value::Null);
            about["dimension_names"] = self.variable.dimensions.iter().map(named).chain(unnamed).collect();
        }
        about
    }

    /// The bytes of one chunk; nothing where all of it is the fill value.
    fn chunk(&self, array: &Array, slab: &Slab, place: &[u64]) -> Result<Option<Vec<u8>>> {
        let runs = || runs(slab, place, &self.layout.chunk);
        let count = usize::try_from(product(&self.layout.chunk)).unwrap_or(usize::MAX);
        match &array.values {
            Values::Fixed(bytes) => Ok(self.fixed(bytes, &array.dtype, runs(), count)),
            Values::Variable { offsets, bytes } => self.texts((offsets, bytes), runs(), count),
        }
    }

    fn fixed(
        &self,
        bytes: &[u8],
        dtype: &Dtype,
        runs: impl Iterator<Item = Run>,
        count: usize,
    ) -> Option<Vec<u8>> {
        let len = dtype.native_len();
        let fill = &self.kind.fill_bytes;
        let mut chunk = fill.repeat(count * len / fill.len().max(1));
        for (from, to, count) in runs {
            chunk[to * len..(to + count) * len].copy_from_slice(&bytes[from * len..(from + count) * len]);
        }
        let is_filled = fill.is_empty() || chunk.chunks_exact(fill.len()).all(|item| item == fill);
        (!is_filled).then_some(chunk)
    }

    /// Texts as Zarr's `vlen-utf8` has them: how many, then each with its length before it.
    fn texts(
        &self,
        (offsets, bytes): (&[u64], &[u8]),
        runs: impl Iterator<Item = Run>,
        count: usize,
    ) -> Result<Option<Vec<u8>>> {
        let mut texts: Vec<&[u8]> = vec![&[]; count];
        for (from, to, count) in runs {
            for step in 0..count {
                let ends = [offsets.get(from + step), offsets.get(from + step + 1)];
                let [Some(begin), Some(end)] = ends.map(|at| usize::try_from(*at?).ok()) else { continue };
                texts[to + step] = bytes.get(begin..end).unwrap_or_default();
            }
        }
        if texts.iter().all(|text| text.is_empty()) {
            return Ok(None);
        }
        let length = |len: usize| {
            let len =
                u32::try_from(len).map_err(|_| Error::new(ErrorKind::Unsupported, "a text of 4 GiB"))?;
            Ok::<_, Error>(len.to_le_bytes())
        };
        let mut chunk = length(texts.len())?.to_vec();
        for text in texts {
            if std::str::from_utf8(text).is_err() {
                let error = Error::new(ErrorKind::Unsupported, "a text that is not UTF-8, as Zarr wants it");
                return Err(error.at(format!("variable '{}'", self.variable.name)));
            }
            chunk.extend_from_slice(&length(text.len())?);
            chunk.extend_from_slice(text);
        }
        Ok(Some(chunk))
    }
}
