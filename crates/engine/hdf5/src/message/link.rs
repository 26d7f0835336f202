//! The link message: a name in a group and what it leads to.

use forebay_process::{Error, Result};

use super::super::cursor::{MetadataCursor, text};

/// A name in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) to: Target,
    /// How many links were made in the group before it, where the group keeps count.
    pub(crate) creation_order: Option<u64>,
}

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The object at an address.
    Object(u64),
    /// Another name in this file.
    Path(String),
    /// A name in another file.
    External { file: String, path: String },
    /// A kind only its writer understands.
    Unknown(u8),
    /// What cannot be made out, and why.
    Broken(String),
}

pub(crate) fn parse(mut cursor: MetadataCursor<'_>) -> Result<Link> {
    cursor.version(1, "a link message")?;
    let flags = cursor.u8()?;
    let kind = if flags & 0x08 != 0 { cursor.u8()? } else { 0 };
    let creation_order = if flags & 0x04 != 0 { Some(cursor.uint(8)?) } else { None };
    if flags & 0x10 != 0 {
        cursor.skip(1)?;
    }
    let name_len = cursor.uint(1 << (flags & 3))?;
    let name = text(cursor.take(usize::try_from(name_len).unwrap_or(usize::MAX))?);
    // One link that leads nowhere must not hide those beside it.
    let to = target(kind, cursor).unwrap_or_else(|error| Target::Broken(error.to_string()));
    Ok(Link { name, to, creation_order })
}

fn target(kind: u8, mut cursor: MetadataCursor<'_>) -> Result<Target> {
    Ok(match kind {
        0 => Target::Object(cursor.some_address("a link's object")?),
        1 => {
            let len = cursor.u16()?;
            Target::Path(text(cursor.take(len)?))
        }
        64 => {
            let len = cursor.u16()?;
            external(MetadataCursor::new(cursor.take(len)?, cursor.sizes))?
        }
        kind => Target::Unknown(kind),
    })
}

fn external(mut cursor: MetadataCursor<'_>) -> Result<Target> {
    match cursor.u8()? >> 4 {
        0 => {}
        version => return Err(Error::unsupported(format!("an external link of version {version}"))),
    }
    let file = text(cursor.until_nul()?);
    let path = text(cursor.until_nul()?);
    Ok(Target::External { file, path })
}
