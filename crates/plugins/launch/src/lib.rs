//! Programs of other people started with forebay in their environment: the variables, the launcher, what plug-ins say when tried.
//!
//! ```text
//! Settings ─┐                    ┌─► shell_lines()        `forebay hdf5-env`
//! plug-ins ─┼─► LaunchVariables ─┼─► exec(program)        `forebay run --hdf5`: in place of this process
//! before   ─┘                    ├─► TransparentRun       `forebay run --origin`: supervised, summed up at the end
//!                                └─► try_libraries()      a child for each libhdf5: `hdf5-env`, `doctor`
//!
//! TransparentRun: LaunchFolder (counters of all processes), tiers held open, program_reach ─► supervise ─► LaunchSummary
//! ```
//!
//! | module | content |
//! |---|---|
//! | `variables` | the variables by which a program gets the plug-ins and the preloaded library; where those lie; HDF5's search path |
//! | `exec` | a program in place of this process |
//! | `run` | a program whose files come from tiers: prepared, supervised, summed up; where the processes of one run meet |
//! | `trial` | each libhdf5 tried with the plug-ins in a child; what the child does |

mod exec;
mod run;
mod trial;
mod variables;

pub use exec::{NO_PROGRAM, NOT_STARTED, exec};
pub use run::launch_summary::{HeldTier, LaunchSummary};
pub use run::program_reach::{ProgramReach, program_reach};
pub use run::report_file::check_report_file;
pub use run::stage_area::check_stage_area;
pub use run::supervise::ProgramEnd;
pub use run::{RunRequest, SummaryForm, TransparentRun, hdf5_under_origin};
pub use trial::probe::probe;
pub use trial::{LibraryTrial, TrialVerdict, try_libraries};
pub use variables::LaunchVariables;
pub use variables::plugins::{PLUGINS_VARIABLE, Plugin, PluginFolder};
