//! Sending: what the layers above call. A message is sent at once, if possible (`protocol/eager.rs`), or goes into its
//! peer's queue, from which `queue.rs` feeds the lane; `protocol/rendezvous.rs` then decides which protocol it uses.

use super::matching::Envelope;
use super::peer::{ConnectionState, Outgoing, Payload};
use super::request::{RequestId, SendStage, SendWork, Work};
use super::transmit::Words;
use super::wire::{FLAG_SYNC, MessageKind};
use super::{Engine, EngineState};
use crate::base::error::{Error, Result};
use crate::data::memory::Memory;
use crate::identity::PeerIndex;

/// A message to send, as the objects layer gives it.
pub struct Send {
    /// The receiver.
    pub peer: PeerIndex,
    /// Context, own rank and tag.
    pub envelope: Envelope,
    /// The data.
    pub memory: Memory,
    /// Synchronous mode: ends only once the receive has started.
    pub sync: bool,
}

/// The outcome of an attempt to send at once.
pub enum Tried {
    /// It was sent. The request, if one was asked for, has ended.
    Sent(Option<RequestId>),
    /// It has to wait, and its memory with it.
    NotNow,
}

impl Engine {
    /// Starts a send. `None`: it has ended already, without a request; asked for only where `request` is false.
    ///
    /// # Safety
    /// The memory is valid until the send has ended, and nobody writes to it meanwhile.
    #[inline(always)]
    pub unsafe fn send(&mut self, send: &Send, request: bool) -> Result<Option<RequestId>> {
        // SAFETY: the caller keeps the memory valid, and lets nobody write to it, until the send has ended.
        match unsafe { self.try_send(send, request) } {
            Tried::Sent(id) => Ok(id),
            Tried::NotNow => self.send_queued(send).map(Some),
        }
    }

    /// Any send, through the peer's queue.
    #[inline(never)]
    fn send_queued(&mut self, send: &Send) -> Result<RequestId> {
        let context = send.envelope.context;
        let peer = self.state.peer(send.peer);
        if let ConnectionState::Lost(error) = &peer.link {
            return Err(error.clone());
        }
        self.state.seek(send.peer);
        let id = self.state.requests.insert(
            Work::Send(Box::new(SendWork {
                peer: send.peer,
                envelope: send.envelope,
                memory: send.memory.clone(),
                slot: None,
                sync: send.sync,
                region: None,
                seq: None,
                in_lane: 0,
                stage: SendStage::Queued,
                cancel_asked: false,
                taken_back: false,
                failed: None,
            })),
            context,
        );
        let first = Outgoing {
            // Decided when the message's turn comes: the lane of the peer may not be known yet.
            words: Words {
                kind: MessageKind::EAGER,
                flags: if send.sync { FLAG_SYNC } else { 0 },
                tag: send.envelope.tag,
                context: send.envelope.context.bits(),
                arg: send.envelope.source.into(),
            },
            payload: Payload::OfRequest,
            request: Some(id),
        };
        let peer = self.state.peer(send.peer);
        peer.outbox().push_back(first);
        self.state.list(send.peer);
        // A message that the lane has refused just now is tried again in the next call of progress.
        self.flush_unless_refused(send.peer);
        Ok(id)
    }
}

impl EngineState {
    /// A message has left its memory, delivered or lost: if it was lost, the peer waits in vain for its sequence number,
    /// so no further message can be sent there.
    pub(super) fn message_left(&mut self, to: PeerIndex, request: Option<RequestId>, result: Result<()>) {
        if let Err(error) = &result {
            self.lose(to, error.clone());
        }
        let Some(id) = request else { return };
        if let Some(request) = self.requests.get_mut(id)
            && let Work::Send(work) = &mut request.work
        {
            work.in_lane -= 1;
            if let Err(error) = result
                && work.failed.is_none()
            {
                work.failed = Some(Box::new(error));
            }
            self.end_send(id);
        }
    }

    /// Ends a send with an error: as soon as no lane uses its memory any more.
    pub(super) fn fail_send(&mut self, id: RequestId, error: Error) {
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        let Work::Send(work) = &mut request.work else {
            return;
        };
        if (request.outcome.is_some() && !request.early) || work.failed.is_some() {
            return;
        }
        work.failed = Some(Box::new(error));
        let to = work.peer;
        let region = work.region.take();
        let Some(peer) = self.peers.get_mut(to) else {
            return;
        };
        // A receiver that has asked for data waits for what does not come any more.
        let asked = match work.stage {
            SendStage::Paused { receiver, .. } => Some(receiver),
            _ => peer
                .streams
                .iter()
                .find(|stream| stream.request == id && !stream.pipelined)
                .map(|stream| stream.receiver),
        };
        peer.withdraw(id);
        peer.streams.retain(|stream| stream.request != id);
        let lane = peer.lane;
        if let Some(receiver) = asked {
            self.reply(to, MessageKind::GONE, 0, receiver, &[]);
        }
        self.deregistered.extend(region.map(|region| (lane, region)));
        self.end_send(id);
    }

    /// Ends a send if nothing is missing.
    pub(super) fn end_send(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get(id)
            && request.is_under_way()
            && let Work::Send(work) = &request.work
            && work.has_ended()
        {
            let outcome = work.outcome();
            self.complete(id, outcome);
        }
    }
}
