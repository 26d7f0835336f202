//! Prints where every chunk of a variable lies, and its first chunk through its filters: `chunks FILE VARIABLE`.

use forebay_container::{Extents, native::make_native};
use forebay_filter::{Scratch, undo_all};
use forebay_process::{Error, Result};
use forebay_source::{FileOrigin, Locator, Origin, SourceExt};

fn main() -> Result<()> {
    let [_, file, name] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err(Error::invalid("usage: chunks FILE VARIABLE"));
    };
    let origin = FileOrigin::new();
    let container = forebay_hdf5::describe(&origin, &Locator::new(file))?;
    let variable = container.variable(name)?;
    let Extents::Chunks(chunks) = &variable.extents else {
        return Err(Error::unsupported("its values do not lie in chunks of a file"));
    };
    for (number, extent) in chunks.iter() {
        let (start, len) = (extent.range.start, extent.range.len());
        println!("{:?} {start} {len} {:#x}", variable.grid.chunk_at(number), extent.skipped);
    }
    if let Some((_, extent)) = chunks.iter().next() {
        let source = origin.open(&container.sources[extent.source.0 as usize].locator)?;
        let stored = source.fetch_one(extent.range)?;
        let mut elements = vec![0; usize::try_from(variable.chunk_len()).unwrap_or(0)];
        undo_all(&variable.filters, extent.skipped, &stored, &mut elements, &mut Scratch::default())?;
        make_native(&variable.dtype, &mut elements);
        println!("{elements:?}");
    }
    Ok(())
}
