//! Subarrays and distributed arrays (MPI 5.0, sections 5.1.3 and 5.1.4).
//!
//! Both are built from the fastest dimension outwards, each dimension a loop around the ones inside it, and both have
//! the whole array's bounds, set by markers.

use super::Datatype;
use super::bounds::Bounds;
use super::construct::{natural_at, total_size};
use super::envelope::{Argument, Combiner, Origin};
use super::layout::{Builder, Layout};
use super::signature::Signature;
use crate::base::error::Result;
use crate::err;
use std::sync::Arc;

/// Which dimension is contiguous in memory, with the standard ABI's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Order {
    /// `MPI_ORDER_C`: the last dimension.
    C = 12,
    /// `MPI_ORDER_FORTRAN`: the first dimension.
    Fortran = 15,
}

impl Order {
    /// The order of an ABI number.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for another number.
    pub fn from_abi(value: i32) -> Result<Order> {
        match value {
            12 => Ok(Order::C),
            15 => Ok(Order::Fortran),
            _ => Err(err!(
                Arg,
                "order is {value}; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN"
            )),
        }
    }

    /// The dimensions, the contiguous one first.
    fn inside_out(self, dimensions: usize) -> impl Iterator<Item = usize> {
        (0..dimensions).map(move |index| match self {
            Order::C => dimensions - 1 - index,
            Order::Fortran => index,
        })
    }
}

const BLOCK: i32 = 17;
const CYCLIC: i32 = 18;
const DEFAULT_ARGUMENT: i32 = 19;
const NONE: i32 = 16;

fn same_dimensions(name: &str, length: usize, dimensions: usize) -> Result<()> {
    if length == dimensions {
        Ok(())
    } else {
        Err(err!(
            Arg,
            "{name} has {length} entries for an array of {dimensions} dimensions"
        ))
    }
}

/// The bytes from one index to the next along a dimension that lies outside `inner` elements.
fn stride(extent: i64, inner: u64) -> Result<i64> {
    i64::try_from(i128::from(extent) * i128::from(inner)).map_err(|_| {
        err!(
            ValueTooLarge,
            "the array holds {inner} elements of extent {extent}, which does not fit in 64 bits of bytes"
        )
    })
}

/// The elements of an array of these sizes.
fn elements(sizes: &[i64]) -> Result<u64> {
    let product = sizes
        .iter()
        .try_fold(1u64, |product, &size| product.checked_mul(size as u64));
    product
        .filter(|&product| i64::try_from(product).is_ok())
        .ok_or_else(|| {
            err!(
                ValueTooLarge,
                "the array's sizes multiply to more elements than 63 bits count"
            )
        })
}

/// A type with the bounds of the whole array.
fn finish(
    layout: &Arc<Layout>,
    taken: u128,
    size: u64,
    whole: u64,
    reach: (i128, i128),
    old: &Arc<Datatype>,
    origin: Origin,
) -> Result<Arc<Datatype>> {
    let mut hull = super::bounds::Hull::default();
    if size > 0 {
        hull.add(old, reach.0, reach.1);
    }
    let bounds: Bounds = hull.finish()?.resized(0, stride(old.extent(), whole)?)?;
    let (layout, signature) = match size {
        0 => (Arc::new(Layout::Empty), Arc::new(Signature::Empty)),
        _ => (layout.clone(), Signature::repeat(&old.signature, taken as u64)),
    };
    Ok(Arc::new(Datatype::assemble(
        size, bounds, layout, signature, origin,
    )))
}

impl Datatype {
    /// `MPI_Type_create_subarray`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for no dimension, arrays of different lengths, and a subarray that is not within the array,
    /// naming the dimension; `MPI_ERR_VALUE_TOO_LARGE` on overflow.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let dimensions = sizes.len();
        if dimensions == 0 {
            return Err(err!(Arg, "ndims is 0; an array has 1 dimension at least"));
        }
        same_dimensions("array_of_subsizes", subsizes.len(), dimensions)?;
        same_dimensions("array_of_starts", starts.len(), dimensions)?;
        for index in 0..dimensions {
            let (size, subsize, start) = (sizes[index], subsizes[index], starts[index]);
            if size < 1 {
                return Err(err!(
                    Arg,
                    "array_of_sizes[{index}] is {size}; it must be positive"
                ));
            }
            if subsize < 1 || subsize > size {
                return Err(err!(
                    Arg,
                    "array_of_subsizes[{index}] is {subsize}; it must be from 1 to the size, {size}"
                ));
            }
            if start < 0 || start > size - subsize {
                return Err(err!(
                    Arg,
                    "array_of_starts[{index}] is {start}; for a subsize of {subsize} of {size} it must be from 0 to {}",
                    size - subsize
                ));
            }
        }
        let arguments = std::iter::once(Argument::Int(dimensions as i32))
            .chain(
                [sizes, subsizes, starts]
                    .into_iter()
                    .flatten()
                    .map(|&value| Argument::Count(value)),
            )
            .chain([Argument::Int(order as i32)])
            .collect();
        let origin = Origin::new(Combiner::Subarray, arguments, vec![old.clone()]);

        let whole = elements(sizes)?;
        stride(old.extent(), whole)?;
        let taken = subsizes
            .iter()
            .fold(1u128, |product, &subsize| product * subsize as u128);
        // Before the layout is built, whose counts and lengths multiply to this at most. Where the extent is less than
        // the size, the array's extent may fit and this not.
        let size = total_size(taken, old.size)?;
        let mut layout = old.layout.clone();
        let (mut inner, mut first, mut last) = (1u64, 0u64, 0u64);
        for index in order.inside_out(dimensions) {
            let (subsize, start) = (subsizes[index] as u64, starts[index] as u64);
            layout = Layout::repeat(&layout, subsize, stride(old.extent(), inner)?);
            first += start * inner;
            last += (start + subsize - 1) * inner;
            inner *= sizes[index] as u64;
        }
        let reach = [first, last].map(|element| i128::from(element) * i128::from(old.extent()));
        let layout = layout.shift(stride(old.extent(), first)?);
        finish(&layout, taken, size, whole, (reach[0], reach[1]), old, origin)
    }

    /// `MPI_Type_create_darray`: the part of process `rank` of `size` in an array of `gsizes`, distributed over a grid of
    /// `psizes` processes. `distribs` and `dargs` hold the ABI's numbers.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`, naming the argument and the dimension; `MPI_ERR_VALUE_TOO_LARGE` on overflow.
    pub fn darray(
        size: i32,
        rank: i32,
        gsizes: &[i64],
        distribs: &[i32],
        dargs: &[i32],
        psizes: &[i32],
        order: Order,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let dimensions = gsizes.len();
        if dimensions == 0 {
            return Err(err!(Arg, "ndims is 0; an array has 1 dimension at least"));
        }
        same_dimensions("array_of_distribs", distribs.len(), dimensions)?;
        same_dimensions("array_of_dargs", dargs.len(), dimensions)?;
        same_dimensions("array_of_psizes", psizes.len(), dimensions)?;
        if size < 1 {
            return Err(err!(Arg, "size is {size}; it must be positive"));
        }
        if rank < 0 || rank >= size {
            return Err(err!(Arg, "rank is {rank}; it must be from 0 to {}", size - 1));
        }
        let mut parts = Vec::with_capacity(dimensions);
        for index in 0..dimensions {
            if gsizes[index] < 1 {
                return Err(err!(
                    Arg,
                    "array_of_gsizes[{index}] is {}; it must be positive",
                    gsizes[index]
                ));
            }
            let gsize = natural_at(gsizes[index], "array_of_gsizes", index)?;
            parts.push(Part::new(
                index,
                gsize,
                distribs[index],
                dargs[index],
                psizes[index],
            )?);
        }
        let grid = psizes
            .iter()
            .try_fold(1i32, |product, &psize| product.checked_mul(psize));
        if grid != Some(size) {
            return Err(err!(
                Arg,
                "array_of_psizes {psizes:?} does not multiply to the size, {size}"
            ));
        }
        let ints = |values: &[i32]| {
            values
                .iter()
                .map(|&value| Argument::Int(value))
                .collect::<Vec<_>>()
        };
        let mut arguments = ints(&[size, rank, dimensions as i32]);
        arguments.extend(gsizes.iter().map(|&value| Argument::Count(value)));
        for values in [distribs, dargs, psizes] {
            arguments.extend(ints(values));
        }
        arguments.push(Argument::Int(order as i32));
        let origin = Origin::new(Combiner::Darray, arguments, vec![old.clone()]);

        // The grid of processes is in row-major order whatever the order of the array.
        let mut rest = rank;
        for index in (0..dimensions).rev() {
            parts[index].coordinate = (rest % psizes[index]) as u64;
            rest /= psizes[index];
        }
        let whole = elements(gsizes)?;
        stride(old.extent(), whole)?;
        let taken = parts
            .iter()
            .fold(1u128, |product, part| product * u128::from(part.taken()));
        // Before the layout is built: see the subarray.
        let size = total_size(taken, old.size)?;
        let mut layout = old.layout.clone();
        let (mut inner, mut first, mut last) = (1u64, 0u64, 0u64);
        for index in order.inside_out(dimensions) {
            let part = &parts[index];
            layout = part.layout(&layout, stride(old.extent(), inner)?)?;
            if let Some((least, most)) = part.reach() {
                first += least * inner;
                last += most * inner;
            }
            inner *= part.gsize;
        }
        let reach = [first, last].map(|element| i128::from(element) * i128::from(old.extent()));
        finish(&layout, taken, size, whole, (reach[0], reach[1]), old, origin)
    }
}

/// What one process has of one dimension: blocks of `block` indices, every `processes` blocks, from block
/// `coordinate` on.
struct Part {
    gsize: u64,
    block: u64,
    processes: u64,
    coordinate: u64,
}

impl Part {
    fn new(index: usize, gsize: u64, distribution: i32, argument: i32, processes: i32) -> Result<Part> {
        if processes < 1 {
            return Err(err!(
                Arg,
                "array_of_psizes[{index}] is {processes}; it must be positive"
            ));
        }
        let given = match argument {
            DEFAULT_ARGUMENT => None,
            _ if argument < 1 && distribution != NONE => {
                return Err(err!(
                    Arg,
                    "array_of_dargs[{index}] is {argument}; it must be positive or MPI_DISTRIBUTE_DFLT_DARG"
                ));
            }
            _ => Some(argument as u64),
        };
        let block = match distribution {
            BLOCK => {
                let least = gsize.div_ceil(processes as u64);
                match given {
                    Some(block) if block < least => {
                        return Err(err!(
                            Arg,
                            "array_of_dargs[{index}] is {block}; blocks of it on {processes} processes do not cover the size, {gsize}"
                        ));
                    }
                    other => other.unwrap_or(least),
                }
            }
            CYCLIC => given.unwrap_or(1),
            NONE if processes == 1 => gsize,
            NONE => {
                return Err(err!(
                    Arg,
                    "array_of_psizes[{index}] is {processes}; with MPI_DISTRIBUTE_NONE it must be 1"
                ));
            }
            _ => {
                return Err(err!(
                    Arg,
                    "array_of_distribs[{index}] is {distribution}; it must be MPI_DISTRIBUTE_BLOCK, _CYCLIC or _NONE"
                ));
            }
        };
        Ok(Part {
            gsize,
            block,
            processes: processes as u64,
            coordinate: 0,
        })
    }

    /// The first index; at or behind the end if the process has none.
    fn start(&self) -> u64 {
        self.block.saturating_mul(self.coordinate)
    }

    /// From one block of the process to its next.
    fn period(&self) -> u64 {
        self.block.saturating_mul(self.processes)
    }

    /// Whole blocks, and the indices of a last one that the array's end cuts short.
    fn blocks(&self) -> (u64, u64) {
        let Some(rest) = self.gsize.checked_sub(self.start()) else {
            return (0, 0);
        };
        let (periods, rest) = (rest / self.period(), rest % self.period());
        if rest >= self.block {
            (periods + 1, 0)
        } else {
            (periods, rest)
        }
    }

    fn taken(&self) -> u64 {
        let (whole, rest) = self.blocks();
        whole * self.block + rest
    }

    /// The first and the last index.
    fn reach(&self) -> Option<(u64, u64)> {
        let end = match self.blocks() {
            (0, 0) => return None,
            (whole, 0) => self.start() + (whole - 1) * self.period() + self.block,
            (whole, rest) => self.start() + whole * self.period() + rest,
        };
        Some((self.start(), end - 1))
    }

    /// The process's indices of this dimension, around `inner`, `stride` bytes apart.
    fn layout(&self, inner: &Arc<Layout>, stride: i64) -> Result<Arc<Layout>> {
        // Indices below the size of the array: the caller has checked that all of it fits in 64 bits of bytes.
        let at = |index: u64| stride.wrapping_mul(index as i64);
        let (whole, rest) = self.blocks();
        let mut builder = Builder::default();
        if whole > 0 {
            let block = Layout::repeat(inner, self.block, stride);
            builder.push(
                &Layout::repeat(&block, whole, at(self.period())),
                at(self.start()),
            );
        }
        if rest > 0 {
            builder.push(
                &Layout::repeat(inner, rest, stride),
                at(self.start() + whole * self.period()),
            );
        }
        Ok(builder.finish())
    }
}
