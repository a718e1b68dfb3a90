//! Lower bound, upper bound and extent of a type map (MPI 5.0, section 5.1, "Lower-Bound and Upper-Bound Markers").
//!
//! A type map is a set of basic elements and, where `MPI_Type_create_resized`, a subarray or a distributed array took
//! part, of markers. With markers the bounds are the outermost markers. Without, they are those of the elements, and
//! the upper one is raised until the extent is a multiple of the strictest alignment among the elements, which is
//! what a C compiler does to the size of a structure.

use super::Datatype;
use crate::base::error::Result;
use crate::err;

/// The bounds of one type map, in bytes from the buffer's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) lb: i64,
    pub(crate) extent: i64,
    pub(crate) true_lb: i64,
    pub(crate) true_extent: i64,
    /// Whether the bounds come from markers.
    pub(crate) marked: bool,
    /// The strictest alignment of its elements; 0 without elements.
    pub(crate) align: u64,
}

impl Bounds {
    /// `lb` and `extent` set by markers, as `MPI_Type_create_resized` does.
    pub(crate) fn resized(self, lb: i64, extent: i64) -> Result<Bounds> {
        if lb.checked_add(extent).is_none() {
            return Err(err!(
                Arg,
                "the upper bound of lower bound {lb} and extent {extent} does not fit in 64 bits"
            ));
        }
        Ok(Bounds {
            lb,
            extent,
            marked: true,
            ..self
        })
    }
}

/// Collects the bounds of parts, in 128 bits, so that only the result needs a check.
#[derive(Default)]
pub(crate) struct Hull {
    elements: Option<(i128, i128)>,
    markers: Option<(i128, i128)>,
    align: u64,
}

impl Hull {
    /// Adds copies of `old` of which the lowest and the highest are moved by `one` and `other`, in any order.
    pub(crate) fn add(&mut self, old: &Datatype, one: i128, other: i128) {
        let (low, high) = (one.min(other), one.max(other));
        let bounds = &old.bounds;
        let widen = |hull: &mut Option<(i128, i128)>, lb: i64, extent: i64| {
            let (from, to) = (i128::from(lb) + low, i128::from(lb) + i128::from(extent) + high);
            let (least, most) = hull.unwrap_or((from, to));
            *hull = Some((least.min(from), most.max(to)));
        };
        if old.size > 0 {
            widen(&mut self.elements, bounds.true_lb, bounds.true_extent);
        }
        if bounds.marked {
            widen(&mut self.markers, bounds.lb, bounds.extent);
        }
        self.align = self.align.max(bounds.align);
    }

    /// The bounds of all that was added; an error where they do not fit in 64 bits.
    pub(crate) fn finish(self) -> Result<Bounds> {
        let fits = |(from, to): (i128, i128)| -> Result<(i64, i64)> {
            let (Ok(lb), Ok(_), Ok(extent)) = (
                i64::try_from(from),
                i64::try_from(to),
                i64::try_from(to.saturating_sub(from)),
            ) else {
                return Err(err!(
                    ValueTooLarge,
                    "the new datatype would reach from byte {from} to byte {to}, which does not fit in 64 bits"
                ));
            };
            Ok((lb, extent))
        };
        let (true_lb, true_extent) = self.elements.map_or(Ok((0, 0)), fits)?;
        let (lb, extent) = match (self.markers, self.elements) {
            (Some(markers), _) => fits(markers)?,
            (None, Some((from, to))) => {
                let align = i128::from(self.align.max(1));
                fits((from, from + (to - from + align - 1) / align * align))?
            }
            (None, None) => (0, 0),
        };
        Ok(Bounds {
            lb,
            extent,
            true_lb,
            true_extent,
            marked: self.markers.is_some(),
            align: self.align,
        })
    }
}
