//! Makes a file of a format that forebay does not know, teaches it, and loads batches from it.

use std::sync::Arc;

use forebay::{Loader, Options, Result, SampleSpec, Selection, SetSpec, loader::FieldSpec, plan::Shuffle};
use own_format::{Packing, register, write};

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("forebay-own-format-{}.det", std::process::id()));
    let frames: Vec<Vec<u16>> = (0..1000).map(|number| vec![number; 64 * 64]).collect();
    std::fs::write(&path, write(&frames, 64, 64, Packing::Raw)).map_err(forebay::Error::from_io)?;
    let name = path.to_string_lossy().into_owned();

    register();
    let file = forebay::open_file(&name)?;
    let variable = file.variable("frames")?;
    let corner = file.read(variable, &Selection::parse("-1, :2, :2", &variable.grid.shape)?)?;
    println!("{} {:?}, of the last frame {:?}", variable.dtype, variable.grid.shape, corner.values);

    let fields = SampleSpec { fields: vec![FieldSpec::new("frames"), FieldSpec::new("stamps")] };
    let set = forebay::open_set(SetSpec { files: vec![vec![name]], fields }, None)?;
    let options = Options { batch_size: 64, shuffle: Shuffle::Full, seed: 7, ..Options::default() };
    let loader = Loader::new(Arc::new(set), options)?;
    for batch in loader.batches()? {
        let batch = batch?;
        println!("batch {} of {} frames", batch.step, batch.sample_count());
    }
    std::fs::remove_file(&path).map_err(forebay::Error::from_io)
}
