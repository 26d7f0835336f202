//! How much memory this process may take: the least of what the job, the cgroup and the machine allow.

use std::fs;

/// Part of the allowed memory that one read may fill: the rest is for the program around it.
const SHARE: (u64, u64) = (3, 4);

/// Bytes that forebay allows itself unless told otherwise.
pub fn memory_budget() -> u64 {
    let limits = [cgroup_limit(), slurm_limit(), machine_limit()];
    let limit = limits.into_iter().flatten().min().unwrap_or(1 << 30);
    limit / SHARE.1 * SHARE.0
}

fn cgroup_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?.trim().to_owned();
        read_number(&format!("/sys/fs/cgroup{path}/memory.max"))
    });
    let root = read_number("/sys/fs/cgroup/memory.max");
    let old = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    [own, root, old].into_iter().flatten().min()
}

fn slurm_limit() -> Option<u64> {
    let mebibytes: u64 = std::env::var("SLURM_MEM_PER_NODE").ok()?.parse().ok()?;
    (mebibytes > 0).then(|| mebibytes.saturating_mul(1 << 20))
}

fn machine_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes << 10)
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_less_than_the_machine_has() {
        assert!(memory_budget() > 1 << 20);
        assert!(memory_budget() < machine_limit().unwrap());
    }
}
