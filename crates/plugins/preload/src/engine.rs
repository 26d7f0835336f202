//! The tiers of this process: started by the first file that needs them, anew in a forked child, ended with the process.

#![expect(unsafe_code, reason = "registers a function that runs at the end of the process")]

pub(crate) mod inside;
pub(crate) mod own_numbers;
pub(crate) mod prefix;
pub(crate) mod run_counts;

use std::{
    fs,
    sync::{
        Arc, Mutex, Once, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use forebay_config::{Overrides, Settings, tiered};
use forebay_process::{PerProcess, Result, WarnOnce, hidden_numbers::hidden_count};
use forebay_scratch::RunCounter;
use forebay_source::FileOrigin;
use forebay_tier::{SourceKey, Stats, Tiered};
use rustix::process::{Resource, getrlimit};

/// What this process uses, once it was looked for. A child that was forked meanwhile does not wait for its parent's.
static STATE: PerProcess<EngineState> = PerProcess::empty();
/// What was started, here or in a process that forked this one: origin and tiers notice a fork by themselves.
static STARTED: ArcSwapOption<TierEngine> = ArcSwapOption::const_empty();
static END: Once = Once::new();
static NO_TIERS: WarnOnce = WarnOnce::new();

/// Whether the engine was looked for, and what it is as long as it was not ended.
#[derive(Debug, Default)]
struct EngineState {
    was_looked_for: OnceLock<()>,
    engine: ArcSwapOption<TierEngine>,
    /// True where it was ended before it was looked for.
    is_unused: AtomicBool,
}

/// What reads of this process go through.
#[derive(Debug)]
pub(crate) struct TierEngine {
    pub(crate) origin: Arc<FileOrigin>,
    pub(crate) tiers: Arc<Tiered>,
    began: Instant,
    /// What of the statistics is in the counters of the run.
    published: PerProcess<Mutex<Stats>>,
    reads: AtomicU32,
    waits_for_streams: AtomicBool,
}

/// Statistics are published once in so many reads: a process that is killed has told most of what it did.
const READS_PER_PUBLISH: u32 = 16;

/// Files up to this length are placed before a stream reads them: at 200 MiB/s that takes 80 ms.
const STREAM_BYTES: u64 = 16 << 20;
const STREAM_PATIENCE: Duration = Duration::from_millis(300);

/// Address space that is left where tiers are used: stacks and allocators of eight threads were seen to take 485 MiB of it.
const ADDRESS_SPACE: u64 = 1 << 30;

/// Threads that place, where no setting says how many: each has a block (1 MiB) in memory, and a program often has several processes, all of which
/// place. A program of four threads that read took 9.7 MiB more with six of them, and 5.7 to 7.8 MiB with three.
const THREADS: usize = 3;

/// How long the end of a program waits for copies that are under way: so long, and a part of the time it has run.
const END_PATIENCE: Duration = Duration::from_millis(100);
const END_PART: u32 = 4;
const END_PATIENCE_MOST: Duration = Duration::from_secs(2);

/// What `use_it` makes of the engine of this process, which is started if need be; nothing where there is none.
pub(crate) fn with<R>(use_it: impl FnOnce(&TierEngine) -> Option<R>) -> Option<R> {
    let state = STATE.get(EngineState::default);
    state.was_looked_for.get_or_init(|| state.engine.store(started()));
    let engine = state.engine.load_full()?;
    use_it(&engine)
}

fn started() -> Option<Arc<TierEngine>> {
    if let Some(engine) = STARTED.load_full() {
        return Some(engine);
    }
    let engine = start().unwrap_or_else(|error| {
        NO_TIERS.say(format_args!("{error}; files are read without tiers"));
        None
    });
    let Some(engine) = engine.map(Arc::new) else {
        prefix::switch_off();
        return None;
    };
    STARTED.store(Some(Arc::clone(&engine)));
    Some(engine)
}

fn start() -> Result<Option<TierEngine>> {
    let Settings { mut config, origins, .. } = Settings::load(&Overrides::default())?;
    if !origins.contains_key("placement.threads") {
        config.placement.threads = THREADS;
    }
    if config.tiers.is_empty() {
        return Ok(None);
    }
    // A program with few numbers keeps them all, and one with little address space keeps that.
    if hidden_count() == 0 || !has_address_space() {
        return Ok(None);
    }
    // A program's file is never mapped: its program expects no signal from it.
    let origin = Arc::new(FileOrigin::new().without_mapping());
    let Some(tiers) = tiered(Arc::clone(&origin) as _, &config, None, None)? else { return Ok(None) };
    END.call_once(|| {
        // SAFETY: the function has the type that is asked for, and this library is never unloaded.
        let _registered = unsafe { libc::atexit(at_exit) };
    });
    Ok(Some(TierEngine {
        origin,
        tiers,
        began: Instant::now(),
        published: PerProcess::empty(),
        reads: AtomicU32::new(0),
        waits_for_streams: AtomicBool::new(true),
    }))
}

/// False where the process has a limit on its address space (`ulimit -v`) and is near it: an allocation of ours that failed would end the program.
fn has_address_space() -> bool {
    let Some(limit) = getrlimit(Resource::As).current else { return true };
    let facts = fs::read_to_string("/proc/self/statm");
    let pages = facts.ok().and_then(|facts| facts.split_whitespace().next()?.parse::<u64>().ok());
    let used = pages.map(|pages| pages.saturating_mul(rustix::param::page_size() as u64));
    used.is_some_and(|used| limit.saturating_sub(used) >= ADDRESS_SPACE)
}

impl TierEngine {
    /// Places all of a file of `len` bytes that a stream reads by calls that no hook sees. A short file is waited for, as its bytes
    /// would otherwise be read from the origin twice; a process that has waited in vain once waits no more.
    pub(crate) fn place_for_stream(&self, key: SourceKey, len: u64) {
        self.tiers.place(key);
        if len <= STREAM_BYTES && self.waits_for_streams.load(Relaxed) && !self.tiers.wait(STREAM_PATIENCE) {
            self.waits_for_streams.store(false, Relaxed);
        }
    }

    /// Counts a read of `bytes` that a program made.
    pub(crate) fn count_read(&self, bytes: u64) {
        run_counts::add(RunCounter::Reads, 1);
        run_counts::add(RunCounter::Bytes, bytes);
        if self.reads.fetch_add(1, Relaxed) % READS_PER_PUBLISH == READS_PER_PUBLISH - 1 {
            self.publish();
        }
    }

    /// Adds what was read and placed since the last time to the counters of the run.
    pub(crate) fn publish(&self) {
        // Whoever has the lock publishes it.
        let own = self.published.get(Mutex::default);
        let Ok(mut published) = own.try_lock() else { return };
        let now = self.tiers.stats();
        let since = now.since(&published);
        *published = now;
        let of_tiers =
            since.tiers.iter().fold((0, 0), |(reads, bytes), tier| (reads + tier.reads, bytes + tier.bytes));
        let counted = [
            (RunCounter::TierReads, of_tiers.0),
            (RunCounter::TierBytes, of_tiers.1),
            (RunCounter::OriginReads, since.origin.reads),
            (RunCounter::OriginBytes, since.origin.bytes),
            (RunCounter::WaitNanoseconds, since.wait_ns),
            (RunCounter::PlacedBytes, since.placed_bytes),
        ];
        for (counter, amount) in counted.into_iter().filter(|(_, amount)| *amount > 0) {
            run_counts::add(counter, amount);
        }
    }

    fn end(&self) {
        let patience = END_PATIENCE.saturating_add(self.began.elapsed() / END_PART).min(END_PATIENCE_MOST);
        let _is_all_placed = self.tiers.wait(patience);
        self.publish();
        self.tiers.close();
    }
}

/// What `use_it` makes of the engine of this process, if it was started.
fn peek(use_it: impl FnOnce(&TierEngine)) {
    if let Some(state) = STATE.peek()
        && let Some(engine) = state.engine.load_full()
    {
        use_it(&engine);
    }
}

/// Publishes what was counted, before this process becomes another program.
pub(crate) fn publish() {
    peek(TierEngine::publish);
}

/// Ends the tiers of this process for good: their descriptors are closed once no thread is at work with them. False where they were never used here: what is
/// open of them is that of the process that forked this one.
pub(crate) fn end() -> bool {
    let state = STATE.get(EngineState::default);
    state.was_looked_for.get_or_init(|| state.is_unused.store(true, Relaxed));
    if state.is_unused.load(Relaxed) {
        return false;
    }
    let ended = (state.engine.swap(None), STARTED.swap(None));
    if let (Some(engine), _) = &ended {
        engine.publish();
        engine.tiers.close();
    }
    drop(ended);
    true
}

extern "C" fn at_exit() {
    let _ended = inside::run(|| {
        peek(TierEngine::end);
        Some(())
    });
}
