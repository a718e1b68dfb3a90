//! Messages that no receive has matched yet, and how their senders are kept from sending too many.

use super::EngineState;
use super::matching::{Envelope, MessageId};
use super::peer::Peer;
use super::receive::Message;
use crate::identity::PeerIndex;

impl EngineState {
    /// Keeps a message for a receive to come.
    pub(super) fn keep(&mut self, envelope: Envelope, message: Message) {
        let (from, bytes) = (message.from(), message.held_bytes());
        self.unexpected.push(envelope, message);
        self.happened();
        let most = self.unexpected_max;
        let flow = &mut self.peer(from).flow;
        flow.held_bytes += bytes;
        if flow.held_bytes > most && !flow.asks_backpressure {
            self.ask_backpressure(from, true);
        }
    }

    /// Asks a peer to send no more eagerly, or to do so again.
    #[cold]
    pub(super) fn ask_backpressure(&mut self, peer: PeerIndex, on: bool) {
        self.peer(peer).flow.asks_backpressure = on;
        if peer == self.me {
            self.limit_eager(peer, 0, on);
        } else {
            self.owe(peer);
        }
    }

    /// Takes out a message that was kept.
    pub(super) fn unkeep(&mut self, found: MessageId) -> (Envelope, Message) {
        let (envelope, message) = self.unexpected.take(found);
        let most = self.unexpected_max;
        let (from, bytes) = (message.from(), message.held_bytes());
        if let Some(Peer { flow, .. }) = self.peers.get_mut(from) {
            // A process of another job that came back counts from zero again, and messages of its last conversation may still be here.
            flow.held_bytes = flow.held_bytes.saturating_sub(bytes);
            // Not at once: otherwise a program near the limit would send the peer a notice with every message.
            if flow.asks_backpressure && flow.held_bytes <= most / 2 {
                self.ask_backpressure(from, false);
            }
        }
        (envelope, message)
    }
}
