//! What is under way in some contexts, and how it is ended: for communicators that are freed.

use super::Engine;
use super::matching::Pattern;
use super::request::{Outcome, Request, RequestId};
use crate::base::error::Error;
use crate::identity::Context;

impl Engine {
    /// The requests that have not ended, in contexts for which `of` holds.
    fn under_way(&self, of: impl Fn(Context) -> bool) -> impl Iterator<Item = (RequestId, &Request)> {
        let requests = self.state.requests.iter();
        requests.filter(move |(_, request)| request.outcome.is_none() && of(request.context))
    }

    /// Whether any request has not ended.
    pub fn has_under_way(&self, of: impl Fn(Context) -> bool) -> bool {
        self.under_way(of).next().is_some()
    }

    /// Ends all requests at once, also those whose memory a lane still touches.
    ///
    /// # Safety
    /// The lanes of this engine are stopped.
    #[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "for tests"))]
    pub unsafe fn end_all(&mut self, error: &Error) {
        let under_way: Vec<RequestId> = (self.state.requests.iter())
            .filter(|(_, request)| request.is_under_way())
            .map(|(id, _)| id)
            .collect();
        for id in under_way {
            self.state.complete(id, Outcome::failed(error.clone()));
        }
    }

    /// Ends what has not ended, with an error, and drops the messages that no receive took.
    pub fn give_up_all(&mut self, of: impl Fn(Context) -> bool, error: &Error) {
        // Posts the receives that stand for tasks' words.
        self.look_at_words();
        let given_up: Vec<RequestId> = self.under_way(&of).map(|(id, _)| id).collect();
        for id in given_up {
            self.give_up(id, error.clone());
        }
        let untaken: Vec<Pattern> = self
            .unexpected()
            .filter(|envelope| of(envelope.context))
            .map(|envelope| Pattern {
                context: envelope.context,
                source: Some(envelope.source),
                tag: Some(envelope.tag),
            })
            .collect();
        for exactly in &untaken {
            if let Some((_, message)) = self.probe_out(exactly) {
                self.state.forget(message);
            }
        }
    }
}
