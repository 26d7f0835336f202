//! How long `write_at` takes beside a plain `pwrite` to the same disk: `write_speed FOLDER [MIB]`.
//!
//! Each is a new file of MIB mebibytes (256), in pieces of 1 MiB and of 4 KiB, best of five. The staged ones are an update
//! whose drain is held back until the time is taken, first into new segments and then into recycled ones, and a new file.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    time::Instant,
};

use forebay_stage::{Area, AreaSettings, CloseWhen, StageOptions};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Nanoseconds per piece of `write`, which is called for each offset of a file of `bytes`.
fn timed(bytes: u64, piece: usize, mut write: impl FnMut(u64) -> Outcome<()>) -> Outcome<f64> {
    let count = bytes / piece as u64;
    let began = Instant::now();
    for index in 0..count {
        write(index * piece as u64)?;
    }
    Ok(began.elapsed().as_nanos() as f64 / count as f64)
}

fn new_file(path: &Path) -> Outcome<File> {
    let _ = fs::remove_file(path);
    Ok(File::options().read(true).write(true).create_new(true).open(path)?)
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: write_speed FOLDER [MIB]")?;
    let bytes = arguments.next().map_or(Ok(256), |mib| mib.parse::<u64>())? << 20;
    let folder = Path::new(&folder).join(format!("write-speed-{}", std::process::id()));
    fs::create_dir(&folder)?;
    println!(
        "{:>8} {:>12} {:>14} {:>14} {:>14}",
        "piece", "pwrite", "update, new", "update, again", "new file"
    );
    for piece in [1 << 20, 4 << 10] {
        let data = vec![7_u8; piece];
        let mut best = [f64::MAX; 4];
        for _ in 0..5 {
            let settings = AreaSettings { free_floor: 0, quota: bytes * 8, ..AreaSettings::folder(&folder) };
            let area = Area::open(AreaSettings { start_paused: true, ..settings })?;
            let path = folder.join("destination");
            let plain = new_file(&folder.join("plain"))?;
            let mut times = [timed(bytes, piece, |at| Ok(plain.write_all_at(&data, at)?))?, 0.0, 0.0, 0.0];
            drop(plain);
            fs::remove_file(folder.join("plain"))?;
            for time in &mut times[1..3] {
                let file = area.update(&path, new_file(&path)?, StageOptions::default())?;
                *time = timed(bytes, piece, |at| Ok(file.write_at(at, &data)?))?;
                file.close(CloseWhen::Drained)?;
            }
            let file = area.create(&path, StageOptions::default())?;
            times[3] = timed(bytes, piece, |at| Ok(file.write_at(at, &data)?))?;
            file.abandon();
            area.close()?;
            best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time));
        }
        let ratio = |index: usize| format!("{:.0} ns {:.2}x", best[index], best[index] / best[0]);
        println!("{piece:>8} {:>9.0} ns {:>14} {:>14} {:>14}", best[0], ratio(1), ratio(2), ratio(3));
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}
