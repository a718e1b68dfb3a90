//! The optimized form of a type map: where its bytes are, in order, in as few runs and loops as possible.
//!
//! A layout does not contain what the bytes mean. Building one merges runs that touch, joins a loop of loops where the outer
//! stride continues the inner one, and turns a list of runs into a loop where it is regular. So a contiguous type of
//! any construction is a single run, a matrix column a single strided loop, and the memory a layout takes grows with
//! the irregular lists that its constructors were given, never with counts.
//!
//! Offsets are bytes from the buffer's address. Sums of offsets wrap: each constructor has checked that the bytes of
//! the whole type lie within 64 bits, and an intermediate sum may leave that range and come back.

use std::sync::Arc;

/// Loops of at most this many runs are unrolled where they are among other runs.
const UNROLL: u64 = 8;

/// Where the bytes of a type are, in the order of its type map.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    /// No bytes.
    Empty,
    /// `len` bytes at `offset`.
    Run { offset: i64, len: u64 },
    /// `count` runs of `len` bytes, `stride` apart.
    Strided {
        offset: i64,
        count: u64,
        stride: i64,
        len: u64,
    },
    /// Runs of `len` bytes each.
    Gather { len: u64, offsets: Arc<[i64]> },
    /// Runs of any length: run `i` holds the packed bytes from `starts[i]` to `starts[i + 1]`.
    Runs { starts: Arc<[u64]>, offsets: Arc<[i64]> },
    /// `count` times `child`, each moved by `offset` and `stride` apart. A count of 1 moves a shared child.
    Repeat {
        offset: i64,
        count: u64,
        stride: i64,
        child: Arc<Layout>,
    },
    /// One after the other: part `i` holds the packed bytes from `starts[i]` to `starts[i + 1]`.
    Series {
        starts: Arc<[u64]>,
        parts: Arc<[Layout]>,
    },
}

impl Layout {
    /// Bytes, packed.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Layout::Empty => 0,
            Layout::Run { len, .. } => *len,
            Layout::Strided { count, len, .. } => count * len,
            Layout::Gather { len, offsets } => len * offsets.len() as u64,
            Layout::Runs { starts, .. } | Layout::Series { starts, .. } => starts[starts.len() - 1],
            Layout::Repeat { count, child, .. } => count * child.size(),
        }
    }

    /// How many runs it has, or any number above [`UNROLL`].
    fn runs(&self) -> u64 {
        match self {
            Layout::Empty => 0,
            Layout::Run { .. } => 1,
            Layout::Strided { count, .. } => *count,
            Layout::Gather { offsets, .. } | Layout::Runs { offsets, .. } => offsets.len() as u64,
            Layout::Repeat { count, child, .. } if *count <= UNROLL => child.runs().saturating_mul(*count),
            Layout::Repeat { .. } => u64::MAX,
            Layout::Series { parts, .. } if parts.len() as u64 > UNROLL => u64::MAX,
            Layout::Series { parts, .. } => parts.iter().fold(0, |sum, part| part.runs().saturating_add(sum)),
        }
    }

    /// How many runs it has in all. A layout of very many different parts is not counted to the end: then it is any
    /// large number.
    pub(crate) fn all_runs(&self) -> u64 {
        /// The most parts that are counted. (Parts can share parts, so there may be far more of them than memory holds.)
        const LOOKS: u32 = 1 << 12;
        self.all_runs_within(&mut LOOKS.clone())
    }

    fn all_runs_within(&self, looks: &mut u32) -> u64 {
        let Some(left) = looks.checked_sub(1) else {
            return u64::MAX;
        };
        *looks = left;
        match self {
            Layout::Repeat { count, child, .. } => child.all_runs_within(looks).saturating_mul(*count),
            Layout::Series { parts, .. } => parts.iter().fold(0u64, |sum, part| {
                if sum == u64::MAX {
                    sum
                } else {
                    sum.saturating_add(part.all_runs_within(looks))
                }
            }),
            simple => simple.runs(),
        }
    }

    /// `count` copies of `child`, `stride` bytes apart.
    pub(crate) fn repeat(child: &Arc<Layout>, count: u64, stride: i64) -> Arc<Layout> {
        if count == 1 {
            return child.clone();
        }
        Arc::new(match **child {
            _ if count == 0 => Layout::Empty,
            Layout::Empty => Layout::Empty,
            Layout::Run { offset, len } => Layout::strided(offset, count, stride, len),
            Layout::Strided {
                offset,
                count: inner,
                stride: step,
                len,
            } if continues(inner, step, stride) => Layout::strided(offset, inner * count, step, len),
            Layout::Repeat {
                offset,
                count: inner,
                stride: step,
                child: ref grandchild,
            } if inner > 1 && continues(inner, step, stride) => Layout::Repeat {
                offset,
                count: inner * count,
                stride: step,
                child: grandchild.clone(),
            },
            Layout::Repeat {
                offset,
                count: 1,
                child: ref grandchild,
                ..
            } => Layout::Repeat {
                offset,
                count,
                stride,
                child: grandchild.clone(),
            },
            _ => Layout::Repeat {
                offset: 0,
                count,
                stride,
                child: child.clone(),
            },
        })
    }

    fn strided(offset: i64, count: u64, stride: i64, len: u64) -> Layout {
        if i64::try_from(len) == Ok(stride) {
            Layout::Run {
                offset,
                len: len * count,
            }
        } else {
            Layout::Strided {
                offset,
                count,
                stride,
                len,
            }
        }
    }

    /// The same bytes, `by` further on.
    pub(crate) fn shift(self: &Arc<Layout>, by: i64) -> Arc<Layout> {
        if by == 0 {
            return self.clone();
        }
        let mut moved = (**self).clone();
        match &mut moved {
            Layout::Empty => {}
            Layout::Run { offset, .. } | Layout::Strided { offset, .. } | Layout::Repeat { offset, .. } => {
                *offset = offset.wrapping_add(by);
            }
            Layout::Gather { .. } | Layout::Runs { .. } | Layout::Series { .. } => {
                moved = Layout::Repeat {
                    offset: by,
                    count: 1,
                    stride: 0,
                    child: self.clone(),
                };
            }
        }
        Arc::new(moved)
    }
}

/// Whether a loop `stride` apart around `count` steps of `step` is one longer loop.
fn continues(count: u64, step: i64, stride: i64) -> bool {
    i128::from(count) * i128::from(step) == i128::from(stride)
}

/// Puts a layout together from parts in packed order.
#[derive(Default)]
pub(crate) struct Builder {
    parts: Vec<Layout>,
    /// The runs after the last of `parts`: (offset, length).
    runs: Vec<(i64, u64)>,
}

impl Builder {
    /// Adds `len` bytes at `offset`.
    pub(crate) fn run(&mut self, offset: i64, len: u64) {
        if len == 0 {
            return;
        }
        match self.runs.last_mut() {
            Some((start, before)) if start.wrapping_add_unsigned(*before) == offset => *before += len,
            _ => self.runs.push((offset, len)),
        }
    }

    /// Adds `part`, moved by `by`.
    pub(crate) fn push(&mut self, part: &Arc<Layout>, by: i64) {
        if part.runs() <= UNROLL {
            self.unroll(part, by);
        } else {
            self.flush();
            self.parts.push((*part.shift(by)).clone());
        }
    }

    fn unroll(&mut self, part: &Layout, by: i64) {
        match *part {
            Layout::Empty => {}
            Layout::Run { offset, len } => self.run(offset.wrapping_add(by), len),
            Layout::Strided {
                offset,
                count,
                stride,
                len,
            } => {
                let mut at = offset.wrapping_add(by);
                for _ in 0..count {
                    self.run(at, len);
                    at = at.wrapping_add(stride);
                }
            }
            Layout::Gather { len, ref offsets } => {
                for offset in offsets.iter() {
                    self.run(offset.wrapping_add(by), len);
                }
            }
            Layout::Runs {
                ref starts,
                ref offsets,
            } => {
                for (offset, ends) in offsets.iter().zip(starts.windows(2)) {
                    self.run(offset.wrapping_add(by), ends[1] - ends[0]);
                }
            }
            Layout::Repeat {
                offset,
                count,
                stride,
                ref child,
            } => {
                let mut at = offset.wrapping_add(by);
                for _ in 0..count {
                    self.unroll(child, at);
                    at = at.wrapping_add(stride);
                }
            }
            Layout::Series { ref parts, .. } => parts.iter().for_each(|part| self.unroll(part, by)),
        }
    }

    fn flush(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        let Some(&(offset, len)) = runs.first() else {
            return;
        };
        self.parts.push(if runs.len() == 1 {
            Layout::Run { offset, len }
        } else if let Some(unit) = unit(&runs) {
            let units = |&(offset, len): &(i64, u64)| {
                (0..len / unit).map(move |index| offset.wrapping_add_unsigned(index * unit))
            };
            Layout::Gather {
                len: unit,
                offsets: runs.iter().flat_map(units).collect(),
            }
        } else if runs.iter().all(|run| run.1 == len) {
            let stride = runs[1].0.wrapping_sub(offset);
            if runs
                .windows(2)
                .all(|pair| pair[1].0.wrapping_sub(pair[0].0) == stride)
            {
                Layout::Strided {
                    offset,
                    count: runs.len() as u64,
                    stride,
                    len,
                }
            } else {
                Layout::Gather {
                    len,
                    offsets: runs.iter().map(|run| run.0).collect(),
                }
            }
        } else {
            Layout::Runs {
                starts: starts(runs.iter().map(|run| run.1)),
                offsets: runs.iter().map(|run| run.0).collect(),
            }
        });
    }

    /// The layout of everything that was added.
    pub(crate) fn finish(mut self) -> Arc<Layout> {
        self.flush();
        Arc::new(match self.parts.len() {
            0 => Layout::Empty,
            1 => self.parts.remove(0),
            _ => Layout::Series {
                starts: starts(self.parts.iter().map(Layout::size)),
                parts: self.parts.into(),
            },
        })
    }
}

/// If a list of runs of different lengths is better cut into pieces of one length: that length.
///
/// A loop over runs of unpredictable lengths branches wrongly about once for each, which costs more than copying a few
/// pieces of known length does.
fn unit(runs: &[(i64, u64)]) -> Option<u64> {
    /// Pieces for each run, on average.
    const PIECES: u64 = 4;
    let len = runs.first()?.1;
    if runs.len() as u64 <= UNROLL || runs.iter().all(|run| run.1 == len) {
        return None;
    }
    let total: u64 = runs.iter().map(|run| run.1).sum();
    let unit = [16, 8, 4, 2, 1]
        .into_iter()
        .find(|unit| runs.iter().all(|run| run.1.is_multiple_of(*unit)))?;
    (total / unit <= PIECES * runs.len() as u64).then_some(unit)
}

/// Where each of some parts starts, and where the last one ends.
fn starts(sizes: impl Iterator<Item = u64>) -> Arc<[u64]> {
    let mut end = 0;
    let ends = sizes.map(|size| {
        end += size;
        end
    });
    std::iter::once(0).chain(ends).collect()
}
