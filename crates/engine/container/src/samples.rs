//! Samples as boxes of variables, over several files too.
//!
//! | file | idea |
//! |---|---|
//! | `sample_spec` | what a sample is, as the user says it |
//! | `sample_index`, `sample_starts` | boxes that are samples; where those of each of several files begin |
//! | `window_axis`, `series`, `gaps` | windows along an axis, over several files too, but not over gaps |
//! | `repeated` | boxes that many samples have in common |

pub mod gaps;
pub mod repeated;
pub mod sample_index;
pub mod sample_spec;
pub mod sample_starts;
pub mod series;
pub mod window_axis;
