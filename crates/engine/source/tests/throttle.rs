//! A bandwidth limit.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant},
};

use forebay_source::Throttle;

#[test]
fn bytes_pass_one_after_another_at_the_given_bandwidth() {
    let throttle = Throttle::new(NonZeroU64::new(1000));
    let start = Instant::now() + Duration::from_secs(1);
    assert_eq!(throttle.pass(start, 500), start + Duration::from_millis(500));
    assert_eq!(throttle.pass(start, 500), start + Duration::from_secs(1));
    let later = start + Duration::from_secs(9);
    assert_eq!(throttle.pass(later, 1), later + Duration::from_millis(1));
}

#[test]
fn without_a_bandwidth_bytes_take_no_time() {
    let start = Instant::now();
    assert_eq!(Throttle::new(None).pass(start, u64::MAX), start);
}
