//! How much memory forebay may take on this node: what the user sets, or a part of what job, cgroup, limits and machine
//! allow.

use std::{fs, path::Path};

use rustix::process::{Resource, getrlimit};

use crate::{Error, ErrorKind, Result, size};

/// Part of the allowed memory that forebay may fill: the rest is for the program around it.
const SHARE: (u64, u64) = (3, 4);

/// The variable that sets the budget in place of what the machine allows.
const VARIABLE: &str = "FOREBAY_MEMORY";

/// Bytes that forebay may take on this node, in all processes of the job together.
///
/// A process asks the [`ledger`](crate::ledger) for its part of it.
pub fn memory_budget() -> u64 {
    budget_and_origin().bytes
}

/// The budget, and who sets it.
pub(crate) fn budget_and_origin() -> MemoryLimit {
    if let Ok(Some(bytes)) = memory_setting() {
        return MemoryLimit { bytes, by: VARIABLE };
    }
    let limit = memory_limit();
    MemoryLimit { bytes: limit.bytes / SHARE.1 * SHARE.0, ..limit }
}

/// What `FOREBAY_MEMORY` says; an error where that is no size.
pub fn memory_setting() -> Result<Option<u64>> {
    setting(std::env::var(VARIABLE).ok().as_deref())
}

fn setting(text: Option<&str>) -> Result<Option<u64>> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    size::parse(text).map(Some).map_err(|what| Error::new(ErrorKind::Invalid, what).at(VARIABLE))
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
    fn a_budget_that_is_set_is_a_size_or_an_error_that_names_the_variable() {
        assert_eq!(setting(None).unwrap(), None);
        assert_eq!(setting(Some(" ")).unwrap(), None);
        assert_eq!(setting(Some("1GiB")).unwrap(), Some(1 << 30));
        let error = setting(Some("much")).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Invalid && error.to_string().starts_with("FOREBAY_MEMORY: 'much'")
        );
    }

    #[test]
    fn the_budget_is_less_than_the_machine_has() {
        let machine = machine_limit(&|path| fs::read_to_string(path).ok()).unwrap();
        assert!(memory_budget() > 1 << 20 && memory_budget() < machine);
    }
}
