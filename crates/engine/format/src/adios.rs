//! ADIOS: variables that writers put step by step, block by block, in the formats BP1 to BP5.
//!
//! ```text
//!   NAME.bp (file)     bp3 ────────► index ───────┐
//!   NAME.bp/ md.idx ─► bp4 ────────► index ───────┼─► series ─► arrange ─► lay_out_boxes ─► Variable
//!            md.idx ─► bp5 ─► ffs ─► bp5_blocks ──┘   steps      one array   chunks or boxes
//! ```
//!
//! Each reader says which blocks were put at which step (`series`); `arrange` makes variables of them, the same way for
//! all. Values are never looked at: they lie where the index says, in one piece per block.

mod arrange;
mod block_array;
mod bp3;
mod bp4;
mod bp5;
mod bp5_attributes;
mod bp5_blocks;
mod bp5_steps;
mod data;
mod ffs;
mod head;
mod index;
mod kind;
mod record;
mod series;

use forebay_process::{Error, Result};

use crate::{Format, Found};
use forebay_container::Container;
use head::Head;

/// A folder of ADIOS2's format BP4.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bp4;

/// A folder of ADIOS2's format BP5.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bp5;

/// A file of ADIOS's format BP3, or of those before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bp3;

/// The head of a folder that has one of `version`.
fn head(found: &Found<'_>, version: u8) -> Result<Option<Head>> {
    Ok(Head::of(found)?.filter(|head| head.version == version))
}

fn need_head(found: &Found<'_>, version: u8) -> Result<Head> {
    head(found, version)?.ok_or_else(|| Error::corrupt(format!("md.idx is not of BP{version}")))
}

impl Format for Bp4 {
    fn name(&self) -> &str {
        "bp4"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        Ok(head(found, 4)?.is_some())
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        bp4::describe(found, &need_head(found, 4)?)
    }
}

impl Format for Bp5 {
    fn name(&self) -> &str {
        "bp5"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        Ok(head(found, 5)?.is_some())
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        bp5::describe(found, &need_head(found, 5)?)
    }
}

impl Format for Bp3 {
    fn name(&self) -> &str {
        "bp3"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        let Some(file) = &found.file else { return Ok(false) };
        Ok(bp3::footer(&**file)?.is_some())
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        bp3::describe(found)
    }
}
