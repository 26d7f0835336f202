//! What the folder of a tier is called, and what in it is the tier's own.

use std::{path::Path, sync::Arc, time::Duration};

use forebay_scratch::{OwnFolder, SharedFolder, Sharing, boot_id, job_name, user_folder_name};
use forebay_source::Result;

use super::{mirror_files, usage_counter};

/// A process holds the lock alone while it reads and writes a few numbers, or renames the folder.
const LIMIT: Duration = Duration::from_secs(30);
const KEPT: &str = "kept";
const JOB: &str = "job-";

/// The folder under `path` for copies that are kept, or for those of this job.
pub(super) fn open(path: &Path, keep: bool) -> Result<(SharedFolder, Sharing)> {
    let own = Arc::new(OwnFolder::create_in(path, &user_folder_name("tier"))?);
    SharedFolder::open(&own, &name(keep), LIMIT)
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
