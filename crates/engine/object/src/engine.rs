//! The asynchronous runtime and the clients, a set for each process.
//!
//! Callers are synchronous and wait on a channel; nothing of the runtime is entered on their threads, so they may
//! themselves be threads of another runtime.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    mem,
    sync::{Arc, Mutex, MutexGuard, mpsc},
};

use object_store::ObjectStore;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::Semaphore,
};

use super::{heads::Heads, lock::lock};
use forebay_process::{Error, ErrorKind, Owned, PerProcess, ProcessIdentity, Result, current_process};

/// Requests wait far more than they work: one thread decrypts 1 GB/s and more, two serve any network card here.
const THREADS: usize = 2;

/// The engine of whichever process asks.
#[derive(Debug)]
pub(super) struct Engines(PerProcess<Engine>);

impl Engines {
    pub(super) fn new() -> Self {
        Self(PerProcess::new(Engine::new()))
    }

    /// This process's own: after a fork neither threads nor connections of the parent are touched.
    pub(super) fn current(&self) -> Arc<Owned<Engine>> {
        self.0.get(Engine::new)
    }
}

/// Runtime and clients of one process, made when first needed.
#[derive(Debug)]
pub(super) struct Engine {
    process: ProcessIdentity,
    runtime: Mutex<Option<Runtime>>,
    clients: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    heads: Mutex<Heads>,
    known: Mutex<HashSet<String>>,
}

/// Of which one is taken for each request for bytes, by all engines of a process.
static REQUESTS: PerProcess<Arc<Semaphore>> = PerProcess::empty();

/// Requests for bytes of one process that are under way at once, each by a connection. A server that takes 30 ms for each
/// gives 1.14 GiB/s with 16 and 1.66 GiB/s with 64; twice that, since two loaders may run. Each takes a descriptor.
const MOST_REQUESTS: usize = 128;

impl Engine {
    fn new() -> Self {
        Self {
            process: current_process(),
            runtime: Mutex::default(),
            clients: Mutex::default(),
            heads: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Of which one is taken for each request for bytes.
    pub(super) fn requests(&self) -> Arc<Semaphore> {
        REQUESTS.with(|| Arc::new(Semaphore::new(MOST_REQUESTS)), Arc::clone)
    }

    /// Buckets that are there, or do not say.
    pub(super) fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.known)
    }

    /// What stores said of objects.
    pub(super) fn heads(&self) -> MutexGuard<'_, Heads> {
        lock(&self.heads)
    }

    /// The client of `store`, made by `make` when there is none yet.
    pub(super) fn client(
        &self,
        store: &str,
        make: impl FnOnce() -> Result<Arc<dyn ObjectStore>>,
    ) -> Result<Arc<dyn ObjectStore>> {
        let mut clients = lock(&self.clients);
        if let Some(client) = clients.get(store) {
            return Ok(Arc::clone(client));
        }
        let client = make()?;
        clients.insert(store.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    /// Where tasks are started.
    pub(super) fn handle(&self) -> Result<Handle> {
        let mut runtime = lock(&self.runtime);
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let made = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("forebay-net")
            .enable_all()
            .build();
        let made = made.map_err(|error| Error::from_io(error).at("threads for network requests"))?;
        let handle = made.handle().clone();
        *runtime = Some(made);
        Ok(handle)
    }

    /// Runs `work` to its end, which its own time limits bound.
    pub(super) fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::channel();
        // The receiver waits below for as long as the task lives.
        self.handle()?.spawn(async move { drop(sender.send(work.await)) });
        receiver.recv().map_err(|_| stopped())
    }
}

/// The error for a task that ended without an answer.
pub(super) fn stopped() -> Error {
    Error::new(ErrorKind::Bug, "a task that reads from the network panicked")
}

impl Drop for Engine {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().ok().and_then(Option::take);
        let clients = self.clients.get_mut().map(mem::take);
        if self.process != current_process() {
            // A forked child shares the parent's sockets and its list of what to wait for: closing them properly
            // would take them off that list.
            mem::forget((runtime, clients));
            return;
        }
        drop(clients);
        // Waiting for tasks could last, and must not be done on a thread of a runtime.
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}
