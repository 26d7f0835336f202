//! Why a system lets nobody mount, and what helps.

use std::{io, path::Path};

use forebay_process::{Error, ErrorKind};

const DEVICE: &str = "/dev/fuse";

/// What slows reads down within one process, where no file system can be mounted.
pub(crate) const IN_PROCESS: &str = "or slow reads down inside one process, by forebay_source::FaultOrigin";
/// What reads through tiers where no file system can be mounted.
pub(crate) const BY_RUN: &str =
    "or start the program by `forebay run`, which needs no FUSE where the program uses the C library";

/// The error for a mount that the system refused; `instead` is what helps without one.
pub(crate) fn refused(cause: io::Error, instead: &str) -> Error {
    let (what, remedy) = reason(Path::new(DEVICE).exists(), &cause);
    let kind = match cause.kind() {
        io::ErrorKind::NotFound => ErrorKind::Unsupported,
        _ => ErrorKind::Denied,
    };
    Error::new(kind, what).hint(format!("{remedy}; {instead}")).because(cause)
}

fn reason(has_device: bool, cause: &io::Error) -> (String, &'static str) {
    if !has_device {
        let remedy = "load the kernel module `fuse` and install the package fuse3; a container needs \
                      --device /dev/fuse --cap-add SYS_ADMIN";
        return ("no file system can be mounted: there is no /dev/fuse".into(), remedy);
    }
    if cause.kind() == io::ErrorKind::NotFound {
        let what = "no file system can be mounted: only root may without fusermount3, which is not there";
        return (what.into(), "install the package fuse3");
    }
    let said = cause.to_string();
    if said.contains("user_allow_other") {
        let what = "other users cannot be let in: /etc/fuse.conf does not allow it";
        return (
            what.into(),
            "have an administrator add the line `user_allow_other` there, or leave --allow-other out",
        );
    }
    let what = format!("no file system can be mounted: {}", said.trim());
    (
        what,
        "install the package fuse3, or run as root; a container needs --device /dev/fuse --cap-add SYS_ADMIN",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_system_misses_the_error_names_the_package_and_the_way_without() {
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
            let said = refused(io::Error::from(kind), IN_PROCESS).to_string();
            assert!(said.contains("fuse3") && said.contains("FaultOrigin"), "{said}");
            let (what, remedy) = reason(false, &io::Error::from(kind));
            assert!(what.contains("/dev/fuse") && remedy.contains("fuse3"), "{what}; {remedy}");
        }
    }
}
