//! The `write` and `read` kernels of h5bench: particles of all ranks in one file, a group for each timestep.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use forebay::{
    Error, ErrorKind, Launcher, Result,
    store::{Comm, Wait},
};
use forebay_workload::{Kernel, KernelMode, KernelTimings, Mt19937, SpaceLayout};

use crate::{
    hdf5_ffi::{DEFAULT, Hdf5Functions, Hdf5Id, HyperslabTransfer},
    interruption::GLANCE,
    kernel_particles::{PARTICLE_LEN, ParticleData, ParticleTypes},
    kernel_space::{file_shape, selections},
    kernel_transfers::TimestepLayout,
    parallel_access::{MpiIo, MpiRanks},
    runtime_hdf5::{OpenId, RuntimeHdf5, c_name, c_path},
    subfiling,
};

/// What gzip is asked for, as h5bench has it.
const GZIP_LEVEL: u32 = 9;

/// What a kernel works with.
pub(crate) struct KernelPlace<'a> {
    pub(crate) comm: &'a dyn Comm,
    pub(crate) is_interrupted: &'a (dyn Fn() -> bool + Sync),
    /// The folder of its file.
    pub(crate) folder: PathBuf,
}

/// What a kernel came to, as rank 0 saw it.
#[derive(Clone, Debug)]
pub struct KernelOutcome {
    /// What was run.
    pub kernel: Kernel,
    /// How many ranks ran it.
    pub ranks: u32,
    /// What rank 0 recorded.
    pub timings: KernelTimings,
    /// Whether it ended by itself.
    pub is_complete: bool,
}

/// Runs `kernel` on this rank. Collective.
pub(crate) fn run_kernel(kernel: &Kernel, place: &KernelPlace<'_>) -> Result<KernelOutcome> {
    check(kernel, place.comm)?;
    let library = RuntimeHdf5::find()?;
    let mpi_io = mpi_io(kernel);
    let path = path(kernel, place);
    if kernel.mode == KernelMode::Write
        && let Some(folder) = path.parent()
    {
        fs::create_dir_all(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    }
    let transfer = match mpi_io {
        Some(mpi_io) => Some(library.transfer_list(mpi_io)?),
        None => None,
    };
    let (rank, ranks) = (place.comm.rank() as u64, place.comm.size() as u64);
    let space = library.own(
        library.functions.space_create(&file_shape(kernel, ranks)),
        Hdf5Functions::space_close,
        "no data space",
    )?;
    let selected = library.functions.space_select_blocks(space.id, &selections(kernel, rank)?);
    library.check(selected, "no such selection")?;
    let count = u64::try_from(library.functions.space_selected(space.id)).unwrap_or(0);
    let memory =
        library.own(library.functions.space_create(&[count]), Hdf5Functions::space_close, "no data space")?;
    let types = ParticleTypes::new(&library)?;
    let data = match kernel.mode {
        KernelMode::Write => ParticleData::new(count, kernel.memory_pattern, rank)?,
        KernelMode::Read => ParticleData::room(count, kernel.memory_pattern)?,
    };
    let layout = TimestepLayout::new(&types, kernel.memory_pattern, kernel.file_pattern);
    let list = transfer.as_ref().map_or(DEFAULT, |list| list.id);
    let mut run = KernelRun {
        kernel,
        place,
        library: &library,
        types: &types,
        layout,
        spaces: (memory.id, space.id),
        list,
        data,
        timings: KernelTimings::default(),
        random: Mt19937::seeded(0),
        has_file: false,
    };
    let is_complete = run.file(&path, mpi_io)?;
    run.timings.bytes *= count * PARTICLE_LEN as u64;
    let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
    Ok(KernelOutcome { kernel: kernel.clone(), ranks, timings: run.timings, is_complete })
}

/// Refuses what cannot be run.
fn check(kernel: &Kernel, comm: &dyn Comm) -> Result<()> {
    let is_mpi = Launcher::of_process() == Launcher::Mpi;
    if kernel.asynchronous {
        let error = Error::unsupported("MODE=ASYNC: the calls with event sets are not used");
        return Err(
            error.hint("use MODE=SYNC; the Async VOL connector, named in vol, works behind plain calls too")
        );
    }
    if kernel.memory_pattern == SpaceLayout::Strided {
        return Err(Error::invalid("MEM_PATTERN is CONTIG or INTERLEAVED"));
    }
    if kernel.subfiling && (kernel.file_per_rank || !is_mpi) {
        let error = Error::invalid("subfiling is for one file of all ranks of an MPI job");
        return Err(error.hint("start by mpirun, without FILE_PER_PROC"));
    }
    if comm.size() > 1 && !is_mpi && !kernel.file_per_rank {
        let error = Error::invalid("several ranks write and read one file by MPI-IO alone");
        return Err(error.hint("start by mpirun, or set FILE_PER_PROC"));
    }
    if kernel.mode == KernelMode::Write && kernel.compress && is_mpi && !kernel.collective_data {
        return Err(Error::invalid("compressed data of several ranks are written collectively alone")
            .hint("set COLLECTIVE_DATA, or FILE_PER_PROC"));
    }
    Ok(())
}

/// How ranks of an MPI job open their common file; nothing where there is none.
fn mpi_io(kernel: &Kernel) -> Option<MpiIo> {
    let is_shared = Launcher::of_process() == Launcher::Mpi && !kernel.file_per_rank;
    is_shared.then_some(MpiIo {
        ranks: MpiRanks::All,
        collective_meta: kernel.collective_meta,
        collective_data: kernel.collective_data && !kernel.subfiling,
        subfiling: kernel.subfiling,
    })
}

fn path(kernel: &Kernel, place: &KernelPlace<'_>) -> PathBuf {
    let path = place.folder.join(&kernel.file);
    if !kernel.file_per_rank {
        return path;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("rank_{}_{name}", place.comm.rank()))
}

/// A kernel at work.
struct KernelRun<'a> {
    kernel: &'a Kernel,
    place: &'a KernelPlace<'a>,
    library: &'a RuntimeHdf5,
    types: &'a ParticleTypes<'a>,
    layout: TimestepLayout,
    /// In memory and in the file.
    spaces: (Hdf5Id, Hdf5Id),
    list: Hdf5Id,
    data: ParticleData,
    /// Until the end, `bytes` counts timesteps.
    timings: KernelTimings,
    random: Mt19937,
    /// The file is open: what lies there is this kernel's.
    has_file: bool,
}

/// A group and its data sets, of the data sets first.
struct OpenTimestep<'a> {
    data: Vec<OpenId<'a>>,
    group: OpenId<'a>,
}

impl<'a> KernelRun<'a> {
    /// All timesteps, from opening the file to closing it; false when the user wanted an end.
    fn file(&mut self, path: &Path, mpi_io: Option<MpiIo>) -> Result<bool> {
        let wait = Wait::while_ranks_live();
        self.place.comm.barrier(&wait)?;
        let began = Instant::now();
        let done = self.timesteps(path, mpi_io).map_err(|error| error.at(path.display()));
        // A file that lacks timesteps is not left as one that has them.
        if self.kernel.mode == KernelMode::Write && self.has_file && !matches!(done, Ok(true)) {
            let _ = if self.kernel.subfiling { subfiling::remove(path) } else { fs::remove_file(path) };
        }
        let is_complete = done?;
        self.place.comm.barrier(&wait)?;
        self.timings.observed_s = began.elapsed().as_secs_f64();
        Ok(is_complete)
    }

    fn timesteps(&mut self, path: &Path, mpi_io: Option<MpiIo>) -> Result<bool> {
        let library = self.library;
        let access = match mpi_io {
            Some(mpi_io) => library.access_list(mpi_io)?,
            None => library.list("H5P_CLS_FILE_ACCESS_ID_g")?,
        };
        if let Some((threshold, alignment)) = self.kernel.alignment {
            let set = library.functions.list_set_alignment(access.id, threshold, alignment);
            library.check(set, "no such alignment")?;
        }
        let name = c_path(path)?;
        let opened = match self.kernel.mode {
            KernelMode::Write => library.functions.file_create(&name, access.id),
            KernelMode::Read => library.functions.file_open(&name, access.id),
        };
        let file = library.own(opened, Hdf5Functions::file_close, "cannot be opened")?;
        self.has_file = true;
        let mut open = VecDeque::new();
        let mut is_complete = true;
        for number in 0..self.kernel.timesteps {
            if self.is_over()? {
                is_complete = false;
                break;
            }
            if open.len() >= self.kernel.delayed_close_timesteps.max(1) as usize {
                self.close(open.pop_front())?;
            }
            open.push_back(self.timestep(file.id, number)?);
            self.timings.bytes += 1;
            if self.kernel.delayed_close_timesteps == 0 {
                self.close(open.pop_front())?;
            }
            if number + 1 < self.kernel.timesteps {
                self.compute();
            }
        }
        for timestep in open {
            self.close(Some(timestep))?;
        }
        file.close("cannot be closed: its last bytes are not written")?;
        Ok(is_complete)
    }

    fn timestep(&mut self, file: Hdf5Id, number: u32) -> Result<OpenTimestep<'a>> {
        let (library, began) = (self.library, Instant::now());
        let name = c_name(&format!("Timestep_{number}"))?;
        let group = match self.kernel.mode {
            KernelMode::Write => library.functions.group_create(file, &name)?,
            KernelMode::Read => library.functions.group_open(file, &name)?,
        };
        let group = library.own(group, Hdf5Functions::group_close, "no group of this timestep")?;
        let data = self.data_sets(group.id)?;
        self.timings.metadata_s += began.elapsed().as_secs_f64();
        let timestep = OpenTimestep { data, group };
        let began = Instant::now();
        self.transfer(&timestep)?;
        self.timings.raw_s += began.elapsed().as_secs_f64();
        Ok(timestep)
    }

    fn data_sets(&self, group: Hdf5Id) -> Result<Vec<OpenId<'a>>> {
        let (library, functions) = (self.library, &self.library.functions);
        let creation = match self.kernel.mode {
            KernelMode::Write => Some(self.creation_list()?),
            KernelMode::Read => None,
        };
        let open = |(name, dtype): &(&std::ffi::CStr, Hdf5Id)| {
            let id = match &creation {
                Some(list) => functions.data_create(group, name, *dtype, self.spaces.1, list.id),
                None => functions.data_open(group, name),
            };
            let data = library.own(id, Hdf5Functions::data_close, "no such data set")?;
            if creation.is_none() {
                self.check_shape(data.id)?;
            }
            Ok(data)
        };
        self.layout.data.iter().map(open).collect()
    }

    /// Refuses a data set that the selection does not fit in.
    fn check_shape(&self, data: Hdf5Id) -> Result<()> {
        let (library, functions) = (self.library, &self.library.functions);
        let space = library.own(functions.data_space(data), Hdf5Functions::space_close, "no data space")?;
        let (mut stored, mut asked) = (crate::hdf5_ffi::NO_SHAPE, crate::hdf5_ffi::NO_SHAPE);
        let stored = functions.space_shape(space.id, &mut stored);
        let asked = functions.space_shape(self.spaces.1, &mut asked);
        if stored == asked {
            return Ok(());
        }
        let what = format!("has data sets of shape {stored:?}, and {asked:?} is asked for");
        Err(Error::new(ErrorKind::Invalid, what)
            .hint("read with the dimensions and ranks that the file was written with"))
    }

    fn creation_list(&self) -> Result<OpenId<'a>> {
        let (library, kernel) = (self.library, self.kernel);
        let list = library.list("H5P_CLS_DATASET_CREATE_ID_g")?;
        if kernel.chunk_dims.is_empty() {
            return Ok(list);
        }
        let shape = file_shape(kernel, self.place.comm.size() as u64);
        let chunk: Vec<u64> =
            kernel.chunk_dims.iter().zip(&shape).map(|(chunk, axis)| (*chunk).clamp(1, *axis)).collect();
        library.check(library.functions.list_set_chunk(list.id, &chunk), "no chunks of this shape")?;
        if kernel.compress {
            let set = library.functions.list_set_deflate(list.id, GZIP_LEVEL);
            library.check(set, "this libhdf5 has no gzip")?;
        }
        Ok(list)
    }

    /// Writes or reads all variables.
    fn transfer(&mut self, timestep: &OpenTimestep<'_>) -> Result<()> {
        let (library, functions) = (self.library, &self.library.functions);
        for transfer in &self.layout.transfers {
            let data = timestep.data[transfer.data].id;
            let memory_type = match self.kernel.mode {
                KernelMode::Write => transfer.memory_type,
                KernelMode::Read => library.memory_type(data, transfer, self.types)?,
            };
            let (memory_space, file_space) = self.spaces;
            let slab = HyperslabTransfer { memory_type, memory_space, file_space, list: self.list };
            let bytes = match (&mut self.data, transfer.variable) {
                (ParticleData::Arrays(arrays), Some(variable)) => &mut arrays[variable],
                (ParticleData::Structures(bytes), None) => bytes,
                _ => return Err(Error::new(ErrorKind::Bug, "a transfer of other particles")),
            };
            let answer = match self.kernel.mode {
                KernelMode::Write => functions.data_write(data, &slab, bytes),
                KernelMode::Read => functions.data_read(data, &slab, bytes),
            };
            library.check(answer, "particles cannot be transferred")?;
        }
        Ok(())
    }

    fn close(&mut self, timestep: Option<OpenTimestep<'_>>) -> Result<()> {
        let began = Instant::now();
        let Some(OpenTimestep { data, group }) = timestep else { return Ok(()) };
        data.into_iter().try_for_each(|data| data.close("a data set cannot be closed"))?;
        group.close("a group cannot be closed")?;
        self.timings.metadata_s += began.elapsed().as_secs_f64();
        Ok(())
    }

    /// True on all ranks when one of them was interrupted.
    fn is_over(&self) -> Result<bool> {
        let mine = (self.place.is_interrupted)();
        if self.place.comm.size() == 1 {
            return Ok(mine);
        }
        let interrupted = self.place.comm.all_gather(vec![u8::from(mine)], &Wait::while_ranks_live())?;
        Ok(interrupted.iter().any(|flag| *flag != [0]))
    }

    fn compute(&mut self) {
        let wanted = self.kernel.compute.draw(&mut self.random);
        let (began, until) = (Instant::now(), Duration::try_from_secs_f64(wanted).unwrap_or_default());
        while began.elapsed() < until && !(self.place.is_interrupted)() {
            thread::sleep((until - began.elapsed().min(until)).min(GLANCE));
        }
        self.timings.compute_s += began.elapsed().as_secs_f64();
    }
}
