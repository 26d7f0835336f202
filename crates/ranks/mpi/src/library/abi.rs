//! The three binary interfaces of MPI, as numbers: those of MPICH, of Open MPI, and the standard one of MPI-5.

use std::ffi::c_int;

use forebay_process::{Error, ErrorKind, Result};

/// An object of MPI: MPICH's are 32-bit numbers, Open MPI's and those of the standard interface have the width of a pointer.
///
/// All of them fit: a function that takes 32 bits looks at no others, and one that gives 32 bits leaves the rest zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct MpiHandle(pub(crate) usize);

impl MpiHandle {
    /// What a call that makes an object is given to write to.
    pub(crate) const UNSET: Self = Self(0);
}

/// Which of the binary interfaces a library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiAbi {
    /// MPICH's: also Intel MPI, Cray MPICH and MVAPICH.
    Mpich,
    /// Open MPI's.
    OpenMpi,
    /// The standard interface of MPI-5.
    Standard,
}

/// The handles and constants of one binary interface that are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MpiConstants {
    pub(crate) comm_world: MpiHandle,
    pub(crate) comm_self: MpiHandle,
    pub(crate) comm_null: MpiHandle,
    pub(crate) byte: MpiHandle,
    pub(crate) info_null: MpiHandle,
    pub(crate) errors_return: MpiHandle,
    /// From the least to the most: single, funneled, serialized, multiple.
    pub(crate) thread_levels: [c_int; 4],
    pub(crate) mode_nocheck: c_int,
    #[cfg(feature = "baseline")]
    pub(crate) lock_shared: c_int,
}

/// MPICH's numbers have not changed since version 3.1: its ABI initiative promises them to Intel MPI and Cray MPICH too.
const MPICH: MpiConstants = MpiConstants {
    comm_world: MpiHandle(0x4400_0000),
    comm_self: MpiHandle(0x4400_0001),
    comm_null: MpiHandle(0x0400_0000),
    byte: MpiHandle(0x4c00_010d),
    info_null: MpiHandle(0x1c00_0000),
    errors_return: MpiHandle(0x5400_0001),
    thread_levels: [0, 1, 2, 3],
    mode_nocheck: 1024,
    #[cfg(feature = "baseline")]
    lock_shared: 235,
};

/// Annex A of MPI-5.0.
const STANDARD: MpiConstants = MpiConstants {
    comm_world: MpiHandle(0x101),
    comm_self: MpiHandle(0x102),
    comm_null: MpiHandle(0x100),
    byte: MpiHandle(0x247),
    info_null: MpiHandle(0x130),
    errors_return: MpiHandle(0x143),
    thread_levels: [0, 1024, 2048, 4096],
    mode_nocheck: 1024,
    #[cfg(feature = "baseline")]
    lock_shared: 302,
};

impl MpiAbi {
    /// The interface of a library: the standard one has its own name, whose library may bring Open MPI's along; Open MPI's
    /// objects are symbols of their own.
    pub(crate) fn of(file_name: &str, has_symbol: impl Fn(&str) -> bool) -> Self {
        if file_name.starts_with("libmpi_abi.") {
            Self::Standard
        } else if has_symbol("ompi_mpi_comm_world") {
            Self::OpenMpi
        } else {
            Self::Mpich
        }
    }

    /// Its numbers; `address` gives the address of a symbol, which is what Open MPI's handles are.
    pub(crate) fn constants(self, address: impl Fn(&str) -> Option<usize>) -> Result<MpiConstants> {
        let object = |symbol: &str| {
            let missing = || Error::new(ErrorKind::Unsupported, format!("has no symbol {symbol}"));
            address(symbol).map(MpiHandle).ok_or_else(missing)
        };
        Ok(match self {
            Self::Mpich => MPICH,
            Self::Standard => STANDARD,
            Self::OpenMpi => MpiConstants {
                comm_world: object("ompi_mpi_comm_world")?,
                comm_self: object("ompi_mpi_comm_self")?,
                comm_null: object("ompi_mpi_comm_null")?,
                byte: object("ompi_mpi_byte")?,
                info_null: object("ompi_mpi_info_null")?,
                errors_return: object("ompi_mpi_errors_return")?,
                thread_levels: [0, 1, 2, 3],
                mode_nocheck: 1,
                #[cfg(feature = "baseline")]
                lock_shared: 2,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_told_by_symbol_and_name() {
        assert_eq!(MpiAbi::of("libmpi.so.40", |symbol| symbol == "ompi_mpi_comm_world"), MpiAbi::OpenMpi);
        assert_eq!(MpiAbi::of("libmpi_abi.so.0", |_| false), MpiAbi::Standard);
        let of_open_mpi = |symbol: &str| symbol == "ompi_mpi_comm_world";
        assert_eq!(
            MpiAbi::of("libmpi_abi.so.1", of_open_mpi),
            MpiAbi::Standard,
            "Open MPI's own standard library"
        );
        assert_eq!(MpiAbi::of("libmpi_gnu_91.so.12", |_| false), MpiAbi::Mpich);
    }

    #[test]
    fn open_mpi_without_its_symbols_is_refused() {
        let error = MpiAbi::OpenMpi.constants(|symbol| (symbol == "ompi_mpi_comm_world").then_some(8));
        assert!(error.expect_err("most are missing").to_string().contains("ompi_mpi_comm_self"));
    }
}
