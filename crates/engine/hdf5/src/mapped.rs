//! From the entries of a virtual data set to mappings: sources found, shapes of what grows worked out.

use std::{collections::HashMap, rc::Rc};

use forebay_process::{Error, ErrorKind, Result};

use super::{
    overlap,
    placement::DataPlacement,
    virtual_layout::{self, Hyperslab, VirtualEntry},
};
use forebay_container::{
    Dtype, Extents, Grid, HyperslabAxis, Mapping, Mappings, Opaque, Variable,
    convert::{can_convert, missing_name},
    mapping,
    native::same_native,
};

/// A virtual data set of virtual data sets of virtual data sets…
const MOST_NESTING: usize = 8;
/// Numbered sources are counted until one is missing; a writer that numbers more cannot be read in reasonable time.
const MOST_NUMBERED: u64 = 1 << 20;

/// Places the values of a virtual data set listed in object `index` of the heap at `heap`.
pub(crate) fn place(
    placement: DataPlacement<'_, '_>,
    variable: &mut Variable,
    heap: Option<u64>,
    index: u32,
) -> Result<()> {
    variable.layout = "virtual".into();
    let Some(heap) = heap else {
        variable.extents = Extents::Mapped(Mappings::default());
        return Ok(());
    };
    let source = placement.file.index;
    let entries = virtual_layout::entries(placement.file, heap, index);
    let shape = variable.grid.shape.clone();
    let mut building = Building {
        placement,
        variable: &*variable,
        mappings: Vec::new(),
        grown: vec![None; shape.len()],
        least: vec![0; shape.len()],
        numbered: HashMap::new(),
        parts: HashMap::new(),
    };
    let built = entries.and_then(|entries| building.add_all(&entries));
    let reads = overlap::reads_per_element(&building.mappings, &building.placement.files.part_reads);
    let (mappings, shape) = (std::mem::take(&mut building.mappings), building.shape());
    variable.extents = match built {
        Ok(()) if reads > overlap::MOST_READS => {
            let most = overlap::MOST_READS;
            let what = format!("an element is read more than {most} times: mappings overlap, here or below");
            return Err(Error::corrupt(what));
        }
        Ok(()) => {
            variable.grid = Grid::whole(shape);
            Extents::Mapped(mappings.into())
        }
        // Of an enumeration the library would give the numbers of the sources, whatever they are called there.
        Err(error) if error.kind() == ErrorKind::Unsupported && !has_enum(&variable.dtype) => {
            Extents::Opaque(Opaque {
                library: "libhdf5".into(),
                why: error.to_string(),
                name: variable.name.clone(),
                source,
            })
        }
        Err(error) => return Err(error),
    };
    Ok(())
}

struct Building<'a, 'w> {
    placement: DataPlacement<'a, 'w>,
    variable: &'a Variable,
    mappings: Vec<Mapping>,
    /// How far sources without bound reach along each axis they grow along.
    grown: Vec<Option<u64>>,
    /// How far the others reach.
    least: Vec<u64>,
    /// By where names lie in memory, which entries share: whether they have a place for a number.
    numbered: HashMap<*const u8, bool>,
    /// By where their two names lie: the sources that were found, and those that are not there.
    parts: HashMap<(*const u8, *const u8), Option<usize>>,
}

impl Building<'_, '_> {
    fn add_all(&mut self, entries: &[VirtualEntry]) -> Result<()> {
        if self.placement.nesting >= MOST_NESTING {
            return Err(Error::unsupported("virtual data sets nested too deep"));
        }
        entries.iter().try_for_each(|entry| {
            let numbered = self.is_numbered(&entry.file) || self.is_numbered(&entry.variable);
            match (growing(&entry.to)?, numbered) {
                (Some(axis), true) => self.add_numbered(entry, axis),
                (Some(axis), false) => self.add_growing(entry, axis),
                (None, false) if growing(&entry.from)?.is_none() => self.add_fixed(entry),
                _ => Err(Error::unsupported("a mapping that grows on one side only")),
            }
        })
    }

    /// The shape of the whole, once what grows has been followed.
    fn shape(&self) -> Vec<u64> {
        let stored = &self.variable.grid.shape;
        let axes = self.grown.iter().zip(&self.least).zip(stored);
        axes.map(|((grown, least), stored)| grown.map_or(*stored, |grown| grown.max(*least))).collect()
    }

    fn add_fixed(&mut self, entry: &VirtualEntry) -> Result<()> {
        let to = axes(entry.to.as_deref(), &self.variable.grid.shape);
        for (least, axis) in self.least.iter_mut().zip(&to) {
            *least = (*least).max(axis.end().unwrap_or(0));
        }
        // The library reads what is missing as the fill value; so must we.
        let Some(part) = self.part(entry, 0)? else { return Ok(()) };
        let from = axes(entry.from.as_deref(), &self.part_shape(part));
        self.add(part, from, to)
    }

    /// A source without bound: it fills as much of the growing axis as it has rows.
    fn add_growing(&mut self, entry: &VirtualEntry, to_axis: usize) -> Result<()> {
        let Some(from_axis) = growing(&entry.from)? else {
            return Err(Error::unsupported("a mapping that grows on one side only"));
        };
        let part = self.part(entry, 0)?;
        let part_shape = part.map(|part| self.part_shape(part)).unwrap_or_default();
        let mut from = axes(entry.from.as_deref(), &part_shape);
        let mut to = axes(entry.to.as_deref(), &self.variable.grid.shape);
        let (Some(part), Some(len)) = (part, part_shape.get(from_axis)) else {
            self.grow(to_axis, 0);
            return Ok(());
        };
        let count = taken(from[from_axis], *len);
        let end = end_of(to[to_axis], count);
        self.grow(to_axis, end);
        if count == 0 {
            return Ok(());
        }
        // Whole blocks on both sides; what they have too much lies beyond the part, where mappings end.
        from[from_axis] = covering(from[from_axis], count);
        to[to_axis] = covering(to[to_axis], count);
        let (from_len, to_len) = (from[from_axis].len(), to[to_axis].len());
        let one = HyperslabAxis { start: 0, stride: 1, count: 1, block: 1 };
        let without = |axes: &[HyperslabAxis], axis: usize| -> Vec<HyperslabAxis> {
            axes.iter().enumerate().map(|(at, blocks)| if at == axis { one } else { *blocks }).collect()
        };
        let mut mapping = Mapping::new(part, without(&from, from_axis), without(&to, to_axis))
            .ok_or_else(|| Error::unsupported("a growing mapping between boxes of different shape"))?;
        if from_len < to_len {
            from[from_axis].count += 1;
        }
        mapping.from = from;
        mapping.to = to;
        mapping.pairs[to_axis] = Some(from_axis);
        self.push(mapping)
    }

    /// Numbered sources: block `n` of the growing axis comes from the source with `n` in its name.
    fn add_numbered(&mut self, entry: &VirtualEntry, axis: usize) -> Result<()> {
        let mut end = 0;
        for number in 0..MOST_NUMBERED {
            let Some(part) = self.part(entry, number)? else { break };
            let from = axes(entry.from.as_deref(), &self.part_shape(part));
            let mut to = axes(entry.to.as_deref(), &self.variable.grid.shape);
            let HyperslabAxis { start, stride, block, .. } = to[axis];
            let at = number.checked_mul(stride).and_then(|offset| offset.checked_add(start));
            let at = at.ok_or_else(|| Error::corrupt("a block beyond 64 bits"))?;
            to[axis] = HyperslabAxis { start: at, stride: block.max(1), count: 1, block };
            end = to[axis].end().unwrap_or(end);
            self.add(part, from, to)?;
        }
        self.grow(axis, end);
        Ok(())
    }

    fn grow(&mut self, axis: usize, end: u64) {
        self.grown[axis] = Some(self.grown[axis].unwrap_or(0).max(end));
    }

    fn add(&mut self, part: usize, from: Vec<HyperslabAxis>, to: Vec<HyperslabAxis>) -> Result<()> {
        if from.iter().chain(&to).any(|axis| axis.is_empty()) {
            return Ok(());
        }
        if let Some(mapping) = Mapping::new(part, from.clone(), to.clone()) {
            return self.push(mapping);
        }
        let left = self.placement.files.pieces_left;
        let Some(cut) = mapping::cut(part, &from, &to).filter(|cut| cut.len() <= left) else {
            return Err(Error::unsupported("a mapping between boxes of different shape"));
        };
        self.placement.files.pieces_left -= cut.len();
        cut.into_iter().try_for_each(|mapping| self.push(mapping))
    }

    fn push(&mut self, mapping: Mapping) -> Result<()> {
        let part = &self.placement.files.parts[mapping.part];
        if mapping.to.len() != self.variable.grid.shape.len() || mapping.from.len() != part.grid.shape.len() {
            return Err(Error::corrupt("a mapping of another number of dimensions"));
        }
        check_types(&part.dtype, &self.variable.dtype)?;
        if self.variable.dtype.is_variable() {
            return Err(Error::unsupported("a virtual data set of values of variable length"));
        }
        if !mapping.is_sound(self.placement.files.parts.len()) {
            return Err(Error::corrupt("overlapping blocks in a selection"));
        }
        self.mappings.push(mapping);
        Ok(())
    }

    fn part_shape(&self, part: usize) -> Vec<u64> {
        self.placement.files.parts[part].grid.shape.clone()
    }

    /// The position among the container's parts of the variable an entry reads, if it is there.
    fn part(&mut self, entry: &VirtualEntry, number: u64) -> Result<Option<usize>> {
        let names = (place_of(&entry.file), place_of(&entry.variable));
        if number == 0
            && let Some(known) = self.parts.get(&names)
        {
            return Ok(*known);
        }
        let part = self.find_part(entry, number)?;
        if number == 0 {
            self.parts.insert(names, part);
        }
        Ok(part)
    }

    fn is_numbered(&mut self, name: &Rc<str>) -> bool {
        *self.numbered.entry(place_of(name)).or_insert_with(|| named(name, 0).1)
    }

    fn find_part(&mut self, entry: &VirtualEntry, number: u64) -> Result<Option<usize>> {
        let ((file, _), (variable, _)) = (named(&entry.file, number), named(&entry.variable, number));
        let absent = |error: Error| if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) };
        let files = &mut *self.placement.files;
        let file = match files.open_beside(self.placement.object.0, &file) {
            Ok(file) => file,
            Err(error) => return absent(error),
        };
        let object = match files.find(file, &variable) {
            Ok(object) => object,
            Err(error) => return absent(error),
        };
        let source = files.file(file);
        let name = format!("{}:{}", source.source().id().locator.as_str(), variable.trim_start_matches('/'));
        let (describe, nesting) = (self.placement.describe, self.placement.nesting + 1);
        let part = files.part(&name, |files| describe(files, object, &name, nesting))?;
        // A virtual data set may have ten thousand sources: their pages are not kept.
        if file != self.placement.object.0 {
            source.forget_pages();
        }
        Ok(Some(part))
    }
}

/// Where a name lies in memory: looking at each letter of it, once per entry, takes long.
fn place_of(name: &Rc<str>) -> *const u8 {
    Rc::as_ptr(name).cast()
}

/// Refuses a source whose values cannot be made values of the virtual data set.
fn check_types(part: &Dtype, whole: &Dtype) -> Result<()> {
    if same_native(part, whole) || can_convert(part, whole) {
        return Ok(());
    }
    Err(Error::unsupported(match missing_name(part, whole) {
        Some(name) => format!("its enumeration lacks '{name}', which a source has"),
        None => "a virtual data set of another type than its source".to_owned(),
    }))
}

/// True for types that are enumerations or have one inside.
fn has_enum(dtype: &Dtype) -> bool {
    match dtype {
        Dtype::Enum { .. } => true,
        Dtype::Array { item, .. } => has_enum(item),
        Dtype::Compound { fields, .. } => fields.iter().any(|field| has_enum(&field.dtype)),
        _ => false,
    }
}

/// The name that `pattern` gives with `number` in the place of `%b`, and whether it has such a place; `%%` is one `%`.
fn named(pattern: &str, number: u64) -> (String, bool) {
    let (mut name, mut has_place) = (String::new(), false);
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('%', Some('%')) => {
                letters.next();
                name.push('%');
            }
            ('%', Some('b')) => {
                letters.next();
                has_place = true;
                name.push_str(&number.to_string());
            }
            _ => name.push(letter),
        }
    }
    (name, has_place)
}

/// The axis along which a selection has no end.
fn growing(selection: &Option<Vec<Hyperslab>>) -> Result<Option<usize>> {
    let mut axes = selection.iter().flatten().enumerate().filter(|(_, axis)| axis.is_unlimited);
    let first = axes.next().map(|(axis, _)| axis);
    if axes.next().is_some() {
        return Err(Error::corrupt("a selection without end along two axes"));
    }
    Ok(first)
}

/// The blocks of a selection, or of everything.
fn axes(selection: Option<&[Hyperslab]>, shape: &[u64]) -> Vec<HyperslabAxis> {
    match selection {
        Some(axes) => axes.iter().map(|axis| axis.blocks).collect(),
        None => shape
            .iter()
            .map(|n| HyperslabAxis { start: 0, stride: (*n).max(1), count: 1, block: *n })
            .collect(),
    }
}

/// True for blocks of which one goes on without end, rather than of which there is no end.
fn is_one_endless(blocks: HyperslabAxis) -> bool {
    blocks.count == 1
}

/// How many indexes below `len` an endless selection takes.
fn taken(blocks: HyperslabAxis, len: u64) -> u64 {
    let room = len.saturating_sub(blocks.start);
    if is_one_endless(blocks) {
        return room;
    }
    room / blocks.stride * blocks.block + (room % blocks.stride).min(blocks.block)
}

/// One past the last index when an endless selection takes `count` of them.
fn end_of(blocks: HyperslabAxis, count: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    if is_one_endless(blocks) {
        return blocks.start.saturating_add(count);
    }
    let last = count - 1;
    let block_start = blocks.start.saturating_add((last / blocks.block).saturating_mul(blocks.stride));
    block_start.saturating_add(last % blocks.block + 1)
}

/// As many whole blocks as it takes to have `count` indexes.
fn covering(blocks: HyperslabAxis, count: u64) -> HyperslabAxis {
    if is_one_endless(blocks) {
        return HyperslabAxis { stride: count.max(1), count: 1, block: count, ..blocks };
    }
    HyperslabAxis { count: count.div_ceil(blocks.block.max(1)), ..blocks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_a_place_for_a_number_and_two_signs_for_one() {
        assert_eq!(named("a_%b.h5", 7), ("a_7.h5".into(), true));
        assert_eq!(named("100%%.h5", 7), ("100%.h5".into(), false));
        assert_eq!(named("%%b", 7), ("%b".into(), false));
        assert_eq!(named("%c%", 7), ("%c%".into(), false));
    }
}
