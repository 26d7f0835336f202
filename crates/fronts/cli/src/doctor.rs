//! `forebay doctor`: what forebay would use on this machine, and why.
//!
//! | file | idea |
//! |---|---|
//! | `machine` | cores and memory, and who limits them |
//! | `kernel` | what the kernel and its limits allow |
//! | `paths` | where given paths lie |
//! | `plugins` | the HDF5 plug-ins with each libhdf5 |
//! | `report` | all of it, as data |
//! | `text` | the report for people |

mod kernel;
mod machine;
mod paths;
mod plugins;
mod report;
mod text;

use forebay::{Locator, Result};

use self::report::Report;
use crate::{
    Context,
    args::{config::ConfigArgs, path},
    output,
};

const EXAMPLES: &str = "\
Examples:
  forebay doctor                              this machine, its places for copies, the configuration
  forebay doctor /lustre/set/train.h5         where the data lie, and whether they would be copied
  forebay doctor --tier /nvme/$USER           whether a place would do as a tier
  forebay doctor --json | jq '.places[] | select(.verdict == \"suitable\") | .path'

Warnings come first, each with a remedy. Nothing is written but small files in a temporary folder, by which the HDF5 \
plug-ins are tried with each libhdf5 and which are removed. The exit code is 0 unless one of PATHS cannot be \
read.

JSON: version, warnings[what, remedy], machine{system, cores, cores_of_machine, cores_by, memory_limit_bytes, \
memory_limit_by, memory_budget_bytes}, settings{file, config, value_origins} or settings_error, tiers[tier, quota_bytes, \
verdict, why], places[path, named_by, device, file_system, disk_bytes, free_bytes, writable, quota_bytes, verdict (used, \
refused, suitable, unfit), why, tier_path], suggestion, paths[path, error, near, mount_point, file_system, device, \
format, copied, why], kernel{mapping, mapping_why, fuse, fuse_why, open_files, open_files_most}, libraries[name, found, \
why], hdf5_plugins{folder, why, libraries[path, version, thread_safe, parallel, verdict (works, unreached, broken), why, \
left_out]}.";

/// Arguments of `forebay doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Files or folders of data.
    #[arg(value_name = "PATHS", value_parser = path::file())]
    paths: Vec<Locator>,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs `forebay doctor`.
pub(crate) fn run(context: &Context, args: &DoctorArgs) -> Result<()> {
    let settings = args.config.load();
    let (paths, broken) = paths::look_at(&args.paths, settings.as_ref().ok());
    let report = Report::gather(
        settings,
        paths,
        plugins::PluginFacts::gather(&context.program, &args.config.overrides()),
    );
    if context.json {
        output::say(serde_json::json!(report))?;
        context.error_was_shown.set(true);
    } else {
        text::lines(&report, context.paint).into_iter().try_for_each(output::say)?;
    }
    broken.map_or(Ok(()), Err)
}
