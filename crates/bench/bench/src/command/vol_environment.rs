//! h5bench's `vol` section: what it names is in the environment before libhdf5 is loaded.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    process::Command,
};

use forebay::{Error, Result};
use forebay_workload::VolChoice;

use crate::command::bench_host::BenchHost;

/// Has this process go on with the variables that `vol` asks for: it starts itself anew, as libraries that are to be preloaded and
/// folders of libraries are looked at when a process begins. Nothing happens where they are set already.
pub(crate) fn enter(vol: &VolChoice, host: &BenchHost<'_>) -> Result<()> {
    let changes = changes(vol, &|name| env::var_os(name));
    if changes.is_empty() {
        return Ok(());
    }
    let (program, rest) = host.program.split_first().ok_or_else(|| Error::invalid("no program"))?;
    let error = Command::new(program).args(rest).args(&host.arguments).envs(changes).exec();
    Err(Error::from_io(error).at(program.display()))
}

/// Variables that are not yet as `vol` has them. Lists of folders are put before what is there; a connector replaces another.
fn changes(vol: &VolChoice, now: &dyn Fn(&str) -> Option<OsString>) -> Vec<(&'static str, OsString)> {
    let lists =
        [("LD_LIBRARY_PATH", &vol.library), ("HDF5_PLUGIN_PATH", &vol.path), ("LD_PRELOAD", &vol.preload)];
    let mut changes = Vec::new();
    for (name, wanted) in lists {
        let Some(wanted) = wanted.as_ref().filter(|wanted| !wanted.is_empty()) else { continue };
        let before = now(name).filter(|before| !before.is_empty());
        let begins = |before: &OsString| {
            let before = before.as_encoded_bytes();
            before == wanted.as_bytes() || before.starts_with(format!("{wanted}:").as_bytes())
        };
        match before {
            Some(before) if begins(&before) => {}
            Some(before) => {
                changes.push((
                    name,
                    [OsStr::new(wanted), OsStr::new(":"), before.as_os_str()].into_iter().collect(),
                ));
            }
            None => changes.push((name, wanted.into())),
        }
    }
    let connector = vol.connector.as_ref().filter(|connector| !connector.is_empty());
    let name = "HDF5_VOL_CONNECTOR";
    changes.extend(
        connector
            .filter(|wanted| now(name).as_deref() != Some(OsStr::new(wanted)))
            .map(|to| (name, to.into())),
    );
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_already_asks_for_no_new_start() {
        let vol = VolChoice {
            library: Some("/vol/lib".into()),
            path: Some("/vol".into()),
            connector: Some("async under_vol=0;under_info={}".into()),
            preload: None,
        };
        let first = changes(&vol, &|name| (name == "LD_LIBRARY_PATH").then(|| "/usr/local/lib".into()));
        let expected: [(&str, OsString); 3] = [
            ("LD_LIBRARY_PATH", "/vol/lib:/usr/local/lib".into()),
            ("HDF5_PLUGIN_PATH", "/vol".into()),
            ("HDF5_VOL_CONNECTOR", "async under_vol=0;under_info={}".into()),
        ];
        assert_eq!(first, expected);
        let set = |name: &str| first.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        assert!(changes(&vol, &set).is_empty());
    }
}
