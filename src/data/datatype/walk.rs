//! Finding the bytes of a layout from any packed byte to any other.
//!
//! [`walk`] finds the runs of a layout that a range of packed bytes covers and passes them to a [`Sink`]; the sinks
//! pack and unpack (`copy`), or list the runs for an iovec. Finding the first byte costs a division or a binary
//! search per level of the layout. Whole loops go to the sink as loops, so that it can copy blocks of the usual small
//! sizes by code that knows the size.

use super::layout::Layout;
use std::ops::Range;

/// One of the runs of a record.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecordRun {
    /// Where it is among the record's packed bytes.
    pub(crate) start: usize,
    /// Where it is from the record's address.
    pub(crate) offset: i64,
    pub(crate) len: usize,
}

/// Types of at most this many runs are passed as records.
const RECORD_RUNS: usize = 8;

/// The runs of a layout that can be a record, and how many they are.
fn record(layout: &Layout) -> Option<([RecordRun; RECORD_RUNS], usize)> {
    let mut runs = [RecordRun::default(); RECORD_RUNS];
    match *layout {
        Layout::Strided {
            offset,
            count,
            stride,
            len,
        } if count <= RECORD_RUNS as u64 => {
            for (index, run) in runs.iter_mut().enumerate() {
                *run = RecordRun {
                    start: index * len as usize,
                    offset: offset.wrapping_add((index as i64).wrapping_mul(stride)),
                    len: len as usize,
                };
            }
            Some((runs, count as usize))
        }
        Layout::Gather { len, ref offsets } if offsets.len() <= RECORD_RUNS => {
            for (index, (run, &offset)) in runs.iter_mut().zip(&**offsets).enumerate() {
                *run = RecordRun {
                    start: index * len as usize,
                    offset,
                    len: len as usize,
                };
            }
            Some((runs, offsets.len()))
        }
        Layout::Runs {
            ref starts,
            ref offsets,
        } if offsets.len() <= RECORD_RUNS => {
            for (index, (run, &offset)) in runs.iter_mut().zip(&**offsets).enumerate() {
                *run = RecordRun {
                    start: starts[index] as usize,
                    offset,
                    len: (starts[index + 1] - starts[index]) as usize,
                };
            }
            Some((runs, offsets.len()))
        }
        _ => None,
    }
}

/// What is done with the runs.
pub(crate) trait Sink {
    /// `len` bytes at the address `at`.
    ///
    /// # Safety
    /// What the implementation asks of those bytes.
    unsafe fn run(&mut self, at: usize, len: usize);

    /// `count` runs of `len` bytes, `stride` apart.
    ///
    /// # Safety
    /// As [`run`](Self::run), for each.
    unsafe fn strided(&mut self, at: usize, count: u64, stride: i64, len: usize) {
        let mut at = at;
        for _ in 0..count {
            if self.full() {
                break;
            }
            // SAFETY: one of the runs that the caller vouches for.
            unsafe { self.run(at, len) };
            at = at.wrapping_add(stride as usize);
        }
    }

    /// Runs of `len` bytes at `at` plus each of `offsets`.
    ///
    /// # Safety
    /// As [`run`](Self::run), for each.
    unsafe fn gather(&mut self, at: usize, offsets: &[i64], len: usize) {
        for &offset in offsets {
            if self.full() {
                break;
            }
            // SAFETY: one of the runs that the caller vouches for.
            unsafe { self.run(at.wrapping_add(offset as usize), len) };
        }
    }

    /// Runs at `at` plus each of `offsets`; the packed bytes of run `i` are those from `starts[i]` to `starts[i + 1]`.
    ///
    /// # Safety
    /// As [`run`](Self::run), for each.
    unsafe fn runs(&mut self, at: usize, starts: &[u64], offsets: &[i64]) {
        for (&offset, ends) in offsets.iter().zip(starts.windows(2)) {
            if self.full() {
                break;
            }
            // SAFETY: one of the runs that the caller vouches for.
            unsafe { self.run(at.wrapping_add(offset as usize), (ends[1] - ends[0]) as usize) };
        }
    }

    /// `count` records, `stride` apart, of these runs each; a record is `size` bytes.
    ///
    /// A sink may take the runs in another order, as long as each gets to its place among the packed bytes.
    ///
    /// # Safety
    /// As [`run`](Self::run), for each.
    unsafe fn records(&mut self, at: usize, count: u64, stride: i64, runs: &[RecordRun], size: u64) {
        let _ = size;
        let mut at = at;
        for _ in 0..count {
            for run in runs {
                if self.full() {
                    return;
                }
                // SAFETY: one of the runs that the caller vouches for.
                unsafe { self.run(at.wrapping_add(run.offset as usize), run.len) };
            }
            at = at.wrapping_add(stride as usize);
        }
    }

    /// Whether no more runs are needed.
    fn full(&self) -> bool {
        false
    }
}

/// Passes the runs that hold the packed bytes `range` of `layout`, based at the address `at`, to `sink`, in order.
///
/// `range` is not empty and lies within the layout's size.
///
/// # Safety
/// The sink's conditions hold for those runs.
pub(crate) unsafe fn walk<S: Sink>(layout: &Layout, at: usize, range: Range<u64>, sink: &mut S) {
    match *layout {
        Layout::Empty => {}
        // SAFETY: the run is that of `range`, which the caller vouches for.
        Layout::Run { offset, .. } => unsafe {
            let first = at
                .wrapping_add(offset as usize)
                .wrapping_add(range.start as usize);
            sink.run(first, (range.end - range.start) as usize);
        },
        Layout::Strided {
            offset,
            count,
            stride,
            len,
        } => {
            let at = at.wrapping_add(offset as usize);
            if range == (0..count * len) {
                // SAFETY: these are the runs of `range`, which the caller vouches for.
                return unsafe { sink.strided(at, count, stride, len as usize) };
            }
            let place = |index: u64| at.wrapping_add((index as usize).wrapping_mul(stride as usize));
            let Pieces { head, whole, tail } = Pieces::new(&range, len);
            // SAFETY: these are the runs of `range`, which the caller vouches for.
            unsafe {
                if let Some((index, part)) = head {
                    sink.run(
                        place(index).wrapping_add(part.start as usize),
                        (part.end - part.start) as usize,
                    );
                }
                if !whole.is_empty() {
                    sink.strided(place(whole.start), whole.end - whole.start, stride, len as usize);
                }
                if let Some((index, part)) = tail {
                    sink.run(place(index), part as usize);
                }
            }
        }
        Layout::Gather { len, ref offsets } => {
            let place = |index: u64| at.wrapping_add(offsets[index as usize] as usize);
            let Pieces { head, whole, tail } = Pieces::new(&range, len);
            // SAFETY: these are the runs of `range`, which the caller vouches for.
            unsafe {
                if let Some((index, part)) = head {
                    sink.run(
                        place(index).wrapping_add(part.start as usize),
                        (part.end - part.start) as usize,
                    );
                }
                if !whole.is_empty() {
                    sink.gather(
                        at,
                        &offsets[whole.start as usize..whole.end as usize],
                        len as usize,
                    );
                }
                if let Some((index, part)) = tail {
                    sink.run(place(index), part as usize);
                }
            }
        }
        Layout::Runs {
            ref starts,
            ref offsets,
        } => {
            let first = part_at(starts, range.start);
            let last = part_at(starts, range.end - 1);
            let skip = range.start - starts[first];
            let place = |index: usize| at.wrapping_add(offsets[index] as usize);
            // SAFETY: these are the runs of `range`, which the caller vouches for.
            unsafe {
                if first == last {
                    let at = place(first).wrapping_add(skip as usize);
                    return sink.run(at, (range.end - range.start) as usize);
                }
                let at_first = place(first).wrapping_add(skip as usize);
                sink.run(at_first, (starts[first + 1] - range.start) as usize);
                sink.runs(at, &starts[first + 1..=last], &offsets[first + 1..last]);
                sink.run(place(last), (range.end - starts[last]) as usize);
            }
        }
        Layout::Repeat {
            offset,
            count,
            stride,
            ref child,
        } => {
            let at = at.wrapping_add(offset as usize);
            // SAFETY: these are the runs of `range`, which the caller vouches for.
            unsafe { walk_repeat(child, at, count, stride, range, sink) }
        }
        Layout::Series {
            ref starts,
            ref parts,
        } => {
            let mut index = part_at(starts, range.start);
            let mut from = range.start;
            while from < range.end && !sink.full() {
                let until = starts[index + 1].min(range.end);
                // SAFETY: these are some of the runs of `range`, which the caller vouches for.
                unsafe {
                    walk(
                        &parts[index],
                        at,
                        from - starts[index]..until - starts[index],
                        sink,
                    )
                };
                from = until;
                index += 1;
            }
        }
    }
}

/// [`walk`] for `count` times `child`, `stride` bytes apart.
///
/// # Safety
/// As [`walk`].
pub(crate) unsafe fn walk_repeat<S: Sink>(
    child: &Layout,
    at: usize,
    count: u64,
    stride: i64,
    range: Range<u64>,
    sink: &mut S,
) {
    let place = |index: u64| at.wrapping_add((index as usize).wrapping_mul(stride as usize));
    let size = child.size();
    let Pieces { head, whole, tail } = if range.start == 0 && range.end == size * count {
        Pieces {
            head: None,
            whole: 0..count,
            tail: None,
        }
    } else {
        Pieces::new(&range, size)
    };
    if let Some((index, part)) = head {
        // SAFETY: these are some of the runs of `range`, which the caller vouches for.
        unsafe { walk(child, place(index), part, sink) };
    }
    match *child {
        Layout::Run { offset, len } if !whole.is_empty() => {
            let first = place(whole.start).wrapping_add(offset as usize);
            // SAFETY: these are some of the runs of `range`, which the caller vouches for.
            unsafe { sink.strided(first, whole.end - whole.start, stride, len as usize) };
        }
        _ => {
            if whole.end - whole.start > 1
                && let Some((runs, number)) = record(child)
            {
                // SAFETY: these are some of the runs of `range`, which the caller vouches for.
                unsafe {
                    sink.records(
                        place(whole.start),
                        whole.end - whole.start,
                        stride,
                        &runs[..number],
                        size,
                    );
                }
            } else {
                for index in whole {
                    if sink.full() {
                        return;
                    }
                    // SAFETY: these are some of the runs of `range`, which the caller vouches for.
                    unsafe { walk(child, place(index), 0..size, sink) };
                }
            }
        }
    }
    if let Some((index, part)) = tail {
        // SAFETY: these are some of the runs of `range`, which the caller vouches for.
        unsafe { walk(child, place(index), 0..part, sink) };
    }
}

/// Which of `starts` holds the packed byte `byte`.
fn part_at(starts: &[u64], byte: u64) -> usize {
    if byte == 0 {
        0
    } else {
        starts.partition_point(|&start| start <= byte) - 1
    }
}

/// A range of packed bytes cut at the borders of pieces of one size.
struct Pieces {
    /// The piece that the range starts within, and what it covers of it.
    head: Option<(u64, Range<u64>)>,
    /// The pieces that it covers altogether.
    whole: Range<u64>,
    /// The piece that it ends within, and how many bytes of that it covers.
    tail: Option<(u64, u64)>,
}

impl Pieces {
    fn new(range: &Range<u64>, size: u64) -> Pieces {
        let (mut first, skip) = (range.start / size, range.start % size);
        let (last, rest) = (range.end / size, range.end % size);
        let mut head = None;
        if skip != 0 {
            let until = if first == last { rest } else { size };
            head = Some((first, skip..until));
            first += 1;
        }
        Pieces {
            head,
            whole: first..last.max(first),
            tail: (rest != 0 && first <= last).then_some((last, rest)),
        }
    }
}

/// Lists runs, those that touch joined, up to a number of them.
pub(crate) struct Lister {
    /// (address, length).
    pub(crate) runs: Vec<(usize, usize)>,
    /// How many runs are wanted.
    pub(crate) limit: usize,
    overflowed: bool,
}

impl Lister {
    pub(crate) fn new(limit: usize) -> Lister {
        Lister {
            runs: Vec::new(),
            limit,
            overflowed: false,
        }
    }
}

/// No conditions on the runs: it never accesses them.
impl Sink for Lister {
    unsafe fn run(&mut self, at: usize, len: usize) {
        if self.overflowed {
            return;
        }
        if let Some((start, before)) = self.runs.last_mut()
            && start.wrapping_add(*before) == at
        {
            *before += len;
        } else if self.runs.len() < self.limit {
            self.runs.push((at, len));
        } else {
            self.overflowed = true;
        }
    }

    fn full(&self) -> bool {
        self.overflowed
    }
}
