//! From which process a message is: what a header's token and sender mean.
//!
//! A header names its sender by its rank, and contains a token that follows from the receiver's card and the sender's job. So the token
//! determines the job in which the rank counts, the header stays short, and one card serves all jobs. (With several engines in a process,
//! each engine will get a token of its own, too.) The reader of a header compares this job's token first; only messages with another token
//! come here.

use rustc_hash::FxHashMap;

use super::EngineState;
use crate::identity::{JobId, PeerIndex, ProcessName};

/// What messages of a process of another job, `sender`, must carry to a process whose card has the token `base`. Messages within a job
/// carry that token itself.
pub(super) fn derived(base: u64, sender: JobId) -> u64 {
    mix(base ^ mix(sender.0 ^ 0x7765_6674_2d6a_6f62))
}

/// Maps numbers one to one to others, every bit of which depends on all (the end of SplitMix64).
fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The other jobs whose processes may send to this one.
#[derive(Default)]
pub(super) struct Numberings(Vec<Numbering>);

struct Numbering {
    job: JobId,
    token: u64,
    /// By rank.
    places: FxHashMap<u32, Place>,
}

/// A process that is known.
#[derive(Clone, Copy)]
struct Place {
    peer: PeerIndex,
    /// A communicator connects this process with it, as the layers above say.
    met: bool,
}

impl Numberings {
    /// Who sends a message with this token and this sender, if it is one of another job that is known.
    #[inline]
    pub fn sender(&self, token: u64, rank: u32) -> Option<PeerIndex> {
        let numbering = self.0.iter().find(|numbering| numbering.token == token)?;
        numbering.places.get(&rank).map(|place| place.peer)
    }

    /// The index of a process that is known.
    pub fn place(&self, process: ProcessName) -> Option<PeerIndex> {
        self.find(process).map(|place| place.peer)
    }

    /// Whether a communicator connects this process with it.
    pub fn is_met(&self, process: ProcessName) -> bool {
        self.find(process).is_some_and(|place| place.met)
    }

    fn find(&self, process: ProcessName) -> Option<Place> {
        let numbering = self.0.iter().find(|numbering| numbering.job == process.job)?;
        numbering.places.get(&process.rank).copied()
    }

    /// Makes a process known under its index. `base`: the token of this process's card. `met`: a communicator connects this process
    /// with it; one that is known as such stays so.
    pub fn admit(&mut self, base: u64, process: ProcessName, peer: PeerIndex, met: bool) {
        let at = match self.0.iter().position(|numbering| numbering.job == process.job) {
            Some(at) => at,
            None => {
                self.0.push(Numbering {
                    job: process.job,
                    token: derived(base, process.job),
                    places: FxHashMap::default(),
                });
                self.0.len() - 1
            }
        };
        let places = &mut self.0[at].places;
        places.entry(process.rank).or_insert(Place { peer, met }).met |= met;
    }

    /// No communicator connects this process with that one any more.
    pub fn part(&mut self, process: ProcessName) {
        if let Some(numbering) = self.0.iter_mut().find(|numbering| numbering.job == process.job)
            && let Some(place) = numbering.places.get_mut(&process.rank)
        {
            place.met = false;
        }
    }

    /// Forgets a process, unless a communicator connects this one with it; and its job with the last of its processes.
    pub fn forget(&mut self, process: ProcessName) {
        let Some(at) = self.0.iter().position(|numbering| numbering.job == process.job) else {
            return;
        };
        let places = &mut self.0[at].places;
        if places.get(&process.rank).is_some_and(|place| !place.met) {
            places.remove(&process.rank);
        }
        if places.is_empty() {
            self.0.swap_remove(at);
        }
    }

    /// Whether no process of another job is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The processes that are known.
    #[cfg(feature = "sim")]
    pub fn peers(&self) -> impl Iterator<Item = PeerIndex> {
        let places = self.0.iter().flat_map(|numbering| numbering.places.values());
        places.map(|place| place.peer)
    }

    /// How many jobs and processes of them are known.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        (
            self.0.len(),
            self.0.iter().map(|numbering| numbering.places.len()).sum(),
        )
    }
}

impl EngineState {
    /// The index of a process, if it may send to this one.
    pub(super) fn place_of(&self, process: ProcessName) -> Option<PeerIndex> {
        if process.job == self.name.job {
            return (process.rank < self.size).then(|| PeerIndex::of_rank(process.rank));
        }
        self.numberings.place(process)
    }
}
