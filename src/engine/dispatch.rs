//! What is done with a message, by its kind: the engine's own kinds in a table, and messages for layers above, by their context.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use super::matching::Envelope;
use super::peer::{ConnectionState, Payload};
use super::request::{Outcome, RequestId, SendStage, SendWork, Work};
use super::wire::{
    FLAG_CANCELLED, FLAG_COLLECTIVE, FLAG_FOLLOWED, FLAG_PIPELINED, FLAG_SYNC, HEADER_BYTES, Header,
    MessageKind,
};
use super::{EAGER_UNDER_BACKPRESSURE, Engine, EngineState, Operation};
use crate::base::bytes::RawBytes;
use crate::base::error::{Error, Result};
use crate::data::memory::Memory;
use crate::data::pieces::Piece;
use crate::err;
use crate::identity::{Context, PeerIndex};
use crate::lane::{LONGER_BY, Limits, Sent};
use crate::system::shared_memory::Map;

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

    /// Another process has rung the bell ([`Engine::watch_bell`]); the engine is locked. `false`: it wants nothing.
    fn rung(&self) -> bool {
        false
    }

    /// A process is lost; the engine is locked.
    fn lost(&self, outlet: &mut Outlet<'_>, peer: PeerIndex);
}

/// Who serves which context, by its bits. `None`: somebody did, and the messages of processes that don't know are ignored.
pub(super) type Services = FxHashMap<u64, Option<Arc<dyn Serve>>>;

/// Words in shared memory, of which one is not zero when another process wants something of a server. Nobody is woken for it.
pub(super) struct Bell {
    context: u64,
    map: Arc<Map>,
    /// Where its words begin.
    at: usize,
    words: usize,
    server: Arc<dyn Serve>,
}

impl Bell {
    /// Lets the server do what others want. `false`: nothing.
    #[inline]
    pub(super) fn look(&self) -> bool {
        let rings = |word| self.map.u64(self.at + word * 8).load(Ordering::Relaxed) != 0;
        (0..self.words).any(rings) && self.server.rung()
    }
}

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

/// An ordinary message without contents that comes behind one for who serves a context, and with it: both take one message of the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behind {
    /// Its tag.
    pub tag: i32,
    /// Whether it is one of a collective operation.
    pub collective: bool,
}

/// What the header of a message for who serves a context says.
fn words_of_service(context: Context, arg: u64, behind: Option<Behind>) -> Words {
    let flags = match behind {
        None => 0,
        Some(Behind {
            collective: false, ..
        }) => FLAG_FOLLOWED,
        Some(Behind { collective: true, .. }) => FLAG_FOLLOWED | FLAG_COLLECTIVE,
    };
    Words {
        kind: MessageKind::SERVICE,
        flags,
        tag: behind.map_or(0, |behind| behind.tag),
        context: context.bits(),
        arg,
    }
}

/// The header of the message that comes behind one for who serves a context.
fn behind(header: &Header<PeerIndex>) -> Header<PeerIndex> {
    let context = Context::of_bits(header.context);
    let context = match header.flags & FLAG_COLLECTIVE {
        0 => context,
        _ => context.collective(),
    };
    Header {
        kind: MessageKind::EAGER,
        flags: 0,
        context: context.bits(),
        arg: u64::from(header.arg as u32),
        ..*header
    }
}

impl Engine {
    /// Passes the messages of a context to a server from now on.
    pub fn serve(&mut self, context: Context, server: Arc<dyn Serve>) {
        self.state.services.insert(context.bits(), Some(server));
    }

    /// From now on looks in each call of progress at some words from an offset on, for who serves a context.
    pub fn watch_bell(&mut self, context: Context, map: Arc<Map>, at: usize, words: usize) {
        let context = context.bits();
        if let Some(Some(server)) = self.state.services.get(&context) {
            let server = server.clone();
            self.state.bells.push(Bell {
                context,
                map,
                at,
                words,
                server,
            });
        }
    }

    /// Ends that, and returns the server, which the caller drops when the engine is unlocked. Later messages make no sense, or are
    /// `ignored`.
    #[must_use = "it may need the engine when it is dropped"]
    pub fn end_service(&mut self, context: Context, ignored: bool) -> Option<Arc<dyn Serve>> {
        let server = self.state.services.remove(&context.bits())?;
        self.state.bells.retain(|bell| bell.context != context.bits());
        if ignored {
            self.state.services.insert(context.bits(), None);
        }
        server
    }

    /// Ends all that, when nothing moves any more.
    #[cfg(feature = "sim")]
    pub fn end_services(&mut self) -> Vec<Arc<dyn Serve>> {
        let services = std::mem::take(&mut self.state.services);
        self.state.bells.clear();
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

    /// The most bytes that [`Engine::post`] sends to any peer, whatever its lane.
    pub fn post_max(&self) -> usize {
        self.state.post_max()
    }

    /// Sends a message for whoever serves a context. The payload is taken, and room for the next one left. If it can go at once, the message `behind` it goes
    /// with it, from the rank in the low half of `arg`. Returns whether that is so: otherwise the caller sends it next, and can wait for its end.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` where the payload is longer than one message of its lane, or of any if it is not connected; the peer's error where it is
    /// lost.
    pub fn post(
        &mut self,
        to: PeerIndex,
        context: Context,
        arg: u64,
        payload: &mut Vec<u8>,
        behind: Option<Behind>,
    ) -> Result<bool> {
        if let ConnectionState::Lost(error) = &self.state.peer(to).link {
            return Err(error.clone());
        }
        let most = match self.state.limits_of(to) {
            Some(limits) => limits.message - HEADER_BYTES,
            None => self.state.post_max(),
        };
        if payload.len() > most {
            return Err(err!(
                Intern,
                "a message of {} bytes is longer than one that its lane carries ({most})",
                payload.len()
            ));
        }
        let words = words_of_service(context, arg, behind);
        if self.send_copied(to, words, payload) {
            payload.clear();
            return Ok(behind.is_some());
        }
        let words = words_of_service(context, arg, None);
        let mut room = self.state.spare.pop().unwrap_or_default();
        room.clear();
        let payload = std::mem::replace(payload, room);
        self.state.queue_reply(to, words, Payload::Owned(payload));
        self.flush_unless_refused(to);
        Ok(false)
    }

    /// The most bytes of memory that [`Engine::post_from`] sends to a peer, or [`Engine::post`] with [`LONGER_BY`] others; 0: its lane can't do
    /// the former. `None`: it is not connected yet.
    pub fn post_from_max(&self, to: PeerIndex) -> Option<usize> {
        let limits = self.state.limits_of(to)?;
        let most = limits.message.saturating_sub(HEADER_BYTES + LONGER_BY);
        Some(if limits.header < HEADER_BYTES + LONGER_BY {
            0
        } else {
            most
        })
    }

    /// Whether memory that is sent to a peer is used no more once the peer has all of it: [`Limits::ends_with_receipt`]. `None`: it is not
    /// connected yet.
    pub fn ends_with_receipt(&self, peer: PeerIndex) -> Option<bool> {
        self.state.limits_of(peer).map(|limits| limits.ends_with_receipt)
    }

    /// As [`Engine::post`], of up to [`LONGER_BY`] bytes, and others behind them that are sent from where they are. `None`: that can't be
    /// done now, or the lane would copy them, and nothing was done. Otherwise the request of the send, if it has not ended.
    ///
    /// # Safety
    /// The memory is valid until the send has ended, and nobody writes to it meanwhile.
    pub unsafe fn post_from(
        &mut self,
        to: PeerIndex,
        context: Context,
        arg: u64,
        head: &[u8],
        memory: Piece,
    ) -> Option<Option<RequestId>> {
        let Engine { lanes, state, .. } = self;
        let peer = state.peers.get_mut(to)?;
        if !peer.is_clear() || peer.at_once == 0 {
            return None;
        }
        let limits = &state.limits[peer.lane];
        let len = HEADER_BYTES + head.len() + memory.len;
        if len <= limits.buffered || len > limits.message || HEADER_BYTES + head.len() > limits.header {
            return None;
        }
        let words = words_of_service(context, arg, None);
        let header = peer.header(state.name.rank, words);
        let mut first = [0; HEADER_BYTES + LONGER_BY];
        let first = first.get_mut(..HEADER_BYTES + head.len())?;
        first[..HEADER_BYTES].copy_from_slice(&header.encode());
        first[HEADER_BYTES..].copy_from_slice(head);
        let work = SendWork {
            peer: to,
            envelope: Envelope {
                context,
                source: state.name.rank,
                tag: 0,
            },
            memory: Memory::Contiguous(memory),
            slot: None,
            sync: false,
            region: None,
            seq: Some(header.seq),
            in_lane: 1,
            stage: SendStage::InLane,
            cancel_asked: false,
            taken_back: false,
            failed: None,
        };
        let request = state.requests.insert(Work::Send(Box::new(work)), context);
        let token = state.operations.insert(Operation::Message {
            peer: to,
            request: Some(request),
            ack: false,
            owned: None,
        });
        // SAFETY: the caller keeps the memory as it has to be until the request has ended, which it does when the lane has completed the token.
        let sent = unsafe { lanes[peer.lane].send(to, first, memory, token.into()) };
        if sent == Ok(Sent::Pending) {
            peer.went();
            return Some(Some(request));
        }
        state.operations.remove(token);
        state.requests.discard(request);
        match sent {
            Ok(Sent::Again) => peer.at_once = 0,
            Ok(_) => {
                peer.went();
                return Some(None);
            }
            Err(error) => self.lose(to, error),
        }
        None
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
    /// The limits of a connected peer's lane.
    fn limits_of(&self, peer: PeerIndex) -> Option<&Limits> {
        let peer = self.peers.get(peer)?;
        matches!(peer.link, ConnectionState::Up).then(|| &self.limits[peer.lane])
    }

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
        let served = services.get(&header.context);
        let makes_sense = served.is_some_and(|server| {
            server.as_ref().is_none_or(|server| {
                server.message(&mut Incoming {
                    outlet: Outlet(self),
                    header,
                    payload,
                })
            })
        });
        let is_served = served.is_some_and(Option::is_some);
        self.services = services;
        match makes_sense && is_served && header.flags & FLAG_FOLLOWED != 0 {
            true => self.on_eager(&behind(header), RawBytes::from(&[][..])),
            false => makes_sense,
        }
    }
}
