//! Cores and memory, and who limits them.

use std::{fs, num::NonZeroUsize, thread};

use forebay::format::{memory_budget, memory_limit};
use serde::Serialize;

/// What this process may use of the machine.
#[derive(Debug, Serialize)]
pub(super) struct MachineFacts {
    pub(super) system: String,
    pub(super) cores: usize,
    pub(super) cores_of_machine: usize,
    pub(super) cores_by: &'static str,
    pub(super) memory_limit_bytes: u64,
    pub(super) memory_limit_by: &'static str,
    pub(super) memory_budget_bytes: u64,
}

impl MachineFacts {
    pub(super) fn gather() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cores_of_machine = listed(&read("/sys/devices/system/cpu/online")).unwrap_or(cores).max(cores);
        let status = read("/proc/self/status");
        let allowed =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).and_then(listed);
        let limit = memory_limit();
        Self {
            system: system(read("/proc/sys/kernel/osrelease").trim()),
            cores,
            cores_of_machine,
            cores_by: match allowed {
                _ if cores == cores_of_machine => "nobody",
                Some(allowed) if allowed > cores => "the cgroup's quota",
                _ => "the affinity of this process",
            },
            memory_limit_bytes: limit.bytes,
            memory_limit_by: limit.by,
            memory_budget_bytes: memory_budget(),
        }
    }
}

/// `Linux 6.1.0 x86_64`
fn system(release: &str) -> String {
    let name = match std::env::consts::OS {
        "linux" => "Linux",
        other => other,
    };
    format!("{name} {release} {}", std::env::consts::ARCH).replace("  ", " ")
}

/// How many numbers a list of the kernel's has: `0-3,8`.
fn listed(list: &str) -> Option<usize> {
    let mut count: usize = 0;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cores_is_counted() {
        assert_eq!(listed("0-3,8\n"), Some(5));
        assert_eq!(listed("\t7"), Some(1));
        assert_eq!(listed(""), None);
        assert_eq!(listed("3-1"), None);
    }
}
