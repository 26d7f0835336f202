//! NetCDF classic: CDF-1, CDF-2 and CDF-5, read in place. NetCDF-4 is HDF5 and lies in `hdf5/`.
//!
//! ```text
//! magic ─► dimensions ─► attributes ─► variables ─► where each record lies ─► Container
//!          header (read with cursor, types in kind)       layout
//! ```

mod cursor;
mod header;
mod kind;
mod layout;

use forebay_process::Result;

use crate::{Format, Found};
use forebay_container::Container;

/// The classic NetCDF formats, with offsets of 32 bits, of 64 bits, and with sizes of 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Netcdf3;

impl Format for Netcdf3 {
    fn name(&self) -> &str {
        "netcdf3"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        Ok(matches!(found.head.get(..4), Some([b'C', b'D', b'F', 1 | 2 | 5])))
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let file = found.need_file()?;
        layout::describe(&header::read(&**file, &found.head)?, file.id())
    }
}
