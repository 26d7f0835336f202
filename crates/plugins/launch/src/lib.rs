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
//! | file | idea |
//! |---|---|
//! | `plugins` | where the libraries lie that programs load |
//! | `plugin_path` | HDF5's search path: ours before what it would have searched |
//! | `variables` | the variables by which a program gets the plug-ins and the preloaded library |
//! | `exec` | a program in place of this process |
//! | `run` | a program whose files come from tiers: prepared, supervised, summed up |
//! | `launch_folder` | where the processes of one run meet |
//! | `shared_tiers`, `tier_warnings` | tiers as all processes of a run share them; those that will copy nothing |
//! | `program_reach` | whether a preloaded library reaches a program (ELF, `#!`) |
//! | `supervise` | a program as a child: signals, stops, its end |
//! | `launch_summary`, `counter_samples` | what a run did: lines, JSON, a page; counters over time |
//! | `report_file`, `stage_area` | whether the page can be written, and the staging area used |
//! | `trial`, `probe` | each libhdf5 tried with the plug-ins in a child; what the child does |

mod counter_samples;
mod exec;
mod launch_folder;
mod launch_summary;
mod plugin_path;
mod plugins;
mod probe;
mod program_reach;
mod report_file;
mod run;
mod shared_tiers;
mod stage_area;
mod supervise;
mod tier_warnings;
mod trial;
mod variables;

pub use exec::{NO_PROGRAM, NOT_STARTED, exec};
pub use launch_summary::{HeldTier, LaunchSummary};
pub use plugins::{PLUGINS_VARIABLE, Plugin, PluginFolder};
pub use probe::probe;
pub use program_reach::{ProgramReach, program_reach};
pub use report_file::check_report_file;
pub use run::{RunRequest, SummaryForm, TransparentRun, hdf5_under_origin};
pub use stage_area::check_stage_area;
pub use supervise::ProgramEnd;
pub use trial::{LibraryTrial, TrialVerdict, try_libraries};
pub use variables::LaunchVariables;
