//! What the folder of a tier is called, and what in it is the tier's own.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::{ErrorKind, Result};
use forebay_scratch::{OwnFolder, SharedFolder, Sharing, boot_id, job_name, user_folder_name};

use super::{mirror_files, usage_counter};

/// A process holds the lock alone while it reads and writes a few numbers, or renames the folder.
const LIMIT: Duration = Duration::from_secs(30);
const KEPT: &str = "kept";
const JOB: &str = "job-";

/// The folder under `path` for copies that are kept, or for those of this job.
pub(super) fn open(path: &Path, keep: bool) -> Result<(SharedFolder, Sharing)> {
    let open = || {
        let own = Arc::new(OwnFolder::create_in(path, &user_folder_name("tier"))?);
        SharedFolder::open(&own, &name(keep), LIMIT)
    };
    let until = Instant::now() + LIMIT;
    loop {
        match open() {
            // A run that ended found the user's folder empty, and removed it before it was used here.
            Err(error) if error.kind() == ErrorKind::NotFound && path.exists() && Instant::now() < until => {}
            opened => return opened,
        }
    }
}

/// The folder under `path`, if it is there.
pub(super) fn find(path: &Path, keep: bool) -> Option<OwnFolder> {
    OwnFolder::open(&path.join(user_folder_name("tier")).join(name(keep))).ok()
}

/// The name of the folder for what is kept, or for what goes with the job.
fn name(keep: bool) -> String {
    if keep { KEPT.to_owned() } else { format!("{JOB}{}-{}", job_name(), boot_id()) }
}

/// Removes the folders of jobs that are over, in the folder `parent`: their processes were killed.
pub(super) fn remove_deserted(parent: &Arc<OwnFolder>) {
    for deserted in SharedFolder::deserted(parent, |name| name.starts_with(JOB)) {
        deserted.remove_if_last(remove_files);
    }
}

/// Removes what is the tier's own in `folder`.
pub(super) fn remove_files(folder: &OwnFolder) {
    mirror_files::remove_all(folder);
    let _ = folder.remove_file(usage_counter::NAME);
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    #[test]
    fn a_folder_that_others_remove_whenever_it_is_empty_is_opened_all_the_same() {
        let outer = tempfile::tempdir().unwrap();
        let (path, done) = (outer.path(), std::sync::atomic::AtomicBool::new(false));
        let done = &done;
        thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = fs::remove_dir(path.join(user_folder_name("tier")));
                }
            });
            for _ in 0..200 {
                let opened = open(path, false);
                let removed = opened.map(|(folder, _)| folder.remove_if_last(remove_files));
                done.store(removed.is_err(), std::sync::atomic::Ordering::Relaxed);
                removed.unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
