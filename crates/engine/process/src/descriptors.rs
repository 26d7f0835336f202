//! One budget of file descriptors for the process, shared by data sets, tiers and saved indexes.
//!
//! Whatever holds files open for long is a [`Holder`]: the budget takes descriptors away from the holders by second
//! chance (clock) when more are wanted than there is room for, and when the system has none left. A holder that is
//! asked for its file again opens it again.

use std::{
    any::Any,
    cell::Cell,
    fmt, fs, io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{
    Event, EventKind, hidden_numbers,
    process::{Owned, PerProcess},
    record_locks,
};

/// Enough to keep a data set of many files open; more only lengthens the process's descriptor table.
const MOST_DESCRIPTORS: u64 = 1024;

/// With fewer than this, files of a set are closed and opened again all the time.
const FEW_DESCRIPTORS: u64 = 128;

/// The soft limit is raised no further, whatever the hard one is: programs that are started later inherit it, and some
/// of them walk through all numbers up to it. This is the kernel's own default for the hard one.
const MOST_RAISED: u64 = 1 << 20;

/// `select` takes no number from here on, so these are left to the program around us where the limit allows it.
const SELECT_NUMBERS: u64 = 1024;

/// Lower numbers are kept as they are: to go beyond 1023 the process's table has to grow, for which the kernel makes a process of
/// several threads wait 7 ms, once. A program of few files need not.
const KEPT_NUMBERS: i32 = 256;

thread_local! {
    /// Whether this thread closes all that it opens before the program goes on.
    static BRIEF: Cell<bool> = const { Cell::new(false) };
}

/// From now on the program around us cannot tell that files are kept open here: they have numbers that it does not expect to be its own
/// ([`hidden_numbers`](crate::hidden_numbers)), each of which `taken` is told of, its limit of open files stays as it is, and no file is mapped, which
/// would take a handler for SIGBUS.
pub fn stay_unseen(taken: fn(RawFd)) {
    hidden_numbers::hide(taken);
}

/// What `work` gives, which closes all that it opens before the program goes on.
pub fn briefly<R>(work: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            BRIEF.set(self.0);
        }
    }
    let _before = Before(BRIEF.replace(true));
    work()
}

/// True once [`stay_unseen`] was called.
pub fn is_unseen() -> bool {
    hidden_numbers::are_used()
}

/// When the system has no descriptor left, one in so many of ours is given back: the program around us needs some too.
const GIVEN_BACK: usize = 8;

/// Something that keeps descriptors open which it can do without until it is used again.
pub trait Holder: Send + Sync + fmt::Debug {
    /// True when the descriptors were used since this was last asked.
    fn was_used(&self) -> bool;

    /// Gives up the descriptors, which are closed when the answer is dropped; nothing where that must not wait.
    ///
    /// The budget's lock is held meanwhile, so an implementation takes its own lock by `try_lock` only: a thread that has
    /// it may be about to ask for a descriptor.
    fn give_up(&self) -> Option<Box<dyn Any>>;
}

/// Counts `count` descriptors that `holder` keeps open from now on, and closes others where there are too many.
pub fn admit(holder: Weak<dyn Holder>, count: usize) {
    shared().admit(holder, count);
}

/// What `open` gives, which opens a file; where no descriptor is left, some of ours are closed and it is tried again.
pub fn retry_when_exhausted<T>(open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    shared().retry(open)
}

/// Closes all that holders can do without, as the program around us needs their numbers; false where there is nothing.
pub fn give_way() -> bool {
    let budget = shared();
    let mut is_any = false;
    while budget.give_back() {
        is_any = true;
    }
    is_any
}

/// The budget of this process: half of what it may still open.
pub fn shared() -> Arc<Owned<Budget>> {
    static SHARED: PerProcess<Budget> = PerProcess::empty();
    SHARED.get(|| Budget::new(room()))
}

/// How many descriptors may be kept open, and who keeps them.
#[derive(Debug)]
pub struct Budget {
    state: Mutex<SecondChance>,
}

/// Those that keep descriptors open, in a circle.
#[derive(Debug)]
struct SecondChance {
    most: usize,
    /// Sum of the counts of `holders`.
    held: usize,
    holders: Vec<(Weak<dyn Holder>, usize)>,
    /// Next in `holders` to be looked at for closing.
    hand: usize,
}

/// What is closed once this is dropped and its last user is done.
type ClosedFiles = Vec<(Option<Box<dyn Any>>, Option<Arc<dyn Holder>>)>;

impl Budget {
    /// A budget of `most` descriptors, besides those in use at this moment.
    pub fn new(most: usize) -> Self {
        Self { state: Mutex::new(SecondChance { most: most.max(1), held: 0, holders: Vec::new(), hand: 0 }) }
    }

    /// As [`admit`], for this budget.
    pub fn admit(&self, holder: Weak<dyn Holder>, count: usize) {
        let mut state = self.lock();
        let mut closed = ClosedFiles::new();
        while state.held > 0 && state.held + count > state.most && state.close_one(&mut closed) {}
        state.held += count;
        state.holders.push((holder, count));
        // Closing may take long on a network file system: not while others wait for the lock.
        drop(state);
        drop(closed);
    }

    /// As [`retry_when_exhausted`], for this budget.
    pub fn retry<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_exhausted(&error) && self.give_back() => {}
                answer => return answer,
            }
        }
    }

    /// Closes some of ours, and keeps so many fewer from now on; false where there are none.
    fn give_back(&self) -> bool {
        let mut state = self.lock();
        let mut closed = ClosedFiles::new();
        let wanted = state.held.saturating_sub((state.held / GIVEN_BACK).max(1));
        while state.held > wanted && state.close_one(&mut closed) {}
        state.most = state.most.min(state.held).max(1);
        drop(state);
        !closed.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, SecondChance> {
        // Each change of the state is whole or absent, whichever thread panicked elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SecondChance {
    /// Closes what one holder keeps: the first that was not used since the hand last passed. False where none can.
    ///
    /// A holder that nobody has any more has closed its descriptors already and only leaves its place.
    fn close_one(&mut self, closed: &mut ClosedFiles) -> bool {
        // Readers may mark files used as fast as the hand clears them: one round, then any will do.
        let (mut chances, mut steps) = (self.holders.len(), 2 * self.holders.len());
        while steps > 0 {
            steps -= 1;
            if self.hand >= self.holders.len() {
                self.hand = 0;
            }
            let Some((holder, count)) = self.holders.get(self.hand) else { return false };
            let (holder, count) = (holder.upgrade(), *count);
            let given_up = match &holder {
                None => None,
                Some(kept) if chances > 0 && kept.was_used() => {
                    chances -= 1;
                    self.hand += 1;
                    continue;
                }
                Some(kept) => match kept.give_up() {
                    Some(given_up) => Some(given_up),
                    None => {
                        self.hand += 1;
                        continue;
                    }
                },
            };
            self.holders.swap_remove(self.hand);
            self.held -= count;
            closed.push((given_up, holder));
            return true;
        }
        false
    }
}

/// True when the process or the system may open no more files.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Half of what this process may still open, so that the program around us keeps the other half; what a forked child
/// has inherited is not counted twice.
fn room() -> usize {
    if is_unseen() {
        return usize::try_from(hidden_numbers::hidden_count() / 2).unwrap_or(1);
    }
    let Some(allowed) = raised_limit() else {
        return usize::try_from(MOST_DESCRIPTORS).unwrap_or(usize::MAX);
    };
    let open = fs::read_dir("/dev/fd").map_or(0, |entries| entries.count() as u64);
    let room = (allowed.saturating_sub(open) / 2).min(MOST_DESCRIPTORS);
    if room < FEW_DESCRIPTORS {
        let text = format!(
            "at most {room} files are kept open: the limit is {allowed} (ulimit -n), and {open} are open"
        );
        Event::new(EventKind::Descriptors, text).about("limit of open files").emit();
    }
    usize::try_from(room).unwrap_or(1)
}

/// How many descriptors the process may open, after its soft limit was raised to the hard one; nothing where there is no
/// limit.
fn raised_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (soft, wanted) = (current?, maximum.unwrap_or(MOST_RAISED).min(MOST_RAISED));
    if soft >= wanted {
        return Some(soft);
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    Some(if raised.is_ok() { wanted } else { soft })
}

/// `file` under a number that `select` cannot take, unless there are few or the limit forbids it: many files of ours would
/// otherwise push the program's own beyond what `select` can wait for.
///
/// In a program that does not know of us it has a hidden number, or is closed and refused: it would take a number that the program expects to get. Only
/// work that is [brief](briefly) keeps it, where the program has too few numbers for hidden ones.
pub fn with_high_number(file: OwnedFd) -> io::Result<OwnedFd> {
    if is_unseen() && BRIEF.get() && hidden_numbers::hidden_count() == 0 {
        return Ok(file);
    }
    if is_unseen() {
        // The program may be closing all numbers that it does not know, and must not be given this one before we are done with it.
        hidden_numbers::take(&file);
        let hidden = retry_when_exhausted(|| hidden_numbers::hidden(&file));
        record_locks::close(file);
        return hidden;
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if file.as_raw_fd() < KEPT_NUMBERS || allowed < SELECT_NUMBERS + 2 * MOST_DESCRIPTORS {
        return Ok(file);
    }
    let lowest = i32::try_from(SELECT_NUMBERS).unwrap_or(0);
    Ok(rustix::io::fcntl_dupfd_cloexec(&file, lowest).unwrap_or(file))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    #[test]
    fn brief_work_is_brief_until_its_end_and_after_a_panic_no_more() {
        let inner = briefly(|| (BRIEF.get(), briefly(|| BRIEF.get()), BRIEF.get()));
        assert_eq!((inner, BRIEF.get()), ((true, true, true), false));
        let panicked = std::panic::catch_unwind(|| briefly(|| panic!("ends")));
        assert!(panicked.is_err() && !BRIEF.get());
    }

    #[derive(Debug)]
    struct Kept {
        is_open: AtomicBool,
        used: AtomicBool,
        busy: bool,
    }

    impl Holder for Kept {
        fn was_used(&self) -> bool {
            self.used.swap(false, Relaxed)
        }

        fn give_up(&self) -> Option<Box<dyn Any>> {
            if self.busy {
                return None;
            }
            self.is_open.store(false, Relaxed);
            Some(Box::new(()))
        }
    }

    fn kept(budget: &Budget, busy: bool) -> Arc<Kept> {
        let kept = Arc::new(Kept { is_open: AtomicBool::new(true), used: AtomicBool::new(false), busy });
        let holder: Arc<dyn Holder> = Arc::clone(&kept) as _;
        budget.admit(Arc::downgrade(&holder), 2);
        kept
    }

    fn exhausted() -> io::Error {
        Errno::MFILE.into()
    }

    #[test]
    fn what_was_not_used_lately_is_closed_first_and_what_is_busy_stays() {
        let budget = Budget::new(6);
        let (busy, old, used) = (kept(&budget, true), kept(&budget, false), kept(&budget, false));
        used.used.store(true, Relaxed);
        let fresh = kept(&budget, false);
        let open = [&busy, &old, &used, &fresh].map(|kept| kept.is_open.load(Relaxed));
        assert_eq!(open, [true, false, true, true]);
        drop(fresh);
        let _other = kept(&budget, false);
        assert!(used.is_open.load(Relaxed) || budget.lock().held <= 6);
    }

    #[test]
    fn where_no_descriptor_is_left_some_of_ours_are_closed_until_there_is_one() {
        let budget = Budget::new(100);
        let all: Vec<_> = (0..32).map(|_| kept(&budget, false)).collect();
        let open = || all.iter().filter(|kept| kept.is_open.load(Relaxed)).count();
        let opened = budget.retry(|| if open() > 20 { Err(exhausted()) } else { Ok(()) });
        assert!(opened.is_ok() && open() <= 20, "{}", open());
        let before = open();
        let _next = kept(&budget, false);
        assert!(open() < before, "the budget did not shrink");
        let refused = budget.retry(|| -> io::Result<()> { Err(exhausted()) });
        assert!(refused.is_err_and(|error| is_exhausted(&error)) && open() == 0);
    }

    #[test]
    fn many_files_leave_the_numbers_of_select_to_others_and_few_keep_theirs() {
        let number_of = |file: OwnedFd| with_high_number(file).unwrap().as_raw_fd();
        let file = OwnedFd::from(fs::File::open("/dev/null").unwrap());
        let few = file.as_raw_fd();
        let many = rustix::io::fcntl_dupfd_cloexec(&file, KEPT_NUMBERS).unwrap();
        assert!(few < KEPT_NUMBERS, "the test itself has {few} files open");
        assert_eq!(number_of(file), few);
        let is_allowed = raised_limit().is_none_or(|limit| limit >= SELECT_NUMBERS + 2 * MOST_DESCRIPTORS);
        assert_eq!(number_of(many) >= 1024, is_allowed);
    }
}
