//! Memory that the processes of a window share (MPI 5.0 section 12.2.3): a file without a name, which the window's first
//! process makes and all map, each at an address of its own.
//!
//! The segments follow one another by rank, without a gap, so that all of them can be used as one array; where all
//! processes allow it (`alloc_shared_noncontig`) each begins at a page.
//!
//! Pages are allocated when they are first touched, near the process that touches them first: in many programs one
//! process asks for all of the memory, and each touches a part. So, as with all memory of such size, it is not known
//! before whether there is enough; only what the machine can't have at all is refused.
//!
//! ```text
//!   page 0: a token, by which the others know the file     page 1 on: the segments
//! ```

use std::fs::File;
use std::sync::Arc;

use crate::base::error::Result;
use crate::err;
use crate::objects::collective;
use crate::objects::communicator::Communicator;
use crate::system::shared_memory::{Finding, Map};

const PAGE: usize = 4096;

/// The segment of a process in the shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it begins, in bytes from the first one's beginning.
    offset: usize,
    /// In bytes.
    pub size: usize,
    /// How many bytes its owner's displacements count as one.
    pub disp_unit: i64,
}

/// See the module.
#[derive(Debug)]
pub struct Shared {
    map: Map,
    /// By rank.
    segments: Box<[Segment]>,
    rank: u32,
}

/// What each process sends first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wish {
    size: u64,
    disp_unit: i64,
    separate: bool,
}

impl Wish {
    const BYTES: usize = 24;

    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.disp_unit.to_le_bytes());
        bytes[16] = self.separate.into();
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Wish {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Wish {
            size: number(0),
            disp_unit: number(8).cast_signed(),
            separate: bytes[16] != 0,
        }
    }
}

/// Where the segments are, and how many bytes that makes. The same on all processes.
///
/// # Errors
/// `MPI_ERR_SIZE` where no address space has room for them.
fn lay_out(wishes: &[Wish]) -> Result<(Box<[Segment]>, usize)> {
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

/// In bytes, including swap space.
fn memory_of_machine() -> std::io::Result<u64> {
    let info = nix::sys::sysinfo::sysinfo()?;
    Ok(info.ram_total().saturating_add(info.swap_total()))
}

/// Makes a file with room for `bytes` bytes of segments. The error contains the reason.
fn make(bytes: usize) -> Result<(File, Finding), String> {
    let failed = |what: &'static str| move |error| format!("{what}: {error}");
    let memory = memory_of_machine().map_err(failed("the machine does not say how much memory it has"))?;
    if bytes as u64 > memory {
        return Err(format!(
            "all processes together ask for {bytes} bytes, but the machine has no more than {memory}"
        ));
    }
    Finding::make(bytes)
}

impl Shared {
    /// Memory for all processes of a communicator, of which each asks for a size in bytes. All get it or none.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SHARED` where a process can't have it, with the reason there; `MPI_ERR_SIZE` for more than the address space holds.
    pub async fn allocate(
        communicator: &Arc<Communicator>,
        size: usize,
        disp_unit: i64,
        separate: bool,
    ) -> Result<Shared> {
        let rank = communicator.rank();
        let wish = Wish {
            size: size as u64,
            disp_unit,
            separate,
        };
        let all = collective::allgather_bytes(&communicator.collective(), &wish.encode()).await?;
        let (wishes, _) = all.as_chunks();
        let wishes: Vec<Wish> = wishes.iter().map(Wish::decode).collect();
        let (segments, bytes) = lay_out(&wishes)?;
        // No mapping is empty.
        let bytes = bytes.max(1);
        let made = (rank == 0).then(|| make(bytes));
        let finding = match &made {
            Some(Ok((_, finding))) => finding.encode(),
            _ => Finding::NONE,
        };
        let finding = collective::bcast_bytes(&communicator.collective(), 0, finding.to_vec()).await?;
        let joined = match (
            &made,
            Finding::decode(finding.first_chunk().expect("as many as were given")),
        ) {
            (Some(Err(reason)), _) => Err(reason.clone()),
            (_, Some(finding)) => finding.join(bytes),
            (_, None) => Err("the first process could make none".into()),
        };
        let failed = if joined.is_err() { u64::from(rank) + 1 } else { 0 };
        // No process opens it after that: the file may be closed.
        let [failed] = collective::largest(&communicator.collective(), [failed]).await?;
        match (joined, failed.checked_sub(1)) {
            (Ok(map), None) => Ok(Shared { map, segments, rank }),
            (Err(reason), _) => Err(err!(RmaShared, "no memory can be shared: {reason}")),
            (_, Some(other)) => Err(err!(
                RmaShared,
                "no memory can be shared: rank {other} can't map it; its own error says why"
            )),
        }
    }

    /// This process's segment.
    pub fn own(&self) -> &Segment {
        &self.segments[self.rank as usize]
    }

    /// That of a rank.
    pub fn segment(&self, rank: u32) -> &Segment {
        &self.segments[rank as usize]
    }

    /// The first one that has any bytes.
    pub fn first(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.size > 0)
    }

    /// Where this process sees a segment.
    pub fn address(&self, segment: &Segment) -> *mut u8 {
        self.map.base().as_ptr().wrapping_add(segment.offset)
    }

    /// Keeps the memory when this is dropped.
    pub fn leave(&self) {
        self.map.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(sizes: &[u64], separate: &[bool]) -> Vec<Wish> {
        let wish = |(&size, &separate)| Wish {
            size,
            disp_unit: 1,
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
    fn what_is_said_is_understood() {
        let wish = Wish {
            size: 1 << 40,
            disp_unit: 12,
            separate: true,
        };
        assert_eq!(Wish::decode(&wish.encode()), wish);
    }
}
