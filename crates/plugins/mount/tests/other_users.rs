//! A slow mount of root's and a user who owns the directory that is shown. Where this is not run by root, nothing is tested here.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use forebay_mount::{MountAccess, MountUsers, SlowMount, SlowMountOptions};
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// A directory of `nobody`, shown elsewhere by root, and files of root's beside it.
struct Shown {
    mount: SlowMount,
    around: TempDir,
}

fn shown(users: MountUsers) -> Option<Shown> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: only root shows directories of other users");
        return None;
    }
    let around = TempDir::new().unwrap();
    fs::set_permissions(around.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["below", "above", "private"] {
        fs::create_dir(around.path().join(name)).unwrap();
    }
    chown(around.path().join("below"), Some(NOBODY), Some(NOBODY)).unwrap();
    for name in ["secret", "private/f"] {
        fs::write(around.path().join(name), "of root").unwrap();
    }
    fs::set_permissions(around.path().join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(around.path().join("private"), fs::Permissions::from_mode(0o700)).unwrap();
    let access = MountAccess::Writable { capacity: None };
    let options = SlowMountOptions { access, users, ..SlowMountOptions::default() };
    match SlowMount::with_options(around.path().join("below"), around.path().join("above"), options) {
        Ok(mount) => Some(Shown { mount, around }),
        Err(error) => {
            eprintln!("NOT TESTED, FUSE cannot be used here: {error}");
            None
        }
    }
}

impl Shown {
    fn path(&self, name: &str) -> PathBuf {
        self.around.path().join(name)
    }

    /// Runs lines of shell as `nobody`, beside the two directories, and gives what they print.
    fn as_nobody(&self, lines: &str) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-c", lines]).current_dir(self.around.path()).uid(NOBODY).gid(NOBODY);
        let ran = shell.output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
    }

    fn assert_untouched(&self) {
        assert_eq!(fs::read(self.path("secret")).unwrap(), b"of root");
        assert_eq!(fs::metadata(self.path("secret")).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(self.path("private")).unwrap().count(), 1);
        assert_eq!(fs::read(self.path("private/f")).unwrap(), b"of root");
    }
}

#[test]
fn only_the_user_who_mounted_it_gets_in_unless_others_are_let_in() {
    let Some(shown) = shown(MountUsers::Owner) else { return };
    fs::write(shown.path("below/f"), "x").unwrap();
    fs::set_permissions(shown.path("below/f"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(shown.as_nobody("cat above/f").contains("Permission denied"));
    assert_eq!(fs::read(shown.path("above/f")).unwrap(), b"x");
    drop(shown);
    let Some(shown) = self::shown(MountUsers::Everyone) else { return };
    assert_eq!(
        shown.as_nobody("umask 022; echo mine > above/f; stat -c %U:%a above/f; cat below/f"),
        "nobody:644\nmine\n"
    );
}

#[test]
fn files_swapped_for_links_beneath_give_no_bytes_of_others_and_take_none() {
    let Some(shown) = shown(MountUsers::Everyone) else { return };
    // The kernel believes attributes for a second: each try looks at the user's own file and then puts a link in its place.
    let said = shown.as_nobody(
        "for n in 1 2 3 4 5 6 7 8; do
           for act in 'cat above/f' 'echo taken > above/f' 'echo taken >> above/f' 'truncate -s 1 above/f' 'chmod 666 above/f' \
             'touch -d @1 above/f' 'ln -L above/f above/g'; do
             rm -f below/f below/g; echo mine > below/f
             stat above/f > /dev/null; ln -s ../secret below/l; mv below/l below/f
             sh -c \"$act\" 2>&1
           done
         done",
    );
    assert!(!said.contains("of root"), "{said}");
    assert!(said.contains("Permission denied"), "the link was followed by the kernel, as the user: {said}");
    shown.assert_untouched();
}

#[test]
fn directories_swapped_for_links_beneath_lead_nowhere() {
    let Some(shown) = shown(MountUsers::Everyone) else { return };
    let said = shown.as_nobody(
        "for n in 1 2 3 4 5 6 7 8; do
           for act in 'cat above/d/f' 'echo taken > above/d/f' 'echo taken > above/d/new' 'mkdir above/d/sub' 'ln -s f above/d/s' \
             'rm -f above/d/f' 'mv above/d/f above/e' 'mv above/mine above/d/f' 'ls above/d' 'ln above/mine above/d/twin'; do
             rm -rf below/d below/e below/mine; mkdir below/d; echo mine > below/d/f; echo mine > below/mine
             stat above/d/f above/mine above/d > /dev/null; mv below/d below/d.$n; ln -s ../private below/d
             sh -c \"$act\" 2>&1; rm -rf below/d.$n
           done
         done",
    );
    assert!(!said.contains("of root"), "{said}");
    shown.assert_untouched();
}

#[test]
fn files_of_root_that_are_moved_to_other_names_keep_their_permissions() {
    let Some(shown) = shown(MountUsers::Everyone) else { return };
    for _ in 0..8 {
        let secret = shown.path("below/secret");
        fs::write(&secret, "of root").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        // The user owns the directory, and so may rename what is in it.
        let said = shown.as_nobody(
            "echo mine > below/f; stat above/f > /dev/null; mv -f below/secret below/f; cat above/f",
        );
        assert!(!said.contains("of root"), "{said}");
        fs::remove_file(shown.path("below/f")).unwrap();
    }
}

#[test]
fn neither_set_user_programs_nor_devices_work_on_it() {
    let Some(shown) = shown(MountUsers::Everyone) else { return };
    let place = shown.mount.mountpoint().canonicalize().unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let options = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let options: Vec<_> = options.filter(|fields| Path::new(fields[1]) == place).collect();
    let [fields] = options.as_slice() else { panic!("mounted once: {mounts}") };
    let words: Vec<_> = fields[3].split(',').collect();
    assert!(["nosuid", "nodev", "allow_other"].iter().all(|word| words.contains(word)), "{words:?}");
}
