//! Single flight and the memory tier under every order of threads that shuttle tries.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use forebay_process::ErrorKind;
use forebay_source::{Locator, SourceId, Version};
use forebay_tier::{
    BlockPiece, BuiltinPolicy, Claim, FlightPart, Flights, Landed, MemoryTier, Ranking, SourceKey, Tier, Turn,
};
use shuttle::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
};

const ORDERS: usize = 2000;

fn id() -> SourceId {
    SourceId { locator: Locator::new("a"), len: 1000, version: Version::named("v") }
}

#[test]
fn however_threads_come_one_fetches_at_a_time_and_all_get_the_bytes() {
    shuttle::check_random(
        || {
            let (flights, fetching) = (Arc::new(Flights::default()), Arc::new(AtomicUsize::new(0)));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (flights, fetching) = (Arc::clone(&flights), Arc::clone(&fetching));
                    thread::spawn(move || match flights.turn(SourceKey::of(&id()), FlightPart::Block(0)) {
                        Turn::Lead(lead) => {
                            assert_eq!(fetching.fetch_add(1, SeqCst), 0, "two fetch at once");
                            thread::yield_now();
                            lead.land(Landed::Bytes(Bytes::from_static(b"abc")));
                            fetching.fetch_sub(1, SeqCst);
                        }
                        Turn::Follow(flight) => {
                            let landed =
                                flight.wait(Duration::from_secs(3600)).expect("nobody waits for ever");
                            assert_eq!(landed.into_result().expect("bytes").as_deref(), Some(&b"abc"[..]));
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no thread panics");
            }
            assert!(
                flights.find(SourceKey::of(&id()), FlightPart::Block(0)).is_none(),
                "nothing stays behind"
            );
        },
        ORDERS,
    );
}

#[test]
fn a_leader_that_goes_away_fails_its_followers_and_keeps_nobody_waiting() {
    shuttle::check_random(
        || {
            let flights = Arc::new(Flights::default());
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let flights = Arc::clone(&flights);
                    thread::spawn(move || match flights.turn(SourceKey::of(&id()), FlightPart::Block(0)) {
                        Turn::Lead(lead) => drop(lead),
                        Turn::Follow(flight) => {
                            let landed =
                                flight.wait(Duration::from_secs(3600)).expect("nobody waits for ever");
                            let error = landed.into_result().expect_err("nothing was fetched");
                            assert_eq!(error.kind(), ErrorKind::Unavailable);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no thread panics");
            }
        },
        ORDERS,
    );
}

#[test]
fn the_memory_tier_never_holds_more_than_its_quota_nor_other_bytes_than_were_put() {
    for policy in [BuiltinPolicy::FirstFit, BuiltinPolicy::Lru, BuiltinPolicy::Fifo] {
        shuttle::check_random(
            move || {
                let tier = Arc::new(MemoryTier::new(200, Ranking::new(policy)));
                let threads: Vec<_> = (0..3u64)
                    .map(|first| {
                        let tier = Arc::clone(&tier);
                        thread::spawn(move || {
                            let copies = tier.copies(&id()).expect("copies");
                            for block in [first, first + 1] {
                                if let Claim::Held(claimed) = Arc::clone(&copies).claim(block, 100, true) {
                                    claimed.put(&Bytes::from(vec![block.to_le_bytes()[0]; 100]));
                                }
                                assert!(tier.usage().used <= 200);
                                let mut read = [9; 10];
                                let into = &mut read[..];
                                let mut piece = [BlockPiece { block, from: 5, into, is_filled: false }];
                                copies.read_many(&mut piece, None);
                                if piece[0].is_filled {
                                    assert_eq!(read, [block.to_le_bytes()[0]; 10]);
                                }
                            }
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().expect("no thread panics");
                }
                let copies = tier.copies(&id()).expect("copies");
                let there = (0..5).filter(|block| copies.has(*block)).count() as u64;
                assert_eq!(tier.usage().used, 100 * there);
            },
            ORDERS,
        );
    }
}
