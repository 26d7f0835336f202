//! Which filter an id of HDF5's registry stands for: the one place that knows those ids.

use crate::{Filter, hdf5_names};

impl Filter {
    /// The filter that an HDF5 file names by `id`, with what it calls it and its client values.
    ///
    /// Ids from 32768 on are any site's own: they, and those that cannot be undone, are [`Filter::Unknown`].
    pub fn from_hdf5(id: u32, name: &str, client_values: Vec<u32>) -> Self {
        let first = client_values.first().copied();
        match id {
            1 => Self::Deflate { level: first },
            // An element of 0 bytes is left as it is, which is right for a file that names no length.
            2 => Self::Shuffle { element_len: first.unwrap_or(0) },
            3 => Self::Fletcher32,
            4 => Self::Szip { client_values },
            5 => Self::Nbit { client_values },
            6 => Self::ScaleOffset { client_values },
            307 => Self::Bzip2,
            32000 => Self::Lzf,
            32001 => Self::Blosc,
            32004 => Self::Lz4Blocks,
            32008 => Self::Bitshuffle { client_values },
            32013 => Self::Zfp { client_values },
            32015 => Self::Zstd,
            32022 => Self::BitGroom,
            32023 => Self::GranularBitRound,
            32026 => Self::Blosc2,
            _ => {
                let name = hdf5_names::of(id).unwrap_or(name).to_owned();
                Self::Unknown { id, name, client_values }
            }
        }
    }
}
