//! How communication ends: disconnecting, the end of a session, and that of the World Model.
//!
//! All work in the same way: what the user has completed or freed is sent completely, then all processes concerned enter
//! a barrier. After it, no process needs this one any more. To be awaited by [`Instance::block_on_turns`].

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use rustc_hash::FxHashSet;

use super::farewell::Farewell;
use crate::base::error::Result;
use crate::base::startup::Phase;
use crate::identity::{Context, PeerIndex};
use crate::instance::Instance;
use crate::objects::collective;
use crate::objects::communicator::Communicator;
use crate::system::bootstrap::AfterFinalize;

impl Communicator {
    /// Its members part (`MPI_Comm_disconnect`, MPI 5.0 section 11.10.4): waits until all that was sent on it has arrived, at this
    /// process and at the others. Collective. Inside the result is whether a message of its buffer was lost, which keeps nobody
    /// from parting.
    pub fn disconnect(self: &Arc<Self>) -> Result<Result<()>> {
        let instance = self.instance();
        let buffer = self.attachment().take();
        instance.block_on_turns(Communicator::disconnect_all(instance, vec![self.clone()]))?;
        Ok(instance.flush_all(buffer.as_slice()))
    }

    /// A disconnect barrier of each communicator, all at once: a communicator does not wait for another, as
    /// other processes may disconnect them one by one. Returns when all that this process has to send has left it.
    ///
    /// The first failure is the result; it keeps nobody waiting.
    pub async fn disconnect_all(
        instance: &Arc<Instance>,
        communicators: Vec<Arc<Communicator>>,
    ) -> Result<()> {
        let counting = instance.count_all();
        let mut barriers: Vec<Pin<Box<dyn Future<Output = Result<()>> + Send>>> = Vec::new();
        for communicator in communicators {
            let instance = instance.clone();
            barriers.push(Box::pin(async move {
                let context = communicator.context();
                instance
                    .freed_ended(|other| other.communicator() == context)
                    .await;
                collective::barrier(&communicator.disconnect_barrier()).await
            }));
        }
        let mut result = Ok(());
        poll_fn(|poll| {
            barriers.retain_mut(|barrier| match barrier.as_mut().poll(poll) {
                Poll::Ready(ended) => {
                    if result.is_ok() {
                        result = ended;
                    }
                    false
                }
                Poll::Pending => true,
            });
            match barriers.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        instance.left().await;
        drop(counting);
        result
    }

    /// Whether messages of a context belong to the World Model: not to a session, nor to finalize itself. Processes that
    /// meet to make a communicator of a group may do so for a session, and those are not reported.
    pub fn is_of_world(instance: &Instance, context: Context) -> bool {
        !context.is_finalizing() && !context.is_meeting() && instance.is_worlds(context.communicator())
    }

    /// The end of the World Model (MPI 5.0 section 11.2.2), collective over the job and all that are connected with it. Where the launcher ends now or has
    /// ended ([`AfterFinalize::Ends`]), messages do its work: all processes exchange their business cards, for later
    /// sessions, and the last barrier is not the launcher's. The result says whether any process has had a session: if
    /// none has, all close their lanes. `had_sessions` is this process's preliminary answer, and `last_word` the final
    /// one, which is asked for when all processes have come: see [`Users`].
    ///
    /// `check`: gets the messages of the World Model that no receive took, as texts. `ways`: what this process reports to
    /// rank 0, where a report was asked for.
    ///
    /// [`Users`]: crate::instance::Users
    pub async fn finalize_world(
        instance: &Arc<Instance>,
        had_sessions: impl FnOnce() -> bool,
        last_word: impl FnOnce() -> bool,
        check: Option<impl FnOnce(Vec<String>)>,
        ways: Option<String>,
    ) -> Result<Ended> {
        let ledger = instance.ledger().clone();
        let finalizing = Communicator::finalizing(instance);
        let vote = async |values: [u64; 6]| {
            let operation = finalizing.collective();
            ledger
                .during(Phase::Barrier, collective::largest(&operation, values))
                .await
        };
        let told = ways.as_ref().map_or(0, String::len) as u64;
        let over = instance.bootstrap().is_over();
        let card = match instance.after_finalize() {
            AfterFinalize::Ends => instance.engine().card().encode(),
            AfterFinalize::Returns | AfterFinalize::Stays => Vec::new(),
        };
        let lacks = !card.is_empty() && !over && !instance.unknown_cards().is_empty();
        let mine = [
            had_sessions().into(),
            told,
            over.into(),
            lacks.into(),
            card.len() as u64,
            (!instance
                .connections(|context| instance.is_worlds(context))
                .is_empty())
            .into(),
        ];
        let [had, longest, any_over, any_lacks, longest_card, any_connected] = vote(mine).await?;
        let farewell = match any_connected {
            0 => None,
            _ => {
                let farewell = Farewell::of(instance, &finalizing).await?;
                ledger.during(Phase::Barrier, farewell.all_have_come()).await?;
                Some(farewell)
            }
        };
        let sessions_left = had != 0 || vote([last_word().into(), 0, 0, 0, 0, 0]).await?[0] != 0;
        if any_lacks != 0 {
            let cards = exchange_cards(&finalizing, card, longest_card as usize).await?;
            let unknown_cards: FxHashSet<PeerIndex> = instance.unknown_cards().into_iter().collect();
            instance.keep_cards(cards.into_iter().filter(|(peer, _)| unknown_cards.contains(peer)));
        }
        let mut ways_of_all = Vec::new();
        if longest > 0 {
            let mine = ways.unwrap_or_default();
            ways_of_all = gather_texts(&finalizing, mine, longest as usize).await?;
        }
        if let Some(check) = check {
            // A message that was cancelled and whose request was freed may be on its way in pieces, and its receiver is asked after the last piece.
            instance
                .answered(|context| Communicator::is_of_world(instance, context))
                .await;
            // Messages that are still on their way count, too.
            collective::flush(&finalizing.collective()).await?;
            let names = instance.names();
            check(
                instance
                    .engine()
                    .untaken(&*names, |context| !Communicator::is_of_world(instance, context)),
            );
            // Senders take back what is left only when all have checked.
            collective::barrier(&finalizing.collective()).await?;
        }
        // All have called MPI_Finalize, so no process receives any more.
        let settled = instance.settled(|context| Communicator::is_of_world(instance, context));
        ledger.during(Phase::Drain, settled).await;
        // With sessions open there may always be something under way, and nothing is closed.
        if !sessions_left {
            ledger.during(Phase::Drain, instance.drained()).await;
        }
        if let Some(farewell) = farewell {
            // No process of another job needs this one after that.
            let counting = instance.count_all();
            ledger.during(Phase::Barrier, farewell.all_have_come()).await?;
            ledger.during(Phase::Drain, instance.left()).await;
            drop(counting);
        }
        instance.disconnect_worlds();
        // A peer may still wait for the last message of ours.
        let fence = async {
            match any_over != 0 {
                true => {
                    let counting = instance.count_all();
                    collective::barrier(&finalizing.collective()).await?;
                    instance.left().await;
                    drop(counting);
                    Ok(())
                }
                false => instance.fenced().await,
            }
        };
        ledger.during(Phase::Fence, fence).await?;
        Ok(Ended {
            sessions_left,
            ways: ways_of_all,
        })
    }
}

/// The result of [`Communicator::finalize_world`].
pub struct Ended {
    /// Whether any process may have a session open. If none has, all may close their lanes.
    pub sessions_left: bool,
    /// At rank 0, where a report was asked for: what each rank reports; empty for a rank that was not asked.
    pub ways: Vec<String>,
}

/// Every process's business card for every process. None is longer than `longest` bytes.
async fn exchange_cards(
    finalizing: &Arc<Communicator>,
    mine: Vec<u8>,
    longest: usize,
) -> Result<Vec<(PeerIndex, Vec<u8>)>> {
    let operation = finalizing.collective();
    // Each with its length before it, and padded.
    let mut bytes = (mine.len() as u64).to_le_bytes().to_vec();
    bytes.extend(mine);
    bytes.resize(8 + longest, 0);
    let all = collective::allgather_bytes(&operation, &bytes).await?;
    let cards = all.chunks_exact(bytes.len()).map(|bytes| {
        let (len, card) = bytes.split_first_chunk::<8>()?;
        card.get(..u64::from_le_bytes(*len) as usize).map(<[u8]>::to_vec)
    });
    // An invalid card is ignored: the launcher has it, too.
    let known = (0..).map(PeerIndex::of_rank).zip(cards);
    Ok(known.filter_map(|(peer, card)| Some((peer, card?))).collect())
}

/// Brings each rank's text to rank 0, one after the other. None is longer than `longest` bytes.
async fn gather_texts(finalizing: &Arc<Communicator>, mine: String, longest: usize) -> Result<Vec<String>> {
    let operation = finalizing.collective();
    if operation.rank() != 0 {
        // It is padded with zeros, which no text contains.
        let mut bytes = mine.into_bytes();
        bytes.resize(longest, 0);
        operation.send_bytes(0, bytes).await?;
        return Ok(Vec::new());
    }
    let mut texts = vec![mine];
    for rank in 1..operation.size() {
        let bytes = operation.receive_bytes(rank, longest).await?;
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        texts.push(String::from_utf8_lossy(text).into_owned());
    }
    Ok(texts)
}
