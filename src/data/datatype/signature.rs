//! Type signatures: the sequence of basic elements of a type map, without the displacements.
//!
//! Runs of one basic element are one node, repetitions are loops, so the signature of a vector of 10⁹ integers is a
//! single node. `MPI_Get_elements` and `external32` need nothing else: both look at packed bytes.

use super::basic::Basic;
use std::sync::Arc;

/// A sequence of basic elements.
#[derive(Debug)]
pub(crate) enum Signature {
    Empty,
    /// `count` times the same element.
    Uniform {
        basic: Basic,
        count: u64,
    },
    Repeat {
        count: u64,
        child: Arc<Signature>,
    },
    /// One after the other. `ends[i]` is (bytes, elements) of the parts up to and with the `i`-th.
    Series {
        parts: Box<[Arc<Signature>]>,
        ends: Box<[(u64, u64)]>,
    },
}

impl Signature {
    pub(crate) fn repeat(child: &Arc<Signature>, count: u64) -> Arc<Signature> {
        match (&**child, count) {
            (_, 0) | (Signature::Empty, _) => Arc::new(Signature::Empty),
            (_, 1) => child.clone(),
            // No overflow: the caller has checked the size of the whole, and an element has a byte at least.
            (&Signature::Uniform { basic, count: inner }, _) => Arc::new(Signature::Uniform {
                basic,
                count: inner * count,
            }),
            (Signature::Repeat { count: inner, child }, _) => Arc::new(Signature::Repeat {
                count: inner * count,
                child: child.clone(),
            }),
            _ => Arc::new(Signature::Repeat {
                count,
                child: child.clone(),
            }),
        }
    }

    pub(crate) fn series(all: impl IntoIterator<Item = Arc<Signature>>) -> Arc<Signature> {
        let mut parts: Vec<Arc<Signature>> = Vec::new();
        for part in all {
            match (parts.last().map(|last| &**last), &*part) {
                (_, Signature::Empty) => {}
                (
                    Some(&Signature::Uniform { basic, count }),
                    &Signature::Uniform {
                        basic: next,
                        count: more,
                    },
                ) if basic == next => {
                    let count = count + more;
                    *parts.last_mut().expect("just looked at") =
                        Arc::new(Signature::Uniform { basic, count });
                }
                _ => parts.push(part),
            }
        }
        match parts.len() {
            0 => Arc::new(Signature::Empty),
            1 => parts.remove(0),
            _ => {
                let mut end = (0, 0);
                let ends = parts
                    .iter()
                    .map(|part| {
                        end = (end.0 + part.size(), end.1 + part.elements());
                        end
                    })
                    .collect();
                Arc::new(Signature::Series {
                    parts: parts.into(),
                    ends,
                })
            }
        }
    }

    /// Bytes, packed.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Signature::Empty => 0,
            Signature::Uniform { basic, count } => basic.size() * count,
            Signature::Repeat { count, child } => child.size() * count,
            Signature::Series { ends, .. } => ends.last().map_or(0, |end| end.0),
        }
    }

    /// Bytes in the `external32` representation.
    pub(crate) fn external_size(&self) -> u64 {
        match self {
            Signature::Empty => 0,
            Signature::Uniform { basic, count } => u64::from(basic.external_size) * count,
            Signature::Repeat { count, child } => child.external_size() * count,
            Signature::Series { parts, .. } => parts.iter().map(|part| part.external_size()).sum(),
        }
    }

    /// Basic elements.
    pub(crate) fn elements(&self) -> u64 {
        match self {
            Signature::Empty => 0,
            Signature::Uniform { count, .. } => *count,
            Signature::Repeat { count, child } => child.elements() * count,
            Signature::Series { ends, .. } => ends.last().map_or(0, |end| end.1),
        }
    }

    /// How many basic elements the first `bytes` packed bytes hold, `bytes` at most [`size`](Self::size); `None` if
    /// they end inside one.
    pub(crate) fn elements_in(&self, bytes: u64) -> Option<u64> {
        match self {
            Signature::Empty => Some(0),
            Signature::Uniform { basic, .. } => {
                bytes.is_multiple_of(basic.size()).then(|| bytes / basic.size())
            }
            Signature::Repeat { child, .. } => {
                let (whole, rest) = (bytes / child.size(), bytes % child.size());
                Some(whole * child.elements() + child.elements_in(rest)?)
            }
            Signature::Series { parts, ends } => {
                let whole = ends.partition_point(|end| end.0 <= bytes);
                let (start, elements) = if whole == 0 { (0, 0) } else { ends[whole - 1] };
                match parts.get(whole) {
                    Some(part) => Some(elements + part.elements_in(bytes - start)?),
                    None => Some(elements),
                }
            }
        }
    }

    /// The bytes that the first `elements` basic elements take; `elements` is at most [`elements`](Self::elements).
    pub(crate) fn bytes_of(&self, elements: u64) -> u64 {
        match self {
            Signature::Empty => 0,
            Signature::Uniform { basic, .. } => elements * basic.size(),
            Signature::Repeat { child, .. } => {
                let (whole, rest) = (elements / child.elements(), elements % child.elements());
                whole * child.size() + child.bytes_of(rest)
            }
            Signature::Series { parts, ends } => {
                let whole = ends.partition_point(|end| end.1 <= elements);
                let (start, before) = if whole == 0 { (0, 0) } else { ends[whole - 1] };
                start
                    + parts
                        .get(whole)
                        .map_or(0, |part| part.bytes_of(elements - before))
            }
        }
    }

    /// Calls `visit` with each run of one basic element, in order, until it returns `false`.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(Basic, u64) -> bool) -> bool {
        match self {
            Signature::Empty => true,
            Signature::Uniform { basic, count } => visit(*basic, *count),
            Signature::Repeat { count, child } => (0..*count).all(|_| child.visit(visit)),
            Signature::Series { parts, .. } => parts.iter().all(|part| part.visit(visit)),
        }
    }
}
