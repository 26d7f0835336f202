//! What tells users, jobs, boots and single files apart.

use std::{collections::hash_map::RandomState, env, fs, hash::BuildHasher, time::SystemTime};

/// Variables by which schedulers and launchers name a job, the surest first.
const JOB_VARIABLES: [&str; 6] =
    ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "MASTER_PORT"];

/// Longer names of jobs are cut.
const MOST_LETTERS: usize = 64;

/// A name that the processes of one job share and those of others do not: the scheduler's, or else the process group.
pub fn job_name() -> String {
    let named = JOB_VARIABLES.iter().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    let group = || rustix::process::getpgid(None).map_or(0, |group| group.as_raw_nonzero().get()).to_string();
    let name = named.unwrap_or_else(group);
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    letters.take(MOST_LETTERS).collect()
}

/// A name that differs after every start of the machine: marks that were never flushed must not outlive their bytes.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().chars().filter(|letter| *letter != '-').take(16).collect()
}

/// The name of this machine, as far as it can be part of a file's name.
pub fn host_name() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let letters = text.trim().chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() || "-_.".contains(letter) => letter,
        _ => '_',
    });
    letters.take(MOST_LETTERS).collect()
}

/// The name of this user's folder for `purpose`, where other users have theirs: `forebay-tier-1000`.
pub fn user_folder_name(purpose: &str) -> String {
    format!("forebay-{purpose}-{}", rustix::process::geteuid().as_raw())
}

/// A number that nothing had before, for names that must not meet.
pub fn nonce() -> u64 {
    RandomState::new().hash_one((std::process::id(), SystemTime::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_and_boots_can_be_names_of_files() {
        let job = job_name();
        assert!(!job.is_empty() && job.len() <= MOST_LETTERS);
        assert!(job.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'), "{job}");
        assert_eq!((boot_id(), boot_id().contains('/')), (boot_id(), false));
        assert_ne!(nonce(), nonce());
    }
}
