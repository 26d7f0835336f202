//! Phases of a rank: files generated, epochs of steps, checkpoints; and what belongs to one epoch.

mod checkpoint;
mod cold_cache;
mod epoch_begin;
mod generate;
mod generation_lock;
pub(crate) mod generation_record;
mod rank_orders;
mod step_maker;
mod tier_counts;
mod trace;
mod train;
