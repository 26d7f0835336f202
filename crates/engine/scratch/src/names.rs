//! What tells users, jobs, boots and single files apart.

use std::{
    collections::hash_map::RandomState, env, fs, hash::BuildHasher, path::Path, sync::OnceLock,
    time::SystemTime,
};

/// The variable by which the processes of one `forebay run` know the folder that they meet in.
pub const RUN_VARIABLE: &str = "FOREBAY_RUN";
/// What the name of such a folder begins with, before the name of the run.
const RUN_FOLDER: &str = "forebay-run-";

/// The run that this process has started, which its own environment does not name.
static STARTED_RUN: OnceLock<String> = OnceLock::new();

/// Which start of the machine this is: each open of a whole copy is compared with it, and to read it took six system calls.
static BOOT: OnceLock<String> = OnceLock::new();

/// Variables by which schedulers and launchers name a job, the surest first.
const JOB_VARIABLES: [&str; 6] =
    ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "MASTER_PORT"];

/// The name that `torchrun` gives every job that was given none, where nodes meet at an address and a port.
const UNNAMED: &str = "none";

/// Longer names of jobs are cut.
const MOST_LETTERS: usize = 64;

/// A name that the processes of one job share and those of others do not: that of the `forebay run` they belong to, the
/// scheduler's, or else the process group.
pub fn job_name() -> String {
    let run = || run_of(Path::new(&env::var_os(RUN_VARIABLE)?));
    let group = || rustix::process::getpgid(None).map_or(0, |group| group.as_raw_nonzero().get()).to_string();
    let named = STARTED_RUN.get().cloned().or_else(run).or_else(scheduler_job);
    as_file_name(&named.unwrap_or_else(group))
}

/// The name of the job that a scheduler or launcher has given to this process, if any.
pub fn scheduler_job() -> Option<String> {
    let named = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty() && value != UNNAMED);
    JOB_VARIABLES.iter().find_map(named).map(|name| as_file_name(&name))
}

/// The folder's name for the run called `run` of this user.
pub fn run_folder_name(run: &str) -> String {
    format!("{RUN_FOLDER}{}-{run}", rustix::process::geteuid().as_raw())
}

/// From now on this process belongs to the run that meets in `folder`; a second call changes nothing.
pub fn start_run(folder: &Path) {
    if let Some(run) = run_of(folder) {
        let _ = STARTED_RUN.set(run);
    }
}

/// The name of the run that meets in `folder`.
fn run_of(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_str()?.strip_prefix(RUN_FOLDER)?.to_owned())
}

fn as_file_name(name: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    letters.take(MOST_LETTERS).collect()
}

/// A name that differs after every start of the machine: marks that were never flushed must not outlive their bytes.
pub fn boot_id() -> String {
    #[cfg(feature = "record")]
    if let Some(boot) = crate::disk::boot() {
        return boot;
    }
    if let Some(known) = BOOT.get() {
        return known.clone();
    }
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let read: String = text.trim().chars().filter(|letter| *letter != '-').take(16).collect();
    // Read before it is set: a child that is forked meanwhile waits for no thread of its parent.
    let _ = BOOT.set(read.clone());
    read
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

    #[test]
    fn a_run_is_known_by_the_folder_it_meets_in() {
        let folder = Path::new("/dev/shm").join(run_folder_name("job-7-3f"));
        let run = run_of(&folder).unwrap();
        assert!(run.ends_with("-job-7-3f"), "{run}");
        assert_eq!(run_of(Path::new("/tmp/other")), None, "a folder of somebody else's names nothing");
        assert_eq!(as_file_name("1234.pbs/5"), "1234_pbs_5");
    }
}
