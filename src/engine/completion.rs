//! Requests as their waiters see them: their outcomes, and how they end.

use super::request::{Outcome, RequestId, TaskId, Work};
use super::{Engine, EngineState};
use crate::identity::Context;

impl Engine {
    /// A request without work of its own, to be ended by [`Engine::complete`].
    pub fn bare_request(&mut self) -> RequestId {
        self.state.requests.insert(Work::None, Context::NONE)
    }

    /// The same of a collective operation: of the communicator of a context, and with messages of this tag.
    pub fn collective_request(&mut self, context: Context, tag: i32) -> RequestId {
        self.state.requests.insert(Work::Collective(tag), context)
    }

    /// A request that has ended already, of the communicator of a context.
    pub fn ended_request(&mut self, outcome: Outcome, context: Context) -> RequestId {
        self.state.requests.insert_ended(Work::None, context, outcome)
    }

    /// Ends a request of [`Engine::bare_request`]. A send or receive ends by itself: a lane may have its memory.
    pub fn complete(&mut self, request: RequestId, outcome: Outcome) {
        self.state.complete_bare(request, outcome);
    }

    /// The whole name of a request, from the part of it that is in a handle.
    #[inline]
    pub fn find_request(&self, index: u32, generation_bits: u32, mask: u32) -> Option<RequestId> {
        self.state.requests.find(index, generation_bits, mask)
    }

    /// Whether a request has ended, by the part of its name in a handle; `None`: there is no such request.
    #[inline(always)]
    pub fn has_ended(&self, index: u32, generation_bits: u32, mask: u32) -> Option<bool> {
        let request = self.state.requests.get_named(index, generation_bits, mask)?;
        Some(request.outcome.is_some())
    }

    /// Whether the request has ended; `None`: there is no such request.
    #[inline]
    pub fn is_complete(&self, request: RequestId) -> Option<bool> {
        Some(self.state.requests.get(request)?.outcome.is_some())
    }

    /// Sets the communicator to which a request belongs that was not made by a send or receive.
    pub fn set_context(&mut self, request: RequestId, context: Context) {
        if let Some(request) = self.state.requests.get_mut(request) {
            request.context = context;
        }
    }

    /// Sets the collective operation to which a request belongs: the communicator's context, and its messages' tag.
    pub fn set_collective(&mut self, request: RequestId, context: Context, tag: i32) {
        if let Some(request) = self.state.requests.get_mut(request) {
            request.context = context;
            if request.outcome.is_none() && request.work.is_bare() {
                request.work = Work::Collective(tag);
            }
        }
    }

    /// Whether a request is a nonblocking or persistent collective operation that has not ended.
    pub fn is_collective(&self, request: RequestId) -> bool {
        let request = self.state.requests.get(request);
        request.is_some_and(|request| matches!(request.work, Work::Collective(_)))
    }

    /// Sets the requests that are parts of one that was not made by a send or receive: they are freed with it.
    pub fn set_both(&mut self, request: RequestId, parts: [Option<RequestId>; 2]) {
        if let Some(request) = self.state.requests.get_mut(request)
            && request.outcome.is_none()
            && request.work.is_bare()
        {
            request.work = Work::Both(parts);
        }
    }

    /// How the request ended, if it has.
    pub fn outcome(&self, request: RequestId) -> Option<&Outcome> {
        self.state.requests.get(request)?.outcome.as_ref()
    }

    /// Takes a request out if it has ended. Its error contains the communicator to which it belongs.
    #[inline]
    pub fn take(&mut self, request: RequestId) -> Option<Outcome> {
        let found = self.state.requests.get_mut(request)?;
        if found.early {
            return self.take_early(request);
        }
        let mut outcome = found.outcome.take()?;
        if let Some(error) = &mut outcome.error {
            error.context = found.context;
        }
        self.state.requests.discard(request);
        Some(outcome)
    }

    /// Takes a request out that has ended well, by the part of its name in a handle.
    #[inline(always)]
    pub fn take_well_ended(&mut self, index: u32, generation_bits: u32, mask: u32) -> Option<Outcome> {
        let requests = &mut self.state.requests;
        requests.take_well_ended(index, generation_bits, mask)
    }

    /// Takes the outcome of a request that still has something to do: it goes on as a freed one.
    #[cold]
    fn take_early(&mut self, request: RequestId) -> Option<Outcome> {
        let found = self.state.requests.get_mut(request)?;
        found.early = false;
        found.released = true;
        found.outcome.take()
    }

    /// Nobody will ask for the request's outcome: it is removed as soon as it has ended (`MPI_Request_free`).
    pub fn release(&mut self, id: RequestId) {
        match self.state.requests.get_mut(id) {
            Some(request) if request.outcome.is_none() => {
                request.released = true;
                if let Work::Both(parts) = request.work {
                    for part in parts.into_iter().flatten() {
                        if let Some(part) = self.state.requests.get_mut(part) {
                            part.released_whole = true;
                        }
                    }
                }
            }
            Some(request) if request.early => drop(self.take_early(id)),
            Some(_) => self.state.requests.discard(id),
            None => {}
        }
    }

    /// Wakes `task` when the request ends.
    pub fn wake_on(&mut self, request: RequestId, task: TaskId) {
        if let Some(request) = self.state.requests.get_mut(request) {
            request.waiter = Some(task);
        }
    }
}

impl EngineState {
    /// See [`Engine::complete`].
    pub(super) fn complete_bare(&mut self, request: RequestId, outcome: Outcome) {
        let found = self.requests.get(request);
        if found.is_some_and(|request| request.work.is_bare()) {
            self.complete(request, outcome);
        }
    }

    /// Ends a request and wakes whatever waits for it.
    pub(super) fn complete(&mut self, id: RequestId, outcome: Outcome) {
        self.happened();
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        let released = request.released;
        let Work::Send(work) = &mut request.work else {
            if let Some(task) = request.end(outcome) {
                self.ready.push(task);
            }
            if released {
                self.requests.discard(id);
            }
            return;
        };
        let slot = work.slot.take();
        let lost = match (&slot, released) {
            // Nobody else will ask.
            (Some(_), true) => outcome.error.as_deref().cloned(),
            _ => None,
        };
        request.outcome = Some(outcome);
        request.early = false;
        if let Some(task) = request.waiter.take() {
            self.ready.push(task);
        }
        if released {
            self.requests.discard(id);
        }
        if let Some(slot) = slot {
            self.give_back(*slot, lost);
        }
    }
}
