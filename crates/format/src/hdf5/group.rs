//! The names in a group: symbol tables, link messages and dense links.

use forebay_source::Result;

use super::{
    cursor::{Cursor, corrupt},
    file::File,
    fractal_heap::FractalHeap,
    header::Header,
    local_heap::LocalHeap,
    message::{self, link, link::Link, link::Target},
    tree_v1::{self, Keys},
    tree_v2::TreeV2,
};

/// True when the object of this header is a group.
pub(super) fn is_group(header: &Header) -> bool {
    [message::SYMBOL_TABLE, message::LINK_INFO, message::GROUP_INFO, message::LINK]
        .into_iter()
        .any(|kind| header.has(kind))
}

/// All links of the group, in the order the file has them.
pub(super) fn links(file: &File, header: &Header) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for message in &header.messages {
        match message.kind {
            message::LINK => links.push(link::parse(Cursor::new(&message.body, file.sizes))?),
            message::SYMBOL_TABLE => symbol_table(file, &message.body, &mut links)?,
            message::LINK_INFO => dense(file, &message.body, &mut links)?,
            _ => {}
        }
    }
    Ok(links)
}

fn symbol_table(file: &File, body: &[u8], links: &mut Vec<Link>) -> Result<()> {
    let mut cursor = Cursor::new(body, file.sizes);
    let tree = cursor.some_address("a group's B-tree")?;
    let heap = LocalHeap::read(file, cursor.some_address("a group's heap")?)?;
    tree_v1::walk(file, tree, Keys::Group, &mut |_, child| symbol_node(file, child, &heap, links))
}

fn symbol_node(file: &File, address: u64, heap: &LocalHeap, links: &mut Vec<Link>) -> Result<()> {
    let head = file.read(address, 8)?;
    let mut cursor = Cursor::new(&head, file.sizes);
    cursor.signature(b"SNOD")?;
    cursor.version(1, "a symbol table node")?;
    cursor.skip(1)?;
    let count = u64::from(cursor.u16()?);
    let entry_len = u64::from(file.sizes.length) + u64::from(file.sizes.offset) + 24;
    let body = file.read(address + 8, count * entry_len)?;
    let mut cursor = Cursor::new(&body, file.sizes);
    for _ in 0..count {
        let name = heap.text(cursor.length()?)?;
        let object = cursor.address()?;
        let cache = cursor.u32()?;
        cursor.skip(4)?;
        let mut scratch = Cursor::new(cursor.take(16)?, file.sizes);
        let to = match (cache, object) {
            (2, _) => Target::Path(heap.text(scratch.u32()?.into())?),
            (_, Some(object)) => Target::Object(object),
            (_, None) => return Err(corrupt(format!("link '{name}' leads nowhere"))),
        };
        links.push(Link { name, to });
    }
    Ok(())
}

fn dense(file: &File, body: &[u8], links: &mut Vec<Link>) -> Result<()> {
    let mut cursor = Cursor::new(body, file.sizes);
    cursor.version(0, "a link info message")?;
    if cursor.u8()? & 1 != 0 {
        cursor.skip(8)?;
    }
    let (Some(heap), Some(tree)) = (cursor.address()?, cursor.address()?) else { return Ok(()) };
    let heap = FractalHeap::open(file, heap)?;
    let tree = TreeV2::open(file, tree)?;
    if tree.kind != 5 || tree.record_len < 5 {
        return Err(corrupt(format!("links in a B-tree of kind {}", tree.kind)));
    }
    tree.walk(file, &mut |record| {
        let object = heap.object(file, &record[4..])?;
        links.push(link::parse(Cursor::new(&object, file.sizes))?);
        Ok(())
    })
}
