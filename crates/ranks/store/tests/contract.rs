//! Ranks that are threads keep every clause, on one host and on several.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_store::{Comm, LocalComm, ShardMemory, ShardPlace, Wait, WindowPiece, WindowRead, check};

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
    let again = ranks[0].barrier(&check::patience()).expect_err("rank 1 stays gone");
    assert!(again.to_string().contains("rank 1 is gone"), "{again}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_rank_that_does_not_come_is_an_error_at_the_deadline() {
    let ranks = LocalComm::on_hosts(&[0, 0]);
    let error = ranks[0].barrier(&Wait::at_most(Duration::from_millis(100))).expect_err("rank 1 never comes");
    assert!(error.to_string().contains("[1]"), "{error}");
    for rank in [0, 1] {
        let later = ranks[rank].barrier(&check::patience()).expect_err("what was missed is not made up for");
        assert!(later.to_string().contains("[1]"), "{later}");
    }
}

#[test]
fn a_shard_of_a_host_stays_readable_when_its_rank_is_gone() {
    let ranks = LocalComm::on_hosts(&[0, 0, 1]);
    let open = |comm: &LocalComm| {
        let shard = Arc::new(ShardMemory::new(8, &ShardPlace::Memory).expect("memory"));
        let number = u8::try_from(comm.rank() + 1).expect("a small number");
        shard.write(0, &[number; 8]).expect("within the shard");
        let window = comm.window(shard, &check::patience()).expect("a window");
        window.publish(&check::patience()).expect("all publish");
        window
    };
    let windows: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = ranks.iter().map(|comm| scope.spawn(move || open(comm))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    });
    ranks[1].leave();
    let mut got = [0; 8];
    windows[0].shared(1).expect("one host").copy_to(0, &mut got).expect("it stays readable");
    assert_eq!(got, [2; 8]);
    assert!(windows[2].shared(1).is_none(), "another host shares nothing");
    let pieces = vec![WindowPiece { offset: 0, into: &mut got }];
    let mut reads = [WindowRead { rank: 1, pieces, outcome: Ok(()) }];
    windows[2].get(&mut reads, &check::patience());
    let error = reads[0].outcome.as_ref().expect_err("it is gone").to_string();
    assert!(error.contains("rank 1 is gone"), "{error}");
}
