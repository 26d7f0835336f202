//! Cores and memory, and who limits them.

use std::{fs, num::NonZeroUsize, thread};

use forebay::process::{listed_count, memory_budget, memory_limit};
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
        let cores_of_machine =
            listed_count(&read("/sys/devices/system/cpu/online")).unwrap_or(cores).max(cores);
        let status = read("/proc/self/status");
        let allowed =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).and_then(listed_count);
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
