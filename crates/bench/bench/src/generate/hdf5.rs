//! HDF5 files as h5bench and DLIO lay them out: records as `[samples, d, d]` of bytes, labels as 64-bit zeros.

use std::path::Path;

use forebay::{Error, Result};
use forebay_libhdf5::{
    Hdf5Calls, HyperslabTransfer, OpenId,
    hdf5_types::{H5P_DEFAULT, hid_t},
};
use serde::{Deserialize, Serialize};

use super::{content::RandomBytes, dtypes::hdf5_types, file::GeneratedFile};
use crate::runtime_hdf5::{RuntimeHdf5, c_name, c_path};

/// Filters of registered plug-ins, by the numbers that the HDF Group gave them.
const BZIP2: i32 = 307;
const LZF: i32 = 32000;
const LZ4: i32 = 32004;
const ZSTD: i32 = 32015;

/// How the data sets of a generated HDF5 file are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hdf5Storage {
    /// The data sets of records, such as `records`.
    pub(crate) records: Vec<String>,
    /// The data set of labels.
    pub(crate) labels: String,
    /// The shape of chunks; contiguous where there is none.
    pub(crate) chunk: Option<Vec<u64>>,
    /// The filter, which needs chunks.
    pub(crate) compression: Hdf5Compression,
    /// The newest file format that the library has (`libver="latest"`), as DLIO asks for since 2.0; the oldest otherwise.
    pub(crate) latest_format: bool,
}

/// A filter of generated data sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Hdf5Compression {
    /// None.
    #[default]
    None,
    /// Deflate, of a level from 1 to 9.
    Gzip(u32),
    /// LZF, which h5py brings along.
    Lzf,
    /// LZ4, by a plug-in such as hdf5plugin's.
    Lz4,
    /// bzip2 by a plug-in, of a block size from 1 to 9.
    Bzip2(u32),
    /// Zstandard by a plug-in, of a level.
    Zstd(u32),
}

/// Which samples of a file this rank writes, where several write it together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleShare {
    /// The property list that the file is made with.
    pub(crate) access: hid_t,
    /// The rank.
    pub(crate) rank: u64,
    /// How many there are.
    pub(crate) ranks: u64,
}

impl SampleShare {
    fn has(&self, sample: u64) -> bool {
        sample % self.ranks.max(1) == self.rank
    }
}

impl RuntimeHdf5 {
    /// Writes `file` to `path`, which must not be another program's: one that is there is emptied.
    pub(crate) fn write_file(&self, path: &Path, file: &GeneratedFile, storage: &Hdf5Storage) -> Result<()> {
        let access = self.list("H5P_CLS_FILE_ACCESS_ID_g")?;
        // Since 2.0 the library's own default leaves the oldest formats out, which h5bench and DLIO of 2024 have.
        let newest = self.newest_format();
        let oldest = if storage.latest_format { newest } else { 0 };
        let bounds = self.calls.list_set_version_bounds(access.id(), oldest, newest);
        self.check(bounds, "no such version of the file format")?;
        self.write_file_by(path, file, storage, &SampleShare { access: access.id(), rank: 0, ranks: 1 })
    }

    /// Writes `file` to its own path together with all ranks, each a share of the samples. Collective.
    pub(crate) fn write_file_together(
        &self,
        file: &GeneratedFile,
        storage: &Hdf5Storage,
        share: &SampleShare,
    ) -> Result<()> {
        let newest = self.newest_format();
        let bounds = self.calls.list_set_version_bounds(share.access, 0, newest);
        self.check(bounds, "no such version of the file format")?;
        self.write_file_by(&file.path, file, storage, share).map_err(|error| error.at(file.path.display()))
    }

    /// The number that `H5F_LIBVER_LATEST` has in this version.
    fn newest_format(&self) -> i32 {
        match self.version {
            [1, 10, _] => 2,
            [1, 12, _] => 3,
            [1, ..] => 4,
            _ => 5,
        }
    }

    fn write_file_by(
        &self,
        path: &Path,
        file: &GeneratedFile,
        storage: &Hdf5Storage,
        share: &SampleShare,
    ) -> Result<()> {
        let created = self.calls.file_create(&c_path(path)?, share.access);
        let open = self.own(created, Hdf5Calls::file_close, "cannot be created")?;
        let mut bytes = file.content();
        for name in &storage.records {
            self.write_records(&open, name, (file, storage, share), &mut bytes)?;
        }
        self.write_labels(&open, &storage.labels, file.samples, share)?;
        self.check(open.close(), "cannot be closed: its last bytes are not written")
    }

    fn write_records(
        &self,
        file: &OpenId<'_>,
        name: &str,
        (content, storage, share): (&GeneratedFile, &Hdf5Storage, &SampleShare),
        bytes: &mut RandomBytes,
    ) -> Result<()> {
        let calls = &self.calls;
        let axes = |samples: u64| [samples].into_iter().chain(content.shape.iter().copied()).collect();
        let (shape, sample): (Vec<u64>, Vec<u64>) = (axes(content.samples), axes(1));
        let space = self.own(calls.space_create(&shape), Hdf5Calls::space_close, "no data space")?;
        let creation = self.creation_list(storage, &shape)?;
        let name = c_name(name)?;
        let (stored, native) = hdf5_types(content.element);
        let (stored, memory_type) = (calls.constant(stored)?, calls.constant(native)?);
        let created = calls.data_create(file.id(), &name, stored, space.id(), creation.id());
        let data = self.own(created, Hdf5Calls::data_close, "no data set of records")?;
        let memory = self.own(calls.space_create(&sample), Hdf5Calls::space_close, "no data space")?;
        let len =
            usize::try_from(content.record_len()).map_err(|_| Error::invalid("a record is too long"))?;
        let (mut record, mut start) = (vec![0; len], vec![0; shape.len()]);
        for number in 0..content.samples {
            bytes.fill(&mut record);
            if !share.has(number) {
                continue;
            }
            start[0] = number;
            self.check(calls.space_select(space.id(), &start, None, &sample), "no such record")?;
            let transfer = HyperslabTransfer {
                memory_type,
                memory_space: memory.id(),
                file_space: space.id(),
                list: H5P_DEFAULT,
            };
            self.check(calls.data_write(data.id(), &transfer, &record), "a record cannot be written")?;
        }
        self.check(data.close(), "the data set of records cannot be closed")
    }

    fn write_labels(&self, file: &OpenId<'_>, name: &str, samples: u64, share: &SampleShare) -> Result<()> {
        let calls = &self.calls;
        let space = self.own(calls.space_create(&[samples]), Hdf5Calls::space_close, "no data space")?;
        let stored = calls.constant("H5T_STD_I64LE_g")?;
        let created = calls.data_create(file.id(), &c_name(name)?, stored, space.id(), H5P_DEFAULT);
        let data = self.own(created, Hdf5Calls::data_close, "no data set of labels")?;
        let zeros = vec![0; usize::try_from(samples * 8).map_err(|_| Error::invalid("too many samples"))?];
        let memory_type = calls.constant("H5T_NATIVE_INT64_g")?;
        let transfer = HyperslabTransfer {
            memory_type,
            memory_space: space.id(),
            file_space: space.id(),
            list: H5P_DEFAULT,
        };
        if share.has(0) {
            self.check(calls.data_write(data.id(), &transfer, &zeros), "labels cannot be written")?;
        }
        self.check(data.close(), "the data set of labels cannot be closed")
    }

    /// How the data set of records is stored.
    fn creation_list(&self, storage: &Hdf5Storage, shape: &[u64]) -> Result<OpenId<'_>> {
        let list = self.list("H5P_CLS_DATASET_CREATE_ID_g")?;
        let Some(chunk) = &storage.chunk else {
            return match storage.compression {
                Hdf5Compression::None => Ok(list),
                _ => Err(Error::invalid("compression needs chunks").hint("enable chunking")),
            };
        };
        let chunk: Vec<u64> = chunk.iter().zip(shape).map(|(chunk, axis)| (*chunk).clamp(1, *axis)).collect();
        self.check(self.calls.list_set_chunk(list.id(), &chunk), "no chunks of this shape")?;
        let (filter, values): (i32, Vec<u32>) = match storage.compression {
            Hdf5Compression::None => return Ok(list),
            Hdf5Compression::Gzip(level) => {
                self.check(self.calls.list_set_deflate(list.id(), level), "no deflate of this level")?;
                return Ok(list);
            }
            Hdf5Compression::Lzf => (LZF, vec![]),
            Hdf5Compression::Lz4 => (LZ4, vec![]),
            Hdf5Compression::Bzip2(size) => (BZIP2, vec![size]),
            Hdf5Compression::Zstd(level) => (ZSTD, vec![level]),
        };
        if self.calls.filter_available(filter) <= 0 {
            let what = format!("this libhdf5 finds no filter {filter} ({:?})", storage.compression);
            let hint = "pip install hdf5plugin, and set HDF5_PLUGIN_PATH to its folder of plug-ins";
            return Err(Error::unsupported(what).at(self.describe()).hint(hint));
        }
        self.check(self.calls.list_set_filter(list.id(), filter, &values), "no such filter")?;
        Ok(list)
    }
}
