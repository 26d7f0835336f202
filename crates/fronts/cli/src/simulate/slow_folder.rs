//! `forebay simulate FOLDER MOUNTPOINT`: shows a folder as a slow file system, to any program.

use std::{
    ffi::OsString,
    io::{self, Write},
    num::{NonZeroU32, NonZeroU64},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use forebay::{Error, ErrorKind, Result, size};
use forebay_mount::{
    COUNTERS_FILE, MountAccess, MountCounters, MountUsers, Pace, SlowMount, SlowMountOptions,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Context,
    args::quantity,
    exit,
    interrupt::{GLANCE, Interrupt},
    output::{self, show},
};

/// Arguments of `forebay simulate` with a folder.
#[derive(Debug, clap::Args)]
pub(super) struct SlowFolderArgs {
    /// The folder to show.
    folder: PathBuf,

    /// The folder to show it at, empty as a rule.
    mountpoint: PathBuf,

    /// Latency of each read and write: 2ms, 500us, 0.1s.
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = quantity::time)]
    latency: Duration,

    /// Bandwidth of all readers and writers together: 200MiB/s; 0 is no limit.
    #[arg(long, value_name = "SIZE/s", default_value = "200MiB/s", value_parser = quantity::bandwidth)]
    bandwidth: u64,

    /// Latency of each open, create, rename, remove and truncate [default: that of a read].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    open_latency: Option<Duration>,

    /// Bytes that a read or write may have, at most 1MiB: longer ones wait once for each part.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size::parse)]
    request_size: u64,

    /// Let programs write, too.
    #[arg(long)]
    writable: bool,

    /// Latency of each fsync [default: that of a read].
    #[arg(long, value_name = "TIME", value_parser = quantity::time, requires = "writable")]
    fsync_latency: Option<Duration>,

    /// Bytes that all files together may have; a write beyond that gets ENOSPC [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "writable")]
    capacity: Option<u64>,

    /// Let programs of other users in, with the permissions of the files [default: yours alone].
    #[arg(long)]
    allow_other: bool,

    /// A program to run while the folder is shown, and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl SlowFolderArgs {
    /// What is done, in two lines.
    fn describe(&self, pace: Pace) -> [String; 2] {
        let (folder, place) = (self.folder.display(), self.mountpoint.display());
        let users = if self.writable { "readers and writers" } else { "readers" };
        let line = pace.bytes_per_second.map_or_else(
            || "no limit to the bandwidth".into(),
            |rate| format!("{}/s for all {users}", show::size(rate.get())),
        );
        let (latency, opens) = (pace.latency, pace.open_latency);
        let what = if self.writable { "read and write" } else { "read" };
        let counters = self.mountpoint.join(COUNTERS_FILE);
        [
            format!("{folder} is shown at {place}: {latency:?} per {what}, {opens:?} per open, {line}"),
            format!("counters: {}; Ctrl-C ends it", counters.display()),
        ]
    }

    fn pace(&self) -> Result<Pace> {
        let request =
            u32::try_from(self.request_size).ok().filter(|bytes| (1..=MOST_REQUEST).contains(bytes));
        let Some(request) = request else {
            let error = Error::invalid(format!("requests of {} bytes cannot be had", self.request_size));
            return Err(
                error.hint("give --request-size from 1 to 1MiB, which is what the kernel puts into one")
            );
        };
        Ok(Pace {
            latency: self.latency,
            open_latency: self.open_latency.unwrap_or(self.latency),
            fsync_latency: self.fsync_latency.unwrap_or(self.latency),
            bytes_per_second: NonZeroU64::new(self.bandwidth),
            // At the most the kernel gives, nothing has to be cut.
            request_bytes: NonZeroU32::new(request).filter(|bytes| bytes.get() < MOST_REQUEST),
        })
    }

    fn mount(&self, pace: Pace) -> Result<SlowMount> {
        let writable = MountAccess::Writable { capacity: self.capacity };
        let access = if self.writable { writable } else { MountAccess::ReadOnly };
        let users = if self.allow_other { MountUsers::Everyone } else { MountUsers::Owner };
        SlowMount::with_options(&self.folder, &self.mountpoint, SlowMountOptions { pace, access, users })
    }
}

/// What the kernel puts into a request at most.
const MOST_REQUEST: u32 = 1 << 20;

/// How long a program may take to end by itself after an interrupt, which it had too if it came from a terminal.
const GRACE: Duration = Duration::from_millis(500);
/// How long it may take after it was asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shows the folder until a program or the user ends it.
pub(super) fn run(context: &Context, args: &SlowFolderArgs) -> Result<u8> {
    let interrupt = Interrupt::catch();
    // From here on an interrupt is seen by us: nothing may stay mounted.
    interrupt.watch();
    let pace = args.pace()?;
    let mount = args.mount(pace)?;
    if mount.replaced_dead() {
        tell(format!("took away a mount at {} whose program was killed", args.mountpoint.display()));
    }
    let Some((program, rest)) = args.program.split_first() else {
        if !context.json {
            args.describe(pace).into_iter().try_for_each(output::say)?;
        }
        return stay(context, args, &mount, &interrupt);
    };
    let started = Command::new(program).args(rest).spawn();
    let child = started.map_err(|error| Error::from_io(error).at(program.display()))?;
    let ended = attend(child, &interrupt);
    let counters = mount.counters();
    drop(mount);
    lines(context, &counters).into_iter().for_each(tell);
    Ok(code_of(ended?))
}

/// Waits for an interrupt, which is how this ends, or until another process unmounts.
fn stay(context: &Context, args: &SlowFolderArgs, mount: &SlowMount, interrupt: &Interrupt) -> Result<u8> {
    while !interrupt.is_wanted() && !mount.has_ended() {
        thread::sleep(GLANCE);
    }
    lines(context, &mount.counters()).into_iter().try_for_each(output::say)?;
    if interrupt.is_wanted() {
        return Ok(exit::SUCCESS);
    }
    let error = Error::new(ErrorKind::Unavailable, "another process unmounted it");
    Err(error.at(args.mountpoint.display()))
}

/// Waits for the program; an interrupt ends it.
fn attend(mut child: Child, interrupt: &Interrupt) -> Result<ExitStatus> {
    let mut deadline = None;
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait().map_err(Error::from_io)? {
            return Ok(status);
        }
        if interrupt.is_wanted() {
            // The next one is ours as well.
            interrupt.watch();
            deadline.get_or_insert_with(|| Instant::now() + GRACE);
        }
        match deadline {
            Some(time) if time <= Instant::now() && asked => child.kill().map_err(Error::from_io)?,
            Some(time) if time <= Instant::now() => {
                let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                // It may have ended meanwhile.
                let _ = id.map(|id| kill_process(id, Signal::TERM));
                (asked, deadline) = (true, Some(Instant::now() + PATIENCE));
            }
            _ => {}
        }
        // Short, as the program may be short too.
        thread::sleep(Duration::from_millis(5));
    }
}

fn code_of(ended: ExitStatus) -> u8 {
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(exit::INTERRUPTED)
}

/// Says a line where the program's own output does not stand.
fn tell(line: String) {
    // Nobody may be left to read it.
    let _ = writeln!(io::stderr(), "{line}");
}

fn lines(context: &Context, counters: &MountCounters) -> Vec<String> {
    if context.json {
        return vec![serde_json::json!(counters).to_string()];
    }
    let MountCounters { opens, reads, requests, bytes, lookups, stats, lists, seconds, .. } = *counters;
    let MountCounters { writes, write_requests, bytes_written, .. } = *counters;
    let mut lines = vec![
        format!("operation       count  in {}", show::seconds(seconds)),
        transfer("reads", [reads, requests, bytes], seconds),
        row("opens", opens),
        row("lookups", lookups),
        row("stats", stats),
        row("lists", lists),
    ];
    if writes > 0 {
        lines.push(transfer("writes", [writes, write_requests, bytes_written], seconds));
    }
    let MountCounters { fsyncs, creates, renames, removes, truncates, changes, .. } = *counters;
    let changing = [
        ("fsyncs", fsyncs),
        ("creates", creates),
        ("renames", renames),
        ("removes", removes),
        ("truncates", truncates),
        ("changes", changes),
    ];
    lines.extend(changing.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| row(name, count)));
    lines
}

fn row(name: &str, count: u64) -> String {
    format!("{name:<10} {count:>10}")
}

/// The row of reads or writes: how many, the requests by which they came, and their bytes.
fn transfer(name: &str, [count, requests, bytes]: [u64; 3], seconds: f64) -> String {
    let rate = show::size(if seconds > 0.0 { per_second(bytes, seconds) } else { 0 });
    let line = format!("{}  {}, {rate}/s", row(name, count), show::size(bytes));
    if requests > count { format!("{line}, by {requests} requests") } else { line }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate for people, never below zero"
)]
fn per_second(bytes: u64, seconds: f64) -> u64 {
    (bytes as f64 / seconds) as u64
}
