//! How many requests are on their way at once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use bytes::Bytes;
use forebay_loader::{FieldSpec, Loader, Options, SampleSet, SampleSpec};
use forebay_plan::Shuffle;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Fill, Locator, Origin, Source, SourceId, Trust};

use made::{Rows, epoch, make, memory, opened, without_spill};

/// No request waits longer for others: a guard against hanging.
const GUARD: Duration = Duration::from_secs(300);
const REQUEST_BYTES: u64 = 1 << 20;

/// Holds requests back until so many are on their way at once.
#[derive(Debug, Default)]
struct Gate {
    /// On their way now, and the most there were.
    requests: Mutex<(usize, usize)>,
    changed: Condvar,
    wanted: usize,
}

impl Gate {
    fn pass<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut requests = self.requests.lock().unwrap();
        requests.0 += 1;
        requests.1 = requests.1.max(requests.0);
        self.changed.notify_all();
        let held = self.changed.wait_timeout_while(requests, GUARD, |(_, most)| *most < self.wanted);
        let (mut requests, timeout) = held.unwrap();
        requests.0 -= 1;
        drop(requests);
        match timeout.timed_out() {
            true => Err(Error::new(ErrorKind::Io, "nobody else asks for anything")),
            false => read(),
        }
    }
}

/// An origin behind a network whose requests pass a gate.
#[derive(Debug)]
struct GatedOrigin {
    inner: Arc<dyn Origin>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct GatedSource {
    inner: Arc<dyn Source>,
    gate: Arc<Gate>,
}

impl Origin for GatedOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(GatedSource { inner: self.inner.open(at)?, gate: Arc::clone(&self.gate) }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.inner.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.inner.survey(under)
    }
}

impl Source for GatedSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.gate.pass(|| self.inner.fetch(ranges))
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        self.gate.pass(|| self.inner.copy_into(fills))
    }

    fn verify(&self) -> Result<()> {
        self.inner.verify()
    }

    fn request_bytes(&self) -> u64 {
        REQUEST_BYTES
    }

    fn will_read(&self, _: ByteRange) {}
}

#[test]
fn each_thread_has_a_request_on_its_way_though_one_brings_many_batches_in_order() {
    let rows = Rows { count: 4096, row_len: 256, chunk: 0 };
    let files = [make(rows)];
    for threads in [1, 3] {
        let gate = Arc::new(Gate { wanted: threads, ..Gate::default() });
        let origin: Arc<dyn Origin> =
            Arc::new(GatedOrigin { inner: Arc::new(memory(&files)), gate: Arc::clone(&gate) });
        let spec = SampleSpec { fields: vec![FieldSpec::new("x")] };
        let set = SampleSet::new(spec, &[opened(&files, &origin)]).unwrap();
        // 32 batches of 32 KiB lie in one request.
        let options = without_spill(Options {
            batch_size: 32,
            shuffle: Shuffle::None,
            read_threads: Some(threads),
            memory: Some(64 << 20),
            ..Options::default()
        });
        let loader = Loader::new(Arc::new(set), options).unwrap();
        assert!(epoch(&loader, rows).into_iter().eq(0..rows.count));
        assert_eq!(loader.stats().decoded_again, 0, "each request was made once");
        assert!(gate.requests.lock().unwrap().1 >= threads);
    }
}
