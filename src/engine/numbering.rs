//! From which process a message is: what a header's token and sender mean.
//!
//! A header names its sender by its rank, and contains a token that only this process has given to others. Each job gets
//! another token, so the token determines the job in which the rank counts, and the header stays short. (With several
//! engines in a process, each engine will get a token of its own, too.) The reader of a header compares this job's token
//! first; only messages with another token come here.

use rustc_hash::FxHashMap;

use super::business_card::BusinessCard;
use super::{Engine, EngineState};
use crate::identity::{JobId, PeerIndex, ProcessName};

/// The other jobs whose processes may send to this one.
#[derive(Default)]
pub(super) struct Numberings(Vec<Numbering>);

struct Numbering {
    job: JobId,
    token: u64,
    /// By rank.
    places: FxHashMap<u32, PeerIndex>,
}

impl Numberings {
    /// Who sends a message with this token and this sender, if it is one of another job that is known.
    pub fn sender(&self, token: u64, rank: u32) -> Option<PeerIndex> {
        let numbering = self.0.iter().find(|numbering| numbering.token == token)?;
        numbering.places.get(&rank).copied()
    }

    fn of(&self, job: JobId) -> Option<&Numbering> {
        self.0.iter().find(|numbering| numbering.job == job)
    }
}

impl Engine {
    /// Allows processes of another job to send to this one, if their messages contain this token: random, and different
    /// for each job.
    pub fn admit(&mut self, job: JobId, token: u64) {
        let numberings = &mut self.state.numberings;
        if job != self.state.name.job && numberings.of(job).is_none() {
            numberings.0.push(Numbering {
                job,
                token,
                places: FxHashMap::default(),
            });
        }
    }

    /// What a process of an admitted job has to know to send to this one.
    pub fn card_for(&self, job: JobId) -> Option<BusinessCard> {
        let token = self.state.numberings.of(job)?.token;
        Some(BusinessCard { token, ..self.card() })
    }

    /// Sets the index under which a process of an admitted job is known here.
    pub fn place(&mut self, process: ProcessName, place: PeerIndex) {
        let mut numberings = self.state.numberings.0.iter_mut();
        if let Some(numbering) = numberings.find(|numbering| numbering.job == process.job) {
            numbering.places.insert(process.rank, place);
        }
    }
}

impl EngineState {
    /// The index of a process, if it may send to this one.
    pub(super) fn place_of(&self, process: ProcessName) -> Option<PeerIndex> {
        if process.job == self.name.job {
            return (process.rank < self.size).then(|| PeerIndex::of_rank(process.rank));
        }
        let numbering = self.numberings.of(process.job)?;
        numbering.places.get(&process.rank).copied()
    }
}
