//! `forebay recover`: what killed processes left in a staging area, finished or discarded.

use std::{cell::Cell, ops::ControlFlow};

use forebay::{
    Result,
    stage::{ItemStatus, RecoverOptions, Recovered, recover},
};
use serde_json::json;

use crate::{
    Context, exit,
    interrupt::Interrupt,
    output::{self, progress, show},
    stage::{AreaArgs, json_of, lines, shown},
};

const EXAMPLES: &str = "\
Examples:
  forebay recover /nvme/$USER
  forebay recover --dry-run                         say what would be done
  forebay recover --apply 5b2c81d0-93ab…            write over what others have changed since
  forebay recover --discard 5b2c81d0-93ab…          forget what was staged

New files that were sealed are published; updates are replayed from their log; what was never sealed is removed. Where others \
have changed a destination since, nothing is done until --apply or --discard says what. Nor with files that `forebay run \
--stage-writes` of an earlier version staged: --apply seals and publishes one as it is. Items of processes that still run, and \
of other machines, are left to them. It may be interrupted and run again.

JSON: finished, discarded, refused, in_use: lists of items as of `stage ls`; interrupted.";

/// Arguments of `forebay recover`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    area: AreaArgs,

    /// Write the staged bytes of this item although its destination was changed by others.
    #[arg(long, value_name = "ITEM")]
    apply: Vec<String>,

    /// Remove this item and its bytes.
    #[arg(long, value_name = "ITEM")]
    discard: Vec<String>,

    /// Recover the items of this other machine too: its processes are gone. For areas on a file system that machines share.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Runs `forebay recover`.
pub(crate) fn run(context: &Context, args: &RecoverArgs) -> Result<u8> {
    let folder = args.area.folder()?;
    let options = RecoverOptions {
        apply: args.apply.clone(),
        discard: args.discard.clone(),
        hosts: args.host.clone(),
        dry_run: args.dry_run,
    };
    let interrupt = Interrupt::catch();
    interrupt.watch();
    let bar = Cell::new(None);
    let recovered = recover(&folder, &options, &|done| {
        let total = done.bytes_left + done.bytes_done;
        let shown = bar.take().unwrap_or_else(|| progress::bar(total, progress::Beside::Quiet));
        shown.set_position(done.bytes_done);
        bar.set(Some(shown));
        if interrupt.is_wanted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(bar) = bar.take() {
        bar.finish_and_clear();
    }
    if interrupt.is_wanted() && recovered.is_err() {
        if context.json {
            output::say(json!({ "interrupted": true }))?;
        }
        return Ok(exit::INTERRUPTED);
    }
    let recovered = recovered?;
    report(context, &recovered, args.dry_run, &shown(&folder))?;
    let named = |item: &ItemStatus| args.apply.contains(&item.id) || args.discard.contains(&item.id);
    let is_done = recovered.refused.is_empty() && !recovered.in_use.iter().any(named);
    Ok(if is_done { exit::SUCCESS } else { exit::TRY_LATER })
}

fn report(context: &Context, recovered: &Recovered, dry_run: bool, folder: &str) -> Result<()> {
    let Recovered { finished, discarded, refused, in_use } = recovered;
    let parts = [("finished", finished), ("discarded", discarded), ("refused", refused), ("in_use", in_use)];
    if context.json {
        let mut answer = json!({ "dry_run": dry_run, "interrupted": false });
        for (name, items) in parts {
            answer[name] = items.iter().map(json_of).collect();
        }
        return output::say(answer);
    }
    if parts.iter().all(|(_, items)| items.is_empty()) {
        return output::say(format!("{folder}: nothing to recover"));
    }
    for (name, items) in parts.into_iter().filter(|(_, items)| !items.is_empty()) {
        let what = match (name, dry_run) {
            ("finished", false) => "at their destinations now",
            ("finished", true) => "would be brought to their destinations",
            ("discarded", false) => "removed: never sealed or flushed, or asked for",
            ("discarded", true) => "would be removed: never sealed or flushed, or asked for",
            ("refused", _) => "left as they are",
            _ => "of processes that still run or may, left to them",
        };
        output::say(format!("{}, {what}:", show::count(items.len(), "item", "items")))?;
        items.iter().flat_map(lines).try_for_each(|line| output::say(format!("  {line}")))?;
    }
    Ok(())
}
