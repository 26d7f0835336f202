//! Which elements of a data set one rank writes or reads in a kernel of h5bench.
//!
//! ```text
//! data set = ranks x dims[0] by dims[1]…; a rank has the rows from rank x dims[0]
//!
//! ldc  ▛.   rdc  .▜   prl  ┌┐   cs  ▪.▪   strided  blocks with gaps
//!      .▟        ▙.        └┘       ▪.▪
//! ```

use forebay::{Error, Result};
use forebay_workload::{Kernel, KernelMode, KernelPattern, SpaceLayout};

use crate::hdf5_ffi::particles::BlockSelection;

/// The shape of the data sets in a file that `ranks` write.
pub(crate) fn file_shape(kernel: &Kernel, ranks: u64) -> Vec<u64> {
    let mut shape = kernel.dims.clone();
    if let Some(first) = shape.first_mut().filter(|_| !kernel.file_per_rank) {
        *first *= ranks;
    }
    shape
}

/// What `rank` writes or reads of each data set: the union of all.
pub(crate) fn selections(kernel: &Kernel, rank: u64) -> Result<Vec<BlockSelection>> {
    let first = if kernel.file_per_rank { 0 } else { rank * kernel.dims[0] };
    let mut parts = match kernel.mode {
        KernelMode::Write if kernel.file_pattern == SpaceLayout::Strided => vec![strided(kernel)?],
        KernelMode::Write => vec![whole(&kernel.dims)],
        KernelMode::Read => read_parts(kernel)?,
    };
    for part in &mut parts {
        part.start[0] += first;
    }
    Ok(parts)
}

fn read_parts(kernel: &Kernel) -> Result<Vec<BlockSelection>> {
    let (dims, blocks) = (&kernel.dims, &kernel.blocks);
    match kernel.selection {
        KernelPattern::Full => Ok(vec![whole(dims)]),
        KernelPattern::Partial => Ok(vec![first_rows(kernel)?]),
        KernelPattern::Strided => Ok(vec![strided(kernel)?]),
        KernelPattern::Cs => Ok(vec![grid(kernel)?]),
        KernelPattern::Ldc | KernelPattern::Rdc => {
            check_plane(kernel)?;
            let far: Vec<u64> = dims.iter().zip(blocks).map(|(len, block)| len - block).collect();
            let corners = match kernel.selection {
                KernelPattern::Ldc => [[0, 0], [far[0], far[1]]],
                _ => [[0, far[1]], [far[0], 0]],
            };
            Ok(corners.iter().map(|start| one(start.to_vec(), blocks.clone())).collect())
        }
        KernelPattern::Prl => {
            check_plane(kernel)?;
            let (rows, columns) = (vec![blocks[0], dims[1]], vec![dims[0], blocks[1]]);
            let far = [dims[0] - blocks[0], dims[1] - blocks[1]];
            Ok(vec![
                one(vec![0, 0], rows.clone()),
                one(vec![far[0], 0], rows),
                one(vec![0, 0], columns.clone()),
                one(vec![0, far[1]], columns),
            ])
        }
    }
}

fn whole(dims: &[u64]) -> BlockSelection {
    one(vec![0; dims.len()], dims.to_vec())
}

/// One block.
fn one(start: Vec<u64>, block: Vec<u64>) -> BlockSelection {
    BlockSelection { stride: block.clone(), count: vec![1; start.len()], start, block }
}

/// The first elements that were asked for, in whole rows.
fn first_rows(kernel: &Kernel) -> Result<BlockSelection> {
    let of_row: u64 = kernel.dims[1..].iter().product();
    let (all, wanted) = (kernel.dims[0] * of_row, kernel.to_read.unwrap_or(kernel.dims[0] * of_row));
    if wanted == 0 || wanted > all || wanted % of_row != 0 {
        let what =
            format!("TO_READ_NUM_PARTICLES is {wanted}: a rank has {all} particles in rows of {of_row}");
        return Err(Error::invalid(what));
    }
    let mut block = kernel.dims.clone();
    block[0] = wanted / of_row;
    Ok(one(vec![0; block.len()], block))
}

/// `BLOCK_CNT` blocks along the first axis, the others whole.
fn strided(kernel: &Kernel) -> Result<BlockSelection> {
    let (stride, block, count) = (kernel.strides[0], kernel.blocks[0], kernel.block_count);
    let span = stride.checked_add(block).and_then(|len| len.checked_mul(count));
    if stride < block || span.is_none_or(|span| span > kernel.dims[0]) {
        let what = format!(
            "(STRIDE_SIZE {stride} + BLOCK_SIZE {block}) x BLOCK_CNT {count} must fit in DIM_1 {}, and the stride be no shorter than the block",
            kernel.dims[0]
        );
        return Err(Error::invalid(what));
    }
    let mut selection = whole(&kernel.dims);
    (selection.stride[0], selection.count[0], selection.block[0]) = (stride, count, block);
    Ok(selection)
}

/// Blocks with a stride along every axis.
fn grid(kernel: &Kernel) -> Result<BlockSelection> {
    let mut selection = whole(&kernel.dims);
    for (axis, len) in kernel.dims.iter().enumerate() {
        let (stride, block) = (kernel.strides[axis], kernel.blocks[axis]);
        if block == 0 || stride < block || block > *len {
            let what = format!("axis {}: blocks of {block} with a stride of {stride} in {len}", axis + 1);
            return Err(Error::invalid(what).hint("set STRIDE_SIZE and BLOCK_SIZE of every axis"));
        }
        selection.stride[axis] = stride;
        selection.block[axis] = block;
        selection.count[axis] = (len - block) / stride + 1;
    }
    Ok(selection)
}

/// Refuses arrays that are no plane, and blocks that are no part of it.
fn check_plane(kernel: &Kernel) -> Result<()> {
    let is_plane = kernel.dims.len() == 2;
    let fits = kernel.dims.iter().zip(&kernel.blocks).all(|(len, block)| (1..=*len).contains(block));
    match (is_plane, fits) {
        (true, true) => Ok(()),
        (false, _) => Err(Error::invalid(format!("{} is for arrays of two axes", kernel.selection))),
        (true, false) => Err(Error::invalid(format!(
            "blocks of {:?} are no part of {:?}: set BLOCK_SIZE and BLOCK_SIZE_2",
            kernel.blocks, kernel.dims
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plane(selection: KernelPattern) -> Kernel {
        Kernel {
            mode: KernelMode::Read,
            selection,
            dims: vec![6, 5],
            blocks: vec![2, 1],
            strides: vec![3, 2],
            ..Kernel::default()
        }
    }

    /// The elements of a plane that `parts` select.
    fn elements(parts: &[BlockSelection]) -> BTreeSet<(u64, u64)> {
        let mut found = BTreeSet::new();
        for part in parts {
            let along = |axis: usize| -> Vec<u64> {
                (0..part.count[axis])
                    .flat_map(|number| {
                        let from = part.start[axis] + number * part.stride[axis];
                        from..from + part.block[axis]
                    })
                    .collect()
            };
            for row in along(0) {
                found.extend(along(1).into_iter().map(|column| (row, column)));
            }
        }
        found
    }

    #[test]
    fn patterns_select_the_elements_that_their_names_say() {
        let of = |selection, rank| elements(&selections(&plane(selection), rank).unwrap());
        assert_eq!(of(KernelPattern::Full, 0).len(), 30);
        assert_eq!(of(KernelPattern::Full, 1).first(), Some(&(6, 0)));
        assert_eq!(of(KernelPattern::Ldc, 0), [(0, 0), (1, 0), (4, 4), (5, 4)].into());
        assert_eq!(of(KernelPattern::Rdc, 1), [(6, 4), (7, 4), (10, 0), (11, 0)].into());
        let frame = of(KernelPattern::Prl, 0);
        let inside = (2..4).flat_map(|row| (1..4).map(move |column| (row, column))).collect::<BTreeSet<_>>();
        assert!(frame.len() == 24 && frame.is_disjoint(&inside));
        let stencil = of(KernelPattern::Cs, 0);
        assert_eq!(stencil.len(), 4 * 3);
        assert!(stencil.contains(&(3, 2)) && !stencil.contains(&(2, 2)));
        let mut partial = plane(KernelPattern::Partial);
        partial.to_read = Some(10);
        assert_eq!(elements(&selections(&partial, 0).unwrap()).len(), 10);
        partial.to_read = Some(11);
        assert!(selections(&partial, 0).is_err());
    }

    #[test]
    fn strides_of_a_line_must_fit_in_a_ranks_part() {
        let mut kernel = Kernel {
            file_pattern: SpaceLayout::Strided,
            dims: vec![64],
            strides: vec![8],
            blocks: vec![2],
            block_count: 6,
            ..Kernel::default()
        };
        let parts = selections(&kernel, 2).unwrap();
        assert_eq!((parts[0].start[0], parts[0].count[0], parts[0].block[0]), (128, 6, 2));
        kernel.block_count = 7;
        assert!(selections(&kernel, 0).unwrap_err().to_string().contains("BLOCK_CNT"));
        kernel.file_per_rank = true;
        assert_eq!(
            (file_shape(&kernel, 4), file_shape(&plane(KernelPattern::Full), 4)),
            (vec![64], vec![24, 5])
        );
    }
}
