//! Waiting until nothing is under way any more: what finalize and disconnect are made of. No request ends with these
//! conditions, so whoever awaits them has to look at each turn: [`Instance::block_on_turns`], not a task.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use rustc_hash::FxHashSet;

use super::Instance;
use crate::base::error::Result;
use crate::engine::Engine;
use crate::identity::Context;

impl Instance {
    /// All that was handed to the engine has left this process.
    pub async fn drained(&self) {
        self.engine_is(Engine::is_drained).await;
    }

    /// The same but for messages that wait until their receivers have taken earlier ones.
    pub async fn left(&self) {
        self.engine_is(Engine::has_left).await;
    }

    /// No operation whose request was freed is under way in the contexts that `concerns`: the receivers have taken all
    /// sends.
    pub async fn freed_ended(&self, concerns: impl Fn(Context) -> bool) {
        self.engine_is(|engine| !engine.has_freed(&concerns)).await;
    }

    /// The same where no process posts receives any more: sends that no receive has taken never will be taken, and are
    /// given up.
    pub async fn settled(&self, concerns: impl Fn(Context) -> bool) {
        // Each receiver is asked once; where it has taken the message, it will say so.
        let mut asked = FxHashSet::default();
        poll_fn(|_| {
            let mut engine = self.engine();
            for request in engine.untaken_freed_sends(&concerns) {
                if asked.insert(request) {
                    engine.cancel(request);
                }
            }
            match engine.has_freed(&concerns) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Of each send that was cancelled in a context that `concerns` it is known whether it was taken back.
    pub async fn answered(&self, concerns: impl Fn(Context) -> bool) {
        self.engine_is(|engine| !engine.awaits_answers(&concerns)).await;
    }

    /// Every process of the job has come to the launcher's fence.
    pub async fn fenced(&self) -> Result<()> {
        self.bootstrap().begin_fence()?;
        poll_fn(|_| match self.bootstrap().fence_is_over() {
            Ok(false) => Poll::Pending,
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
        })
        .await
    }

    async fn engine_is(&self, so: impl Fn(&Engine) -> bool) {
        poll_fn(|_| match so(&self.engine()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// While the result lives, [`Instance::drained`] waits for every message, also for short ones.
    pub fn count_all(self: &Arc<Self>) -> Counting {
        self.engine().count_all(true);
        Counting(self.clone())
    }
}

/// See [`Instance::count_all`].
pub struct Counting(Arc<Instance>);

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.engine().count_all(false);
    }
}
