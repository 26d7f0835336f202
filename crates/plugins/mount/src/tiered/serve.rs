//! A mount for as long as a command runs.

use std::{
    io::{self, Write},
    path::Path,
    thread,
    time::Duration,
};

use forebay_config::{Config, TierConfig};
use forebay_process::Result;
use forebay_tier::MadeFolders;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::tiered::{mount::TieredMount, report::TieredMountReport};

/// How long a wait goes on before it looks again.
const GLANCE: Duration = Duration::from_millis(50);

/// Shows `origin` at `mountpoint` through the tiers of `config` until `is_over`, or until another process unmounts it. What
/// people want to know is told by `say`; warnings go to standard error.
pub fn serve_mount(
    origin: &Path,
    mountpoint: &Path,
    config: &Config,
    is_over: impl Fn() -> bool,
    say: impl Fn(String) -> Result<()>,
) -> Result<TieredMountReport> {
    raise_descriptor_limit();
    let folders = MadeFolders::look(config.tiers.iter().filter_map(TierConfig::folder));
    let served = serve(origin, mountpoint, config, is_over, say);
    folders.remove_empty();
    served
}

fn serve(
    origin: &Path,
    mountpoint: &Path,
    config: &Config,
    is_over: impl Fn() -> bool,
    say: impl Fn(String) -> Result<()>,
) -> Result<TieredMountReport> {
    let mount = TieredMount::new(origin, mountpoint, config)?;
    if mount.replaced_dead() {
        warn(&format!("took away a mount at {} whose program was killed", mountpoint.display()));
    }
    say(format!("{} is shown at {}; Ctrl-C ends it", origin.display(), mountpoint.display()))?;
    if mount.tiers().is_none() {
        warn(
            "there are no tiers, so that all is read from the origin: name some by --tier or in forebay.toml",
        );
    }
    while !is_over() && !mount.has_ended() {
        thread::sleep(GLANCE);
    }
    mount.tiers().iter().flat_map(|tiers| tiers.warnings()).for_each(|text| warn(&text));
    Ok(mount.report())
}

/// Raises the limit of open files to what is allowed: each file that a program has open is open here, twice at most.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, programs get an error of too many open files later.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn warn(text: &str) {
    // Nobody may be left to read it.
    let _ = writeln!(io::stderr(), "forebay: warning: {text}");
}
