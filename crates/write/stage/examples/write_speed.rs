//! How long `write_at` takes beside a plain `pwrite` to the same disk: `write_speed FOLDER [MIB]`.
//!
//! Each is a new file of MIB mebibytes (256), in pieces of 32 MiB, 1 MiB and 4 KiB, best of five, in CPU time of the thread that
//! writes, which other programs of the machine do not lengthen. The staged ones are an update whose drain is held back until
//! the time is taken, first into new segments and then into recycled ones, and a new file; in an area on the disk, then in
//! memory, beside plain copies to memory that is there already.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use forebay_stage::{Area, AreaSettings, CloseWhen, StageOptions};
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const PLACES: [&str; 2] = ["disk", "memory"];

fn cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Nanoseconds per piece of `write`, which is called for each offset of a file of `bytes`.
fn timed(bytes: u64, piece: usize, mut write: impl FnMut(u64) -> Outcome<()>) -> Outcome<f64> {
    let count = bytes / piece as u64;
    let began = cpu_ns();
    for index in 0..count {
        write(index * piece as u64)?;
    }
    Ok((cpu_ns() - began) / count as f64)
}

fn new_file(path: &Path) -> Outcome<File> {
    let _ = fs::remove_file(path);
    Ok(File::options().read(true).write(true).create_new(true).open(path)?)
}

/// Of a plain write, of an update to new and to recycled segments, and of a new file.
fn once(area: &Arc<Area>, folder: &Path, is_memory: bool, bytes: u64, data: &[u8]) -> Outcome<[f64; 4]> {
    let path = folder.join("destination");
    let mut times = [0.0; 4];
    if is_memory {
        let mut memory = vec![1_u8; usize::try_from(bytes)?];
        times[0] = timed(bytes, data.len(), |at| {
            let at = usize::try_from(at)?;
            memory[at..at + data.len()].copy_from_slice(std::hint::black_box(data));
            Ok(())
        })?;
        std::hint::black_box(&memory);
    } else {
        let plain = new_file(&folder.join("plain"))?;
        times[0] = timed(bytes, data.len(), |at| Ok(plain.write_all_at(data, at)?))?;
        fs::remove_file(folder.join("plain"))?;
    }
    for time in &mut times[1..3] {
        let file = area.update(&path, new_file(&path)?, StageOptions::default())?;
        *time = timed(bytes, data.len(), |at| Ok(file.write_at(at, data)?))?;
        file.close(CloseWhen::Drained)?;
    }
    let file = area.create(&path, StageOptions::default())?;
    times[3] = timed(bytes, data.len(), |at| Ok(file.write_at(at, data)?))?;
    file.abandon();
    Ok(times)
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: write_speed FOLDER [MIB]")?;
    let bytes = arguments.next().map_or(Ok(256), |mib| mib.parse::<u64>())? << 20;
    let folder = Path::new(&folder).join(format!("write-speed-{}", std::process::id()));
    fs::create_dir(&folder)?;
    println!(
        "{:>6} {:>9} {:>12} {:>18} {:>18} {:>18}",
        "place", "piece", "plain", "update, new", "update, again", "new file"
    );
    for place in PLACES {
        let is_memory = place == "memory";
        let settings = if is_memory { AreaSettings::memory() } else { AreaSettings::folder(&folder) };
        let (quota, memory) = (bytes * 8, bytes * 8);
        for piece in [32 << 20, 1 << 20, 4 << 10] {
            let data = vec![7_u8; piece];
            let mut best = [f64::MAX; 4];
            for _ in 0..5 {
                let settings = AreaSettings { free_floor: 0, quota, memory, ..settings.clone() };
                let area = Area::open(AreaSettings { start_paused: true, ..settings })?;
                let times = once(&area, &folder, is_memory, bytes, &data)?;
                area.close()?;
                best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time));
            }
            let ratio = |index: usize| format!("{:.0} ns {:.2}x", best[index], best[index] / best[0]);
            println!(
                "{place:>6} {piece:>9} {:>9.0} ns {:>18} {:>18} {:>18}",
                best[0],
                ratio(1),
                ratio(2),
                ratio(3)
            );
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}
