//! What each process of a window exposes, and the way to its memory.
//!
//! All processes say what they expose when the window is made, in one collective operation. Which way leads to a process each finds
//! out for itself: it need not be the same in both directions.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Exposed;
use super::remote::Remote;
use super::segments::{self, Lines, Segments};
use crate::base::error::{Error, Result};
use crate::base::settings::Access;
use crate::err;
use crate::objects::collective;
use crate::objects::communicator::Communicator;

/// How this process gets at the memory of a process of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It sees it, from here on: its own memory, or shared memory. Of a dynamic window's own memory: null, as displacements are addresses.
    Mapped(*mut u8),
    /// It can read and write it by `process_vm_readv` and `process_vm_writev`.
    Attach {
        /// The process.
        pid: u32,
        /// Where the memory begins there.
        address: u64,
    },
    /// By the one-sided operations of a lane, as far as that has any; otherwise by messages.
    Remote,
    /// Only by asking the process.
    Messages,
}

// SAFETY: only addresses. Who reads and writes the memory does that under rules of its own, whichever thread it is.
unsafe impl Send for Way {}
// SAFETY: as for `Send`.
unsafe impl Sync for Way {}

/// What a process exposes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Where its memory begins, in its own address space. 0 in a dynamic window.
    pub base: u64,
    /// How many bytes. 0 in a dynamic window.
    pub size: u64,
    /// How many bytes its displacements count as one; positive.
    pub disp_unit: i64,
    /// It looks for accesses that conflict (`WEFT_CHECK`).
    pub checks: bool,
}

impl Member {
    const BYTES: usize = 32;

    fn encode(self) -> [u8; Self::BYTES] {
        let words = [
            self.base,
            self.size,
            self.disp_unit.cast_unsigned(),
            self.checks.into(),
        ];
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        bytes
    }

    /// `None`: no process exposes that.
    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Member> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let member = Member {
            base: number(0),
            size: number(8),
            disp_unit: number(16).cast_signed(),
            checks: number(24) == 1,
        };
        let possible =
            number(24) <= 1 && member.disp_unit > 0 && member.base.checked_add(member.size).is_some();
        possible.then_some(member)
    }
}

/// A value of each rank, which takes no memory where all have the same.
#[derive(Debug)]
enum PerRank<T> {
    Same(T),
    Each(Box<[T]>),
}

impl<T: Copy + PartialEq> PerRank<T> {
    fn of(values: impl ExactSizeIterator<Item = T> + Clone) -> PerRank<T> {
        match values.clone().next() {
            Some(first) if values.clone().all(|value| value == first) => PerRank::Same(first),
            _ => PerRank::Each(values.collect()),
        }
    }

    /// # Panics
    /// If there is no such rank, unless all have the same.
    fn get(&self, rank: u32) -> T {
        match self {
            PerRank::Same(value) => *value,
            PerRank::Each(values) => values[rank as usize],
        }
    }
}

/// Memory of a rank that this process sees, in one piece of the processor's cache.
#[derive(Clone, Copy, Debug)]
struct Seen {
    base: *mut u8,
    size: u64,
    disp_unit: i64,
    /// Its words, where locks are in shared memory.
    lines: Option<NonNull<Lines>>,
}

// SAFETY: only addresses; as for `Way`, and what is at the second one is used by atomic operations only.
unsafe impl Send for Seen {}
// SAFETY: as for `Send`.
unsafe impl Sync for Seen {}

/// Of so many ranks at most.
const SEEN: u32 = 512;

/// See the module.
#[derive(Debug)]
pub struct Members {
    size: u32,
    /// By rank, or empty. No memory of those that this process does not see.
    seen: Box<[Seen]>,
    mine: u32,
    bases: PerRank<u64>,
    sizes: PerRank<u64>,
    units: PerRank<i64>,
    /// The way to this process's own memory.
    own: Way,
    /// The memory that processes of this host share, and the ways to these by their places in it.
    here: Option<(Arc<Segments>, Box<[Way]>)>,
    /// See [`Members::all_here`].
    all_here: bool,
    /// See [`Members::all_mapped`].
    all_mapped: bool,
    /// See [`Members::are_apart`].
    are_apart: bool,
    /// See [`Members::are_checked`].
    are_checked: bool,
    /// See [`Members::wants_remote`].
    wants_remote: bool,
    remote: Option<Remote>,
}

impl Members {
    /// Finds out what all processes of a window expose, of which this one exposes `mine`. `segments`: what it shares with others. The
    /// messages are those of `parent`.
    ///
    /// # Errors
    /// A process is lost.
    pub(super) async fn gather(
        parent: &Arc<Communicator>,
        exposed: &Exposed,
        disp_unit: i64,
        segments: Option<Arc<Segments>>,
    ) -> Result<Members> {
        let base = exposed.base().expose_provenance() as u64;
        let mine = Member {
            base,
            size: exposed.size() as u64,
            disp_unit,
            checks: parent.instance().settings().check,
        };
        let said = collective::allgather_bytes(&parent.collective(), &mine.encode()).await?;
        let members = decode(&said)?;
        let are_checked = members.iter().any(|member| member.checks);
        // Who looks for conflicts has to see all accesses.
        let access = match are_checked {
            true => Access::Messages,
            false => segments::access(parent.instance()),
        };
        let here = segments.map(|segments| {
            let ways = ways(&segments, exposed, &members, access);
            (segments, ways)
        });
        let size = parent.size();
        let all_here = !matches!(access, Access::Messages | Access::Rdma)
            && size > 1
            && here.as_ref().is_some_and(|(segments, _)| {
                // A process that is alone needs no lock that others see.
                segments.sharers().size() == size && segments.wakes()
            });
        let reaches = here.as_ref().is_some_and(|(segments, ways)| {
            let mine = segments.sharers().mine() as usize;
            let mut others = ways.iter().enumerate().filter(|(place, _)| *place != mine);
            // The program itself sees the segments of others, whatever way operations go.
            let sees = segments.own().is_some() && segments.sharers().size() > 1;
            sees || others.any(|(_, way)| *way != Way::Messages)
        });
        let reached = here.iter().flat_map(|(_, ways)| ways);
        let reached = reached.filter(|way| **way != Way::Messages).count();
        let is_far = |place: usize| here.as_ref().is_none_or(|(_, ways)| ways[place] == Way::Messages);
        let own_place = here
            .as_ref()
            .map_or(0, |(segments, _)| segments.sharers().mine() as usize);
        let own_unreached = usize::from(is_far(own_place));
        let far = size as usize > reached + own_unreached;
        let wants_remote = !are_checked && Remote::is_wanted(parent.instance(), exposed, far);
        let sees_all = size == 1
            || here
                .as_ref()
                .is_some_and(|(segments, _)| segments.sharers().size() == size && segments.own().is_some());
        let sees_all = sees_all && matches!(access, Access::Auto | Access::Direct);
        // Their settings may differ.
        let said = [reaches || wants_remote, !all_here, !sees_all, wants_remote].map(u64::from);
        let [reaching, not_here, unseen, remote] = collective::largest(&parent.collective(), said).await?;
        let mut all = Members {
            size,
            seen: Box::default(),
            mine: parent.rank(),
            bases: PerRank::of(members.iter().map(|member| member.base)),
            sizes: PerRank::of(members.iter().map(|member| member.size)),
            units: PerRank::of(members.iter().map(|member| member.disp_unit)),
            own: match parent.instance().settings().windows {
                _ if are_checked => Way::Messages,
                Access::Messages => Way::Messages,
                _ => Way::Mapped(exposed.base()),
            },
            here,
            all_here: not_here == 0,
            all_mapped: unseen == 0,
            are_apart: reaching == 0,
            are_checked,
            wants_remote: remote != 0,
            remote: None,
        };
        all.seen = (0..size)
            .filter(|_| size <= SEEN)
            .map(|rank| all.see(rank))
            .collect();
        Ok(all)
    }

    fn see(&self, rank: u32) -> Seen {
        let member = self.member(rank);
        let (base, size) = match self.way(rank) {
            Way::Mapped(base) if !base.is_null() => (base, member.size),
            _ => (std::ptr::null_mut(), 0),
        };
        Seen {
            base,
            size,
            disp_unit: member.disp_unit,
            lines: match self.all_here {
                true => self.segments().and_then(|segments| segments.lines(rank)),
                false => None,
            },
        }
    }

    /// Whether locks are in shared memory, and the ranks not too many, so that all have words that are found at once.
    #[inline(always)]
    pub(super) fn are_locked_nearby(&self) -> bool {
        self.all_here && !self.seen.is_empty()
    }

    /// The words of a rank, if locks are in shared memory, and the ranks not too many.
    #[inline(always)]
    pub(super) fn lines(&self, rank: u32) -> Option<&Lines> {
        let lines = self.seen.get(rank as usize)?.lines?;
        // SAFETY: within the memory of `here`, which is mapped as long as `self` exists; `Segments::lines` has looked.
        Some(unsafe { lines.as_ref() })
    }

    /// Those of a rank and of this process.
    #[inline(always)]
    pub(super) fn both_lines(&self, rank: u32) -> Option<[&Lines; 2]> {
        Some([self.lines(rank)?, self.lines(self.mine)?])
    }

    /// Where `len` bytes, of which there are some, of a rank's memory are from a displacement on, if the rank exposes them and this process sees them.
    #[inline(always)]
    pub fn reach(&self, rank: u32, disp: i64, len: usize) -> Option<*mut u8> {
        let seen = self.seen.get(rank as usize)?;
        let at = u64::try_from(disp.checked_mul(seen.disp_unit)?).ok()?;
        let end = at.checked_add(len as u64)?;
        (end <= seen.size && len > 0).then(|| seen.base.wrapping_add(at as usize))
    }

    /// What a rank exposes.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn member(&self, rank: u32) -> Member {
        assert!(rank < self.size, "one of the processes");
        Member {
            base: self.bases.get(rank),
            size: self.sizes.get(rank),
            disp_unit: self.units.get(rank),
            checks: self.are_checked,
        }
    }

    /// Number of processes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This process's rank.
    #[inline(always)]
    pub fn mine(&self) -> u32 {
        self.mine
    }

    /// The control lines of a rank, if this process shares memory with it.
    #[cfg(feature = "sim")]
    pub fn control(&self, rank: u32) -> Option<segments::Control<'_>> {
        self.here.as_ref()?.0.control(rank)
    }

    /// The first rank that exposes any bytes.
    pub fn first(&self) -> Option<u32> {
        (0..self.size).find(|&rank| self.sizes.get(rank) > 0)
    }

    /// The way to the memory of a rank.
    #[inline]
    pub fn way(&self, rank: u32) -> Way {
        if rank == self.mine {
            return self.own;
        }
        let way = self.here.as_ref().and_then(|(segments, ways)| {
            let place = segments.sharers().place_of_rank(rank)?;
            Some(ways[place as usize])
        });
        match way {
            Some(way) if way != Way::Messages => way,
            _ => match &self.remote {
                Some(remote) if remote.has(rank) => Way::Remote,
                _ => Way::Messages,
            },
        }
    }

    /// Whether any process wants to access memory by the one-sided operations of a lane. The same on all processes.
    pub(super) fn wants_remote(&self) -> bool {
        self.wants_remote
    }

    /// Adds by what it can be accessed so.
    pub(super) fn give_remote(&mut self, remote: Remote) {
        self.remote = Some(remote);
    }

    /// By what memory can be accessed by lanes.
    #[inline]
    pub(super) fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// Whether all processes, of which there are several, have control lines that all see, and can wake each other: then locks are in
    /// these.
    #[inline]
    pub fn all_here(&self) -> bool {
        self.all_here
    }

    /// Whether every process sees the memory of all others, so that nothing goes by messages. The same on all processes.
    #[inline]
    pub fn all_mapped(&self) -> bool {
        self.all_mapped
    }

    /// Whether no process accesses the memory of another one but by messages. The same on all processes.
    #[inline]
    pub fn are_apart(&self) -> bool {
        self.are_apart
    }

    /// Whether any process looks for accesses that conflict, so that all operations go by messages. The same on all processes.
    #[inline]
    pub fn are_checked(&self) -> bool {
        self.are_checked
    }

    /// The memory that it shares with processes of its host.
    pub fn segments(&self) -> Option<&Arc<Segments>> {
        self.here.as_ref().map(|(segments, _)| segments)
    }
}

/// What all have said.
fn decode(said: &[u8]) -> Result<Vec<Member>> {
    let nonsense = |rank: usize| -> Error {
        err!(
            Intern,
            "what rank {rank} says of its part of the window makes no sense"
        )
    };
    let records = said.as_chunks().0.iter().enumerate();
    records
        .map(|(rank, record)| Member::decode(record).ok_or_else(|| nonsense(rank)))
        .collect()
}

/// The ways to the processes that share memory with this one, by their places.
fn ways(segments: &Segments, exposed: &Exposed, members: &[Member], access: Access) -> Box<[Way]> {
    let sharers = segments.sharers();
    let may_map = matches!(access, Access::Auto | Access::Direct);
    let may_attach = sharers.instance().settings().cma;
    let way = |(&rank, place)| {
        let address = members[rank as usize].base;
        match segments.segment(rank) {
            _ if matches!(access, Access::Messages | Access::Rdma) => Way::Messages,
            Some(segment) if may_map => Way::Mapped(segments.address(segment)),
            // What is attached there is known to the process alone.
            _ if matches!(exposed, Exposed::Attached(_)) || place == sharers.mine() || !may_attach => {
                Way::Messages
            }
            _ => match sharers.attachable(place) {
                Some(pid) => Way::Attach { pid, address },
                None => Way::Messages,
            },
        }
    };
    sharers.who().ranks.iter().zip(0..).map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Member = Member {
        base: 0x7fff_1234_5678,
        size: 1 << 40,
        disp_unit: 12,
        checks: true,
    };

    #[test]
    fn what_is_said_is_understood() {
        assert_eq!(Member::decode(&MEMBER.encode()), Some(MEMBER));
        let said = [MEMBER.encode(), MEMBER.encode()].concat();
        assert_eq!(decode(&said).unwrap(), [MEMBER; 2]);
    }

    #[test]
    fn nonsense_is_found_out() {
        for wrong in [
            Member {
                disp_unit: 0,
                ..MEMBER
            },
            Member {
                disp_unit: -1,
                ..MEMBER
            },
            Member {
                size: u64::MAX - MEMBER.base + 1,
                ..MEMBER
            },
        ] {
            assert_eq!(Member::decode(&wrong.encode()), None, "{wrong:?}");
            let error = decode(&[MEMBER.encode(), wrong.encode()].concat()).unwrap_err();
            assert!(error.message.contains("rank 1"), "{error}");
        }
    }

    #[test]
    fn equal_values_are_kept_once() {
        let same = PerRank::of([7u64; 5].into_iter());
        assert!(matches!(same, PerRank::Same(7)) && same.get(4) == 7);
        let each = PerRank::of([7u64, 7, 8].into_iter());
        assert!(matches!(each, PerRank::Each(_)));
        assert_eq!([0, 1, 2].map(|rank| each.get(rank)), [7, 7, 8]);
    }
}
