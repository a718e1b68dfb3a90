//! What is done with a message, by its kind: the engine's own kinds in a table, and messages for layers above, by their context.

use std::pin::Pin;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::matching::Envelope;
use super::peer::{ConnectionState, Payload};
use super::request::{Outcome, RequestId};
use super::wire::{FLAG_CANCELLED, FLAG_PIPELINED, FLAG_SYNC, HEADER_BYTES, Header, MessageKind};
use super::{EAGER_UNDER_BACKPRESSURE, Engine, EngineState};
use crate::base::bytes::RawBytes;
use crate::base::error::{Error, Result};
use crate::err;
use crate::identity::{Context, PeerIndex};

use super::transmit::Words;

/// An operation of several steps that a message begins.
pub type Job = Pin<Box<dyn Future<Output = Result<Outcome>> + Send>>;

/// Handles a message of a peer whose turn it is. `false`: it makes no sense.
type Handler = fn(&mut EngineState, &Header<PeerIndex>, RawBytes) -> bool;

/// The engine's own kinds, by number.
const OWN: [Handler; 14] = [
    |_, _, _| false,
    // Eager
    EngineState::on_user_message,
    // Rts
    EngineState::on_user_message,
    // Cts
    |state, header, payload| state.on_cts(header.src, header.arg, header.context, payload),
    // Data
    |state, header, payload| match header.flags & FLAG_PIPELINED != 0 {
        true => state.on_piece(header, payload),
        false => state.on_data(header, payload),
    },
    // Done
    |state, header, _| state.on_done(header.src, header.arg),
    // Cancel
    EngineState::on_cancel,
    // CancelReply
    |state, header, _| state.on_cancel_reply(header.src, header.arg, header.flags & FLAG_CANCELLED != 0),
    // Ack
    |_, _, payload| payload.is_empty(),
    // Waits
    |state, header, payload| {
        payload.is_empty() && state.on_waits(header.src, Context::of_bits(header.context), header.arg)
    },
    // Gone
    |state, header, _| state.on_gone(header.src, header.arg),
    // Hello
    EngineState::on_hello,
    // Bye
    |state, header, payload| payload.is_empty() && state.on_bye(header.src),
    // Service
    EngineState::on_service,
];
const _: () = assert!(OWN.len() == MessageKind::SERVICE.number() as usize + 1);

/// What a layer above makes of the messages of a context, which are of the kind [`MessageKind::SERVICE`].
pub trait Serve: Send + Sync {
    /// Handles a message; the engine is locked. `false`: the message makes no sense, and the connection to its sender is closed.
    fn message(&self, incoming: &mut Incoming<'_>) -> bool;

    /// A process is lost; the engine is locked.
    fn lost(&self, outlet: &mut Outlet<'_>, peer: PeerIndex);
}

/// Who serves which context, by its bits. `None`: somebody did, and the messages of processes that don't know are ignored.
pub(super) type Services = FxHashMap<u64, Option<Arc<dyn Serve>>>;

/// A message for a layer above.
pub struct Incoming<'a> {
    outlet: Outlet<'a>,
    header: &'a Header<PeerIndex>,
    payload: RawBytes<'a>,
}

/// What a server can do while the engine is locked.
pub struct Outlet<'a>(&'a mut EngineState);

impl<'a> Incoming<'a> {
    /// Who sent it.
    pub fn from(&self) -> PeerIndex {
        self.header.src
    }

    /// The number in its header.
    pub fn arg(&self) -> u64 {
        self.header.arg
    }

    /// What follows the header.
    pub fn payload(&self) -> RawBytes<'a> {
        self.payload
    }

    /// To answer.
    pub fn outlet(&mut self) -> &mut Outlet<'a> {
        &mut self.outlet
    }
}

impl Outlet<'_> {
    /// Sends a message as a process's ordinary send of these bytes does, if it is short enough to be sent eagerly. It is sent in the same
    /// call of progress. `false`: it is too long, and nothing was done.
    pub fn send(&mut self, to: PeerIndex, envelope: Envelope, payload: &[u8]) -> bool {
        let state = &mut *self.0;
        let peer = state.peer(to);
        // Of a peer that is not connected yet nothing is known.
        let eager = match peer.link {
            ConnectionState::Up => peer.eager,
            _ => EAGER_UNDER_BACKPRESSURE,
        };
        if payload.len() > eager {
            return false;
        }
        let words = Words {
            kind: MessageKind::EAGER,
            flags: 0,
            tag: envelope.tag,
            context: envelope.context.bits(),
            arg: envelope.source.into(),
        };
        state.reply_with(to, words, payload);
        true
    }

    /// Runs an operation of several steps, beside all others.
    pub fn begin(&mut self, job: Job) {
        self.0.ready.begin(job);
    }

    /// Notes that something may have changed that a caller waits for.
    pub fn happened(&mut self) {
        self.0.happened();
    }
}

impl Engine {
    /// Passes the messages of a context to a server from now on.
    pub fn serve(&mut self, context: Context, server: Arc<dyn Serve>) {
        self.state.services.insert(context.bits(), Some(server));
    }

    /// Ends that, and returns the server, which the caller drops when the engine is unlocked. Later messages make no sense, or are
    /// `ignored`.
    #[must_use = "it may need the engine when it is dropped"]
    pub fn end_service(&mut self, context: Context, ignored: bool) -> Option<Arc<dyn Serve>> {
        let server = self.state.services.remove(&context.bits())?;
        if ignored {
            self.state.services.insert(context.bits(), None);
        }
        server
    }

    /// Ends all that, when nothing moves any more.
    #[cfg(feature = "sim")]
    pub fn end_services(&mut self) -> Vec<Arc<dyn Serve>> {
        let services = std::mem::take(&mut self.state.services);
        services.into_values().flatten().collect()
    }

    /// For a server that has kept messages.
    pub fn outlet(&mut self) -> Outlet<'_> {
        Outlet(&mut self.state)
    }

    /// Whether a request is of a context that is served.
    pub fn is_of_service(&self, request: RequestId) -> bool {
        let request = self.state.requests.get(request);
        request.is_some_and(|request| self.state.services.contains_key(&request.context.bits()))
    }

    /// The most bytes that [`Engine::post`] sends to any peer.
    pub fn post_max(&self) -> usize {
        self.state.post_max()
    }

    /// Sends a message for whoever serves a context. The payload is taken, and room for the next one left.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` where the payload is longer than one message of any lane; the peer's error where it is lost.
    pub fn post(&mut self, to: PeerIndex, context: Context, arg: u64, payload: &mut Vec<u8>) -> Result<()> {
        let most = self.state.post_max();
        if payload.len() > most {
            return Err(err!(
                Intern,
                "a message of {} bytes is longer than one that every lane carries ({most})",
                payload.len()
            ));
        }
        if let ConnectionState::Lost(error) = &self.state.peer(to).link {
            return Err(error.clone());
        }
        let words = Words {
            kind: MessageKind::SERVICE,
            flags: 0,
            tag: 0,
            context: context.bits(),
            arg,
        };
        if self.send_copied(to, words, payload) {
            payload.clear();
            return Ok(());
        }
        let mut room = self.state.spare.pop().unwrap_or_default();
        room.clear();
        let payload = std::mem::replace(payload, room);
        self.state.queue_reply(to, words, Payload::Owned(payload));
        self.flush_unless_refused(to);
        Ok(())
    }

    /// Notes that something may have changed that a caller waits for.
    pub fn note_event(&mut self) {
        self.state.happened();
    }

    /// Why a process can't be reached any more, if that is known.
    pub fn loss_of(&self, peer: PeerIndex) -> Option<&Error> {
        match &self.state.peers.get(peer)?.link {
            ConnectionState::Lost(error) => Some(error),
            _ => None,
        }
    }
}

impl EngineState {
    /// The peer's lane may not be known yet.
    fn post_max(&self) -> usize {
        let most = self.limits.iter().map(|limits| limits.message).min().unwrap_or(0);
        most.saturating_sub(HEADER_BYTES)
    }

    /// A message from a peer whose turn it is. `false`: it makes no sense.
    #[inline]
    pub(super) fn on_message(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        if header.kind == MessageKind::EAGER && header.flags & FLAG_SYNC == 0 {
            return self.on_eager(header, payload);
        }
        match OWN.get(usize::from(header.kind.number())) {
            Some(handler) => handler(self, header, payload),
            None => false,
        }
    }

    /// Tells all servers of a lost process.
    pub(super) fn tell_servers(&mut self, peer: PeerIndex) {
        let servers: Vec<Arc<dyn Serve>> = self.services.values().flatten().cloned().collect();
        for server in servers {
            server.lost(&mut Outlet(self), peer);
        }
    }

    fn on_service(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        // No server can change the table while the engine is locked.
        let services = std::mem::take(&mut self.services);
        let makes_sense = services.get(&header.context).is_some_and(|server| {
            server.as_ref().is_none_or(|server| {
                server.message(&mut Incoming {
                    outlet: Outlet(self),
                    header,
                    payload,
                })
            })
        });
        self.services = services;
        makes_sense
    }
}
