//! What a memory tier keeps, and what it evicts.

use forebay_source::{Locator, Version};

use super::*;
use crate::policy::BuiltinPolicy;

fn id(name: &str) -> SourceId {
    SourceId { locator: Locator::new(name), len: 1000, version: Version::named("v") }
}

fn put(copies: &Arc<dyn Copies>, block: u64, byte: u8) -> Option<Admission> {
    match Arc::clone(copies).claim(block, 100, true) {
        Claim::Held(claimed) => Some(claimed.put(&Bytes::from(vec![byte; 100]))),
        _ => None,
    }
}

fn filled(policy: BuiltinPolicy) -> Arc<dyn Copies> {
    let tier = Box::leak(Box::new(MemoryTier::new(300, Ranking::new(policy))));
    let copies = tier.copies(&id("a")).unwrap();
    for block in 0..3 {
        assert_eq!(put(&copies, block, block.to_le_bytes()[0]), Some(Admission::Kept));
    }
    copies
}

#[test]
fn what_was_put_is_read_back_in_part_and_no_more_is_taken_than_the_quota() {
    let tier = MemoryTier::new(250, Ranking::new(BuiltinPolicy::FirstFit));
    let (one, other) = (tier.copies(&id("a")).unwrap(), tier.copies(&id("b")).unwrap());
    assert_eq!(put(&one, 0, 7), Some(Admission::Kept));
    assert_eq!(put(&other, 0, 9), Some(Admission::Kept));
    assert_eq!((one.room(1, 100), one.room(1, 50)), (Room::Full, Room::Free));
    assert!(matches!(Arc::clone(&one).claim(1, 100, true), Claim::Full));
    assert!(matches!(Arc::clone(&one).claim(0, 100, true), Claim::Here));
    drop(Arc::clone(&one).claim(1, 50, true));
    assert_eq!(tier.usage().used, 200, "room that was not used is given back");
    let (mut part, mut beyond) = ([0; 10], [0; 10]);
    let mut pieces = [(90, &mut part), (95, &mut beyond)].map(|(from, into)| BlockPiece {
        block: 0,
        from,
        into,
        is_filled: false,
    });
    other.read_many(&mut pieces, None);
    assert_eq!(pieces.map(|piece| piece.is_filled), [true, false], "past the end of the block");
    assert_eq!(part, [9; 10]);
    assert!(one.get(1).is_none());
    assert_eq!(tier.usage(), Usage { used: 200, quota: 250, evicted: 0, faults: 0 });
}

#[test]
fn the_right_one_leaves_for_a_newcomer() {
    for (policy, left) in
        [(BuiltinPolicy::Lru, 1), (BuiltinPolicy::Fifo, 0), (BuiltinPolicy::Lifo, 2), (BuiltinPolicy::Lfu, 1)]
    {
        let copies = filled(policy);
        for block in [1, 0, 0, 2, 2, 0] {
            assert!(copies.get(block).is_some());
        }
        assert_eq!(copies.room(3, 100), Room::ByEvicting);
        assert!(matches!(Arc::clone(&copies).claim(3, 100, false), Claim::Full));
        assert_eq!(put(&copies, 3, 3), Some(Admission::Kept));
        let there: Vec<u64> = (0..4).filter(|block| copies.has(*block)).collect();
        let stayed: Vec<u64> = (0..4).filter(|block| *block != left).collect();
        assert_eq!(there, stayed, "{policy:?}");
    }
}
