//! Options of a slow mount.

use crate::slow::pace::Pace;

/// Options of a [`SlowMount`](crate::SlowMount).
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowMountOptions {
    /// Latencies and bandwidth.
    pub pace: Pace,
    /// Reading only, or writing too.
    pub access: MountAccess,
    /// Users whose programs may use the mount.
    pub users: MountUsers,
}

/// Reading only, or writing too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountAccess {
    /// Every change gets EROFS.
    #[default]
    ReadOnly,
    /// Files can be changed.
    Writable {
        /// Bytes that all files together may have; a write beyond that gets ENOSPC.
        capacity: Option<u64>,
    },
}

/// Users whose programs may use a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountUsers {
    /// The user who mounted it; other users, root among them, get EACCES.
    #[default]
    Owner,
    /// All users, with the permissions that each file has for them. Who is not root needs `user_allow_other` in `/etc/fuse.conf`.
    Everyone,
}
