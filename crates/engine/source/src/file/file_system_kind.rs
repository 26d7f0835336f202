//! Which kind of file system a file lies on: of this machine, or behind a network.

use std::{os::fd::AsFd, path::Path};

/// A request behind a network takes about as long as 1 MiB takes to come (1 ms at 1 GB/s).
pub(crate) const FAR_REQUEST_BYTES: u64 = 1 << 20;

/// True when the open `file` or folder lies on this machine; what is unknown counts as behind a network.
pub fn lies_near(file: impl AsFd) -> bool {
    FileSystemKind::of(file) != FileSystemKind::Far
}

/// The kind of a file system, by its magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystemKind {
    /// On this machine. A file that is cut shows its new length before its bytes vanish.
    Near,
    /// On this machine, but a page may be partly cleared while the file still has its old length: XFS clears the
    /// rest of the last page, then writes dirty pages out, then sets the length. Reads by `pread` wait meanwhile.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "known only where files are mapped"))]
    NearClearingFirst,
    /// An image that nobody can write to. Its files never change while it is mounted, but their times and numbers are
    /// what the tool that made the image wrote there.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "known only on Linux"))]
    Image,
    /// Behind a network, or not known.
    Far,
}

impl FileSystemKind {
    /// Where the open `file` lies; what is unknown counts as far.
    pub(crate) fn of(file: impl AsFd) -> Self {
        rustix::fs::fstatfs(file).map_or(Self::Far, |found| Self::named(&found))
    }

    /// As [`of`](Self::of), for what lies at `path`.
    pub(crate) fn at(path: &Path) -> Self {
        rustix::fs::statfs(path).map_or(Self::Far, |found| Self::named(&found))
    }

    #[cfg(target_os = "linux")]
    fn named(found: &rustix::fs::StatFs) -> Self {
        Self::of_magic(i128::from(found.f_type) & 0xffff_ffff)
    }

    /// A list of what is near, not of what is far: an unknown file system may be a new parallel one.
    #[cfg(target_os = "linux")]
    fn of_magic(magic: i128) -> Self {
        match magic {
            // ext2 to ext4, btrfs, F2FS, tmpfs, ramfs.
            0xef53 | 0x9123_683e | 0xf2f5_2010 | 0x0102_1994 | 0x8584_58f6 => Self::Near,
            // SquashFS, EROFS, ISO 9660, cramfs, romfs.
            0x7371_7368 | 0xe0f5_e1e2 | 0x9660 | 0x28cd_3d45 | 0x7275 => Self::Image,
            // XFS, overlayfs (which may lie on XFS), bcachefs, ZFS, FAT, exFAT, JFS, ReiserFS.
            0x5846_5342 | 0x794c_7630 | 0xca45_1a4e | 0x2fc1_2fc1 | 0x4d44 | 0x2011_bab0 | 0x3153_464a
            | 0x5265_4973 => Self::NearClearingFirst,
            _ => Self::Far,
        }
    }

    #[cfg(target_vendor = "apple")]
    fn named(found: &rustix::fs::StatFs) -> Self {
        const MNT_LOCAL: u32 = 0x1000;
        if found.f_flags & MNT_LOCAL == 0 { Self::Far } else { Self::Near }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn named(_: &rustix::fs::StatFs) -> Self {
        Self::Far
    }

    /// How many bytes one request ought to bring from a file whose own wish is `block_bytes`.
    pub(crate) fn request_bytes(self, block_bytes: u64) -> u64 {
        match self {
            Self::Near | Self::NearClearingFirst | Self::Image => 0,
            Self::Far => block_bytes.max(FAR_REQUEST_BYTES),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_network_or_unknown_is_far() {
        let nfs = 0x6969;
        let lustre = 0x0bd0_0bd0;
        let gpfs = 0x4750_4653;
        let fuse = 0x6573_5546;
        let (smb2, nine_p, ceph) = (0xfe53_4d42, 0x0102_1997, 0x00c3_6400);
        for magic in [nfs, lustre, gpfs, fuse, smb2, nine_p, ceph, 0, 0x1234_5678] {
            assert_eq!(FileSystemKind::of_magic(magic), FileSystemKind::Far, "{magic:#x}");
        }
        assert_eq!(FileSystemKind::of_magic(0xef53), FileSystemKind::Near);
        let (squashfs, erofs, iso9660) = (0x7371_7368, 0xe0f5_e1e2, 0x9660);
        for magic in [squashfs, erofs, iso9660] {
            assert_eq!(FileSystemKind::of_magic(magic), FileSystemKind::Image, "{magic:#x}");
        }
    }

    #[test]
    fn a_far_request_is_at_least_as_long_as_the_file_system_wishes() {
        assert_eq!(FileSystemKind::Near.request_bytes(4 << 20), 0);
        assert_eq!(FileSystemKind::Far.request_bytes(4096), 1 << 20);
        assert_eq!(FileSystemKind::Far.request_bytes(4 << 20), 4 << 20);
    }
}
