//! Connections between two ranks: addresses and options, how one is made, whether its other end is lost.

pub(crate) mod call;
pub(crate) mod loss_watch;
pub(crate) mod sockets;
