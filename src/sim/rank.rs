//! What a rank's program is given.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use super::buffer::{Buffer, Graveyard};
use super::jobs::Jobs;
use super::join::Kept;
use crate::engine::Received;
use crate::engine::request::{Outcome, RequestId};
use crate::identity::PeerIndex;
use crate::instance::Instance;
use crate::lane::sim::Network;
use crate::objects::communicator::Communicator;

/// See the module.
#[derive(Clone)]
pub struct Rank {
    instance: Arc<Instance>,
    world: Arc<Communicator>,
    network: Network,
    /// Its number in the network.
    node: PeerIndex,
    jobs: Jobs,
    /// See [`Rank::program`].
    program: Arc<str>,
    graveyard: Graveyard,
    /// Whether the program wants to be polled when time has passed, even if its engine has done nothing.
    turn: Arc<AtomicBool>,
    /// How many turns it was given.
    turns: Arc<AtomicU64>,
}

impl Rank {
    pub(super) fn new(
        instance: &Arc<Instance>,
        node: PeerIndex,
        network: &Network,
        jobs: &Jobs,
        graveyard: &Graveyard,
    ) -> Rank {
        Rank {
            node,
            jobs: jobs.clone(),
            program: jobs.of(node).0.program.into(),
            instance: instance.clone(),
            world: Communicator::world(instance),
            network: network.clone(),
            graveyard: graveyard.clone(),
            turn: Arc::default(),
            turns: Arc::default(),
        }
    }

    /// Its instance.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// All ranks of its job.
    pub fn world(&self) -> &Arc<Communicator> {
        &self.world
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The program that its job was spawned with; empty in the first jobs.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Its number in the network, where several jobs are.
    pub fn node(&self) -> PeerIndex {
        self.node
    }

    /// Its process, which is its rank in the world.
    pub fn me(&self) -> PeerIndex {
        self.instance.me()
    }

    /// A buffer that holds these bytes.
    pub fn buffer(&self, bytes: &[u8]) -> Buffer {
        Buffer::new(&self.graveyard, bytes)
    }

    /// A buffer of arbitrary bytes.
    pub fn blank(&self, len: usize) -> Buffer {
        self.buffer(&vec![0x77; len])
    }

    /// Whether the request has ended.
    ///
    /// # Panics
    /// If there is no such request.
    pub fn has_ended(&self, request: RequestId) -> bool {
        self.instance
            .engine()
            .is_complete(request)
            .expect("such a request")
    }

    /// Waits for the end of a request.
    pub async fn wait(&self, request: RequestId) -> Outcome {
        poll_fn(|_| {
            let mut engine = self.instance.engine();
            assert!(engine.is_complete(request).is_some(), "there is no such request");
            engine.take(request).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the end of a receive.
    pub async fn received(&self, received: Received) -> Outcome {
        match received {
            Received::Now(outcome) => outcome,
            Received::Later(request) => self.wait(request).await,
        }
    }

    /// Lets the others go on, and time pass if it can.
    pub async fn turn(&self) {
        // A poll may also come of what the program has done itself: a loop of that would keep time from passing.
        let mut asked = None;
        poll_fn(|_| {
            let turns = self.turns.load(Ordering::Relaxed);
            if asked.is_some_and(|then| then != turns) {
                return Poll::Ready(());
            }
            asked = Some(turns);
            self.turn.store(true, Ordering::Relaxed);
            Poll::Pending
        })
        .await;
    }

    /// Awaits something that does not depend on this rank's requests alone: checks at every turn.
    pub async fn each_turn<T>(&self, operation: impl Future<Output = T>) -> T {
        let mut operation = Kept::new(operation);
        poll_fn(|context| {
            let polled = operation.future().poll(context);
            if polled.is_pending() {
                self.turn.store(true, Ordering::Relaxed);
            }
            polled
        })
        .await
    }

    /// Waits until something is so that does not depend on this rank's engine.
    pub async fn until(&self, mut so: impl FnMut() -> bool) {
        self.each_turn(poll_fn(|_| match so() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }))
        .await;
    }

    /// Lets this much virtual time pass.
    pub async fn pause(&self, ns: u64) {
        let until = self.network.now_ns() + ns;
        self.network.wake_at(self.node, until);
        poll_fn(|_| {
            if self.network.now_ns() >= until {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Dies without telling anybody.
    pub async fn die(&self) -> ! {
        self.network.kill(self.node);
        std::future::pending().await
    }

    /// Dies, after what has left it, and its launcher notices and ends the job.
    pub async fn bring_down(&self) -> ! {
        self.jobs.die(self.node);
        self.network.end(self.node);
        std::future::pending().await
    }

    /// Ends its job, and those that are connected with it (`MPI_Abort`).
    pub async fn abort(&self, code: i32) -> ! {
        self.jobs.abort(self.node, code);
        self.network.end(self.node);
        std::future::pending().await
    }

    /// Closes its lane and exits; what its program awaits afterwards never comes.
    pub fn leave(&self) {
        self.network.leave(self.node);
    }

    /// Whether its program waits in [`Rank::turn`]; the answer is given once.
    pub(super) fn takes_turn(&self) -> bool {
        let takes = self.turn.swap(false, Ordering::Relaxed);
        self.turns.fetch_add(u64::from(takes), Ordering::Relaxed);
        takes
    }
}
