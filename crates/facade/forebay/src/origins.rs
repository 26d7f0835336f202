//! Where files are looked for: on this machine, or behind a URL.

use std::sync::Arc;

use forebay_config::{Config, names, tiered};
use forebay_process::{Error, ErrorKind, Event, EventKind, Histogram, Result};
use forebay_source::{
    FileOrigin, Locator, Origin, SmallSourceCache, Source, SourceId, TraceSink, TracedOrigin,
};
use forebay_tier::{Policy, Tiered};

use crate::job_peers;

/// An origin for paths and one for URLs.
///
/// A file is opened, with all that it names, on the side its own name belongs to: whatever a remote file says, it
/// leads to no file of this machine, because the origin it is read by opens none.
#[derive(Clone, Debug)]
pub struct Origins {
    near: Arc<dyn Origin>,
    far: Arc<dyn Origin>,
    /// The tiers that both are read through.
    tiered: Option<Arc<Tiered>>,
    /// False where one origin has names of its own.
    are_paths: bool,
    /// How long reads of both took, below tiers and what is read whole.
    latency: Arc<Histogram>,
}

impl Origins {
    /// This machine's file systems, and the object stores and web servers that the environment gives access to.
    pub fn new() -> Self {
        Self::with_far(remote_origin())
    }

    /// This machine's file systems, and `far` for all URLs.
    pub fn with_far(far: Arc<dyn Origin>) -> Self {
        let latency = Arc::new(Histogram::new());
        let traced =
            |origin| Arc::new(TracedOrigin::of_far(origin, Arc::clone(&latency) as _)) as Arc<dyn Origin>;
        let (near, far) = (traced(Arc::new(FileOrigin::new())), traced(far));
        Self { near, far, tiered: None, are_paths: true, latency }
    }

    /// One origin for all names.
    pub(crate) fn only(origin: Arc<dyn Origin>) -> Self {
        let latency = Arc::default();
        Self { near: Arc::clone(&origin), far: origin, tiered: None, are_paths: false, latency }
    }

    /// The same, with small files behind a network read whole; of each side at most `budget_bytes` are held.
    /// Tiers do that by themselves, and must see each use.
    pub(crate) fn reading_whole(&self, budget_bytes: u64) -> Self {
        if self.tiered.is_some() {
            return self.clone();
        }
        let whole =
            |origin: &Arc<dyn Origin>| Arc::new(SmallSourceCache::new(Arc::clone(origin), budget_bytes)) as _;
        Self { near: whole(&self.near), far: whole(&self.far), ..self.clone() }
    }

    /// The same, read through the tiers of `config`; `policy` is the user's own.
    pub fn through_tiers(
        self,
        config: &Config,
        policy: Option<Arc<dyn Policy>>,
    ) -> Result<(Self, Option<Arc<Tiered>>)> {
        let peers = job_peers::of_job(config)?;
        let Some(tiered) = tiered(Arc::new(ByName(self.clone())), config, policy, peers)? else {
            return Ok((self, None));
        };
        let side = |is_far| Arc::new(Side { tiered: Arc::clone(&tiered), is_far }) as Arc<dyn Origin>;
        let through = Some(Arc::clone(&tiered));
        let origins = Self { near: side(false), far: side(true), tiered: through.clone(), ..self };
        Ok((origins, through))
    }

    /// The same, with every request reported to `sink`, whether tiers have its bytes or not.
    #[must_use]
    pub fn traced(&self, sink: Arc<dyn TraceSink>) -> Self {
        let traced = |origin: &Arc<dyn Origin>| {
            Arc::new(TracedOrigin::new(Arc::clone(origin), Arc::clone(&sink))) as Arc<dyn Origin>
        };
        Self { near: traced(&self.near), far: traced(&self.far), ..self.clone() }
    }

    /// How long reads of files behind a network took so far, each call as one: what tiers and memory have is not asked of
    /// the origin. Files of this machine are not measured, as the clock would cost a part of reading them.
    pub fn latency(&self) -> &Arc<Histogram> {
        &self.latency
    }

    /// The file or folder that a user calls `name`.
    ///
    /// A path is made absolute, `~` and variables in it are written out and links among its folders are followed: one
    /// file has one name, by which its copies and its saved index are found. A URL stands for itself.
    pub fn locate(&self, name: &str) -> Result<Locator> {
        let at = Locator::new(name);
        if at.is_url() || !self.are_paths { Ok(at) } else { names::locate(name) }
    }

    /// The path or pattern `name` with `~` and variables written out, made absolute; a URL stands for itself.
    pub fn absolute(&self, name: &str) -> Result<String> {
        let stands = Locator::new(name).is_url() || !self.are_paths;
        if stands { Ok(name.to_owned()) } else { names::absolute(name) }
    }

    /// Warns of tiers that were left out, have no room, or are of no use to what was opened so far; of each once in a process.
    pub fn warn_of_tiers(&self) {
        let warnings = self.tiered.iter().flat_map(|tiered| tiered.warnings());
        warnings.for_each(|text| Event::new(EventKind::Tier, text).emit());
    }

    /// What opens the file at `at` and all that it names.
    pub fn of(&self, at: &Locator) -> &Arc<dyn Origin> {
        if at.is_url() { &self.far } else { &self.near }
    }
}

/// Object stores and web servers.
#[cfg(feature = "remote")]
fn remote_origin() -> Arc<dyn Origin> {
    Arc::new(forebay_object::ObjectOrigin::new())
}

#[cfg(not(feature = "remote"))]
fn remote_origin() -> Arc<dyn Origin> {
    Arc::new(NoRemote)
}

/// Origin of a build without object stores and web servers: refuses each URL.
#[cfg(not(feature = "remote"))]
#[derive(Debug)]
struct NoRemote;

#[cfg(not(feature = "remote"))]
impl NoRemote {
    fn refuse<T>(at: &Locator) -> Result<T> {
        let what = "this build of forebay reads no URLs";
        Err(Error::new(ErrorKind::Unsupported, what).at(at).hint("build it with the feature 'remote'"))
    }
}

#[cfg(not(feature = "remote"))]
impl Origin for NoRemote {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        Self::refuse(at)
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        Self::refuse(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        Self::refuse(under)
    }
}

/// Both sides as one origin: what tiers copy.
#[derive(Debug)]
struct ByName(Origins);

impl Origin for ByName {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        self.0.of(at).open(at)
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.0.of(under).list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.0.of(under).survey(under)
    }
}

/// One side of what is read through tiers: it opens no name of the other.
#[derive(Debug)]
struct Side {
    tiered: Arc<Tiered>,
    is_far: bool,
}

impl Side {
    fn check(&self, at: &Locator) -> Result<()> {
        if at.is_url() == self.is_far {
            return Ok(());
        }
        let what = if self.is_far { "a remote file names a path" } else { "a file names a URL" };
        Err(Error::new(ErrorKind::Denied, what).at(at))
    }
}

impl Origin for Side {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        self.check(at)?;
        self.tiered.open(at)
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.check(under)?;
        self.tiered.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.check(under)?;
        self.tiered.survey(under)
    }
}

impl Default for Origins {
    fn default() -> Self {
        Self::new()
    }
}
