//! Ranks that are threads keep every clause, on one host and on several.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_store::{Comm, LocalComm, ShardMemory, ShardPlace, Wait, check};

#[test]
fn threads_of_one_host_and_of_several_keep_every_clause() {
    for hosts in [&[0][..], &[0, 0], &[0, 1], &[0, 0, 1], &[0, 0, 1, 1, 2, 2, 2]] {
        LocalComm::run(hosts, |comm| check::every_clause(&comm));
    }
}

#[test]
fn a_rank_that_leaves_is_an_error_that_names_it() {
    let ranks = LocalComm::on_hosts(&[0, 1, 1]);
    ranks[1].leave();
    let started = Instant::now();
    for rank in [0, 2] {
        let error = ranks[rank].barrier(&check::patience()).expect_err("rank 1 never comes");
        assert!(error.to_string().contains("rank 1 is gone"), "{error}");
        assert_eq!(ranks[rank].first_gone(0..3), Some(1));
    }
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_rank_that_does_not_come_is_an_error_at_the_deadline() {
    let ranks = LocalComm::on_hosts(&[0, 0]);
    let error = ranks[0].barrier(&Wait::at_most(Duration::from_millis(100))).expect_err("rank 1 never comes");
    assert!(error.to_string().contains("[1]"), "{error}");
}

#[test]
fn a_shard_of_a_host_stays_readable_when_its_rank_is_gone() {
    let got = LocalComm::run(&[0, 0, 1], |comm: Arc<dyn Comm>| {
        let shard = Arc::new(ShardMemory::new(8, &ShardPlace::Memory).expect("memory"));
        let number = u8::try_from(comm.rank() + 1).expect("a small number");
        shard.write(0, &[number; 8]).expect("within the shard");
        let window = comm.window(shard, &check::patience()).expect("a window");
        window.publish(&check::patience()).expect("all publish");
        let mut got = [0; 8];
        window.shared(1).map(|shard| shard.copy_to(0, &mut got).map(|()| got))
    });
    assert_eq!(got[0].as_ref().and_then(|got| got.as_ref().ok()), Some(&[2; 8]));
    assert!(got[2].is_none(), "another host shares nothing");
}
