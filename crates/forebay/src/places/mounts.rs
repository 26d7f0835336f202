//! What is mounted where, as the kernel tells it.

use std::path::{Path, PathBuf};

use super::Machine;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Where it is.
    pub(super) point: PathBuf,
    /// The type of its file system.
    pub(super) file_system: String,
    /// What is mounted, as the one who mounted it called it.
    pub(super) source: String,
    /// Its device, `major:minor`.
    pub(super) device: String,
    /// Whether nothing can be written.
    pub(super) is_read_only: bool,
}

/// All mounts, in the order they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Mounts(Vec<Mount>);

impl Mounts {
    pub(super) fn of(machine: &dyn Machine) -> Self {
        let text = machine.read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
        Self(text.lines().filter_map(parse).collect())
    }

    /// The mounts that are not hidden by later ones at the same place.
    pub(super) fn all(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter().enumerate().filter_map(|(index, mount)| {
            let is_hidden = self.0[index + 1..].iter().any(|later| later.point == mount.point);
            (!is_hidden).then_some(mount)
        })
    }

    /// The mount that `path`, which has no links, is below.
    pub(super) fn above(&self, path: &Path) -> Option<&Mount> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        // Of mounts at the same place the last is seen, which is the one `max_by_key` gives.
        above.max_by_key(|mount| mount.point.components().count())
    }
}

/// `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`
fn parse(line: &str) -> Option<Mount> {
    let (here, there) = line.split_once(" - ")?;
    let here: Vec<&str> = here.split(' ').collect();
    let mut there = there.split(' ');
    let (file_system, source) = (there.next()?, there.next().unwrap_or_default());
    let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        point: unescaped(here.get(4)?).into(),
        file_system: unescaped(file_system),
        source: unescaped(source),
        device: (*here.get(2)?).to_owned(),
        is_read_only: is_read_only(here.get(5)?) || there.next().is_some_and(is_read_only),
    })
}

/// Spaces, tabs, line feeds and backslashes come as three octal digits.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let letter = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match letter {
            Some(letter) => {
                plain.push(char::from(letter));
                plain += &part[3..];
            }
            None => {
                plain.push('\\');
                plain += part;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernels_is_taken_apart() {
        let mount =
            parse("36 35 98:0 /a /mnt/two\\040words ro,noatime shared:1 - ext4 /dev/sda1 rw,x=1").unwrap();
        assert_eq!(mount.point, Path::new("/mnt/two words"));
        assert_eq!((mount.file_system.as_str(), mount.source.as_str()), ("ext4", "/dev/sda1"));
        assert_eq!((mount.device.as_str(), mount.is_read_only), ("98:0", true));
        for line in ["", "a - b", "1 2 3:4 / - ext4"] {
            assert!(parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_path_belongs_to_the_deepest_mount_and_the_last_at_that_place() {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
            "2 1 0:5 / /scratch rw - nfs4 server:/x rw",
            "3 1 8:2 / /scratch rw - xfs /dev/sdb rw",
        ];
        let mounts = Mounts(lines.iter().filter_map(|line| parse(line)).collect());
        assert_eq!(mounts.above(Path::new("/scratch/a/b")).unwrap().file_system, "xfs");
        assert_eq!(mounts.above(Path::new("/scratchy")).unwrap().file_system, "ext4");
        assert_eq!(mounts.all().count(), 2);
    }
}
