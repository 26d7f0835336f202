//! Quantiles of a histogram against those of the sorted list.

use std::time::Duration;

use forebay_process::Histogram;
use proptest::{collection::vec, prelude::*};

proptest! {
    #[test]
    fn quantiles_are_those_of_the_sorted_list_to_a_thirty_second(
        times in vec(prop_oneof![0..100_u64, 0..5_000_000_u64, any::<u64>()], 1..300),
        split in 0..300_usize,
        quantile in 0.0..=1.0_f64,
    ) {
        let (one, other) = (Histogram::new(), Histogram::new());
        for (index, time) in times.iter().enumerate() {
            if index < split { &one } else { &other }.record(Duration::from_nanos(*time));
        }
        one.merge(&other);
        let mut sorted = times.clone();
        sorted.sort_unstable();
        prop_assert_eq!(one.count(), times.len() as u64);
        for quantile in [quantile, 0.0, 0.5, 0.9, 0.99, 1.0] {
            let wanted = (quantile * times.len() as f64).ceil().max(1.0);
            let index = (0..times.len()).position(|index| (index + 1) as f64 >= wanted).unwrap();
            let (exact, got) = (u128::from(sorted[index]), one.quantile(quantile).unwrap().as_nanos());
            prop_assert!(exact <= got && got <= exact + exact / 32, "{quantile}: {exact} {got}");
        }
        prop_assert_eq!(one.summary().max_ns, sorted[sorted.len() - 1]);
    }
}
