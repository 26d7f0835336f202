//! The stores that an origin reaches, and what they say of objects.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::TryStreamExt;
use object_store::{GetOptions, ObjectStore};

use super::{
    address::Address,
    client,
    engine::{Engine, Engines},
    state::ObjectState,
    store_error::from_store,
};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, SourceId};

/// The stores that an origin and its open objects share.
pub(super) struct Stores {
    pub(super) engines: Engines,
    pub(super) patience: Duration,
    /// Stores whose client was made elsewhere.
    pub(super) given: HashMap<String, Arc<dyn ObjectStore>>,
}

impl Stores {
    /// The client of the bucket that `address` lies in.
    pub(super) fn client(&self, engine: &Engine, address: &Address) -> Result<Arc<dyn ObjectStore>> {
        if let Some(given) = self.given.get(address.store()) {
            return Ok(Arc::clone(given));
        }
        engine.client(address.store(), || client::make(address.store(), self.patience, engine))
    }

    /// What the store says of the object at `address`, now or a moment ago.
    pub(super) fn head(&self, address: &Address) -> Result<ObjectState> {
        let engine = self.engines.current();
        if let Some(known) = engine.heads().fresh(address) {
            return Ok(known);
        }
        let client = self.client(&engine, address)?;
        let key = address.key().clone();
        let options = GetOptions { head: true, ..GetOptions::default() };
        let asked = engine.wait_for(async move { client.get_opts(&key, options).await })?;
        let asked = asked.map_err(|error| from_store(error, address.store()));
        let answer = asked.map_err(|error| self.name_missing_bucket(error, &engine, address))?;
        let state = ObjectState::of(answer.meta, address);
        engine.heads().remember(address, &state);
        Ok(state)
    }

    /// `error`, unless it is that the bucket is missing: the answer to a HEAD request has no body to say so. A bucket that
    /// is there is asked once, so that a reader that tries many names costs no more.
    pub(super) fn name_missing_bucket(&self, error: Error, engine: &Engine, address: &Address) -> Error {
        let is_known = address.is_on_web_server() || engine.known().contains(address.store());
        if error.kind() != ErrorKind::NotFound || is_known {
            return error;
        }
        let Ok(client) = self.client(engine, address) else { return error };
        // Below an object there is hardly ever another, so this is one short page.
        let below = address.key().clone();
        let asked = engine.wait_for(async move { client.list(Some(&below)).try_next().await });
        match asked.map(|asked| asked.map_err(|error| from_store(error, address.store()))) {
            Ok(Err(missing)) if missing.kind() == ErrorKind::NotFound => missing,
            _ => {
                engine.known().insert(address.store().to_owned());
                error
            }
        }
    }

    /// Forgets what was said of `address`: it is no longer so.
    pub(super) fn forget(&self, address: &Address) {
        self.engines.current().heads().forget(address);
    }

    pub(super) fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
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
        let found = engine.wait_for(listing)?.map_err(|error| from_store(error, folder.store()))?;
        let mut ids = Vec::with_capacity(found.len());
        for meta in found {
            let at = folder.beside(&meta.location);
            let state = ObjectState::of(meta, &folder);
            // The next open need not ask again. Without a tag, times in lists are finer than in answers.
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
