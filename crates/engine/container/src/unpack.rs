//! Numbers that the CF conventions pack, as the values they stand for. Each file has factors of its own.

mod array;
mod missing_values;
mod unpacker;

pub use self::{
    array::{UnpackedArray, unpack},
    unpacker::{Unpack, UnpackKind, Unpacked, Unpacker, widest},
};
