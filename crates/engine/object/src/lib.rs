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
//! | `client`, `client_options` | how a bucket's client is made from the environment, and how long it waits and tries |
//! | `stores`, `heads` | the stores that an origin reaches, and what they say of objects |
//! | `engine`, `lock` | the asynchronous runtime and the clients, a set for each process |
//! | `state` | which version of an object was opened, and whether an answer is of it |
//! | `parts` | which requests bring the ranges asked for |
//! | `source` | an object that is open |
//! | `store_error` | errors of `object_store` as our own |

mod address;
mod aws;
mod client;
mod client_options;
mod engine;
mod heads;
mod lock;
mod parts;
mod source;
mod state;
mod store_error;
mod stores;

use std::{collections::HashMap, fmt, sync::Arc};

use object_store::ObjectStore;

use self::{
    address::Address, client_options::patience, engine::Engines, source::ObjectSource, stores::Stores,
};
use forebay_process::{Error, Result};
use forebay_source::{Locator, Origin, Source, SourceId};

/// An origin over object stores and web servers, whose locators are URLs: `s3://`, `gs://`, `az://`, `abfs://`,
/// `https://`, `http://`.
///
/// It opens nothing else, so that what a remote file names can never be a file of this machine. Credentials and
/// endpoints come from the environment when a bucket is first used. An object that changes while it is open is an
/// error from then on, until it is opened again. Requests that fail are tried again until the patience is spent.
#[derive(Clone)]
pub struct ObjectOrigin {
    stores: Arc<Stores>,
}

impl ObjectOrigin {
    /// An origin that makes its clients when they are first needed.
    pub fn new() -> Self {
        let stores = Stores { engines: Engines::new(), patience: patience(), given: HashMap::new() };
        Self { stores: Arc::new(stores) }
    }

    /// The same, with `store` for everything under `prefix`, such as `s3://bucket`.
    #[must_use]
    pub fn with_store(self, prefix: impl Into<String>, store: Arc<dyn ObjectStore>) -> Self {
        let mut given = self.stores.given.clone();
        given.insert(prefix.into(), store);
        let stores = Stores { engines: Engines::new(), patience: self.stores.patience, given };
        Self { stores: Arc::new(stores) }
    }
}

impl Default for ObjectOrigin {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ObjectOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectOrigin").field("patience", &self.stores.patience).finish_non_exhaustive()
    }
}

impl Origin for ObjectOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let open = || {
            let address = Address::of(at)?;
            let state = self.stores.head(&address)?;
            Ok(Arc::new(ObjectSource::new(Arc::clone(&self.stores), at.clone(), address, state)) as _)
        };
        open().map_err(|error: Error| error.at(at))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.survey(under).map(|found| found.into_iter().map(|id| id.locator).collect())
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.stores.survey(under).map_err(|error| error.at(under))
    }
}
