//! Waiting until nothing is under way any more: what finalize and disconnect are made of. No request ends when these
//! conditions come true, so they have to be checked at each turn of progress: await them in [`Instance::block_on_turns`],
//! not in a task.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use rustc_hash::FxHashSet;

use super::Instance;
use crate::base::error::Result;
use crate::engine::Engine;
use crate::identity::Context;

impl Instance {
    /// Waits until all that was handed to the engine has left this process.
    pub async fn drained(&self) {
        self.engine_is(Engine::is_drained).await;
    }

    /// The same, except for messages that wait until their receivers have taken earlier ones.
    pub async fn left(&self) {
        self.engine_is(Engine::has_left).await;
    }

    /// Waits until no operation whose request was freed is under way in the contexts that `concerns`: the receivers have
    /// taken all sends.
    pub async fn freed_ended(&self, concerns: impl Fn(Context) -> bool) {
        self.engine_is(|engine| !engine.has_freed(&concerns)).await;
    }

    /// The same where no process posts receives any more: sends that no receive has taken will never be taken, and are
    /// abandoned.
    pub async fn settled(&self, concerns: impl Fn(Context) -> bool) {
        // Each receiver is asked once; if it has taken the message, it replies so.
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

    /// Waits until, for each send that was cancelled in a context that `concerns`, it is known whether it was taken back.
    pub async fn answered(&self, concerns: impl Fn(Context) -> bool) {
        self.engine_is(|engine| !engine.awaits_answers(&concerns)).await;
    }

    /// Waits until every process of the job has come to the launcher's fence.
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

    /// While the result lives, [`Instance::drained`] waits for every message, short ones too.
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
