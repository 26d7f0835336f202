//! Such files made, for tests and the example.

use crate::{
    header::{ENTRY_LEN, HEADER_LEN, MAGIC},
    packed::pack,
};

/// How frames are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are, each after its stamp.
    Raw,
    /// By runs of equal values.
    Runs,
}

/// The bytes of a file of `frames`, each `height` times `width` values.
pub fn write(frames: &[Vec<u16>], height: u32, width: u32, packing: Packing) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(u32::from(packing == Packing::Runs).to_le_bytes());
    bytes.extend((frames.len() as u64).to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend(width.to_le_bytes());
    match packing {
        Packing::Raw => {
            for (stamp, frame) in (0i64..).zip(frames) {
                bytes.extend((stamp * 10).to_le_bytes());
                bytes.extend(frame.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
        Packing::Runs => {
            let packed: Vec<_> = frames.iter().map(|frame| pack(frame)).collect();
            let mut offset = HEADER_LEN + ENTRY_LEN * frames.len() as u64;
            for frame in &packed {
                bytes.extend(offset.to_le_bytes());
                bytes.extend((frame.len() as u64).to_le_bytes());
                offset += frame.len() as u64;
            }
            bytes.extend(packed.concat());
        }
    }
    bytes
}
