//! The constructors (MPI 5.0, sections 5.1.2 and 5.1.3), except for subarrays and distributed arrays.
//!
//! Arguments are the user's, converted to 64 bits: counts, block lengths and displacements in elements are checked
//! here. A type whose size or bounds do not fit in 64 bits is refused with `MPI_ERR_VALUE_TOO_LARGE`.

use super::bounds::{Bounds, Hull};
use super::component::Component;
use super::envelope::{Argument, Combiner, Origin};
use super::layout::{Builder, Layout};
use super::signature::Signature;
use super::{Datatype, Element};
use crate::base::attribute::Attributes;
use crate::base::error::Result;
use crate::err;
use parking_lot::RwLock;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// A count or block length from the user, which must not be negative.
pub(super) fn natural(value: i64, argument: &str) -> Result<u64> {
    u64::try_from(value).map_err(|_| err!(Count, "{argument} is {value}, but must not be negative"))
}

/// The same for entry `index` of an array.
pub(super) fn natural_at(value: i64, argument: &str, index: usize) -> Result<u64> {
    u64::try_from(value).map_err(|_| err!(Count, "{argument}[{index}] is {value}, but must not be negative"))
}

/// A distance in elements as a distance in bytes.
pub(super) fn in_bytes(elements: i64, old: &Datatype, argument: &str) -> Result<i64> {
    elements.checked_mul(old.extent()).ok_or_else(|| {
        err!(
            ValueTooLarge,
            "{argument} is {elements} elements of extent {}, which does not fit in 64 bits of bytes",
            old.extent()
        )
    })
}

/// The bytes of `count` elements of `size` bytes.
pub(super) fn total_size(count: u128, size: u64) -> Result<u64> {
    count
        .checked_mul(u128::from(size))
        .and_then(|bytes| i64::try_from(bytes).ok())
        .map(|bytes| bytes as u64)
        .ok_or_else(|| {
            err!(
                ValueTooLarge,
                "the new datatype would hold {count} elements of {size} bytes, which does not fit in 63 bits"
            )
        })
}

/// How far the last of `count` copies `stride` bytes apart is from the first.
fn last(count: u64, stride: i64) -> i128 {
    i128::from(count.saturating_sub(1)) * i128::from(stride)
}

fn same_length(one: &[i64], name: &str, other: usize, other_name: &str) -> Result<()> {
    if one.len() == other {
        Ok(())
    } else {
        Err(err!(
            Arg,
            "{name} has {} entries and {other_name} has {other}",
            one.len()
        ))
    }
}

fn counts(values: &[i64]) -> impl Iterator<Item = Argument> {
    values.iter().map(|&value| Argument::Count(value))
}

fn addresses(values: &[i64]) -> impl Iterator<Item = Argument> {
    values.iter().map(|&value| Argument::Address(value))
}

impl Datatype {
    /// A new type of these parts; `layout` and `signature` are of the size `size`.
    pub(super) fn assemble(
        size: u64,
        bounds: Bounds,
        layout: Arc<Layout>,
        signature: Arc<Signature>,
        origin: Origin,
    ) -> Datatype {
        debug_assert_eq!(layout.size(), size);
        debug_assert_eq!(signature.size(), size);
        let (single, run_offset) = match *layout {
            Layout::Empty => (true, 0),
            Layout::Run { offset, .. } => (true, offset),
            _ => (false, 0),
        };
        Datatype {
            size,
            runs: layout.all_runs(),
            run_offset,
            dense: single && (size == 0 || u64::try_from(bounds.extent) == Ok(size)),
            single,
            bounds,
            layout,
            signature,
            component: match size {
                0 => Component::None,
                _ => Component::of(&origin.datatypes),
            },
            origin: Arc::new(origin),
            element: None,
            predefined: false,
            committed: AtomicBool::new(false),
            handle: AtomicUsize::new(0),
            name: RwLock::new(Cow::Borrowed("")),
            attributes: Attributes::default(),
        }
    }

    /// A predefined type: committed, named.
    pub(super) fn assemble_predefined(
        name: &'static str,
        handle: usize,
        element: Option<Element>,
        bounds: Bounds,
        layout: Arc<Layout>,
        signature: Arc<Signature>,
        origin: Origin,
    ) -> Arc<Datatype> {
        Arc::new(Datatype {
            element,
            predefined: true,
            committed: AtomicBool::new(true),
            handle: AtomicUsize::new(handle),
            name: RwLock::new(Cow::Borrowed(name)),
            ..Datatype::assemble(layout.size(), bounds, layout, signature, origin)
        })
    }

    /// `MPI_Type_contiguous`.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` for a negative count, `MPI_ERR_VALUE_TOO_LARGE` on overflow.
    pub fn contiguous(count: i64, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let origin = Origin::new(
            Combiner::Contiguous,
            vec![Argument::Count(count)],
            vec![old.clone()],
        );
        Self::strided(natural(count, "count")?, 1, old.extent(), old, origin)
    }

    /// `MPI_Type_vector`; the stride is in elements.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` for a negative count or block length, `MPI_ERR_VALUE_TOO_LARGE` on overflow.
    pub fn vector(count: i64, blocklength: i64, stride: i64, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let arguments = [count, blocklength, stride].map(Argument::Count).to_vec();
        let origin = Origin::new(Combiner::Vector, arguments, vec![old.clone()]);
        let (count, blocklength) = (natural(count, "count")?, natural(blocklength, "blocklength")?);
        Self::strided(count, blocklength, in_bytes(stride, old, "stride")?, old, origin)
    }

    /// `MPI_Type_create_hvector`; the stride is in bytes.
    ///
    /// # Errors
    /// As [`vector`](Self::vector).
    pub fn hvector(count: i64, blocklength: i64, stride: i64, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let arguments = vec![
            Argument::Count(count),
            Argument::Count(blocklength),
            Argument::Address(stride),
        ];
        let origin = Origin::new(Combiner::Hvector, arguments, vec![old.clone()]);
        let (count, blocklength) = (natural(count, "count")?, natural(blocklength, "blocklength")?);
        Self::strided(count, blocklength, stride, old, origin)
    }

    /// `count` blocks of `blocklength` elements, `stride` bytes apart.
    fn strided(
        count: u64,
        blocklength: u64,
        stride: i64,
        old: &Arc<Datatype>,
        origin: Origin,
    ) -> Result<Arc<Datatype>> {
        let elements = u128::from(count) * u128::from(blocklength);
        let size = total_size(elements, old.size)?;
        let mut hull = Hull::default();
        if elements > 0 {
            let (far, near) = (last(count, stride), last(blocklength, old.extent()));
            // The four corners of the block of copies: the outermost two are among them.
            hull.add(old, far.min(0) + near.min(0), far.max(0) + near.max(0));
        }
        let bounds = hull.finish()?;
        let (layout, signature) = if size == 0 {
            (Arc::new(Layout::Empty), Arc::new(Signature::Empty))
        } else {
            let block = Layout::repeat(&old.layout, blocklength, old.extent());
            // Elements have at least one byte, so their number fits if their size does.
            (
                Layout::repeat(&block, count, stride),
                Signature::repeat(&old.signature, elements as u64),
            )
        };
        Ok(Arc::new(Self::assemble(size, bounds, layout, signature, origin)))
    }

    /// `MPI_Type_indexed`; displacements are in elements.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` for a negative block length, `MPI_ERR_ARG` where the arrays differ in length,
    /// `MPI_ERR_VALUE_TOO_LARGE` on overflow.
    pub fn indexed(
        blocklengths: &[i64],
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        same_length(
            blocklengths,
            "array_of_blocklengths",
            displacements.len(),
            "array_of_displacements",
        )?;
        let arguments = std::iter::once(Argument::Count(blocklengths.len() as i64))
            .chain(counts(blocklengths))
            .chain(counts(displacements))
            .collect();
        let origin = Origin::new(Combiner::Indexed, arguments, vec![old.clone()]);
        let blocks = blocklengths
            .iter()
            .zip(displacements)
            .map(|(&length, &displacement)| Ok((length, in_bytes(displacement, old, "a displacement")?)));
        Self::blocks(blocks, old, origin)
    }

    /// `MPI_Type_create_hindexed`; displacements are in bytes.
    ///
    /// # Errors
    /// As [`indexed`](Self::indexed).
    pub fn hindexed(
        blocklengths: &[i64],
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        same_length(
            blocklengths,
            "array_of_blocklengths",
            displacements.len(),
            "array_of_displacements",
        )?;
        let arguments = std::iter::once(Argument::Count(blocklengths.len() as i64))
            .chain(counts(blocklengths))
            .chain(addresses(displacements))
            .collect();
        let origin = Origin::new(Combiner::Hindexed, arguments, vec![old.clone()]);
        let blocks = blocklengths
            .iter()
            .zip(displacements)
            .map(|(&length, &displacement)| Ok((length, displacement)));
        Self::blocks(blocks, old, origin)
    }

    /// `MPI_Type_create_indexed_block`; displacements are in elements.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` for a negative block length, `MPI_ERR_VALUE_TOO_LARGE` on overflow.
    pub fn indexed_block(
        blocklength: i64,
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        natural(blocklength, "blocklength")?;
        let arguments = [displacements.len() as i64, blocklength].map(Argument::Count);
        let arguments = arguments.into_iter().chain(counts(displacements)).collect();
        let origin = Origin::new(Combiner::IndexedBlock, arguments, vec![old.clone()]);
        let blocks = displacements
            .iter()
            .map(|&displacement| Ok((blocklength, in_bytes(displacement, old, "a displacement")?)));
        Self::blocks(blocks, old, origin)
    }

    /// `MPI_Type_create_hindexed_block`; displacements are in bytes.
    ///
    /// # Errors
    /// As [`indexed_block`](Self::indexed_block).
    pub fn hindexed_block(
        blocklength: i64,
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        natural(blocklength, "blocklength")?;
        let arguments = [displacements.len() as i64, blocklength].map(Argument::Count);
        let arguments = arguments.into_iter().chain(addresses(displacements)).collect();
        let origin = Origin::new(Combiner::HindexedBlock, arguments, vec![old.clone()]);
        let blocks = displacements
            .iter()
            .map(|&displacement| Ok((blocklength, displacement)));
        Self::blocks(blocks, old, origin)
    }

    /// Blocks of (elements, displacement in bytes) of one old type.
    fn blocks(
        blocks: impl Iterator<Item = Result<(i64, i64)>>,
        old: &Arc<Datatype>,
        origin: Origin,
    ) -> Result<Arc<Datatype>> {
        let mut hull = Hull::default();
        let mut builder = Builder::default();
        let mut elements = 0u128;
        for (index, block) in blocks.enumerate() {
            let (length, displacement) = block?;
            let length = natural_at(length, "array_of_blocklengths", index)?;
            elements += u128::from(length);
            // Before the block is added: a run of all of them is no longer than this.
            total_size(elements, old.size)?;
            add_block(&mut hull, &mut builder, length, displacement, old)?;
        }
        let size = total_size(elements, old.size)?;
        let signature = match size {
            0 => Arc::new(Signature::Empty),
            _ => Signature::repeat(&old.signature, elements as u64),
        };
        Ok(Arc::new(Self::assemble(
            size,
            hull.finish()?,
            builder.finish(),
            signature,
            origin,
        )))
    }

    /// `MPI_Type_create_struct`; displacements are in bytes.
    ///
    /// # Errors
    /// As [`indexed`](Self::indexed).
    pub fn struct_(
        blocklengths: &[i64],
        displacements: &[i64],
        datatypes: &[Arc<Datatype>],
    ) -> Result<Arc<Datatype>> {
        same_length(
            blocklengths,
            "array_of_blocklengths",
            displacements.len(),
            "array_of_displacements",
        )?;
        same_length(
            blocklengths,
            "array_of_blocklengths",
            datatypes.len(),
            "array_of_types",
        )?;
        let arguments = std::iter::once(Argument::Count(blocklengths.len() as i64))
            .chain(counts(blocklengths))
            .chain(addresses(displacements))
            .collect();
        let origin = Origin::new(Combiner::Struct, arguments, datatypes.to_vec());
        let mut hull = Hull::default();
        let mut builder = Builder::default();
        let mut signatures = Vec::with_capacity(datatypes.len());
        let mut size = 0u64;
        for (index, old) in datatypes.iter().enumerate() {
            let length = natural_at(blocklengths[index], "array_of_blocklengths", index)?;
            add_block(&mut hull, &mut builder, length, displacements[index], old)?;
            size += total_size(u128::from(length), old.size)?;
            // Two sizes below 2⁶³ are below 2⁶⁴ together: no overflow before this check.
            total_size(1, size)?;
            if old.size > 0 {
                signatures.push(Signature::repeat(&old.signature, length));
            }
        }
        let signature = Signature::series(signatures);
        let with_elements = blocklengths.iter().zip(datatypes).filter(|block| *block.0 > 0);
        let component = Component::of(with_elements.map(|block| block.1));
        Ok(Arc::new(Datatype {
            component,
            ..Self::assemble(size, hull.finish()?, builder.finish(), signature, origin)
        }))
    }

    /// `MPI_Type_create_resized`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` where the new upper bound does not fit in 64 bits.
    pub fn resized(old: &Arc<Datatype>, lb: i64, extent: i64) -> Result<Arc<Datatype>> {
        let arguments = [lb, extent].map(Argument::Address).to_vec();
        Ok(Arc::new(Self::assemble(
            old.size,
            old.bounds.resized(lb, extent)?,
            old.layout.clone(),
            old.signature.clone(),
            Origin::new(Combiner::Resized, arguments, vec![old.clone()]),
        )))
    }

    /// `MPI_Type_dup`, without the attributes: the same type, committed if the old one is, without a name.
    pub fn dup(old: &Arc<Datatype>) -> Arc<Datatype> {
        Self::copy_of(
            old,
            Arc::new(Origin::new(Combiner::Dup, Vec::new(), vec![old.clone()])),
        )
    }

    /// A second object of a derived type, made by the same constructor call, as `MPI_Type_get_contents` returns it: with
    /// a handle of its own, without name and attributes, committed if the old one is.
    pub fn second(old: &Datatype) -> Arc<Datatype> {
        Self::copy_of(old, old.origin.clone())
    }

    fn copy_of(old: &Datatype, origin: Arc<Origin>) -> Arc<Datatype> {
        Arc::new(Datatype {
            origin,
            layout: old.layout.clone(),
            signature: old.signature.clone(),
            component: old.all_components(),
            element: None,
            predefined: false,
            committed: AtomicBool::new(old.is_committed()),
            handle: AtomicUsize::new(0),
            name: RwLock::new(Cow::Borrowed("")),
            attributes: Attributes::default(),
            ..*old
        })
    }
}

/// Adds `length` elements of `old` at `displacement` bytes.
fn add_block(
    hull: &mut Hull,
    builder: &mut Builder,
    length: u64,
    displacement: i64,
    old: &Arc<Datatype>,
) -> Result<()> {
    if length == 0 {
        return Ok(());
    }
    let size = total_size(u128::from(length), old.size)?;
    let first = i128::from(displacement);
    hull.add(old, first, first + last(length, old.extent()));
    if old.dense {
        builder.run(displacement.wrapping_add(old.run_offset), size);
    } else {
        builder.push(&Layout::repeat(&old.layout, length, old.extent()), displacement);
    }
    Ok(())
}
