//! Which MPI is loaded, as the environment of a process says: each scene is played in one of its own.

use std::{
    env,
    path::Path,
    process::{Command, Output},
};

use forebay_mpi::MpiLibrary;

/// What tells a process that it plays the scene.
const SCENE: &str = "FOREBAY_TEST_SCENE";

/// What a process is told that looks for MPI with this setting.
fn refusal(setting: &Path) -> String {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "scene", "--nocapture"]).env(SCENE, "on").env("FOREBAY_MPI_LIBRARY", setting);
    let Output { status, stdout, .. } = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{said}");
    said.lines().find_map(|line| line.strip_prefix("refused: ")).expect("there is no MPI").to_owned()
}

#[test]
fn a_user_who_wants_no_mpi_gets_none_and_is_told_how_to_get_one() {
    let said = refusal(Path::new("off"));
    assert!(said.contains("FOREBAY_MPI_LIBRARY=off forbids MPI"), "{said}");
    assert!(said.contains("openmpi-bin"), "{said}");
}

#[test]
fn a_library_that_is_named_is_the_only_one_and_is_named_in_the_error() {
    let said = refusal(Path::new("/nowhere/libmpi.so"));
    assert!(said.contains("/nowhere/libmpi.so"), "{said}");
    let said = refusal(Path::new("libmpi.so"));
    assert!(said.contains("'libmpi.so' is not an absolute path"), "{said}");
}

#[test]
fn a_library_that_anyone_can_write_is_not_loaded() {
    use std::os::unix::fs::PermissionsExt;

    let folder = env::temp_dir().join(format!("forebay-mpi-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let library = folder.join("libmpi.so");
    std::fs::write(&library, "").expect("a file");
    std::fs::set_permissions(&library, std::fs::Permissions::from_mode(0o666)).expect("its mode");
    let said = refusal(&library);
    std::fs::remove_dir_all(&folder).expect("a folder of ours");
    assert!(said.contains("can be written by anyone"), "{said}");
}

/// One scene, in a process of its own.
#[test]
fn scene() {
    if env::var_os(SCENE).is_none() {
        return;
    }
    match MpiLibrary::find() {
        Ok(library) => println!("\nfound: {}", library.version()),
        Err(error) => println!("\nrefused: {error}"),
    }
}
