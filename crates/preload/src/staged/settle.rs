//! Waiting until the launcher has brought files to their destinations.
//!
//! The wait is outside of work of ours: signals reach the program meanwhile.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use forebay_stage::{FolderKey, ItemState, NameState, ProgramImage};

use super::run_staging::{RunStaging, staging, work};

/// The first pause and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));
/// How often it is looked whether the launcher is still there.
const LOOK_FOR_DRAINER: Duration = Duration::from_millis(200);

/// Waits until `images` are at their destinations: not for one that is open for writing, that its destination refuses, or whose launcher is
/// gone.
pub(super) fn settle(images: Vec<PathBuf>) {
    let mut left: Vec<ProgramImage> = images.iter().filter_map(|path| ProgramImage::at(path)).collect();
    let _wanted = work(|| {
        let staging = staging()?;
        left.iter().for_each(|image| drop(staging.names.want(image.id())));
        Some(())
    });
    let (mut pause, mut looked) = (PAUSES.0, Instant::now());
    while !left.is_empty() {
        let waiting = work(|| {
            let staging = staging()?;
            left.retain(|image| is_on_its_way(staging, image));
            if looked.elapsed() >= LOOK_FOR_DRAINER {
                looked = Instant::now();
                left.retain(|image| image.path().parent().is_some_and(ProgramImage::has_drainer));
            }
            (!left.is_empty()).then_some(())
        });
        if waiting.is_none() {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

fn is_on_its_way(staging: &RunStaging, image: &ProgramImage) -> bool {
    let Some((destination, state)) = image.status() else { return false };
    if state == ItemState::Failed {
        return false;
    }
    if staging.names.is_wanted(image.id()) {
        return true;
    }
    // The launcher has looked at it: where its name is still that of a file that programs write, somebody does.
    let (Some(folder), Some(name)) = (destination.parent(), destination.file_name()) else { return false };
    let Ok(key) = FolderKey::at(folder) else { return false };
    staging.names.image(NameState::Open, key, name).as_deref() != Some(&image.path())
}
