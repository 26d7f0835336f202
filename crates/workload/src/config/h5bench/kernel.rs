//! The benchmarks `write` and `read` of h5bench: keys in capitals, numbers as strings.

use std::path::PathBuf;

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    config::section::Section,
    distribution::TimeDistribution,
    kernel::{Kernel, KernelMode, KernelPattern, SpaceLayout},
};

pub(super) fn kernel(name: &str, mut section: Section<'_>, file: Option<PathBuf>) -> Result<Kernel> {
    let mut kernel = Kernel { file: file.unwrap_or_else(|| "test.h5".into()), ..Kernel::default() };
    kernel.mode = if name == "read" { KernelMode::Read } else { KernelMode::Write };
    section.set(&["MEM_PATTERN"], &mut kernel.memory_pattern)?;
    section.set(&["FILE_PATTERN"], &mut kernel.file_pattern)?;
    section.set(&["READ_OPTION"], &mut kernel.selection)?;
    section.set(&["TIMESTEPS"], &mut kernel.timesteps)?;
    section.set(&["DELAYED_CLOSE_TIMESTEPS"], &mut kernel.delayed_close_timesteps)?;
    let mut compute = "0 s".to_owned();
    section.set(&["EMULATED_COMPUTE_TIME_PER_TIMESTEP"], &mut compute)?;
    let key = "EMULATED_COMPUTE_TIME_PER_TIMESTEP";
    let mean = seconds(&compute)
        .ok_or_else(|| section.error(key, format!("'{compute}' is no time such as '1 s'")))?;
    kernel.compute = TimeDistribution::Fixed { mean };
    shape(&mut section, &mut kernel)?;
    access(&mut section, &mut kernel)?;
    let mut mode = "SYNC".to_owned();
    section.set(&["MODE"], &mut mode)?;
    kernel.asynchronous = match &*mode {
        "SYNC" => false,
        "ASYNC" => true,
        _ => return Err(section.error("MODE", format!("'{mode}' is neither SYNC nor ASYNC"))),
    };
    section.set(&["CSV_FILE"], &mut kernel.csv)?;
    section.finish()?;
    check(&kernel)?;
    Ok(kernel)
}

fn shape(section: &mut Section<'_>, kernel: &mut Kernel) -> Result<()> {
    let (mut ndim, mut lens, mut chunk) = (1u32, [1u64; 3], [0u64; 3]);
    section.set(&["NUM_DIMS"], &mut ndim)?;
    if !(1..=3).contains(&ndim) {
        return Err(section.error("NUM_DIMS", "arrays have 1, 2 or 3 axes"));
    }
    let ndim = ndim as usize;
    for (axis, (dim, chunk_dim)) in DIMS.into_iter().enumerate() {
        section.set(&[dim], &mut lens[axis])?;
        section.set(&[chunk_dim], &mut chunk[axis])?;
    }
    kernel.dims = lens[..ndim].to_vec();
    if chunk.iter().any(|len| *len > 0) {
        kernel.chunk_dims = chunk[..ndim].to_vec();
    }
    let mut particles: Option<String> = None;
    section.set(&["NUM_PARTICLES"], &mut particles)?;
    if let Some(text) = particles {
        let count = particle_count(&text)
            .ok_or_else(|| section.error("NUM_PARTICLES", format!("'{text}' is no count")))?;
        kernel.dims = vec![count];
    }
    section.set(&["TO_READ_NUM_PARTICLES", "TO_READ"], &mut kernel.to_read)?;
    Ok(())
}

const DIMS: [(&str, &str); 3] =
    [("DIM_1", "CHUNK_DIM_1"), ("DIM_2", "CHUNK_DIM_2"), ("DIM_3", "CHUNK_DIM_3")];

fn access(section: &mut Section<'_>, kernel: &mut Kernel) -> Result<()> {
    let (mut strides, mut blocks) = ([0u64; 3], [0u64; 3]);
    for (axis, key) in ["STRIDE_SIZE", "STRIDE_SIZE_2", "STRIDE_SIZE_3"].into_iter().enumerate() {
        section.set(&[key], &mut strides[axis])?;
    }
    for (axis, key) in ["BLOCK_SIZE", "BLOCK_SIZE_2", "BLOCK_SIZE_3"].into_iter().enumerate() {
        section.set(&[key], &mut blocks[axis])?;
    }
    kernel.strides = strides[..kernel.dims.len()].to_vec();
    kernel.blocks = blocks[..kernel.dims.len()].to_vec();
    section.set(&["BLOCK_CNT"], &mut kernel.block_count)?;
    section.set(&["COLLECTIVE_METADATA"], &mut kernel.collective_meta)?;
    section.set(&["COLLECTIVE_DATA"], &mut kernel.collective_data)?;
    section.set(&["SUBFILING"], &mut kernel.subfiling)?;
    section.set(&["FILE_PER_PROC"], &mut kernel.file_per_rank)?;
    section.set(&["COMPRESS"], &mut kernel.compress)?;
    let (mut align, mut threshold, mut len) = (false, 0, 0);
    section.set(&["ALIGN"], &mut align)?;
    section.set(&["ALIGN_THRESHOLD"], &mut threshold)?;
    section.set(&["ALIGN_LEN"], &mut len)?;
    kernel.alignment = align.then_some((threshold, len));
    Ok(())
}

fn check(kernel: &Kernel) -> Result<()> {
    let invalid = |what: &str| Err(Error::new(ErrorKind::Invalid, what));
    let particles = kernel.dims.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
    // Ranks, of which there are at most some thousands, and bytes are counted too.
    let Some(particles) = particles.filter(|count| count.leading_zeros() > 20) else {
        return invalid("there are more particles than can be counted (DIM_1 to DIM_3, NUM_PARTICLES)");
    };
    if particles == 0 || kernel.timesteps == 0 {
        return invalid("a kernel has at least one particle and one timestep");
    }
    if kernel.compress && kernel.chunk_dims.is_empty() {
        return invalid("COMPRESS needs chunks (CHUNK_DIM_1)");
    }
    let needs_blocks = !matches!(kernel.selection, KernelPattern::Full | KernelPattern::Partial)
        || kernel.file_pattern == SpaceLayout::Strided;
    if needs_blocks && kernel.blocks[0] == 0 {
        return invalid("this pattern needs BLOCK_SIZE");
    }
    Ok(())
}

/// `1024`, or with a unit of powers of two: `16 M`, `1024 Ks`.
fn particle_count(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim() {
        "" => 0,
        "K" | "Ks" => 10,
        "M" | "Ms" => 20,
        "G" | "Gs" => 30,
        "T" | "Ts" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// `1 s`, `100 ms`, `2 min`, `5 us`.
fn seconds(text: &str) -> Option<f64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].trim().parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "min" => 60.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return None,
    };
    Some(number * unit)
}
