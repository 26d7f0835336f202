//! `forebay tier`: copies made before a job reads, listed and removed.

use std::{num::NonZeroUsize, time::SystemTime};

use forebay::{
    Config, Error, ErrorKind, Locator, Origins, Result, TierConfig,
    config::DiskConfig,
    tier::{BuiltinPolicy, DiskTier, MirrorSummary, Ranking, Tier, Warmed, warm},
};
use serde_json::json;

use crate::{
    Context,
    args::{config::ConfigArgs, path},
    exit,
    interrupt::Interrupt,
    output::{self, progress, show},
};

const EXAMPLES: &str = "\
Examples:
  forebay tier warm 'train/*.h5' --tier disk:/nvme/$USER:100GiB:keep
  forebay tier ls --tier /nvme/$USER:keep
  forebay tier clear 'train/*' --tier /nvme/$USER:keep     what matches; without a pattern, all of it

Tiers come from --tier, FOREBAY_TIERS or forebay.toml. Copies outlive the process only in a tier that is kept. Warming may \
be interrupted: the next time it goes on where it was, and compares what is there with its checksums.

JSON: warm: sources, bytes, placed_bytes, present_bytes, refused_bytes, passed_over, interrupted; ls: tiers[tier, folder, \
used_bytes, quota_bytes, mirrors[locator, bytes, present_bytes, whole, idle_seconds]]; clear: tiers[tier, freed_bytes].";

/// Arguments of `forebay tier`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TierArgs {
    #[command(subcommand)]
    command: TierCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TierCommand {
    /// Copy files to the tiers before a job reads them.
    Warm {
        /// Files, folders, patterns or URLs.
        #[arg(required = true, value_name = "PATH", value_parser = path::files())]
        paths: Vec<String>,

        #[command(flatten)]
        config: ConfigArgs,
    },
    /// List what the disk tiers hold.
    Ls {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Remove what the disk tiers hold; who reads it just now reads on.
    Clear {
        /// Only sources whose name matches one of these patterns.
        #[arg(value_name = "PATTERN")]
        patterns: Vec<String>,

        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// Runs `forebay tier`.
pub(crate) fn run(context: &Context, args: &TierArgs) -> Result<u8> {
    match &args.command {
        TierCommand::Warm { paths, config } => warm_all(context, paths, config.load()?.config),
        TierCommand::Ls { config } => list(context, &config.load()?.config).map(|()| exit::SUCCESS),
        TierCommand::Clear { patterns, config } => {
            clear(context, patterns, &config.load()?.config).map(|()| exit::SUCCESS)
        }
    }
}

/// The disk tiers of `config`, of which there must be some.
fn disks(config: &Config) -> Result<Vec<&DiskConfig>> {
    let disks: Vec<_> = config
        .tiers
        .iter()
        .filter_map(|tier| match tier {
            TierConfig::Disk(disk) => Some(disk),
            TierConfig::Memory { .. } | TierConfig::Peers { .. } => None,
        })
        .collect();
    if disks.is_empty() {
        let error = Error::new(ErrorKind::Invalid, "no disk tier is configured");
        return Err(error
            .hint("name one, such as --tier disk:/nvme/$USER:100GiB:keep; `forebay doctor` suggests one"));
    }
    Ok(disks)
}

fn warm_all(context: &Context, paths: &[String], config: Config) -> Result<u8> {
    if let Some(passing) = disks(&config)?.iter().find(|disk| !disk.keep) {
        let what = format!("the copies of {} would go with this process", passing.path.display());
        return Err(Error::new(ErrorKind::Invalid, what)
            .hint("add ':keep' to the tier, or `keep = true` in the file"));
    }
    // Memory goes with the process as well.
    let tiers = config.tiers.iter().filter(|tier| matches!(tier, TierConfig::Disk(_))).cloned().collect();
    let config = Config { tiers, ..config };
    let interrupt = Interrupt::catch();
    let sources: Vec<Locator> =
        forebay::expand_to_files(&config.origin.place(paths))?.into_iter().map(Locator::new).collect();
    let (_, tiered) = Origins::new().through_tiers(&config, None)?;
    let Some(tiered) = tiered else { return Err(Error::new(ErrorKind::Bug, "tiers that are not made")) };
    // To go on without the tier is no help to a user who wants it filled.
    if let Some(why) = tiered.tiers().iter().find_map(|tier| tier.left_out().map(str::to_owned)) {
        return Err(Error::new(ErrorKind::Unavailable, why));
    }
    interrupt.watch();
    let bar = progress::files(sources.len() as u64);
    let threads = NonZeroUsize::new(config.placement.threads).unwrap_or(NonZeroUsize::MIN);
    let warmed = warm(&tiered, &sources, threads, |so_far| {
        bar.set_position(so_far.sources.saturating_sub(1));
        bar.set_message(format!("{} copied", show::size(so_far.placed_bytes)));
        !interrupt.is_wanted()
    });
    bar.finish_and_clear();
    tiered.close();
    let warmed = warmed?;
    if context.json {
        let mut answer =
            serde_json::to_value(warmed).map_err(|error| Error::new(ErrorKind::Bug, error.to_string()))?;
        answer["interrupted"] = interrupt.is_wanted().into();
        output::say(answer)?;
    } else {
        lines(&warmed, interrupt.is_wanted()).into_iter().try_for_each(output::say)?;
    }
    Ok(if interrupt.is_wanted() { exit::INTERRUPTED } else { exit::SUCCESS })
}

fn lines(warmed: &Warmed, interrupted: bool) -> Vec<String> {
    let files = show::count(usize::try_from(warmed.sources).unwrap_or(usize::MAX), "file", "files");
    let so_far = if interrupted { " so far" } else { "" };
    let mut lines = vec![format!(
        "{files}{so_far}: {} copied, {} there already",
        show::size(warmed.placed_bytes),
        show::size(warmed.present_bytes)
    )];
    if warmed.refused_bytes > 0 {
        let without = show::size(warmed.refused_bytes);
        lines.push(format!("  no room for {without}: raise the quota, or clear what is not needed"));
    }
    if warmed.passed_over > 0 {
        lines.push(format!(
            "  {} not copied: on the tier's own device, or changed within the last seconds",
            warmed.passed_over
        ));
    }
    lines
}

fn open(disk: &DiskConfig, config: &Config) -> Result<DiskTier> {
    forebay::open_disk_tier(disk, config.placement.block, Ranking::new(BuiltinPolicy::FirstFit))
}

fn idle_seconds(mirror: &MirrorSummary) -> u64 {
    SystemTime::now().duration_since(mirror.used).unwrap_or_default().as_secs()
}

fn list(context: &Context, config: &Config) -> Result<()> {
    let mut answer = Vec::new();
    for disk in disks(config)? {
        let tier = open(disk, config)?;
        let (usage, mirrors) = (tier.usage(), tier.mirrors());
        if context.json {
            let mirror = |mirror: &MirrorSummary| {
                json!({
                    "locator": mirror.source.locator.to_string(),
                    "bytes": mirror.source.len,
                    "present_bytes": mirror.present,
                    "whole": mirror.present == mirror.source.len,
                    "idle_seconds": idle_seconds(mirror),
                })
            };
            answer.push(json!({
                "tier": tier.name(),
                "folder": tier.folder(),
                "used_bytes": usage.used,
                "quota_bytes": usage.quota,
                "mirrors": mirrors.iter().map(mirror).collect::<Vec<_>>(),
            }));
            continue;
        }
        let files = show::count(mirrors.len(), "file", "files");
        output::say(format!(
            "{}: {} of {} in {files}",
            tier.name(),
            show::size(usage.used),
            show::size(usage.quota)
        ))?;
        for mirror in &mirrors {
            let (present, len) = (mirror.present, mirror.source.len);
            let part = if present == len {
                "whole".to_owned()
            } else {
                format!("{}%", present.saturating_mul(100) / len.max(1))
            };
            let name = show::visible(&mirror.source.locator.to_string());
            output::say(format!("  {:>10}  {part:>5}  {name}", show::size(present)))?;
        }
    }
    if context.json { output::say(json!({ "tiers": answer })) } else { Ok(()) }
}

fn clear(context: &Context, patterns: &[String], config: &Config) -> Result<()> {
    let patterns = patterns
        .iter()
        .map(|pattern| {
            glob::Pattern::new(pattern)
                .map_err(|error| Error::new(ErrorKind::Invalid, error.msg).at(format!("pattern '{pattern}'")))
        })
        .collect::<Result<Vec<_>>>()?;
    let leaves = |mirror: &MirrorSummary| {
        let name = mirror.source.locator.as_str();
        patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(name))
    };
    let mut answer = Vec::new();
    for disk in disks(config)? {
        let tier = open(disk, config)?;
        let freed = tier.clear(leaves);
        answer.push(json!({ "tier": tier.name(), "freed_bytes": freed }));
        if !context.json {
            output::say(format!("{}: {} freed", tier.name(), show::size(freed)))?;
        }
    }
    if context.json { output::say(json!({ "tiers": answer })) } else { Ok(()) }
}
