//! What is mounted where, as the kernel tells it in `/proc/self/mountinfo`.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is.
    pub point: PathBuf,
    /// The type of its file system.
    pub file_system: String,
    /// What is mounted, by the name that the program which mounted it gave.
    pub source: String,
    /// Its device, `major:minor`.
    pub device: String,
    /// Whether nothing can be written.
    pub is_read_only: bool,
}

/// All mounts, in the order they were made.
#[derive(Clone, Debug, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// The mounts that this process sees; none where the kernel does not tell.
    pub fn of_this_process() -> Self {
        Self::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    /// The mounts of a table in the format of mountinfo; lines that are not understood are left out.
    pub fn parse(table: &[u8]) -> Self {
        Self(table.split(|byte| *byte == b'\n').filter_map(parse).collect())
    }

    /// The mounts that are not hidden by later ones at the same point.
    pub fn all(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter().enumerate().filter_map(|(index, mount)| {
            let is_hidden = self.0[index + 1..].iter().any(|later| later.point == mount.point);
            (!is_hidden).then_some(mount)
        })
    }

    /// The mount that `path`, which has no links, is below.
    pub fn above(&self, path: &Path) -> Option<&Mount> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        // Of mounts at the same point the last is seen, which is the one `max_by_key` gives.
        above.max_by_key(|mount| mount.point.components().count())
    }

    /// The mount whose point is `point` itself: the last that was made there.
    pub fn at(&self, point: &Path) -> Option<&Mount> {
        self.0.iter().rfind(|mount| mount.point == point)
    }
}

/// `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`
fn parse(line: &[u8]) -> Option<Mount> {
    const DASH: &[u8] = b" - ";
    let dash = line.windows(DASH.len()).position(|window| window == DASH)?;
    let before: Vec<&[u8]> = line[..dash].split(|byte| *byte == b' ').collect();
    let mut after = line[dash + DASH.len()..].split(|byte| *byte == b' ');
    let (file_system, source) = (after.next()?, after.next().unwrap_or_default());
    let is_read_only = |options: &[u8]| options.split(|byte| *byte == b',').any(|option| option == b"ro");
    let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
    Some(Mount {
        point: OsString::from_vec(unescaped(before.get(4)?)).into(),
        file_system: text(file_system),
        source: text(source),
        device: text(before.get(2)?),
        is_read_only: is_read_only(before.get(5)?) || after.next().is_some_and(is_read_only),
    })
}

/// Spaces, tabs, line feeds and backslashes come as three octal digits: `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (plain.push(byte), rest = &tail[3..]),
            None => (plain.push(*first), rest = tail),
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernels_is_taken_apart() {
        let mount =
            parse(b"36 35 98:0 /a /mnt/two\\040words ro,noatime shared:1 - ext4 /dev/sda1 rw,x=1").unwrap();
        assert_eq!(mount.point, Path::new("/mnt/two words"));
        assert_eq!((mount.file_system.as_str(), mount.source.as_str()), ("ext4", "/dev/sda1"));
        assert_eq!((mount.device.as_str(), mount.is_read_only), ("98:0", true));
        for line in ["", "a - b", "1 2 3:4 / - ext4", "1 2 0:1 / /mnt rw"] {
            assert!(parse(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf_8_hides_no_other_mount() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /odd\xff rw - xfs /dev/\xfe rw";
        let mounts = Mounts::parse(table);
        assert_eq!(mounts.all().count(), 2);
        let odd = OsString::from_vec(b"/odd\xff/a".to_vec());
        assert_eq!(mounts.above(Path::new(&odd)).unwrap().file_system, "xfs");
    }

    #[test]
    fn a_path_belongs_to_the_deepest_mount_and_the_last_at_that_point() {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
            "2 1 0:5 / /scratch rw - nfs4 server:/x rw",
            "3 1 8:2 / /scratch rw - xfs /dev/sdb rw",
        ];
        let mounts = Mounts::parse(lines.join("\n").as_bytes());
        assert_eq!(mounts.above(Path::new("/scratch/a/b")).unwrap().file_system, "xfs");
        assert_eq!(mounts.above(Path::new("/scratchy")).unwrap().file_system, "ext4");
        assert_eq!(mounts.at(Path::new("/scratch")).unwrap().source, "/dev/sdb");
        assert_eq!(mounts.at(Path::new("/scratch/a")), None);
        assert_eq!(mounts.all().count(), 2);
    }

    #[test]
    fn a_backslash_that_begins_no_number_is_itself() {
        assert_eq!(unescaped(b"a\\0"), b"a\\0");
        assert_eq!(unescaped(b"\\134x"), b"\\x");
    }
}
