//! Objects in buckets and files on web servers, read by ranges over the network.
//!
//! ```text
//! URL ─► address ─► client (one per bucket) ─► head ─► ObjectSource ─► parts ─► requests on the runtime ─► bytes
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `address` | which bucket a URL names, and which object in it |
//! | `aws` | how a client of S3 is made, and which credentials its requests are signed with |
//! | `client` | how a bucket's client is made from the environment, and how long it waits and tries |
//! | `engine` | the asynchronous runtime and the clients, a set for each process |
//! | `state` | which version of an object was opened, and whether an answer is of it |
//! | `parts` | which requests bring the ranges asked for |
//! | `source` | an object that is open |
//! | `trouble` | errors of stores in our words |

mod address;
mod aws;
mod client;
mod engine;
mod parts;
mod source;
mod state;
mod trouble;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::TryStreamExt;
use object_store::{GetOptions, ObjectStore};

use self::{
    address::Address,
    engine::{Engine, Engines},
    source::ObjectSource,
    state::State,
    trouble::told,
};
use crate::{Error, ErrorKind, Locator, Origin, Result, Source, SourceId};

/// A reader opens a file several times in a row: to tell its format, to describe it, to read it. One question to the
/// store serves them all; whatever has changed meanwhile is noticed by the first read.
const HEAD_LIFE: Duration = Duration::from_secs(5);
/// When more answers are remembered, old ones leave.
const MOST_HEADS: usize = 4096;

/// An origin over object stores and web servers, whose locators are URLs: `s3://`, `gs://`, `az://`, `abfs://`,
/// `https://`, `http://`.
///
/// It opens nothing else, so that what a remote file names can never be a file of this machine. Credentials and
/// endpoints come from the environment when a bucket is first used. An object that changes while it is open is an
/// error from then on, until it is opened again. Requests that fail are tried again until the patience is spent.
#[derive(Clone)]
pub struct ObjectOrigin {
    shared: Arc<Shared>,
}

struct Shared {
    engines: Engines,
    patience: Duration,
    /// Stores whose client was made elsewhere.
    given: HashMap<String, Arc<dyn ObjectStore>>,
}

impl ObjectOrigin {
    /// An origin that makes its clients when they are first needed.
    pub fn new() -> Self {
        let shared = Shared { engines: Engines::new(), patience: client::patience(), given: HashMap::new() };
        Self { shared: Arc::new(shared) }
    }

    /// The same, with `store` for everything under `prefix`, such as `s3://bucket`.
    #[must_use]
    pub fn with_store(self, prefix: impl Into<String>, store: Arc<dyn ObjectStore>) -> Self {
        let mut given = self.shared.given.clone();
        given.insert(prefix.into(), store);
        let shared = Shared { engines: Engines::new(), patience: self.shared.patience, given };
        Self { shared: Arc::new(shared) }
    }
}

impl Default for ObjectOrigin {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ObjectOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectOrigin").field("patience", &self.shared.patience).finish_non_exhaustive()
    }
}

impl Origin for ObjectOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let open = || {
            let address = Address::of(at)?;
            let state = self.shared.head(&address)?;
            Ok(Arc::new(ObjectSource::new(Arc::clone(&self.shared), at.clone(), address, state)) as _)
        };
        open().map_err(|error: Error| error.at(at))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.survey(under).map(|found| found.into_iter().map(|id| id.locator).collect())
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.shared.survey(under).map_err(|error| error.at(under))
    }
}

impl Shared {
    /// The client of the bucket that `address` lies in.
    fn client(&self, engine: &Engine, address: &Address) -> Result<Arc<dyn ObjectStore>> {
        if let Some(given) = self.given.get(address.store()) {
            return Ok(Arc::clone(given));
        }
        engine.client(address.store(), || client::make(address.store(), self.patience, engine))
    }

    /// What the store says of the object at `address`, now or a moment ago.
    fn head(&self, address: &Address) -> Result<State> {
        let engine = self.engines.current();
        if let Some(known) = engine.heads().fresh(address) {
            return Ok(known);
        }
        let client = self.client(&engine, address)?;
        let key = address.key().clone();
        let options = GetOptions { head: true, ..GetOptions::default() };
        let asked = engine.wait_for(async move { client.get_opts(&key, options).await })?;
        let asked = asked.map_err(|error| told(error, address.store()));
        let answer = asked.map_err(|error| self.name_missing_bucket(error, &engine, address))?;
        let state = State::of(answer.meta, address);
        engine.heads().remember(address, &state);
        Ok(state)
    }

    /// `error`, unless it is that the bucket is missing: the answer to a HEAD request has no body to say so. A bucket that
    /// is there is asked once, so that a reader that tries many names costs no more.
    fn name_missing_bucket(&self, error: Error, engine: &Engine, address: &Address) -> Error {
        let is_known = address.is_on_web_server() || engine.known().contains(address.store());
        if error.kind() != ErrorKind::NotFound || is_known {
            return error;
        }
        let Ok(client) = self.client(engine, address) else { return error };
        // Below an object there is hardly ever another, so this is one short page.
        let below = address.key().clone();
        let asked = engine.wait_for(async move { client.list(Some(&below)).try_next().await });
        match asked.map(|asked| asked.map_err(|error| told(error, address.store()))) {
            Ok(Err(missing)) if missing.kind() == ErrorKind::NotFound => missing,
            _ => {
                engine.known().insert(address.store().to_owned());
                error
            }
        }
    }

    /// Forgets what was said of `address`: it is no longer so.
    fn forget(&self, address: &Address) {
        self.engines.current().heads().forget(address);
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        let folder = Address::of_folder(under)?;
        if folder.is_on_web_server() {
            return Err(Error::new(ErrorKind::Unsupported, "a web server does not say which files it has")
                .hint("name each file by its URL"));
        }
        let engine = self.engines.current();
        let client = self.client(&engine, &folder)?;
        let prefix = (!folder.key().as_ref().is_empty()).then(|| folder.key().clone());
        let listing = async move {
            let found = client.list(prefix.as_ref());
            found.try_collect::<Vec<_>>().await
        };
        let found = engine.wait_for(listing)?.map_err(|error| told(error, folder.store()))?;
        let mut ids = Vec::with_capacity(found.len());
        for meta in found {
            let at = folder.beside(&meta.location);
            let state = State::of(meta, &folder);
            // Whoever opens it next need not ask again. Without a tag, times in lists are finer than in answers.
            if let (true, Ok(address)) = (state.is_tagged(), Address::of(&at)) {
                engine.heads().remember(&address, &state);
            }
            ids.push(state.id(at));
        }
        if ids.is_empty() {
            // No folder, but perhaps an object.
            ids.push(self.head(&Address::of(under)?)?.id(under.clone()));
        }
        ids.sort_unstable_by(|one, next| one.locator.cmp(&next.locator));
        Ok(ids)
    }
}

/// What stores said of objects, and when.
#[derive(Debug, Default)]
struct Heads(HashMap<Address, (Instant, State)>);

impl Heads {
    fn fresh(&self, address: &Address) -> Option<State> {
        let (asked, state) = self.0.get(address)?;
        (asked.elapsed() < HEAD_LIFE).then(|| state.clone())
    }

    fn remember(&mut self, address: &Address, state: &State) {
        // Nothing would notice that it has changed.
        if !state.is_versioned() {
            return;
        }
        if self.0.len() >= MOST_HEADS {
            self.0.retain(|_, (asked, _)| asked.elapsed() < HEAD_LIFE);
        }
        if self.0.len() < MOST_HEADS {
            self.0.insert(address.clone(), (Instant::now(), state.clone()));
        }
    }

    fn forget(&mut self, address: &Address) {
        self.0.remove(address);
    }
}

/// A panic elsewhere cannot leave a map half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
