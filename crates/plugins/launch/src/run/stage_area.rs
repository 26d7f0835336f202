//! The staging area of the HDF5 plug-ins, opened once before the program starts: one that cannot be used is an error here, and no warning
//! of each process later.

use forebay_config::Settings;
use forebay_process::{Error, ErrorKind, Result};
use forebay_stage::{Area, AreaPlace};

/// Returns an error where the HDF5 plug-ins could not stage writes in the configured area.
pub fn check_stage_area(settings: &Settings) -> Result<()> {
    if !settings.config.hdf5.write {
        return Ok(());
    }
    let Some(area) = settings.config.stage.area()? else { return Ok(()) };
    let AreaPlace::Folder(place) = &area.place else { return Ok(()) };
    let at = |error: Error| error.at(format!("staging area '{}'", place.display()));
    if let Some(file) = place.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir()) {
        let error = Error::new(ErrorKind::Invalid, format!("{} is not a folder", file.display()));
        return Err(at(error.hint("name a folder by --stage")));
    }
    Area::check(&area).map_err(|error| at(error.hint("name another folder by --stage")))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use forebay_config::{Environment, FastPlace, Overrides};

    use super::*;

    fn settings(place: &Path) -> Settings {
        let variable = |_: &str| None;
        let environment = Environment { variable: &variable, folder: "/".into() };
        let mut settings = Settings::load_in(&Overrides::default(), &environment).unwrap();
        settings.config.stage.path = Some(FastPlace::Folder(place.to_owned()));
        settings
    }

    #[test]
    fn a_staging_area_that_is_a_file_is_wrong_usage_as_a_tier_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for place in [file.clone(), file.join("below")] {
            let error = check_stage_area(&settings(&place)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            let said = error.to_string();
            assert!(said.contains(&format!("{} is not a folder; name a folder by --stage", file.display())));
        }
    }

    #[test]
    fn an_area_that_others_may_enter_is_refused_and_one_that_can_be_used_keeps_no_process_folder() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("fast");
        check_stage_area(&settings(&place)).unwrap();
        let area = fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read_dir(&area).unwrap().count(), 0);
        fs::set_permissions(&area, fs::Permissions::from_mode(0o777)).unwrap();
        let said = check_stage_area(&settings(&place)).unwrap_err().to_string();
        assert!(said.contains("staging area") && said.contains("name another folder by --stage"), "{said}");
        let mut unused = settings(&place);
        unused.config.hdf5.write = false;
        check_stage_area(&unused).unwrap();
    }
}
