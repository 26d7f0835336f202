//! What a loader knows of the future, as tiers want to know it.
//!
//! ```text
//! Schedule ─► BlockIndex (block ─► samples) ─► next use of a block ─► what leaves a full tier
//!        └──► Ahead (batch after batch) ──────► what is fetched before it is asked for
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `block_numbers`, `index` | the blocks of all sources, and which samples need which block |
//! | `loader_foresight`, `named_units` | what is known, and which units were named to the tiers |
//! | `course` | the epochs that can be seen, and where in them the consumer is |
//! | `ahead` | what will be asked for, in that order |
//! | `forecast` | what each policy would read, computed and not run |

mod ahead;
mod block_numbers;
mod course;
mod forecast;
mod index;
mod loader_foresight;
mod named_units;

use std::sync::{Arc, PoisonError};

use forebay_loader::Schedule;
use forebay_process::Result;
use forebay_tier::Tiered;

use self::{ahead::UpcomingBatches, course::EpochCourse, loader_foresight::WeakForesight};
pub use self::{
    forecast::{PolicyForecast, TierForecast, TierPlan},
    loader_foresight::LoaderForesight,
};

/// Lets `tiered` know what a loader of `schedule` will read from `position` of `epoch` on.
///
/// Keep what it gives as long as the loader runs, tell it of every batch by [`reach`](LoaderForesight::reach), and of
/// every later epoch by [`begin`](LoaderForesight::begin).
pub fn foresee(
    tiered: &Tiered,
    schedule: Arc<Schedule>,
    epoch: u64,
    position: u64,
) -> Result<Arc<LoaderForesight>> {
    let foresight = Arc::new(LoaderForesight::new(schedule, tiered.block_len(), epoch, position)?);
    foresight.tell(tiered);
    Ok(foresight)
}

impl LoaderForesight {
    /// Goes on with what follows `position` of `epoch`.
    pub fn begin(self: &Arc<Self>, tiered: &Tiered, epoch: u64, position: u64) -> Result<()> {
        let course = EpochCourse::new(&self.schedule, epoch, position)?;
        *self.course.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(course);
        if !self.schedule.keeps_units() {
            self.lock_named().clear();
        }
        self.tell(tiered);
        Ok(())
    }

    fn tell(self: &Arc<Self>, tiered: &Tiered) {
        tiered.foresight().set(Some(Arc::new(WeakForesight(Arc::downgrade(self)))));
        let is_all_near = self.numbers.keys.iter().all(|key| tiered.has_whole(*key));
        let ahead = (tiered.looks_ahead() && !is_all_near).then(|| UpcomingBatches::new(self, self.course()));
        tiered.look_ahead(ahead.map(|ahead| Box::new(ahead) as _));
    }
}
