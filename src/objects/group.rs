//! Groups: ordered sets of processes (MPI 5.0 section 7.3). Immutable, shared by reference: all communicators and windows that were made of a
//! group have the same one, and the user gets the same handle for it, with a count.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use crate::base::error::Result;
use crate::err;
use crate::identity::PeerIndex;

/// See the module.
#[derive(Debug)]
pub struct Group {
    members: Members,
    /// The number of the session that it was derived from; 0: the World Model.
    session: u64,
    /// Rank by process, made when first needed.
    ranks: OnceLock<FxHashMap<PeerIndex, u32>>,
    given: Mutex<Given>,
}

/// The handle that the user has of a group.
#[derive(Default, Debug)]
pub struct Given {
    /// The handle, if it was given out and not freed as often.
    pub handle: usize,
    /// How much more often it was given out than freed.
    pub times: u64,
}

#[derive(Debug)]
enum Members {
    /// All processes from 0 on.
    First(u32),
    /// Any processes, by rank.
    List(Box<[PeerIndex]>),
}

/// The result of comparing two groups or communicators (`MPI_IDENT` …).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The same object, or the same processes in the same order.
    Ident,
    /// Different contexts, the same processes in the same order.
    Congruent,
    /// The same processes in another order.
    Similar,
    /// Neither.
    Unequal,
}

impl Group {
    /// Processes 0 to `size - 1`.
    pub fn first(size: u32) -> Arc<Group> {
        Group::first_of_session(0, size)
    }

    /// Processes 0 to `size - 1`, of a session (0: the World Model). Takes the same memory whatever their number.
    pub fn first_of_session(session: u64, size: u32) -> Arc<Group> {
        Arc::new(Group {
            members: Members::First(size),
            session,
            ranks: OnceLock::new(),
            given: Mutex::default(),
        })
    }

    /// These processes, each once.
    pub fn of(members: Vec<PeerIndex>) -> Arc<Group> {
        Arc::new(Group {
            members: Members::List(members.into()),
            session: 0,
            ranks: OnceLock::new(),
            given: Mutex::default(),
        })
    }

    /// These processes, of a session (0: the World Model).
    pub fn of_session(session: u64, members: Vec<PeerIndex>) -> Arc<Group> {
        Arc::new(Group {
            members: Members::List(members.into()),
            session,
            ranks: OnceLock::new(),
            given: Mutex::default(),
        })
    }

    /// The number of the session that it was derived from; 0: the World Model.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The handle that the user has of it.
    pub fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock()
    }

    /// Other processes, of this group's session.
    fn derive(&self, members: impl Iterator<Item = PeerIndex>) -> Arc<Group> {
        Group::of_session(self.session, members.collect())
    }

    /// Other processes, of this group's and another group's session. An empty group may be the predefined one, of no session.
    fn derive_with(&self, other: &Group, members: impl Iterator<Item = PeerIndex>) -> Arc<Group> {
        let session = match self.session {
            0 => other.session,
            session => session,
        };
        Group::of_session(session, members.collect())
    }

    /// The group without processes.
    pub fn empty() -> Arc<Group> {
        Group::first(0)
    }

    /// Number of processes.
    #[inline]
    pub fn size(&self) -> u32 {
        match &self.members {
            Members::First(size) => *size,
            Members::List(list) => list.len() as u32,
        }
    }

    /// The process of a rank.
    ///
    /// # Panics
    /// If the rank is not below the size.
    #[inline]
    pub fn member(&self, rank: u32) -> PeerIndex {
        match &self.members {
            Members::First(size) => {
                assert!(rank < *size, "rank {rank} in a group of {size}");
                PeerIndex::of_rank(rank)
            }
            Members::List(list) => list[rank as usize],
        }
    }

    /// The rank of a process.
    pub fn rank_of(&self, process: PeerIndex) -> Option<u32> {
        match &self.members {
            Members::First(size) => process.rank_in(*size),
            Members::List(list) => {
                let ranks = self.ranks.get_or_init(|| {
                    list.iter()
                        .enumerate()
                        .map(|(rank, &id)| (id, rank as u32))
                        .collect()
                });
                ranks.get(&process).copied()
            }
        }
    }

    /// All processes, by rank.
    pub fn iter(&self) -> impl Iterator<Item = PeerIndex> + '_ {
        (0..self.size()).map(|rank| self.member(rank))
    }

    /// How two groups compare: identical, similar or unequal.
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.iter().eq(other.iter()) {
            Comparison::Ident
        } else if self.iter().all(|process| other.rank_of(process).is_some()) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// All of this group, then the processes that only `other` has.
    pub fn union(&self, other: &Group) -> Arc<Group> {
        let more = other.iter().filter(|&process| self.rank_of(process).is_none());
        self.derive_with(other, self.iter().chain(more))
    }

    /// The processes that both have, in this group's order.
    pub fn intersection(&self, other: &Group) -> Arc<Group> {
        self.derive(self.iter().filter(|&process| other.rank_of(process).is_some()))
    }

    /// The processes that `other` does not have.
    pub fn difference(&self, other: &Group) -> Arc<Group> {
        self.derive(self.iter().filter(|&process| other.rank_of(process).is_none()))
    }

    /// The processes of these ranks, in this order. Ranks must be valid and different.
    pub fn incl(&self, ranks: &[i64]) -> Result<Arc<Group>> {
        self.check_distinct(ranks)?;
        Ok(self.derive(ranks.iter().map(|&rank| self.member(rank as u32))))
    }

    /// All but the processes of these ranks. Ranks must be valid and different.
    pub fn excl(&self, ranks: &[i64]) -> Result<Arc<Group>> {
        let out = self.check_distinct(ranks)?;
        Ok(self.derive(
            (0..self.size())
                .filter(|&rank| !out[rank as usize])
                .map(|rank| self.member(rank)),
        ))
    }

    /// The ranks that triplets of first, last and stride name (MPI 5.0 section 7.3.2).
    pub fn ranges(&self, triplets: &[[i32; 3]]) -> Result<Vec<i64>> {
        let mut ranks = Vec::new();
        for (at, &[first, last, stride]) in triplets.iter().enumerate() {
            if stride == 0 {
                return Err(err!(Arg, "ranges[{at}] has stride 0"));
            }
            if (stride > 0 && first > last) || (stride < 0 && first < last) {
                return Err(err!(
                    Arg,
                    "ranges[{at}] = ({first}, {last}, {stride}) never reaches its last rank"
                ));
            }
            let (first, last, stride) = (i64::from(first), i64::from(last), i64::from(stride));
            for step in 0..=(last - first) / stride {
                let rank = first + step * stride;
                self.check_rank(rank, "ranges")?;
                ranks.push(rank);
            }
        }
        Ok(ranks)
    }

    fn check_rank(&self, rank: i64, name: &str) -> Result<()> {
        if (0..i64::from(self.size())).contains(&rank) {
            return Ok(());
        }
        Err(err!(
            Rank,
            "{name} holds rank {rank}, which is outside this group of {} processes",
            self.size()
        ))
    }

    fn check_distinct(&self, ranks: &[i64]) -> Result<Vec<bool>> {
        let mut seen = vec![false; self.size() as usize];
        for &rank in ranks {
            self.check_rank(rank, "ranks")?;
            if std::mem::replace(&mut seen[rank as usize], true) {
                return Err(err!(Rank, "ranks holds rank {rank} twice"));
            }
        }
        Ok(seen)
    }
}

/// "1 process", "2 processes".
pub fn processes(number: u32) -> String {
    match number {
        1 => "1 process".into(),
        _ => format!("{number} processes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Class;

    fn group(members: &[u32]) -> Arc<Group> {
        Group::of(members.iter().map(|&id| PeerIndex::new(id)).collect())
    }

    fn ids(group: &Group) -> Vec<u32> {
        group.iter().map(|process| process.number()).collect()
    }

    #[test]
    fn set_operations_keep_the_standards_order() {
        let (a, b) = (group(&[3, 1, 2]), group(&[5, 2, 3]));
        assert_eq!(ids(&a.union(&b)), [3, 1, 2, 5]);
        assert_eq!(ids(&a.intersection(&b)), [3, 2]);
        assert_eq!(ids(&a.difference(&b)), [1]);
    }

    #[test]
    fn compare() {
        assert_eq!(group(&[0, 1]).compare(&Group::first(2)), Comparison::Ident);
        assert_eq!(group(&[1, 0]).compare(&Group::first(2)), Comparison::Similar);
        assert_eq!(group(&[1, 2]).compare(&Group::first(2)), Comparison::Unequal);
    }

    #[test]
    fn ranges_go_both_ways() {
        let all = Group::first(10);
        assert_eq!(
            all.ranges(&[[6, 7, 1], [1, 6, 2], [9, 4, -3]]).unwrap(),
            [6, 7, 1, 3, 5, 9, 6]
        );
        assert_eq!(all.ranges(&[[3, 3, 1], [5, 5, -2]]).unwrap(), [3, 5]);
        assert!(all.ranges(&[[0, 3, 0]]).is_err());
        assert!(all.ranges(&[[3, 0, 1]]).is_err());
        assert!(all.ranges(&[[8, 12, 2]]).is_err());
        assert_eq!(ids(&all.excl(&[0, 9, 5]).unwrap()), [1, 2, 3, 4, 6, 7, 8]);
    }

    #[test]
    fn ranks_that_are_none_or_come_twice_are_errors_of_ranks() {
        let all = Group::first(10);
        for (ranks, word) in [
            (&[1, 4, 1][..], "rank 1 twice"),
            (&[0, 10], "rank 10"),
            (&[-1], "rank -1"),
        ] {
            for result in [all.incl(ranks), all.excl(ranks)] {
                let error = result.expect_err(word);
                assert_eq!(error.class, Class::Rank, "{error}");
                assert!(error.message.contains(word), "{error}");
            }
        }
        let class = |triplet| all.ranges(&[triplet]).map_err(|error| error.class);
        assert_eq!(class([8, 12, 2]), Err(Class::Rank));
        assert_eq!(class([0, 3, 0]), Err(Class::Arg));
        assert_eq!(class([3, 0, 1]), Err(Class::Arg));
        assert_eq!(class([0, 3, -1]), Err(Class::Arg));
        assert_eq!(class([4, 4, -1]), Ok(vec![4]));
    }
}
