//! The lock of all names, and waiting for one's turn with a name.
//!
//! A name that a staged file has is never left to a plain call because others hold the lock, or because the file is on its way to its destination by
//! the hands of its own program ([`MoveMark`](forebay_stage::MoveMark)): the call would find an older version there, or none. Between two tries
//! signals reach the program.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use forebay_source::ErrorKind;
use forebay_stage::{NameState, NamesLock, ProgramImage};

use super::{
    place::StagedPlace,
    run_staging::{self, RunStaging},
};

/// The first pause and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

/// Others are at the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotYet;

/// What `work` gives once others are not at its names any more.
pub(super) fn in_turn<T>(work: impl Fn() -> Option<Result<T, NotYet>>) -> Option<T> {
    let mut pause = PAUSES.0;
    loop {
        if let Ok(done) = run_staging::work(&work)? {
            return Some(done);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Locks all names for work on those of `places`; nothing where the plain call has to do, as none of them is that of a staged file, or of a folder
/// that such files are below.
pub(super) fn lock_names(staging: &RunStaging, places: &[&StagedPlace]) -> Option<Result<NamesLock, NotYet>> {
    let is_staged = |place: &&StagedPlace| staging.names.find(place.key, &place.name).is_some();
    let lock = match staging.names.lock() {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            let is_concerned = |place: &&StagedPlace| is_staged(place) || staging.has_any_below(place);
            return places.iter().any(is_concerned).then_some(Err(NotYet));
        }
        Err(_) => return None,
    };
    let image = |place: &&StagedPlace| staging.names.image(NameState::Open, place.key, &place.name);
    let is_moving = places.iter().filter_map(image).any(|image| staging.is_moving(&image));
    Some(if is_moving { Err(NotYet) } else { Ok(lock) })
}

impl RunStaging {
    /// The images for destinations below `folder`, with those.
    pub(super) fn images_below(&self, folder: &Path, state: NameState) -> Vec<(PathBuf, PathBuf)> {
        let all = self.names.all().into_iter().filter(|(_, named)| named.state == state);
        let with_destination = all.filter_map(|(_, named)| {
            let (destination, _) = ProgramImage::at(&named.image)?.status()?;
            destination.starts_with(folder).then_some((named.image, destination))
        });
        with_destination.collect()
    }

    fn has_any_below(&self, place: &StagedPlace) -> bool {
        let has = |path: &PathBuf| {
            [NameState::Open, NameState::Sealed]
                .iter()
                .any(|state| !self.images_below(path, *state).is_empty())
        };
        place.is_folder() && place.path().as_ref().is_some_and(has)
    }

    /// Whether a program copies the image at `path` to its destination. Asked with the names locked.
    pub(super) fn is_moving(&self, path: &Path) -> bool {
        ProgramImage::at(path).is_some_and(|image| self.names.is_moving(image.id()))
    }
}
