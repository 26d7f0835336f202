//! Memory and threads of a process, shared out among those that ask.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use forebay_process::{Grant, Ledger, Resize};

#[derive(Debug, Default)]
struct Client(AtomicU64);

impl Resize for Client {
    fn resize(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }
}

#[test]
fn those_without_a_size_have_equal_parts_and_one_more_stays_free() {
    let ledger = Ledger::new(1200);
    assert_eq!(ledger.offer(0), 600);
    let first = ledger.share_out("loader", 0, u64::MAX);
    let client = Arc::new(Client::default());
    let weak: Weak<dyn Resize> = Arc::downgrade(&(Arc::clone(&client) as Arc<dyn Resize>));
    first.tell(&weak);
    assert_eq!((first.bytes(), ledger.free(), ledger.offer(0)), (600, 600, 400));
    let second = ledger.share_out("loader", 0, u64::MAX);
    assert_eq!((first.bytes(), client.0.load(Relaxed), second.bytes(), ledger.free()), (400, 400, 400, 400));
    drop(second);
    assert_eq!((first.bytes(), client.0.load(Relaxed)), (600, 600));
}

#[test]
fn who_needs_little_takes_little_and_a_size_that_was_set_is_kept() {
    let ledger = Ledger::new(1000);
    let small = ledger.share_out("data set", 0, 10);
    let set = ledger.take("loader", 590);
    assert_eq!((small.bytes(), set.bytes(), ledger.offer(0)), (10, 590, 200));
    assert_eq!(
        (ledger.offer(300), ledger.offer(900)),
        (300, 410),
        "what it needs, as far as others leave it"
    );
    let other = ledger.share_out("loader", 300, u64::MAX);
    assert_eq!(other.bytes(), 300, "no less than it needs");
    let many: Vec<_> = (0..100).map(|_| ledger.share_out("data set", 0, u64::MAX)).collect();
    assert_eq!(ledger.report().taken.len(), 103);
    assert!(many.iter().map(Grant::bytes).sum::<u64>() <= 100);
    let beyond = ledger.take("loader", 5000);
    assert_eq!((beyond.bytes(), ledger.free(), ledger.offer(0)), (5000, 0, 0));
}

#[test]
fn workers_divide_what_they_share() {
    let ledger = Ledger::new(1600);
    ledger.set_workers(4, 1);
    assert_eq!(ledger.share(), 200, "half is left to a parent of which nothing is known");
    let grant = ledger.share_out("data set", 0, u64::MAX);
    assert_eq!((grant.bytes(), ledger.free()), (100, 100));
    assert!((1..=16).contains(&ledger.threads()));
}
