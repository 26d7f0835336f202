//! Fault injection: an origin that fails, returns short reads and delays on a schedule.

use std::{
    io,
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use rustix::io::Errno;

use crate::{
    file::file_system_kind::FAR_REQUEST_BYTES,
    layers::throttle::Throttle,
    locator::Locator,
    origin::Origin,
    range::{ByteRange, Fill},
    source::{Source, SourceExt, SourceId, Trust, check_fills, check_ranges},
};

/// What goes wrong, how often and how slowly; by default nothing does.
///
/// An operation is one range handed to `fetch` or `fetch_into`, whether or not the source below joins it with
/// others into one request: that is not visible from here. Operations are numbered from 1 over all sources of
/// the origin, in the order in which they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultSchedule {
    /// Every so many operations one is answered by `EIO`.
    pub fail_every: Option<NonZeroU64>,
    /// Every so many operations the request is cut to half its length, and the short answer is an error.
    pub cut_every: Option<NonZeroU64>,
    /// How long each operation and each open waits.
    pub delay: Duration,
    /// How fast bytes come, for all sources of the origin together.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// What went through a [`FaultOrigin`] so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Operations begun, those that failed included.
    pub operations: u64,
    /// Bytes asked of the origin below.
    pub bytes: u64,
    /// Opens begun.
    pub opens: u64,
    /// The most calls that waited at the same time.
    pub most_waiting: u64,
}

/// An origin over another that follows a [`FaultSchedule`]: a bad disk for tests, a slow file system for benches.
#[derive(Debug)]
pub struct FaultOrigin {
    inner: Arc<dyn Origin>,
    run: Arc<FaultRun>,
}

impl FaultOrigin {
    /// `inner`, with the faults of `schedule`.
    pub fn new(inner: Arc<dyn Origin>, schedule: FaultSchedule) -> Self {
        Self { inner, run: Arc::new(FaultRun::new(schedule)) }
    }

    /// What went through so far; may be asked while others read.
    pub fn counters(&self) -> FaultCounters {
        FaultCounters {
            operations: self.run.operations.load(Relaxed),
            bytes: self.run.bytes.load(Relaxed),
            opens: self.run.opens.load(Relaxed),
            most_waiting: self.run.most_waiting.load(Relaxed),
        }
    }
}

impl Origin for FaultOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        self.run.opens.fetch_add(1, Relaxed);
        thread::sleep(self.run.schedule.delay);
        let inner = self.inner.open(at)?;
        Ok(Arc::new(FaultSource { inner, run: Arc::clone(&self.run) }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.inner.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.inner.survey(under)
    }
}

#[derive(Debug)]
struct FaultSource {
    inner: Arc<dyn Source>,
    run: Arc<FaultRun>,
}

impl FaultSource {
    /// The error for the operation on `range`, which went wrong by `fault`.
    fn error(&self, fault: &ScheduledFault, range: ByteRange) -> Error {
        let error = match fault.kind {
            FaultKind::Failed => Error::from_io(io::Error::from(Errno::IO)),
            FaultKind::Cut => {
                Error::new(ErrorKind::Io, format!("{} of {} bytes came", halved(range).len(), range.len()))
            }
        };
        error.at(format!("byte {}", range.start)).at(&self.id().locator)
    }
}

impl Source for FaultSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(self.id(), ranges.iter().copied())?;
        let Some(fault) = self.run.begin(ranges.len(), ranges.iter().copied()) else {
            return self.inner.fetch(ranges);
        };
        let mut asked = ranges[..fault.index].to_vec();
        if let FaultKind::Cut = fault.kind {
            asked.push(halved(ranges[fault.index]));
        }
        self.inner.fetch(&asked)?;
        Err(self.error(&fault, ranges[fault.index]))
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        check_ranges(self.id(), fills.iter().map(|fill| fill.range))?;
        check_fills(self.id(), fills)?;
        let Some(fault) = self.run.begin(fills.len(), fills.iter().map(|fill| fill.range)) else {
            return self.inner.copy_into(fills);
        };
        let (before, rest) = fills.split_at_mut(fault.index);
        self.inner.fetch_into(before)?;
        let Fill { range, into } = &mut rest[0];
        if let FaultKind::Cut = fault.kind {
            let half = into.len() / 2;
            self.inner.fetch_into(&mut [Fill { range: halved(*range), into: &mut into[..half] }])?;
        }
        Err(self.error(&fault, *range))
    }

    fn verify(&self) -> Result<()> {
        self.inner.verify()
    }

    fn request_bytes(&self) -> u64 {
        let inner = self.inner.request_bytes();
        if self.run.schedule.delay.is_zero() { inner } else { inner.max(FAR_REQUEST_BYTES) }
    }

    fn will_read(&self, range: ByteRange) {
        self.inner.will_read(range);
    }
}

fn halved(range: ByteRange) -> ByteRange {
    ByteRange::at(range.start, range.len() / 2)
}

/// The first operation of a call that goes wrong, and its kind of fault.
struct ScheduledFault {
    index: usize,
    kind: FaultKind,
}

enum FaultKind {
    Failed,
    Cut,
}

/// A schedule and the counters that say how far along it the origin is.
#[derive(Debug)]
struct FaultRun {
    schedule: FaultSchedule,
    throttle: Throttle,
    operations: AtomicU64,
    bytes: AtomicU64,
    opens: AtomicU64,
    waiting: AtomicU64,
    most_waiting: AtomicU64,
}

impl FaultRun {
    fn new(schedule: FaultSchedule) -> Self {
        let zero = || AtomicU64::new(0);
        let (operations, bytes, opens) = (zero(), zero(), zero());
        let throttle = Throttle::new(schedule.bytes_per_second);
        Self { schedule, throttle, operations, bytes, opens, waiting: zero(), most_waiting: zero() }
    }

    /// Counts the operations of one call, sleeps as long as they take, and gives the first that goes wrong.
    fn begin(&self, count: usize, ranges: impl Iterator<Item = ByteRange>) -> Option<ScheduledFault> {
        let first = self.operations.fetch_add(count as u64, Relaxed) + 1;
        let fault = (0..count).find_map(|index| {
            let kind = self.kind(first + index as u64)?;
            Some(ScheduledFault { index, kind })
        });
        let reached = fault.as_ref().map_or(count, |fault| fault.index + 1);
        let mut bytes: u64 = 0;
        for (index, range) in ranges.take(reached).enumerate() {
            bytes += match &fault {
                Some(fault) if fault.index == index => fault.bytes(range),
                _ => range.len(),
            };
        }
        self.bytes.fetch_add(bytes, Relaxed);
        self.wait(u32::try_from(reached).unwrap_or(u32::MAX), bytes);
        fault
    }

    fn kind(&self, operation: u64) -> Option<FaultKind> {
        let is_due = |every: Option<NonZeroU64>| every.is_some_and(|every| operation % every == 0);
        if is_due(self.schedule.fail_every) {
            return Some(FaultKind::Failed);
        }
        is_due(self.schedule.cut_every).then_some(FaultKind::Cut)
    }

    fn wait(&self, operations: u32, bytes: u64) {
        let now = Instant::now();
        let delay = self.schedule.delay.saturating_mul(operations);
        let wait = delay.max(self.throttle.pass(now, bytes).saturating_duration_since(now));
        if !wait.is_zero() {
            let waiting = self.waiting.fetch_add(1, Relaxed) + 1;
            self.most_waiting.fetch_max(waiting, Relaxed);
            thread::sleep(wait);
            self.waiting.fetch_sub(1, Relaxed);
        }
    }
}

impl ScheduledFault {
    /// How many bytes of the failing operation are still read from the origin below.
    fn bytes(&self, range: ByteRange) -> u64 {
        match self.kind {
            FaultKind::Failed => 0,
            FaultKind::Cut => halved(range).len(),
        }
    }
}
