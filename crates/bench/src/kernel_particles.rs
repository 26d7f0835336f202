//! Particles in memory: an array for each of the eight variables, or an array of structures.

use std::ffi::CStr;

use forebay::{Error, ErrorKind, Result};
use forebay_workload::{Mt19937, SpaceLayout};

use crate::{
    hdf5_ffi::{Hdf5Functions, Hdf5Id},
    runtime_hdf5::RuntimeHdf5,
};

/// The variables of a particle, in the order in which a structure has them; all but `id_1` are floating-point numbers.
pub(crate) const VARIABLES: [&CStr; 8] = [c"x", c"y", c"z", c"px", c"py", c"pz", c"id_1", c"id_2"];

/// The data set of structures.
pub(crate) const STRUCTURES: &CStr = c"particles";

/// Bytes of a variable.
const VARIABLE_LEN: usize = 4;

/// Bytes of a particle.
pub(crate) const PARTICLE_LEN: usize = VARIABLE_LEN * VARIABLES.len();

/// The edge of the box that particles are in.
const BOX: f32 = 64.0;

/// Types of particles, closed when they go.
pub(crate) struct ParticleTypes<'a> {
    library: &'a RuntimeHdf5,
    /// Each variable by itself.
    pub(crate) plain: [Hdf5Id; 8],
    /// A structure of each variable alone.
    pub(crate) single: Vec<Hdf5Id>,
    /// A structure of all.
    pub(crate) whole: Hdf5Id,
}

impl<'a> ParticleTypes<'a> {
    pub(crate) fn new(library: &'a RuntimeHdf5) -> Result<Self> {
        let functions = &library.functions;
        let (float, int) =
            (functions.constant("H5T_NATIVE_FLOAT_g")?, functions.constant("H5T_NATIVE_INT32_g")?);
        let plain = VARIABLES.map(|name| if name == c"id_1" { int } else { float });
        let mut types = Self { library, plain, single: Vec::new(), whole: -1 };
        for (name, dtype) in VARIABLES.into_iter().zip(plain) {
            let made = functions.compound(VARIABLE_LEN, &[(name, 0, dtype)])?;
            types.single.push(library.own(made, Hdf5Functions::type_close, "no compound type")?.leave());
        }
        let fields: Vec<(&CStr, usize, Hdf5Id)> = (0..VARIABLES.len())
            .map(|number| (VARIABLES[number], number * VARIABLE_LEN, plain[number]))
            .collect();
        let made = functions.compound(PARTICLE_LEN, &fields)?;
        types.whole = library.own(made, Hdf5Functions::type_close, "no compound type")?.leave();
        Ok(types)
    }
}

impl Drop for ParticleTypes<'_> {
    fn drop(&mut self) {
        for id in self.single.iter().copied().chain([self.whole]).filter(|id| *id >= 0) {
            self.library.functions.type_close(id);
        }
    }
}

/// So many zeros, where memory has room for them.
fn zeros(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let no_room = |_| {
        let error = Error::new(ErrorKind::Full, format!("no memory for {len} bytes of particles"));
        error.hint("take fewer particles for each rank (NUM_PARTICLES, DIM_1 to DIM_3)")
    };
    bytes.try_reserve_exact(len).map_err(no_room)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Particles of one rank and timestep.
#[derive(Debug)]
pub(crate) enum ParticleData {
    /// Each variable by itself.
    Arrays(Vec<Vec<u8>>),
    /// One particle after another.
    Structures(Vec<u8>),
}

impl ParticleData {
    /// `count` particles as h5bench makes them: places and momenta in a box, `id_1` their number, `id_2` twice that.
    pub(crate) fn new(count: u64, layout: SpaceLayout, rank: u64) -> Result<Self> {
        let mut data = Self::room(count, layout)?;
        #[expect(clippy::cast_possible_truncation, reason = "a seed: any bits will do")]
        let mut random = Mt19937::seeded(rank as u32);
        for number in 0..data.count() {
            let mut draw = || ((random.next_u32() >> 8) as f32 / (1u32 << 24) as f32 * BOX).to_ne_bytes();
            let part = number as f32 / data.count() as f32 * BOX;
            let (x, y, px, py) = (draw(), draw(), draw(), draw());
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_possible_wrap,
                reason = "as h5bench has it"
            )]
            let id = (number as i32).to_ne_bytes();
            let values = [
                x,
                y,
                part.to_ne_bytes(),
                px,
                py,
                (2.0 * part).to_ne_bytes(),
                id,
                (2.0 * number as f32).to_ne_bytes(),
            ];
            for (variable, value) in values.into_iter().enumerate() {
                data.set(variable, number, value);
            }
        }
        Ok(data)
    }

    /// Room for `count` particles.
    pub(crate) fn room(count: u64, layout: SpaceLayout) -> Result<Self> {
        let count = usize::try_from(count).ok().and_then(|count| count.checked_mul(PARTICLE_LEN));
        let len = count.ok_or_else(|| Error::invalid("more particles than memory has addresses"))?;
        Ok(match layout {
            SpaceLayout::Interleaved => Self::Structures(zeros(len)?),
            SpaceLayout::Contig | SpaceLayout::Strided => {
                let arrays = VARIABLES.iter().map(|_| zeros(len / VARIABLES.len()));
                Self::Arrays(arrays.collect::<Result<_>>()?)
            }
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Arrays(arrays) => arrays.first().map_or(0, |array| array.len() / VARIABLE_LEN),
            Self::Structures(bytes) => bytes.len() / PARTICLE_LEN,
        }
    }

    fn set(&mut self, variable: usize, number: usize, value: [u8; VARIABLE_LEN]) {
        let (bytes, at) = match self {
            Self::Arrays(arrays) => (&mut arrays[variable], number * VARIABLE_LEN),
            Self::Structures(bytes) => (bytes, number * PARTICLE_LEN + variable * VARIABLE_LEN),
        };
        bytes[at..at + VARIABLE_LEN].copy_from_slice(&value);
    }
}
