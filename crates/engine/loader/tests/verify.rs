//! Batches whose sources are yet to be asked whether they changed: no consumer sees one before that.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use forebay_loader::{FieldSpec, Loader, Next, OnError, Options, SampleSet, SampleSpec};
use forebay_plan::Shuffle;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Fill, Locator, Origin, Source, SourceExt, SourceId, Trust};
use made::{Rows, check, make_plain, memory, opened, without_spill};

const ROWS: Rows = Rows { count: 40, row_len: 8, chunk: 40 };
const FILES: u64 = 4;

/// What the sources of an [`Unverified`] origin were asked, and what they answer.
#[derive(Debug, Default)]
struct Answers {
    copies: AtomicU64,
    verifications: AtomicU64,
    /// So many calls of `verify` fail.
    failing: AtomicU64,
}

/// An origin whose copies have to be verified.
#[derive(Debug)]
struct Unverified {
    inner: Arc<dyn Origin>,
    answers: Arc<Answers>,
    /// The file that says it changed.
    bad: Locator,
}

#[derive(Debug)]
struct UnverifiedSource {
    inner: Arc<dyn Source>,
    answers: Arc<Answers>,
    is_bad: bool,
}

impl Origin for Unverified {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let (inner, answers) = (self.inner.open(at)?, Arc::clone(&self.answers));
        Ok(Arc::new(UnverifiedSource { inner, answers, is_bad: *at == self.bad }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.inner.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.inner.survey(under)
    }
}

impl Source for UnverifiedSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.inner.fetch(ranges)
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        self.answers.copies.fetch_add(1, Relaxed);
        self.inner.fetch_into(fills)?;
        Ok(Trust::Unverified)
    }

    fn verify(&self) -> Result<()> {
        self.answers.verifications.fetch_add(1, Relaxed);
        let fails = self.is_bad
            && self.answers.failing.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if fails { Err(Error::new(ErrorKind::Unavailable, "changed").at(&self.id().locator)) } else { Ok(()) }
    }

    fn request_bytes(&self) -> u64 {
        0
    }

    fn will_read(&self, _: ByteRange) {}
}

/// Samples of two fields from four files; the third file says `failing` times that it changed.
fn loader(failing: u64, options: Options) -> (Loader, Arc<Answers>) {
    let files: Vec<_> = (0..FILES).map(|_| make_plain(ROWS)).collect();
    let answers = Arc::new(Answers { failing: AtomicU64::new(failing), ..Answers::default() });
    let (inner, bad) = (Arc::new(memory(&files)), Locator::new("part2.h5"));
    let origin: Arc<dyn Origin> = Arc::new(Unverified { inner, answers: Arc::clone(&answers), bad });
    let again = FieldSpec { name: "again".into(), ..FieldSpec::new("x") };
    let spec = SampleSpec { fields: vec![FieldSpec::new("x"), again] };
    let set = SampleSet::new(spec, &[opened(&files, &origin)]).unwrap();
    let options = without_spill(Options { batch_size: 16, shuffle: Shuffle::Full, ..options });
    (Loader::new(Arc::new(set), options).unwrap(), answers)
}

/// One thread that makes batches ahead, and one that makes none before it is asked.
fn options() -> [Options; 2] {
    [1, 0].map(|prefetch| Options { read_threads: Some(1), prefetch, ..Options::default() })
}

#[test]
fn each_file_of_a_batch_is_verified_once_on_whichever_thread() {
    for options in options() {
        let (loader, answers) = loader(0, options);
        let mut batches = 0;
        for batch in loader.batches().unwrap() {
            check(&batch.unwrap(), ROWS);
            batches += 1;
        }
        // Two fields are copied from every file, and each file is asked for both.
        assert_eq!(batches, ROWS.count * FILES / 16);
        let [copies, verifications] =
            [&answers.copies, &answers.verifications].map(|count| count.load(Relaxed));
        assert_eq!(copies, 2 * verifications);
    }
}

#[test]
fn a_batch_whose_file_changed_is_made_anew_and_right() {
    for options in options() {
        // A consumer that waits asks once itself, and has the batch made anew: a second failure is final.
        let (loader, _) = loader(1, Options { on_error: OnError::Skip, ..options });
        let mut samples = 0;
        for batch in loader.batches().unwrap() {
            let batch = batch.unwrap();
            check(&batch, ROWS);
            assert!(batch.failed.is_empty(), "{:?}", batch.failed);
            samples += batch.samples.len() as u64;
        }
        assert_eq!(samples, ROWS.count * FILES);
    }
}

#[test]
fn a_file_that_changes_again_and_again_ends_the_run_by_name_or_is_left_out() {
    for options in options() {
        let (strict, _) = loader(u64::MAX, options.clone());
        let mut run = strict.start().unwrap();
        let error = loop {
            match strict.next(&mut run, Duration::from_secs(1)) {
                Ok(Next::Batch(batch)) => check(&batch, ROWS),
                Ok(Next::Waiting) => {}
                Ok(Next::End) => panic!("no error"),
                Err(error) => break error,
            }
        };
        let said = error.to_string();
        assert!(said.contains("part2.h5") && said.contains("variable 'x'"), "{said}");
        assert!(matches!(strict.next(&mut run, Duration::from_secs(1)), Ok(Next::End)), "it is over");

        let (lenient, _) = loader(u64::MAX, Options { on_error: OnError::Skip, ..options });
        let mut left = 0;
        for batch in lenient.batches().unwrap() {
            let batch = batch.unwrap();
            check(&batch, ROWS);
            left += batch.samples.len() as u64;
        }
        assert_eq!(left, ROWS.count * (FILES - 1));
        assert_eq!(lenient.stats().skipped, ROWS.count);
    }
}
