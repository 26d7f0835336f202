//! The staging area of this process, for files that ranks write together.

use std::sync::{Arc, OnceLock};

use forebay_config::PluginSettings;
use forebay_process::WarnOnce;
use forebay_stage::Area;

static AREA: OnceLock<Option<Arc<Area>>> = OnceLock::new();
static NO_AREA: WarnOnce = WarnOnce::new();
static NOT_DRAINED: WarnOnce = WarnOnce::new();

/// The area of this process, where writes are staged at all.
pub(crate) fn process_area() -> Option<&'static Arc<Area>> {
    AREA.get_or_init(|| {
        let opened = PluginSettings::from_environment().and_then(|settings| {
            let config = settings.config;
            let wanted = if config.hdf5.write { config.stage.area()? } else { None };
            wanted.map(Area::open).transpose()
        });
        opened.unwrap_or_else(|error| {
            NO_AREA.say(format_args!("{error}; writes to HDF5 files of several ranks are not staged"));
            None
        })
    })
    .as_ref()
}

/// Says once why nothing can be staged in `area`, where that is so: the ranks' writes then go straight to their files.
pub(crate) fn say_trouble(area: &Area) {
    if let Some(error) = area.trouble() {
        NO_AREA.say(format_args!("{error}; writes to HDF5 files of several ranks are not staged"));
    }
}

/// Has the area drained and left when libhdf5 ends: what a close could not write is tried once more.
pub(crate) fn close_at_end() {
    let Some(Some(area)) = AREA.get() else { return };
    if let Err(error) = area.close() {
        NOT_DRAINED.say(format_args!("{error}; what is staged stays there: run `forebay recover`"));
    }
}
