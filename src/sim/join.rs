//! Several programs of one rank side by side.

use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::Poll;

/// Runs them all to their ends, polling each whenever the rank is polled. Results in the order of the arguments.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    // An unfinished one must not be dropped, in a panic neither: it would wait.
    let mut running: Vec<ManuallyDrop<Pin<Box<F>>>> = futures
        .into_iter()
        .map(|future| ManuallyDrop::new(Box::pin(future)))
        .collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, result) in running.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                *result = Some(output);
                // SAFETY: dropped once, as it is never looked at again.
                unsafe { ManuallyDrop::drop(future) };
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
