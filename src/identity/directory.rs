//! The processes that this one knows of.

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use super::process::{PeerIndex, ProcessName};

/// From names to indices and back. The processes of this job need no entry: their indices are their ranks. It only grows.
#[derive(Debug)]
pub struct Directory {
    me: ProcessName,
    size: u32,
    others: RwLock<Others>,
}

/// Processes of other jobs.
#[derive(Default, Debug)]
struct Others {
    names: Vec<ProcessName>,
    places: FxHashMap<ProcessName, u32>,
}

impl Directory {
    /// The directory of a job: this process, and how many the job has.
    pub fn new(me: ProcessName, size: u32) -> Directory {
        Directory {
            me,
            size,
            others: RwLock::default(),
        }
    }

    /// This process.
    pub fn me(&self) -> PeerIndex {
        PeerIndex::of_rank(self.me.rank)
    }

    /// Whether processes of other jobs were ever met.
    pub fn has_others(&self) -> bool {
        !self.others.read().names.is_empty()
    }

    /// The name of a process.
    ///
    /// # Panics
    /// If this directory has not given the index.
    pub fn name(&self, place: PeerIndex) -> ProcessName {
        match place.number().checked_sub(self.size) {
            None => ProcessName {
                job: self.me.job,
                rank: place.number(),
            },
            Some(other) => self.others.read().names[other as usize],
        }
    }

    /// The index of a process, which gets one if it has none. `None`: it is of this job, which has no such rank; or there
    /// are 2^32 processes.
    pub fn place(&self, name: ProcessName) -> Option<PeerIndex> {
        if name.job == self.me.job {
            return (name.rank < self.size).then(|| PeerIndex::of_rank(name.rank));
        }
        if let Some(&other) = self.others.read().places.get(&name) {
            return Some(PeerIndex::new(other));
        }
        let Others { names, places } = &mut *self.others.write();
        if let Some(&other) = places.get(&name) {
            return Some(PeerIndex::new(other));
        }
        let place = self.size.checked_add(u32::try_from(names.len()).ok()?)?;
        names.push(name);
        places.insert(name, place);
        Some(PeerIndex::new(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::JobId;

    #[test]
    fn own_ranks_are_places_and_others_follow() {
        let (own, other) = (JobId(1), JobId(2));
        let name = |job, rank| ProcessName { job, rank };
        let directory = Directory::new(name(own, 1), 3);
        assert_eq!(directory.me(), PeerIndex::of_rank(1));
        assert_eq!(directory.place(name(own, 2)), Some(PeerIndex::of_rank(2)));
        assert_eq!(directory.place(name(own, 3)), None);
        let far = directory.place(name(other, 0)).expect("a place");
        assert_eq!(far, PeerIndex::new(3));
        assert_eq!(directory.place(name(other, 9)), Some(PeerIndex::new(4)));
        assert_eq!(directory.place(name(other, 0)), Some(far), "it has one already");
        for known in [name(own, 0), name(other, 0), name(other, 9)] {
            assert_eq!(
                directory.place(known).map(|place| directory.name(place)),
                Some(known)
            );
        }
    }
}
