//! Programs of other people started with forebay in their environment: the variables, the launcher, what plug-ins say when tried.
//!
//! ```text
//! Settings ─┐
//! plug-ins ─┼─► LaunchVariables ─┬─► shell_lines()      `forebay hdf5-env`
//! before   ─┘                    ├─► exec(program)      `forebay run`
//!                                └─► try_libraries()    a child for each libhdf5: `hdf5-env`, `doctor`
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `plugins` | where the HDF5 plug-ins lie |
//! | `plugin_path` | HDF5's search path: ours before what it would have searched |
//! | `variables` | the variables by which a program gets the plug-ins |
//! | `exec` | a program in place of this process |
//! | `libraries`, `site_packages` | every libhdf5 of this machine; installed Python packages |
//! | `trial`, `probe` | each libhdf5 tried with the plug-ins in a child; what the child does |

mod exec;
mod libraries;
mod plugin_path;
mod plugins;
mod probe;
mod site_packages;
mod trial;
mod variables;

pub use exec::{NO_PROGRAM, NOT_STARTED, exec};
pub use plugins::{PLUGINS_VARIABLE, Plugin, PluginFolder};
pub use probe::probe;
pub use trial::{LibraryTrial, TrialVerdict, try_libraries};
pub use variables::LaunchVariables;
