//! `forebay stage`: what waits in a staging area, and how it is hurried along or held back.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use forebay::{
    Error, ErrorKind, Result, Settings,
    config::{FastPlace, Overrides},
    stage::{Area, AreaSettings, ItemState, ItemStatus},
};
use serde_json::{Value, json};

use crate::{
    Context, exit,
    interrupt::Interrupt,
    output::{self, progress, show},
};

const EXAMPLES: &str = "\
Examples:
  forebay stage ls /nvme/$USER          items of all processes, the oldest first
  forebay stage drain                   wait until all that is closed is at its destination; the folder is stage.path of the configuration
  forebay stage pause; forebay stage resume

FOLDER is what stage.path or FOREBAY_STAGE names. What killed processes left is finished by `forebay recover`.

JSON: ls: paused, items[id, kind, destination, state, bytes, host, pid, deserted, since, error]; drain: drained, items_left, \
bytes_left, interrupted; pause, resume: paused.";

/// A drain that failed is tried again by its process; what still fails after this time is reported.
const RETRY: Duration = Duration::from_secs(3);

/// Arguments of `forebay stage`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StageArgs {
    #[command(subcommand)]
    command: StageCommand,
}

#[derive(Debug, clap::Subcommand)]
enum StageCommand {
    /// List what waits in a staging area, of all processes.
    Ls(AreaArgs),
    /// Have all processes drain at once, try again what failed, and wait until what is closed is at its destination.
    Drain {
        #[command(flatten)]
        area: AreaArgs,

        /// The most seconds to wait.
        #[arg(long, value_name = "SECONDS", default_value_t = 86400)]
        wait: u64,
    },
    /// Stop draining, in all processes, until `resume`. A flush that waits for its drain still drains.
    Pause(AreaArgs),
    /// Go on draining.
    Resume(AreaArgs),
}

/// Which staging area.
#[derive(Debug, clap::Args)]
pub(crate) struct AreaArgs {
    /// The folder of the staging area [default: stage.path of the configuration].
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl AreaArgs {
    /// The folder that was named, or the one of the configuration.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        if let Some(folder) = &self.folder {
            // One that was mistyped must not look as if all had been done.
            if folder.is_dir() {
                return Ok(folder.clone());
            }
            let error = Error::new(ErrorKind::NotFound, "is no folder").at(folder.display());
            return Err(error.hint("name the folder of a staging area: that of stage.path or FOREBAY_STAGE"));
        }
        match Settings::load(&Overrides::default())?.config.stage.path {
            Some(FastPlace::Folder(folder)) => Ok(folder),
            Some(FastPlace::Memory) => {
                let error =
                    Error::new(ErrorKind::Invalid, "the staging area is in the memory of its processes");
                Err(error.hint("name the folder of another one"))
            }
            None => Err(Error::new(ErrorKind::Invalid, "no staging area is configured")
                .hint("name its folder, or set stage.path in forebay.toml or FOREBAY_STAGE")),
        }
    }

    fn open(&self) -> Result<Arc<Area>> {
        Area::open(AreaSettings::folder(self.folder()?))
    }
}

/// Runs `forebay stage`.
pub(crate) fn run(context: &Context, args: &StageArgs) -> Result<u8> {
    match &args.command {
        StageCommand::Ls(area) => list(context, &*area.open()?).map(|()| exit::SUCCESS),
        StageCommand::Drain { area, wait } => drain(context, &*area.open()?, Duration::from_secs(*wait)),
        StageCommand::Pause(area) => set_paused(context, &*area.open()?, true),
        StageCommand::Resume(area) => set_paused(context, &*area.open()?, false),
    }
}

fn list(context: &Context, area: &Area) -> Result<()> {
    let (items, paused) = (area.items()?, area.is_paused_for_all()?);
    if context.json {
        return output::say(
            json!({ "paused": paused, "items": items.iter().map(json_of).collect::<Vec<_>>() }),
        );
    }
    if paused {
        output::say("paused: `forebay stage resume` goes on")?;
    }
    if items.is_empty() {
        return output::say("nothing is staged");
    }
    items.iter().flat_map(lines).try_for_each(output::say)
}

/// An item as JSON.
pub(crate) fn json_of(item: &ItemStatus) -> Value {
    let since = item.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!({
        "id": item.id,
        "kind": item.kind.word(),
        "destination": item.destination.display().to_string(),
        "state": item.state.word(),
        "bytes": item.bytes,
        "host": item.host,
        "pid": item.pid,
        "deserted": item.is_deserted,
        "since": since.as_secs_f64(),
        "error": item.error,
    })
}

/// An item for people: where it goes and how far it is.
pub(crate) fn lines(item: &ItemStatus) -> Vec<String> {
    let owner = match item.is_deserted {
        true => format!("left by process {}", item.pid),
        false => format!("process {}", item.pid),
    };
    let size = show::size(item.bytes);
    let destination = show::visible(&item.destination.display().to_string());
    let mut lines = vec![format!("{}  {:<8} {size:>10}  {owner}  {destination}", item.id, item.state.word())];
    lines.extend(item.error.iter().map(|error| format!("    {}", show::message(error))));
    lines
}

fn set_paused(context: &Context, area: &Area, paused: bool) -> Result<u8> {
    if paused {
        area.pause_all()?
    } else {
        area.resume_all()?
    }
    if context.json {
        output::say(json!({ "paused": paused }))?;
    } else {
        output::say(if paused { "paused" } else { "draining" })?;
    }
    Ok(exit::SUCCESS)
}

/// Items that are waited for: still open ones are their program's business.
fn waited_for(items: Vec<ItemStatus>) -> Vec<ItemStatus> {
    items.into_iter().filter(|item| item.state != ItemState::Open || item.is_deserted).collect()
}

fn drain(context: &Context, area: &Area, limit: Duration) -> Result<u8> {
    let interrupt = Interrupt::catch();
    interrupt.watch();
    area.hurry_all()?;
    let began = Instant::now();
    let mut items = waited_for(area.items()?);
    let total: u64 = items.iter().map(|item| item.bytes).sum();
    let bar = progress::bar(total, progress::Beside::Quiet);
    let why = loop {
        if items.is_empty() {
            break None;
        }
        if interrupt.is_wanted() {
            break Some("interrupted");
        }
        if items.iter().all(|item| item.is_deserted) {
            break Some("the processes that wrote them are gone: `forebay recover` finishes them");
        }
        if area.is_paused_for_all()? {
            break Some("draining is paused: `forebay stage resume` goes on");
        }
        let is_stuck = items.iter().all(|item| item.is_deserted || item.state == ItemState::Failed);
        if is_stuck && began.elapsed() > RETRY {
            break Some("their destinations refused them");
        }
        if began.elapsed() > limit {
            break Some("it takes longer than was to be waited");
        }
        interrupt.sleep(Duration::from_millis(100));
        items = waited_for(area.items()?);
        let left: u64 = items.iter().map(|item| item.bytes).sum();
        bar.set_position(total.saturating_sub(left));
    };
    bar.finish_and_clear();
    report(context, &items, why, interrupt.is_wanted())
}

fn report(context: &Context, items: &[ItemStatus], why: Option<&str>, interrupted: bool) -> Result<u8> {
    let left: u64 = items.iter().map(|item| item.bytes).sum();
    if context.json {
        output::say(json!({
            "drained": items.is_empty(),
            "items_left": items.iter().map(json_of).collect::<Vec<_>>(),
            "bytes_left": left,
            "why": why,
            "interrupted": interrupted,
        }))?;
    } else if let Some(why) = why {
        items.iter().flat_map(lines).try_for_each(output::say)?;
        let count = show::count(items.len(), "item is", "items are");
        output::say(format!("{count} not at its destination ({}): {why}", show::size(left)))?;
    } else {
        output::say("all that was closed is at its destination")?;
    }
    Ok(match (interrupted, items.is_empty()) {
        (true, _) => exit::INTERRUPTED,
        (false, true) => exit::SUCCESS,
        (false, false) => exit::TRY_LATER,
    })
}

/// The folder for messages.
pub(crate) fn shown(folder: &Path) -> String {
    show::visible(&folder.display().to_string())
}
