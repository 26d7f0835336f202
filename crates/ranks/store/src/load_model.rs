//! How long batches of a store take on a machine that is not there: a sum of costs, whose constants are measured.
//!
//! A batch of `n` samples of `s` bytes, of which the share `r` lies on other hosts, takes
//!
//! ```text
//! k · (1 - r)·n · (sample + s·byte)                   copies from memory of this host
//! + round_trip + k · targets·(request + (k - 1)·turn) where other hosts are asked at all
//! + k · r·n · remote_sample                           work for their samples, at both ends
//! + k · (n·s - 1 MiB) · beyond_cache                  a batch that is longer than a processor's cache
//! + the longer of  k · r·n·s·remote_byte              work for their bytes, at both ends
//!             and  ranks_per_host · r·n·s / link      their way over the network of a host, which its ranks share
//! ```
//!
//! Bytes are worked on while others are on their way, so the longer of the two counts. `remote_byte` is measured with a network in
//! between: where that was the limit it stands for it, and a given link only makes a difference where it is slower.
//!
//! `k` is how many ranks share a processor, at least 1: then those that are asked have to wait for their turn. `targets` is how many
//! ranks of other hosts a batch is expected to need. What is measured has to lie in memory and not in caches, as large sets do.

use crate::groups::ReplicaGroups;
use forebay_process::Result;

/// What the parts of a get cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelConstants {
    /// Seconds for a sample in memory of the same host.
    pub sample: f64,
    /// Seconds for each of its bytes.
    pub byte: f64,
    /// Seconds until the first byte of another host is there.
    pub round_trip: f64,
    /// Seconds for each rank of another host that is asked.
    pub request: f64,
    /// Seconds of work for a sample of another host, at both ends.
    pub remote_sample: f64,
    /// Seconds of work for each of its bytes.
    pub remote_byte: f64,
    /// Seconds more for each byte of a batch beyond the cache of a processor.
    pub beyond_cache: f64,
    /// Seconds until a rank that is asked has its turn, for each other that shares its processor.
    pub turn: f64,
    /// Bytes per second of a host's network; infinite where it is no limit.
    pub link: f64,
}

/// Constants that are fitted; the link is given.
const FITTED: usize = 8;

/// The place of `remote_byte` among them.
const REMOTE_BYTE: usize = 5;

/// Bytes that a processor keeps near: half of the 2 MiB that those of this kind have for themselves.
const CACHE: f64 = 1_048_576.0;

impl ModelConstants {
    /// Those that `measured` points are nearest to, by relative error, each at least 0; the link is no limit.
    pub fn fitted(measured: &[(ModelCase, f64)]) -> Result<Self> {
        let mut rows = Vec::new();
        for (case, seconds) in measured {
            rows.push((case.shares()?.factors(*case).map(|factor| factor / seconds), 1.0));
        }
        let [sample, byte, round_trip, request, remote_sample, remote_byte, beyond_cache, turn] =
            least_squares(&rows);
        let link = f64::INFINITY;
        Ok(Self { sample, byte, round_trip, request, remote_sample, remote_byte, beyond_cache, turn, link })
    }
}

/// An arrangement of ranks and samples whose speed is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelCase {
    /// Ranks of the job.
    pub ranks: usize,
    /// Ranks of a host.
    pub ranks_per_host: usize,
    /// Processors that the ranks of a host have.
    pub cores_per_host: f64,
    /// Ranks that hold the set between them.
    pub width: usize,
    /// Bytes of a sample.
    pub sample_bytes: u64,
    /// Samples of a batch.
    pub batch: u64,
}

/// What is expected of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The part of the samples that lies on other hosts.
    pub remote_share: f64,
    /// The median of single gets of samples of other ranks, in seconds; of its own where there is no other.
    pub get_seconds: f64,
    /// A batch, in seconds.
    pub batch_seconds: f64,
    /// Samples per second of all ranks together.
    pub samples_per_second: f64,
}

impl ModelCase {
    /// What is expected with these constants.
    pub fn answer(self, constants: &ModelConstants) -> Result<ModelAnswer> {
        let shares = self.shares()?;
        let batch_seconds = shares.seconds(self, constants);
        let single = Self { batch: 1, ..self };
        // One get is of one kind: the median is that of the more frequent one.
        let of_others = if shares.others > 0.0 { shares.remote_ranks / shares.others } else { 0.0 };
        let of_kind = |remote: f64| GroupShares { remote, ..shares }.seconds(single, constants);
        Ok(ModelAnswer {
            remote_share: shares.remote,
            get_seconds: of_kind(if of_others > 0.5 { 1.0 } else { 0.0 }),
            batch_seconds,
            samples_per_second: self.ranks as f64 * self.batch as f64 / batch_seconds,
        })
    }

    fn shares(self) -> Result<GroupShares> {
        let groups = ReplicaGroups::new(self.ranks, Some(self.width))?;
        let per_host = self.ranks_per_host.max(1);
        let mut mean = GroupShares { remote: 0.0, remote_ranks: 0.0, others: 0.0 };
        for rank in 0..self.ranks {
            let members = groups.members(groups.group_of(rank));
            let host = rank / per_host * per_host;
            let near = (host + per_host).min(members.end) - host.max(members.start);
            let (near, members) = (near as f64, members.len() as f64);
            mean.remote += (1.0 - near / members) / self.ranks as f64;
            mean.remote_ranks += (members - near) / self.ranks as f64;
            mean.others += (members - 1.0) / self.ranks as f64;
        }
        Ok(mean)
    }

    /// Ranks for each processor, at least 1.
    fn crowding(self) -> f64 {
        (self.ranks_per_host.min(self.ranks) as f64 / self.cores_per_host.max(f64::MIN_POSITIVE)).max(1.0)
    }
}

/// Where the samples of a replica group lie, as one of its members sees it.
#[derive(Clone, Copy, Debug)]
struct GroupShares {
    /// The part of the samples that lies on other hosts.
    remote: f64,
    /// Members on other hosts.
    remote_ranks: f64,
    /// Members besides this rank.
    others: f64,
}

impl GroupShares {
    /// By what each fitted constant is multiplied.
    fn factors(self, case: ModelCase) -> [f64; FITTED] {
        let (batch, bytes, crowding) = (case.batch as f64, case.sample_bytes as f64, case.crowding());
        let (near, far) = (batch * (1.0 - self.remote), batch * self.remote);
        let asked = if far > 0.0 { self.targets(far) } else { 0.0 };
        let is_far = if far > 0.0 { 1.0 } else { 0.0 };
        [
            near * crowding,
            near * bytes * crowding,
            is_far,
            asked * crowding,
            far * crowding,
            far * bytes * crowding,
            (batch * bytes - CACHE).max(0.0) * crowding,
            asked * crowding * (crowding - 1.0),
        ]
    }

    /// Ranks of other hosts that are expected to hold one of `far` samples or more.
    fn targets(self, far: f64) -> f64 {
        let ranks = self.remote_ranks.max(1.0);
        (ranks * (1.0 - (1.0 - 1.0 / ranks).powf(far))).max(far.min(1.0))
    }

    fn link_seconds(self, case: ModelCase, link: f64) -> f64 {
        let bytes = case.batch as f64 * self.remote * case.sample_bytes as f64;
        bytes * case.ranks_per_host.min(case.ranks) as f64 / link
    }

    fn seconds(self, case: ModelCase, of: &ModelConstants) -> f64 {
        let costs = [
            of.sample,
            of.byte,
            of.round_trip,
            of.request,
            of.remote_sample,
            of.remote_byte,
            of.beyond_cache,
            of.turn,
        ];
        let factors = self.factors(case);
        let work: f64 = factors.iter().zip(costs).map(|(factor, cost)| factor * cost).sum();
        let work_for_bytes = factors[REMOTE_BYTE] * of.remote_byte;
        work + (self.link_seconds(case, of.link) - work_for_bytes).max(0.0)
    }
}

/// The numbers, none below 0, whose products with each row come nearest to its right side; 0 for columns without any.
///
/// One number after the other is set to its best value while the others stay: the sum of squares is convex, so this ends at
/// the least one. Columns are scaled first, since seconds per byte and per round trip lie far apart.
fn least_squares(rows: &[([f64; FITTED], f64)]) -> [f64; FITTED] {
    const ROUNDS: usize = 20_000;
    let length = |column: usize| rows.iter().map(|(row, _)| row[column].powi(2)).sum::<f64>().sqrt();
    let scales: [f64; FITTED] = std::array::from_fn(length);
    let mut found = [0.0f64; FITTED];
    let mut rests: Vec<f64> = rows.iter().map(|(_, right)| *right).collect();
    for _ in 0..ROUNDS {
        let mut moved = 0.0f64;
        for column in (0..FITTED).filter(|column| scales[*column] > 0.0) {
            let scaled = |row: &[f64; FITTED]| row[column] / scales[column];
            let better: f64 = rows.iter().zip(&rests).map(|((row, _), rest)| scaled(row) * rest).sum();
            let step = better.max(-found[column]);
            found[column] += step;
            for ((row, _), rest) in rows.iter().zip(&mut rests) {
                *rest -= step * scaled(row);
            }
            moved = moved.max(step.abs());
        }
        if moved < 1e-12 {
            break;
        }
    }
    std::array::from_fn(|column| if scales[column] > 0.0 { found[column] / scales[column] } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSTANTS: ModelConstants = ModelConstants {
        sample: 0.3e-6,
        byte: 0.1e-9,
        round_trip: 12e-6,
        request: 3e-6,
        remote_sample: 0.8e-6,
        remote_byte: 0.3e-9,
        beyond_cache: 0.03e-9,
        turn: 2e-6,
        link: f64::INFINITY,
    };

    fn case(ranks: usize, ranks_per_host: usize, width: usize) -> ModelCase {
        ModelCase { ranks, ranks_per_host, cores_per_host: 2.0, width, sample_bytes: 8192, batch: 128 }
    }

    #[test]
    fn a_fit_to_points_of_the_model_finds_its_constants() {
        let mut measured = Vec::new();
        for (ranks, per_host) in [(2, 2), (2, 1), (4, 2), (8, 4)] {
            for (sample_bytes, batch) in [(1024, 16), (8192, 128), (262_144, 4), (64, 512)] {
                let case = ModelCase { sample_bytes, batch, ..case(ranks, per_host, ranks) };
                measured.push((case, case.answer(&CONSTANTS).expect("a width").batch_seconds));
            }
        }
        let fitted = ModelConstants::fitted(&measured).expect("widths");
        for (case, seconds) in &measured {
            let ratio = case.answer(&fitted).expect("a width").batch_seconds / seconds;
            assert!((ratio - 1.0).abs() < 1e-3, "{case:?}: {ratio}");
        }
        assert!((fitted.round_trip / CONSTANTS.round_trip - 1.0).abs() < 0.05, "{fitted:?}");
    }

    #[test]
    fn no_constant_is_below_zero_and_without_other_hosts_none_is_made_up() {
        let points = [(case(2, 2, 2), 40e-6), (ModelCase { sample_bytes: 64, ..case(2, 2, 2) }, 50e-6)];
        let fitted = ModelConstants::fitted(&points).expect("widths");
        assert!(fitted.sample > 0.0 && fitted.byte == 0.0);
        assert_eq!((fitted.round_trip, fitted.request, fitted.remote_byte), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_narrow_group_leaves_the_network_alone_and_a_wide_one_shares_it() {
        let narrow = case(64, 4, 2).answer(&CONSTANTS).expect("a width");
        let wide = case(64, 4, 64).answer(&CONSTANTS).expect("a width");
        assert_eq!(narrow.remote_share, 0.0);
        assert!((wide.remote_share - 60.0 / 64.0).abs() < 1e-12 && wide.batch_seconds > narrow.batch_seconds);
        // Two ranks share a processor: 0.6 ns of work for a byte, and 4 ns of a link of 1 GB/s that four of them share.
        let slow = ModelConstants { link: 1e9, ..CONSTANTS };
        let bytes = 128.0 * 8192.0 * wide.remote_share;
        let behind_link = case(64, 4, 64).answer(&slow).expect("a width").batch_seconds;
        assert!((behind_link - wide.batch_seconds - bytes * (4.0 - 0.6) * 1e-9).abs() < 1e-12);
        let fast = ModelConstants { link: 100e9, ..CONSTANTS };
        assert_eq!(
            case(64, 4, 64).answer(&fast).expect("a width"),
            wide,
            "a fast link hides behind the work"
        );
        // Hosts of 4 ranks and groups of 3: two of four groups lie on two hosts, 2 + 1 members each.
        let astride = case(12, 4, 3).answer(&CONSTANTS).expect("a width").remote_share;
        assert!((astride - 8.0 / 36.0).abs() < 1e-12, "{astride}");
    }

    /// DDStore's Table 3: on 16 hosts of 4 ranks the median of a get falls by 79 to 87 % from width 64 to width 2; here with the
    /// latencies of this machine, not with theirs.
    #[test]
    fn the_median_falls_as_it_did_for_ddstore() {
        let medians = [64, 32, 16, 8, 4, 2].map(|width| {
            let case = ModelCase { cores_per_host: 32.0, sample_bytes: 6000, ..case(64, 4, width) };
            case.answer(&CONSTANTS).expect("a width").get_seconds
        });
        assert!(medians.is_sorted_by(|wide, narrow| wide >= narrow), "{medians:?}");
        let fall = 1.0 - medians[5] / medians[0];
        assert!((0.70..0.95).contains(&fall), "{fall}");
    }

    #[test]
    fn a_width_that_no_job_has_is_an_error() {
        assert!(case(4, 2, 5).answer(&CONSTANTS).is_err());
    }
}
