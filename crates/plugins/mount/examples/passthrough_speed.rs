//! Random reads of 8 KiB natively, by requests to the mount, and by the kernel from a copy.
//!
//! Run as root: `make bench-mount`, or `cargo run --release -p forebay-mount --example passthrough_speed [READS]`. The origin is in
//! /dev/shm, the tier and the native file in the folder for temporary files.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        env,
        error::Error,
        fs::{self, File},
        io::Write,
        os::unix::fs::FileExt,
        path::Path,
        thread,
        time::{Duration, Instant},
    };

    use forebay_config::{Amount, Config, DiskConfig, TierConfig};
    use forebay_mount::TieredMount;

    const LEN: u64 = 256 << 20;
    const READ: usize = 8192;
    const READS: u64 = 200_000;
    /// A file of this length is placed in a few seconds.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Microseconds for each of `reads` random reads, the best of three passes.
    fn speed(path: &Path, reads: u64) -> Result<f64, Box<dyn Error>> {
        let file = File::open(path)?;
        let mut buffer = vec![0; READ];
        let mut best = f64::MAX;
        for _ in 0..3 {
            let (began, mut place) = (Instant::now(), 1u64);
            for _ in 0..reads {
                place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                file.read_exact_at(&mut buffer, (place >> 24) % (LEN / READ as u64) * READ as u64)?;
            }
            best = best.min(began.elapsed().as_secs_f64() * 1e6 / reads as f64);
        }
        Ok(best)
    }

    fn shown(below: &Path, tier: TierConfig, reads: u64) -> Result<f64, Box<dyn Error>> {
        let above = tempfile::tempdir()?;
        let passes = matches!(tier, TierConfig::Disk(_));
        let mount =
            TieredMount::new(below, above.path(), &Config { tiers: vec![tier], ..Config::default() })?;
        let (path, began) = (above.path().join("f.bin"), Instant::now());
        fs::read(&path)?;
        while passes && mount.report().passthrough_opens == 0 {
            if began.elapsed() > PATIENCE {
                return Err("the kernel passes nothing through: that takes Linux 6.9 and root".into());
            }
            thread::sleep(Duration::from_millis(100));
            drop(File::open(&path)?);
        }
        speed(&path, reads)
    }

    pub(crate) fn main() -> Result<(), Box<dyn Error>> {
        let reads = env::args().nth(1).map_or(Ok(READS), |reads| reads.parse())?;
        let (below, near) = (tempfile::tempdir_in("/dev/shm")?, tempfile::tempdir()?);
        let bytes: Vec<u8> = (0..LEN).map(|index| (index % 251).to_le_bytes()[0]).collect();
        for folder in [&below, &near] {
            File::create(folder.path().join("f.bin"))?.write_all(&bytes)?;
        }
        thread::sleep(Duration::from_millis(2200));
        let quota = Amount::Bytes(2 * LEN);
        let disk =
            DiskConfig { quota, free: Some(Amount::Bytes(0)), ..DiskConfig::at(near.path().join("tier")) };
        println!("native          {:6.2} us", speed(&near.path().join("f.bin"), reads)?);
        println!("passthrough     {:6.2} us", shown(below.path(), TierConfig::Disk(disk), reads)?);
        println!("page cache      {:6.2} us", shown(below.path(), TierConfig::Memory { quota }, reads)?);
        Ok(())
    }
}
