//! `forebay mount`: a folder shown elsewhere, read through tiers; the crate `mount` does it.

use std::path::PathBuf;

use forebay::Result;
use forebay_mount::{mount_in_background, serve_mount, unmount_tiered};

use crate::{
    Context,
    args::config::ConfigArgs,
    exit,
    interrupt::Interrupt,
    output::{self, show},
};

const EXAMPLES: &str = "\
Examples:
  forebay mount /lustre/set /mnt/set --tier memory:4GiB --tier /nvme/$USER     until Ctrl-C
  forebay mount /lustre/set /mnt/set --daemon
  forebay mount --unmount /mnt/set

Nothing can be written. Needs FUSE: root and /dev/fuse, or the package fuse3. JSON, at the end: opens, passthrough_opens, \
reads, bytes, fallbacks, seconds, tiers.";

/// Arguments of `forebay mount`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MountArgs {
    /// The folder to show; with --unmount, where it is shown.
    folder: PathBuf,

    /// The empty folder to show it at.
    #[arg(required_unless_present = "unmount")]
    mountpoint: Option<PathBuf>,

    /// Go on in the background once it is mounted.
    #[arg(long)]
    daemon: bool,

    /// End the mount that is there.
    #[arg(long, conflicts_with_all = ["mountpoint", "daemon"])]
    unmount: bool,

    /// Say nothing at the end.
    #[arg(long)]
    quiet: bool,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Shows the folder until the user or another process ends it.
pub(crate) fn run(context: &Context, args: &MountArgs) -> Result<u8> {
    let Some(mountpoint) = &args.mountpoint else {
        return unmount_tiered(&args.folder).map(|()| exit::SUCCESS);
    };
    if args.daemon {
        let stays = context.arguments.iter().filter(|argument| *argument != "--daemon");
        let command: Vec<_> = context.program.iter().chain(stays).cloned().collect();
        return mount_in_background(&command, mountpoint).and_then(output::say).map(|()| exit::SUCCESS);
    }
    let interrupt = Interrupt::catch();
    // From here on an interrupt is seen by us: nothing may stay mounted.
    interrupt.watch();
    let say = |line: String| if context.json || args.quiet { Ok(()) } else { output::say(line) };
    let config = args.config.load()?.config;
    let report = serve_mount(&args.folder, mountpoint, &config, || interrupt.is_wanted(), say)?;
    match context.json {
        true => output::say(report.json())?,
        false => report.lines(show::size).into_iter().try_for_each(say)?,
    }
    Ok(exit::SUCCESS)
}
