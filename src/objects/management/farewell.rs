//! `MPI_Finalize` is collective over all processes that are still connected (MPI 5.0 section 11.10.4), also through third jobs. Nobody knows
//! all of these jobs from the beginning: each knows those with which it has a communicator. So each tells its neighbours which neighbours it
//! has, and passes on what it hears, until every job that was named has been heard of. A job begins when all of its own processes have
//! called `MPI_Finalize`; so when one has heard of all, all processes have.
//!
//! Two jobs talk through one process of each, their *speakers*: of all communicators that both jobs share, they take the one with the
//! lowest context, and in it the process of the lowest rank in its job. At that time both jobs find the same ones: disconnecting is
//! collective.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::hash::Hasher;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use rustc_hash::FxHasher;

use super::exchange_texts;
use crate::base::error::Result;
use crate::err;
use crate::identity::{Context, JobId, PeerIndex, ProcessName};
use crate::instance::Instance;
use crate::objects::collective;
use crate::objects::communicator::{Collective, Communicator};
use crate::objects::group::Group;

/// Which neighbours each job has, as far as it is known.
type Records = BTreeMap<JobId, Vec<JobId>>;

/// The connections of this job with others.
pub(super) struct Farewell {
    finalizing: Arc<Communicator>,
    /// By the other job. The same in all processes of this job.
    edges: BTreeMap<JobId, Edge>,
}

/// Two jobs that share a communicator.
struct Edge {
    proposal: Proposal,
    /// The two speakers, if this process is one of them: the rank of the other one, and the communicator of both.
    pair: Option<(u32, Arc<Communicator>)>,
}

/// A communicator that connects this job with another one, as one process sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Proposal {
    context: Context,
    /// A process of this job that is in it.
    mine: u32,
    /// The first process of the other job that is in it.
    theirs: u32,
}

impl Farewell {
    /// Finds the connections that do not belong to sessions. Collective over the job.
    pub async fn of(instance: &Arc<Instance>, finalizing: &Arc<Communicator>) -> Result<Farewell> {
        let mut proposals: BTreeMap<JobId, Proposal> = BTreeMap::new();
        for (context, foreign) in instance.connections(|context| instance.is_worlds(context)) {
            for &process in foreign.iter() {
                let ProcessName { job, rank } = instance.directory().name(process);
                let proposal = Proposal {
                    context,
                    mine: instance.job().rank,
                    theirs: rank,
                };
                proposals
                    .entry(job)
                    .and_modify(|best| *best = (*best).min(proposal))
                    .or_insert(proposal);
            }
        }
        let mut bytes = Vec::new();
        for (job, proposal) in proposals {
            bytes.extend_from_slice(&job.0.to_le_bytes());
            bytes.extend_from_slice(&proposal.context.encode());
            bytes.extend_from_slice(&proposal.mine.to_le_bytes());
            bytes.extend_from_slice(&proposal.theirs.to_le_bytes());
        }
        let mut edges: BTreeMap<JobId, Edge> = BTreeMap::new();
        for said in allgather_texts(&finalizing.collective(), bytes).await? {
            for entry in said.as_chunks::<24>().0 {
                let number = |at: usize| u64::from_le_bytes(*entry[at..].first_chunk().expect("8 bytes"));
                let short = |at: usize| u32::from_le_bytes(*entry[at..].first_chunk().expect("4 bytes"));
                let proposal = Proposal {
                    context: Context::of_bits(number(8)),
                    mine: short(16),
                    theirs: short(20),
                };
                let edge = edges
                    .entry(JobId(number(0)))
                    .or_insert(Edge { proposal, pair: None });
                edge.proposal = edge.proposal.min(proposal);
            }
        }
        for (&job, edge) in &mut edges {
            if edge.proposal.mine == instance.job().rank {
                edge.pair = pair(instance, job, &edge.proposal);
            }
        }
        Ok(Farewell {
            finalizing: finalizing.clone(),
            edges,
        })
    }

    /// Waits until all processes of all connected jobs have called this. A job that is gone does not count.
    pub async fn all_have_come(&self) -> Result<()> {
        let me = self.finalizing.instance().job().name().job;
        let mut records = Records::from([(me, self.edges.keys().copied().collect())]);
        let mut open: BTreeSet<JobId> = self.edges.keys().copied().collect();
        while !open.is_empty() {
            // Who has heard of all says so, and both sides stop when both have.
            let done = is_closed(&records);
            let heard = self.exchange(&open, &records, done).await?;
            for (job, theirs) in heard {
                match theirs {
                    None => {
                        open.remove(&job);
                        // Nobody else need wait for it.
                        records.entry(job).or_default();
                    }
                    Some((theirs, is_done)) => {
                        if done && is_done {
                            open.remove(&job);
                        }
                        for (job, neighbours) in theirs {
                            records.entry(job).or_insert(neighbours);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// One round: what each neighbour says; `None`: it is gone. The same in all processes of this job.
    async fn exchange(
        &self,
        open: &BTreeSet<JobId>,
        records: &Records,
        done: bool,
    ) -> Result<Vec<(JobId, Option<(Records, bool)>)>> {
        let said = encode(records, done);
        // All at once: a ring of jobs would wait for ever otherwise.
        let mut exchanges: Vec<(JobId, Option<Exchange<'_>>)> = (open.iter())
            .filter_map(|job| Some((*job, self.edges[job].pair.as_ref()?)))
            .map(|(job, (to, pair))| {
                let exchange: Exchange<'_> = Box::pin(exchange(pair.collective(), *to, said.clone()));
                (job, Some(exchange))
            })
            .collect();
        let mut mine = Vec::new();
        poll_fn(|poll| {
            for (job, waiting) in &mut exchanges {
                let Some(exchange) = waiting else { continue };
                if let Poll::Ready(heard) = exchange.as_mut().poll(poll) {
                    *waiting = None;
                    let heard = heard.unwrap_or_default();
                    mine.extend_from_slice(&job.0.to_le_bytes());
                    mine.extend_from_slice(&(heard.len() as u64).to_le_bytes());
                    mine.extend_from_slice(&heard);
                }
            }
            match exchanges.iter().all(|(_, waiting)| waiting.is_none()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        let mut all = Vec::new();
        for said in allgather_texts(&self.finalizing.collective(), mine).await? {
            let mut rest = &said[..];
            while let Some((job, after)) = rest.split_first_chunk::<8>() {
                let malformed = || {
                    err!(
                        Intern,
                        "what a process of this job has heard from another one is not understood"
                    )
                };
                let (len, after) = after.split_first_chunk::<8>().ok_or_else(malformed)?;
                let heard = after.split_at_checked(u64::from_le_bytes(*len) as usize);
                let (heard, after) = heard.ok_or_else(malformed)?;
                all.push((JobId(u64::from_le_bytes(*job)), decode(heard)));
                rest = after;
            }
        }
        Ok(all)
    }
}

type Exchange<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>>> + Send + 'a>>;

async fn exchange(operation: Collective, to: u32, said: Vec<u8>) -> Result<Vec<u8>> {
    exchange_texts(&operation, to, said).await
}

/// The communicator of two speakers, of which this process is one, with the other's rank there. `None` if the other one is gone.
fn pair(instance: &Arc<Instance>, job: JobId, proposal: &Proposal) -> Option<(u32, Arc<Communicator>)> {
    let directory = instance.directory();
    let other = directory.place(ProcessName {
        job,
        rank: proposal.theirs,
    })?;
    let mut both: Vec<PeerIndex> = vec![instance.me(), other];
    both.sort_unstable_by_key(|&process| directory.name(process));
    let mut hasher = FxHasher::default();
    hasher.write(&proposal.context.encode());
    for &process in &both {
        hasher.write(&directory.name(process).encode());
    }
    let both = Group::of(both);
    let to = both.rank_of(other)?;
    // A context of its own, which both find: no message of the user's is in it.
    let pair = Communicator::new(instance, Context::meeting(hasher.finish()), both)?;
    Some((to, pair))
}

/// Whether every job that was named has been heard of.
fn is_closed(records: &Records) -> bool {
    let mut named = records.values().flatten();
    named.all(|job| records.contains_key(job))
}

fn encode(records: &Records, done: bool) -> Vec<u8> {
    let mut bytes = vec![1 + u8::from(done)];
    for (job, neighbours) in records {
        bytes.extend_from_slice(&job.0.to_le_bytes());
        bytes.extend_from_slice(&(neighbours.len() as u64).to_le_bytes());
        for neighbour in neighbours {
            bytes.extend_from_slice(&neighbour.0.to_le_bytes());
        }
    }
    bytes
}

/// `None`: nothing was heard.
fn decode(bytes: &[u8]) -> Option<(Records, bool)> {
    let (&done, mut rest) = bytes.split_first()?;
    let mut records = Records::new();
    while !rest.is_empty() {
        let (job, after) = rest.split_first_chunk()?;
        let (count, mut after) = after.split_first_chunk()?;
        let mut neighbours = Vec::new();
        for _ in 0..u64::from_le_bytes(*count) {
            let (neighbour, tail) = after.split_first_chunk()?;
            neighbours.push(JobId(u64::from_le_bytes(*neighbour)));
            after = tail;
        }
        records.insert(JobId(u64::from_le_bytes(*job)), neighbours);
        rest = after;
    }
    Some((records, done == 2))
}

/// Every process's bytes for every process, by rank; each has another number of them.
async fn allgather_texts(operation: &Collective, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let [longest] = collective::largest(operation, [mine.len() as u64]).await?;
    let mut padded = (mine.len() as u64).to_le_bytes().to_vec();
    padded.extend(mine);
    padded.resize(8 + longest as usize, 0);
    let all = collective::allgather_bytes(operation, &padded).await?;
    let texts = all.chunks_exact(padded.len()).map(|padded| {
        let (len, text) = padded.split_first_chunk().expect("8 bytes");
        text[..u64::from_le_bytes(*len) as usize].to_vec()
    });
    Ok(texts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_that_were_named_have_to_be_heard_of() {
        let (a, b, c) = (JobId(1), JobId(2), JobId(3));
        let mut records = Records::from([(a, vec![b])]);
        assert!(!is_closed(&records));
        records.insert(b, vec![a, c]);
        assert!(!is_closed(&records));
        records.insert(c, vec![b]);
        assert!(is_closed(&records));
        assert_eq!(decode(&encode(&records, true)), Some((records.clone(), true)));
        assert_eq!(decode(&encode(&records, false)), Some((records, false)));
        assert_eq!(decode(&[]), None);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes);
        }
    }
}
