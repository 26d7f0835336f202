//! The names in a group: symbol tables, link messages and dense links.

use forebay_process::{Error, Result};

use super::{
    cursor::{MetadataCursor, lookup3},
    file::File,
    fractal_heap::FractalHeap,
    header::ObjectHeader,
    local_heap::LocalHeap,
    message::{self, link, link::Link, link::Target},
    tree_v1::{self, TreeKeys},
    tree_v2::TreeV2,
};

/// The flag of a link info message whose group tracks the order its links are made in.
const ORDER_TRACKED: u8 = 1;

/// True when the object of this header is a group.
pub(crate) fn is_group(header: &ObjectHeader) -> bool {
    [message::SYMBOL_TABLE, message::LINK_INFO, message::GROUP_INFO, message::LINK]
        .into_iter()
        .any(|kind| header.has(kind))
}

/// All links of the group: in the order they were made in where the group tracks it, and by name where it does not, as libraries list
/// them.
pub(crate) fn links(file: &File, header: &ObjectHeader) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for message in &header.messages {
        match message.kind {
            message::LINK => links.push(link::parse(MetadataCursor::new(&message.body, file.sizes))?),
            message::SYMBOL_TABLE => symbol_table(file, &message.body, &mut links)?,
            message::LINK_INFO => dense(file, &message.body, &mut links)?,
            _ => {}
        }
    }
    if tracks_order(file, header)? {
        links.sort_by_key(|link| link.creation_order);
    } else {
        links.sort_by(|left, right| left.name.cmp(&right.name));
    }
    Ok(links)
}

/// True when the group keeps the order its links were made in; one with a symbol table cannot.
fn tracks_order(file: &File, header: &ObjectHeader) -> Result<bool> {
    let Some(message) = header.find(message::LINK_INFO) else { return Ok(false) };
    let mut cursor = MetadataCursor::new(&message.body, file.sizes);
    cursor.version(0, "a link info message")?;
    Ok(cursor.u8()? & ORDER_TRACKED != 0)
}

/// True when the group has a link called `name`; reads only what may hold it.
pub(crate) fn has_link(file: &File, header: &ObjectHeader, name: &str) -> Result<bool> {
    for message in &header.messages {
        let is_here = match message.kind {
            message::LINK => link::parse(MetadataCursor::new(&message.body, file.sizes))?.name == name,
            message::SYMBOL_TABLE => symbol_table_has(file, &message.body, name)?,
            message::LINK_INFO => dense_has(file, &message.body, name)?,
            _ => false,
        };
        if is_here {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Symbol tables are sorted by name: the nodes after the one that could hold `name` need not be read.
fn symbol_table_has(file: &File, body: &[u8], name: &str) -> Result<bool> {
    let mut cursor = MetadataCursor::new(body, file.sizes);
    let tree = cursor.some_address("a group's B-tree")?;
    let heap = LocalHeap::read(file, cursor.some_address("a group's heap")?)?;
    let (mut is_here, mut is_past) = (false, false);
    tree_v1::walk(file, tree, TreeKeys::Group, &mut |_, child| {
        if is_here || is_past {
            return Ok(());
        }
        let mut links = Vec::new();
        symbol_node(file, child, &heap, &mut links)?;
        is_here = links.iter().any(|link| link.name == name);
        is_past = links.last().is_some_and(|link| link.name.as_str() > name);
        Ok(())
    })?;
    Ok(is_here)
}

/// Dense links are found by the hash of their name: only the ones that share it are read.
fn dense_has(file: &File, body: &[u8], name: &str) -> Result<bool> {
    let Some((heap, tree)) = dense_parts(file, body)? else { return Ok(false) };
    let hash = lookup3(name.as_bytes()).to_le_bytes();
    let mut is_here = false;
    tree.walk(file, &mut |record| {
        if record[..4] == hash && !is_here {
            let object = heap.object(file, &record[4..])?;
            is_here = link::parse(MetadataCursor::new(&object, file.sizes))?.name == name;
        }
        Ok(())
    })?;
    Ok(is_here)
}

fn symbol_table(file: &File, body: &[u8], links: &mut Vec<Link>) -> Result<()> {
    let mut cursor = MetadataCursor::new(body, file.sizes);
    let tree = cursor.some_address("a group's B-tree")?;
    let heap = LocalHeap::read(file, cursor.some_address("a group's heap")?)?;
    tree_v1::walk(file, tree, TreeKeys::Group, &mut |_, child| symbol_node(file, child, &heap, links))
}

fn symbol_node(file: &File, address: u64, heap: &LocalHeap, links: &mut Vec<Link>) -> Result<()> {
    let head = file.read(address, 8)?;
    let mut cursor = MetadataCursor::new(&head, file.sizes);
    cursor.signature(b"SNOD")?;
    cursor.version(1, "a symbol table node")?;
    cursor.skip(1)?;
    let count = u64::from(cursor.u16()?);
    let entry_len = u64::from(file.sizes.length) + u64::from(file.sizes.offset) + 24;
    let body = file.read(address + 8, count * entry_len)?;
    let mut cursor = MetadataCursor::new(&body, file.sizes);
    for _ in 0..count {
        let name = heap.text(file, cursor.length()?)?;
        let object = cursor.address()?;
        let cache = cursor.u32()?;
        cursor.skip(4)?;
        let mut scratch = MetadataCursor::new(cursor.take(16)?, file.sizes);
        let to = match (cache, object) {
            (2, _) => match scratch.u32().and_then(|at| heap.text(file, at.into())) {
                Ok(path) => Target::Path(path),
                Err(error) => Target::Broken(error.to_string()),
            },
            (_, Some(object)) => Target::Object(object),
            (_, None) => Target::Broken("a link to an undefined address".into()),
        };
        links.push(Link { name, to, creation_order: None });
    }
    Ok(())
}

fn dense(file: &File, body: &[u8], links: &mut Vec<Link>) -> Result<()> {
    let Some((heap, tree)) = dense_parts(file, body)? else { return Ok(()) };
    tree.walk(file, &mut |record| {
        let object = heap.object(file, &record[4..])?;
        // Many records may lead to one object.
        file.spend(object.len() as u64)?;
        links.push(link::parse(MetadataCursor::new(&object, file.sizes))?);
        Ok(())
    })
}

/// The heap of dense links and the tree that leads to them, where there are any.
fn dense_parts(file: &File, body: &[u8]) -> Result<Option<(FractalHeap, TreeV2)>> {
    let mut cursor = MetadataCursor::new(body, file.sizes);
    cursor.version(0, "a link info message")?;
    if cursor.u8()? & ORDER_TRACKED != 0 {
        cursor.skip(8)?;
    }
    let (Some(heap), Some(tree)) = (cursor.address()?, cursor.address()?) else { return Ok(None) };
    let heap = FractalHeap::open(file, heap)?;
    let tree = TreeV2::open(file, tree)?;
    if tree.kind != 5 || tree.record_len < 5 {
        return Err(Error::corrupt(format!("links in a B-tree of kind {}", tree.kind)));
    }
    Ok(Some((heap, tree)))
}
