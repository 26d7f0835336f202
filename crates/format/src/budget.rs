//! How much memory this process may take: the least of what the job, the cgroup, `ulimit -v` and the machine allow.

use std::{fs, path::Path};

use rustix::process::{Resource, getrlimit};

/// Part of the allowed memory that one read may fill: the rest is for the program around it.
const SHARE: (u64, u64) = (3, 4);

/// Bytes that forebay allows itself unless told otherwise.
pub fn memory_budget() -> u64 {
    memory_limit().bytes / SHARE.1 * SHARE.0
}

/// The most memory this process can have, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryLimit {
    /// The bytes.
    pub bytes: u64,
    /// Who limits it.
    pub by: &'static str,
}

/// The least of the limits that this process has.
pub fn memory_limit() -> MemoryLimit {
    let variable = |name: &str| std::env::var(name).ok();
    let read = |path: &Path| fs::read_to_string(path).ok();
    let limits = [
        (cgroup_limit(&read), "the cgroup"),
        (slurm_limit(&variable), "Slurm"),
        // What is mapped counts too, so that this is more than the process can have, but never less.
        (getrlimit(Resource::As).current, "the limit on the address space (ulimit -v)"),
        (machine_limit(&read), "the machine"),
    ];
    let limits = limits.into_iter().filter_map(|(bytes, by)| Some(MemoryLimit { bytes: bytes?, by }));
    limits.min().unwrap_or(MemoryLimit { bytes: 1 << 30, by: "a guess" })
}

/// The least limit of the process's own cgroup and all above it, of either version.
fn cgroup_limit(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let limits = groups.lines().flat_map(|line| {
        // number:controllers:path, without controllers in version 2
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or_default(), fields.next().unwrap_or("/"));
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let own = Path::new(root).join(path.trim_start_matches('/'));
        let limits = own.ancestors().take_while(|folder| folder.starts_with(root));
        limits.filter_map(|folder| number(&read(&folder.join(file))?)).collect()
    });
    limits.min()
}

/// What Slurm gives the job on this node, in mebibytes.
fn slurm_limit(variable: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let get = |name: &str| number(&variable(name)?).filter(|value| *value > 0);
    let per_cpu = || Some(get("SLURM_MEM_PER_CPU")?.saturating_mul(get("SLURM_CPUS_ON_NODE")?));
    get("SLURM_MEM_PER_NODE").or_else(per_cpu).map(|mebibytes| mebibytes.saturating_mul(1 << 20))
}

fn machine_limit(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    number(line.trim().trim_end_matches("kB")).map(|kibibytes| kibibytes << 10)
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&Path) -> Option<String> + 'a {
        |path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let files = [
            ("/proc/self/cgroup", "0::/slurm/job_7/step_0\n"),
            ("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.max", "4096\n"),
            ("/sys/fs/cgroup/slurm/memory.max", "8192\n"),
        ];
        assert_eq!(cgroup_limit(&reading(&files)), Some(4096));
    }

    #[test]
    fn version_1_has_the_memory_controller_in_a_folder_of_its_own() {
        let files = [
            ("/proc/self/cgroup", "5:cpu,cpuacct:/a\n3:memory:/a/b\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1234\n"),
        ];
        assert_eq!(cgroup_limit(&reading(&files)), Some(1234));
    }

    #[test]
    fn slurm_counts_per_node_or_per_cpu() {
        let set = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            }
        };
        assert_eq!(slurm_limit(&set(&[("SLURM_MEM_PER_NODE", "3")])), Some(3 << 20));
        let per_cpu = set(&[("SLURM_MEM_PER_CPU", "2"), ("SLURM_CPUS_ON_NODE", "4")]);
        assert_eq!(slurm_limit(&per_cpu), Some(8 << 20));
        assert_eq!(slurm_limit(&set(&[("SLURM_MEM_PER_NODE", "0")])), None, "0 stands for all there is");
    }

    #[test]
    fn the_budget_is_less_than_the_machine_has() {
        let machine = machine_limit(&|path| fs::read_to_string(path).ok()).unwrap();
        assert!(memory_budget() > 1 << 20 && memory_budget() < machine);
    }
}
