//! A Zarr store, version 3: a folder for each group and variable, a file for each chunk.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay::{Array, Error, ErrorKind, Result, Values, Variable, container::Dtype};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    codec::ChunkCodec,
    folder::{Folder, check_name},
    job::{ConvertJob, Done, Written},
    layout::{ArrayLayout, Slab, product, runs},
    zarr_attributes::{dimension_names, of_group, of_variable},
    zarr_type::ZarrType,
};

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
pub(super) fn write(job: &ConvertJob<'_>, wanted: &[u64], codec: ChunkCodec) -> Result<Done> {
    job.interrupt.watch();
    let folder = Folder::create(job.output)?;
    let planned = plan(job, &folder, wanted, codec)?;
    write_groups(job, &folder, &planned)?;
    let mut written = Vec::with_capacity(planned.len());
    for writing in planned {
        match writing.all()? {
            Some(one) => written.push(one),
            None => return Ok(None),
        }
    }
    folder.finish()?;
    Ok(Some(written))
}

/// How each variable of `job` is written.
fn plan<'a>(
    job: &'a ConvertJob<'a>,
    folder: &'a Folder,
    wanted: &[u64],
    codec: ChunkCodec,
) -> Result<Vec<Writing<'a>>> {
    let mut planned = Vec::with_capacity(job.variables.len());
    for variable in &job.variables {
        let place = |error: Error| error.at(format!("variable '{}'", variable.name));
        let kind = ZarrType::of(&variable.dtype, &variable.fill)
            .ok_or_else(|| place(Error::new(ErrorKind::Unsupported, "no type of Zarr")))?;
        let name = job.opened.container().shown_name(variable);
        let layout = ArrayLayout::new(variable, wanted);
        planned.push(Writing { job, folder, variable, name, dimensions: Vec::new(), kind, layout, codec });
    }
    let shapes: Vec<_> =
        planned.iter().map(|one| (one.variable, one.with_inner(&one.layout.shape))).collect();
    for (one, dimensions) in planned.iter_mut().zip(dimension_names(&shapes)) {
        one.dimensions = dimensions;
    }
    Ok(planned)
}

/// Writes what is known of the root and of the groups above all variables. The root has the documents of all others
/// besides, as zarr-python consolidates them: a store is opened by one request then, and xarray warns of any other.
fn write_groups(job: &ConvertJob<'_>, folder: &Folder, planned: &[Writing<'_>]) -> Result<()> {
    let container = job.opened.container();
    let document = |name: &str| {
        let known = container.groups.iter().find(|group| group.name == name);
        let attributes = known.map_or_else(Map::new, |group| of_group(container, &group.attributes));
        json!({ "zarr_format": 3, "node_type": "group", "attributes": attributes })
    };
    let mut documents: Map<String, Value> =
        planned.iter().map(|writing| (writing.name.clone(), writing.about())).collect();
    for name in groups(planned).into_iter().filter(|name| !name.is_empty()) {
        let about = document(&name);
        folder.write(&key(&name, "zarr.json"), about.to_string().as_bytes())?;
        documents.insert(name, about);
    }
    let mut root = document("");
    root["consolidated_metadata"] =
        json!({ "kind": "inline", "must_understand": false, "metadata": documents });
    folder.write("zarr.json", root.to_string().as_bytes())
}

/// The root and all groups above the variables, each once.
fn groups(planned: &[Writing<'_>]) -> Vec<String> {
    let mut names = vec![String::new()];
    for Writing { name, .. } in planned {
        names.extend(name.match_indices('/').map(|(end, _)| name[..end].to_owned()));
    }
    names.sort();
    names.dedup();
    names
}

fn key(name: &str, file: &str) -> String {
    if name.is_empty() { file.to_owned() } else { format!("{name}/{file}") }
}

/// Elements that lie together: from where, to where, how many.
type ElementSpan = (usize, usize, usize);

/// One variable on its way into the store.
struct Writing<'a> {
    job: &'a ConvertJob<'a>,
    folder: &'a Folder,
    variable: &'a Variable,
    /// What it is called in the store.
    name: String,
    /// What its axes are called there.
    dimensions: Vec<String>,
    kind: ZarrType,
    layout: ArrayLayout,
    codec: ChunkCodec,
}

impl Writing<'_> {
    fn all(&self) -> Result<Option<Written>> {
        let name = &self.name;
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
                // A chunk has all of the axes within an element.
                let inner = vec![0; self.kind.inner.len()];
                let steps: String = place.iter().chain(&inner).map(|at| format!("/{at}")).collect();
                self.folder.write(&key(name, &format!("c{steps}")), &bytes)
            })?;
            self.job.bar.inc(product(&slab.shape()).saturating_mul(self.variable.dtype.stored_len() as u64));
        }
        Ok(Some(Written {
            name: name.clone(),
            shape: self.with_inner(&self.layout.shape),
            chunk: Some(self.with_inner(&self.layout.chunk)),
            chunk_count: chunks.into_inner(),
            logical_bytes: self.variable.logical_len(),
            stored_bytes: stored.into_inner(),
        }))
    }

    /// `lens`, and the axes that an element has within itself.
    fn with_inner(&self, lens: &[u64]) -> Vec<u64> {
        [lens, &self.kind.inner].concat()
    }

    /// What `zarr.json` says of the variable.
    fn about(&self) -> Value {
        let bytes = match self.kind.item_len {
            None => json!({ "name": "vlen-utf8" }),
            Some(1) => json!({ "name": "bytes" }),
            Some(_) => json!({ "name": "bytes", "configuration": { "endian": "little" } }),
        };
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.with_inner(&self.layout.shape),
            "data_type": self.kind.name,
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": self.with_inner(&self.layout.chunk) } },
            "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
            "fill_value": self.kind.fill,
            "codecs": std::iter::once(bytes).chain(self.codec.for_zarr()).collect::<Vec<_>>(),
            "attributes": of_variable(self.job.opened.container(), self.variable),
            "dimension_names": self.dimensions,
        })
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
        runs: impl Iterator<Item = ElementSpan>,
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
        runs: impl Iterator<Item = ElementSpan>,
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
