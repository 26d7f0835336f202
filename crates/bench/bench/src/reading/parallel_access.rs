//! How the ranks of an MPI job open HDF5 files: together or each alone, by MPI-IO or through the subfiling driver.

use forebay::{Error, Result};
use forebay_mpi::MpiLibrary;
use serde::{Deserialize, Serialize};

use forebay_libhdf5::{OpenId, hdf5_types::hid_t};

use crate::runtime_hdf5::RuntimeHdf5;

/// Which ranks a file is opened by at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum MpiRanks {
    /// All ranks of the job open each file together.
    #[default]
    All,
    /// Each rank opens its own files, alone in its communicator, as h5bench's extension does.
    Own,
}

/// How MPI-IO is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MpiIo {
    /// Who opens a file.
    pub(crate) ranks: MpiRanks,
    /// Metadata operations are collective.
    pub(crate) collective_meta: bool,
    /// Reads and writes are collective.
    pub(crate) collective_data: bool,
    /// Files go through the subfiling driver.
    pub(crate) subfiling: bool,
}

impl MpiIo {
    /// True when a rank cannot read a sample without all others.
    pub(crate) fn is_together(self) -> bool {
        self.ranks == MpiRanks::All
    }

    /// What is in use, for reports.
    pub(crate) fn describe(self) -> String {
        let driver = if self.subfiling { "subfiling" } else { "MPI-IO" };
        let ranks = match self.ranks {
            MpiRanks::All => "all ranks together",
            MpiRanks::Own => "each rank alone",
        };
        let data = if self.collective_data { "collective" } else { "independent" };
        let meta = if self.collective_meta { ", collective metadata" } else { "" };
        format!("{driver}, {ranks}, {data} reads{meta}")
    }
}

/// What helps where the library cannot do it.
const REMEDY: &str = "set FOREBAY_LIBHDF5 to a libhdf5 that was built with MPI (Debian: libhdf5-openmpi-dev) and, for subfiling, \
     with HDF5_ENABLE_SUBFILING_VFD, and start by its mpirun";

impl RuntimeHdf5 {
    /// The property list that files are opened or made with. Collective over the ranks that open them.
    pub(crate) fn access_list(&self, mpi_io: MpiIo) -> Result<OpenId<'_>> {
        let mpi = MpiLibrary::find()?;
        let access = self.list("H5P_CLS_FILE_ACCESS_ID_g")?;
        let comm = match mpi_io.ranks {
            MpiRanks::All => mpi.comm_world(),
            MpiRanks::Own => mpi.comm_self(),
        };
        let lacks = |error: Error| error.at(self.describe()).hint(REMEDY);
        let set = match mpi_io.subfiling {
            true => self.list_set_subfiling(access.id(), comm, mpi.info_null()),
            false => self.list_set_mpi_io(access.id(), comm, mpi.info_null()),
        };
        self.check(set.map_err(lacks)?, "no such driver")?;
        if mpi_io.collective_meta {
            let set = self.list_set_collective_metadata(access.id()).map_err(lacks)?;
            self.check(set, "no collective metadata operations")?;
        }
        Ok(access)
    }

    /// The property list of reads and writes.
    fn transfer_list(&self, mpi_io: MpiIo) -> Result<OpenId<'_>> {
        let transfer = self.list("H5P_CLS_DATASET_XFER_ID_g")?;
        if mpi_io.collective_data {
            self.check(self.list_set_collective(transfer.id())?, "no collective transfers")?;
        }
        Ok(transfer)
    }

    /// Both lists for reading; the caller closes them.
    pub(crate) fn parallel_lists(&self, mpi_io: MpiIo) -> Result<(hid_t, hid_t)> {
        let access = self.access_list(mpi_io)?;
        let transfer = self.transfer_list(mpi_io)?;
        Ok((access.leave(), transfer.leave()))
    }
}
