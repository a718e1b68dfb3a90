//! Several programs of one rank side by side.

use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::Poll;

/// A program, or a part of one. In a panic it is not dropped: a completion in it would wait forever.
pub(super) struct Kept<F>(ManuallyDrop<Pin<Box<F>>>);

impl<F> Kept<F> {
    pub fn new(future: F) -> Kept<F> {
        Kept(ManuallyDrop::new(Box::pin(future)))
    }

    pub fn future(&mut self) -> Pin<&mut F> {
        self.0.as_mut()
    }
}

impl<F> Drop for Kept<F> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped once, here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// Runs them all to their ends, polling each whenever the rank is polled. Results in the order of the arguments.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Option<Kept<F>>> = futures
        .into_iter()
        .map(|future| Some(Kept::new(future)))
        .collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    let mut begins = true;
    poll_fn(|context| {
        // What one of them begins may end a request of one before it: then no progress of the engine follows.
        let mut again = true;
        while again {
            again = std::mem::take(&mut begins);
            for (program, result) in running.iter_mut().zip(&mut results) {
                if let Some(kept) = program
                    && let Poll::Ready(output) = kept.future().poll(context)
                {
                    *result = Some(output);
                    *program = None;
                    again = true;
                }
            }
        }
        if results.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    results.into_iter().flatten().collect()
}
