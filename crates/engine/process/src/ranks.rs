//! Which part of a node's cores is this rank's: launchers say how many ranks share it.

use std::{fs, num::NonZeroUsize, thread};

/// Ranks of this job on this node, as their launcher says: they share its memory and its cores.
pub fn ranks_on_node() -> u64 {
    ranks(&|name| std::env::var(name).ok())
}

/// Cores that are this rank's: those it is bound to, or its part of those that all ranks of the node share.
pub fn cores_of_rank() -> usize {
    let available = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = listed_count(&read("/sys/devices/system/cpu/online")).unwrap_or(available);
    let status = read("/proc/self/status");
    let bound =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).and_then(listed_count);
    let of_job = std::env::var("SLURM_CPUS_ON_NODE").ok().and_then(|text| text.trim().parse().ok());
    let cores = Cores { available, bound: bound.unwrap_or(machine), machine, of_job };
    cores.of_rank(usize::try_from(ranks_on_node()).unwrap_or(usize::MAX))
}

fn ranks(variable: &dyn Fn(&str) -> Option<String>) -> u64 {
    // torchrun; Open MPI; MPICH and Intel MPI; MVAPICH; Cray's PALS.
    const NAMES: [&str; 5] = [
        "LOCAL_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "PALS_LOCAL_SIZE",
    ];
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    let launched = NAMES.iter().find_map(|name| number(name));
    let of_step = || {
        let node = number("SLURM_NODEID").unwrap_or(0);
        tasks_of_node(&variable("SLURM_STEP_TASKS_PER_NODE")?, node)
    };
    launched.or_else(of_step).or_else(|| number("SLURM_NTASKS_PER_NODE")).unwrap_or(1).max(1)
}

/// The tasks of node `node` in a list of Slurm's, such as `4(x2),3`.
fn tasks_of_node(list: &str, node: u64) -> Option<u64> {
    let mut first = 0u64;
    for part in list.trim().split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.trim_end_matches(')').parse().ok()?),
            None => (part, 1u64),
        };
        first = first.checked_add(nodes)?;
        if node < first {
            return tasks.parse().ok();
        }
    }
    None
}

/// What is known of the cores of a node.
#[derive(Clone, Copy, Debug)]
struct Cores {
    /// What this process may use, by its affinity and its cgroup's quota.
    available: usize,
    /// What its affinity names.
    bound: usize,
    /// What the machine has.
    machine: usize,
    /// What Slurm gives the job on this node.
    of_job: Option<usize>,
}

impl Cores {
    fn of_rank(self, ranks: usize) -> usize {
        // A rank that is bound to fewer cores than the job has need not share them.
        let cores = match self.bound < self.machine {
            true => self.available.min(self.of_job.unwrap_or(self.machine) / ranks),
            false => self.available / ranks,
        };
        cores.max(1)
    }
}

/// How many numbers a list of the kernel's has: `0-3,8`.
pub fn listed_count(list: &str) -> Option<usize> {
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

    fn ranks_with(pairs: &[(&str, &str)]) -> u64 {
        ranks(&|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn every_launcher_says_how_many_ranks_share_a_node() {
        assert_eq!(ranks_with(&[]), 1);
        for name in [
            "LOCAL_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
            "MPI_LOCALNRANKS",
            "MV2_COMM_WORLD_LOCAL_SIZE",
            "PALS_LOCAL_SIZE",
            "SLURM_NTASKS_PER_NODE",
        ] {
            assert_eq!(ranks_with(&[(name, "8")]), 8, "{name}");
        }
        assert_eq!(ranks_with(&[("LOCAL_WORLD_SIZE", "2"), ("SLURM_NTASKS_PER_NODE", "8")]), 2);
        assert_eq!(ranks_with(&[("LOCAL_WORLD_SIZE", "none"), ("MPI_LOCALNRANKS", "0")]), 1);
    }

    #[test]
    fn a_step_of_slurm_says_it_node_by_node() {
        let on = |node: &'static str| {
            ranks_with(&[("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"), ("SLURM_NODEID", node)])
        };
        assert_eq!([on("0"), on("1"), on("2"), on("3")], [4, 4, 3, 1]);
        assert_eq!(
            ranks_with(&[("SLURM_STEP_TASKS_PER_NODE", "1"), ("SLURM_NTASKS_PER_NODE", "4")]),
            1,
            "one process of an allocation for four"
        );
    }

    #[test]
    fn ranks_divide_the_cores_they_share_and_not_those_they_are_bound_to() {
        let free = Cores { available: 128, bound: 128, machine: 128, of_job: None };
        assert_eq!([free.of_rank(1), free.of_rank(8), free.of_rank(1000)], [128, 16, 1]);
        let limited = Cores { available: 32, ..free };
        assert_eq!(limited.of_rank(4), 8, "a cgroup's quota is the job's");
        let bound = Cores { available: 8, bound: 8, of_job: Some(32), ..free };
        assert_eq!(bound.of_rank(4), 8);
        let job = Cores { available: 32, bound: 32, of_job: Some(32), ..free };
        assert_eq!(job.of_rank(4), 8, "a job of 32 cores whose ranks are not bound");
    }

    #[test]
    fn a_list_of_cores_is_counted() {
        assert_eq!(listed_count("0-3,8\n"), Some(5));
        assert_eq!(listed_count("\t7"), Some(1));
        assert_eq!(listed_count(""), None);
        assert_eq!(listed_count("3-1"), None);
    }
}
