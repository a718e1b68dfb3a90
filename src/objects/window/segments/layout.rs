//! Where everything is in the memory that the processes of a window share ([`segments`](super)): their control lines, the words of each two of
//! them, their mailboxes, and their segments.

use crate::base::error::Result;
use crate::err;
use crate::objects::collective::shared::Sizes;
use crate::objects::communicator::sharers::RECORD;
use crate::objects::window::mailbox;

pub(super) const PAGE: usize = 4096;
pub(super) const LINE: usize = 64;

// Offsets in the control lines of a process. The first line is a record of `sharers`.
pub(super) const CONTROL: usize = 5 * LINE;
pub(super) const AT_STATE: usize = LINE;
pub(super) const AT_HOLDER: usize = LINE + 8;
pub(super) const AT_LOCK: usize = 2 * LINE;
pub(super) const AT_DRAWN: usize = 2 * LINE + 8;
pub(super) const AT_FIRST: usize = 2 * LINE + 16;
pub(super) const AT_GIVEN: usize = 2 * LINE + 24;
pub(super) const AT_PROCESS: usize = 2 * LINE + 4;
pub(super) const AT_BEGUN: usize = 2 * LINE + 40;
pub(super) const AT_CLOCK: usize = 2 * LINE + 48;
pub(super) const AT_FENCES: usize = 3 * LINE;
pub(super) const AT_MODE: usize = 3 * LINE + 8;
pub(super) const AT_SENT: usize = 3 * LINE + 16;
pub(super) const AT_BUSY: usize = 4 * LINE;
pub(super) const AT_OTHERS_BUSY: usize = 4 * LINE + 4;
const _: () = assert!(RECORD <= LINE && AT_OTHERS_BUSY < CONTROL);

/// So many processes at most have words for each two of them: how often one has posted to another one, how often that one has completed, and when
/// a message said so last.
pub(super) const PAIRED: usize = 64;
/// The bytes of these.
pub(super) const PAIR: usize = 24;
/// So many at most have words for their fences: how many operations each has sent to each other one. More wait for each other in fewer steps by a
/// barrier.
pub(super) const FENCED: usize = 8;
/// The bytes of these: for every other fence the same.
pub(super) const SENT: usize = 16;
/// As many have mailboxes, each with a bell in a cache line before it.
pub(super) const ASKING: usize = PAIRED;
pub(super) const BOX: usize = LINE + mailbox::BYTES;
const _: () =
    assert!(ASKING <= mailbox::TARGETS as usize && mailbox::BELL <= LINE && BOX.is_multiple_of(LINE));

/// The segment of a process in the shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it begins, in bytes from the first one's beginning.
    pub(super) offset: usize,
    /// In bytes.
    pub size: usize,
    /// How many bytes its owner's displacements count as one.
    pub disp_unit: i64,
}

/// What a process asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// How many bytes.
    pub size: u64,
    /// See [`Segment::disp_unit`].
    pub disp_unit: i64,
    /// A multiple of so many bytes, at which its segment is to begin.
    pub alignment: u64,
    /// Whether there may be a gap between its segment and those of its neighbours.
    pub separate: bool,
}

impl Wish {
    const BYTES: usize = 32;

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.disp_unit.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.alignment.to_le_bytes());
        bytes[24] = self.separate.into();
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Wish {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Wish {
            size: number(0),
            disp_unit: number(8).cast_signed(),
            alignment: number(16),
            separate: bytes[24] != 0,
        }
    }

    pub(super) fn all(said: &[u8]) -> Vec<Wish> {
        said.as_chunks().0.iter().map(Wish::decode).collect()
    }
}

/// Where the segments are, and how many bytes that makes. The same on all processes.
///
/// # Errors
/// `MPI_ERR_SIZE` where no address space has room for them.
pub(super) fn lay_out(wishes: &[Wish]) -> Result<(Box<[Segment]>, usize)> {
    let separate = wishes.iter().all(|wish| wish.separate);
    let mut end = 0usize;
    let mut segments = Vec::with_capacity(wishes.len());
    for wish in wishes {
        let place = usize::try_from(wish.size).ok().and_then(|size| {
            let offset = match separate {
                true => end.checked_next_multiple_of(PAGE)?,
                false => end,
            };
            end = offset
                .checked_add(size)
                .filter(|&end| end < isize::MAX as usize - PAGE)?;
            Some((offset, size))
        });
        let Some((offset, size)) = place else {
            return Err(err!(
                Size,
                "the sizes of all processes together ({} bytes of one of them) are more than the address space holds",
                wish.size
            ));
        };
        segments.push(Segment {
            offset,
            size,
            disp_unit: wish.disp_unit,
        });
    }
    Ok((segments.into(), end))
}

/// Where what is before the segments of so many processes begins, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// The control lines; behind them are the words of pairs, and those of fences.
    pub control: usize,
    /// The mailboxes, if there are any.
    pub mailboxes: Option<usize>,
    /// The end, at a page.
    pub data: usize,
}

/// `sees`: each process sees the segments of all others, and need not ask them.
pub(super) fn lay_out_control(size: usize, sees: bool) -> Layout {
    let control = (size.div_ceil(64) * 8).next_multiple_of(LINE);
    let pairs = if size <= PAIRED { size * size * PAIR } else { 0 };
    let fenced = if size <= FENCED { size * size * SENT } else { 0 };
    let end = (control + size * CONTROL + pairs + fenced).next_multiple_of(LINE);
    let asks = !sees && size <= ASKING;
    let boxes = if asks { size * BOX } else { 0 };
    Layout {
        control,
        mailboxes: asks.then_some(end),
        data: (end + boxes).next_multiple_of(PAGE),
    }
}

/// Of a file of so many processes, with so many bytes of segments; `None`: the address space has no room.
pub(super) fn sizes(size: usize, bytes: usize) -> Option<Sizes> {
    let Layout { data, .. } = lay_out_control(size, bytes != 0);
    Some(Sizes {
        bytes: data.checked_add(bytes)?,
        at_first: data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(sizes: &[u64], separate: &[bool]) -> Vec<Wish> {
        let wish = |(&size, &separate)| Wish {
            size,
            disp_unit: 1,
            alignment: 64,
            separate,
        };
        sizes.iter().zip(separate).map(wish).collect()
    }

    fn offsets(sizes: &[u64], separate: &[bool]) -> (Vec<usize>, usize) {
        let (segments, bytes) = lay_out(&wishes(sizes, separate)).expect("they have room");
        (segments.iter().map(|segment| segment.offset).collect(), bytes)
    }

    #[test]
    fn segments_follow_one_another() {
        assert_eq!(offsets(&[10, 0, 5, 1], &[false; 4]), (vec![0, 10, 10, 15], 16));
        // Not all processes allow a gap.
        assert_eq!(offsets(&[10, 0, 5], &[true, true, false]), (vec![0, 10, 10], 15));
        assert_eq!(
            offsets(&[10, 0, 4096, 7], &[true; 4]),
            (vec![0, 4096, 4096, 8192], 8199)
        );
        assert_eq!(offsets(&[0], &[false]), (vec![0], 0));
    }

    #[test]
    fn too_large_sizes_are_an_error() {
        for sizes in [[u64::MAX, 1], [1 << 62, 1 << 62], [i64::MAX as u64, 0]] {
            for separate in [false, true] {
                let error = lay_out(&wishes(&sizes, &[separate; 2])).unwrap_err();
                assert_eq!(error.class, crate::Class::Size, "{sizes:?}");
            }
        }
    }

    #[test]
    fn control_lines_do_not_overlap_the_bits() {
        for (size, sees) in [1, 2, 63, 64, 65, 512, 600, 40_000]
            .into_iter()
            .flat_map(|size| [(size, false), (size, true)])
        {
            let Layout {
                control,
                mailboxes,
                data,
            } = lay_out_control(size, sees);
            assert!(size.div_ceil(64) * 8 <= control && control.is_multiple_of(LINE));
            let pairs = if size <= PAIRED { size * size * PAIR } else { 0 };
            let fenced = if size <= FENCED { size * size * SENT } else { 0 };
            let end = control + size * CONTROL + pairs + fenced;
            assert!(end <= data && data.is_multiple_of(PAGE));
            assert_eq!(mailboxes.is_some(), size <= ASKING && !sees);
            assert!(
                mailboxes.is_none_or(|at| end <= at && at.is_multiple_of(LINE) && at + size * BOX <= data)
            );
        }
        assert_eq!(sizes(2, usize::MAX), None);
    }

    #[test]
    fn what_is_said_is_understood() {
        let wish = Wish {
            size: 1 << 40,
            disp_unit: 12,
            alignment: 1 << 20,
            separate: true,
        };
        assert_eq!(Wish::decode(&wish.encode()), wish);
    }
}
