//! The staging area of this process, for files that ranks write together.

use std::{
    ops::ControlFlow,
    sync::{Arc, Once, OnceLock},
};

use forebay_plugin::{PluginSettings, WarnOnce};
use forebay_stage::{Area, CloseWhen};

static AREA: OnceLock<Option<ProcessArea>> = OnceLock::new();
static AT_END: Once = Once::new();
static NO_AREA: WarnOnce = WarnOnce::new();
static NOT_DRAINED: WarnOnce = WarnOnce::new();

/// The area, and when files that were written through it are closed.
#[derive(Debug)]
pub(crate) struct ProcessArea {
    pub(crate) area: Arc<Area>,
    pub(crate) close: CloseWhen,
}

/// The area of this process, where writes are staged at all.
pub(crate) fn process_area() -> Option<&'static ProcessArea> {
    AREA.get_or_init(|| {
        let opened = PluginSettings::from_environment().and_then(|settings| {
            let config = settings.config;
            let close = if config.hdf5.delay_close { CloseWhen::Staged } else { CloseWhen::Drained };
            let wanted = if config.hdf5.write { config.stage.area()? } else { None };
            let area = wanted.map(Area::open).transpose()?;
            Ok(area.map(|area| ProcessArea { area, close }))
        });
        opened.unwrap_or_else(|error| {
            NO_AREA.say(format_args!("{error}; writes to HDF5 files of several ranks are not staged"));
            None
        })
    })
    .as_ref()
}

/// Has the area drained when libhdf5 ends: what was closed early is on its way still.
pub(crate) fn drain_at_end() {
    let Some(Some(process)) = AREA.get() else { return };
    AT_END.call_once(|| {
        if let Err(error) = process.area.drain(&|_| ControlFlow::Continue(())) {
            NOT_DRAINED.say(format_args!("{error}; what is staged stays there: run `forebay recover`"));
        }
    });
}
