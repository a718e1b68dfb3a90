//! What is done with a message, by its kind: the engine's own kinds in a table, and those that other layers add.

use super::peer::ConnectionState;
use super::request::{Outcome, RequestId};
use super::wire::{
    FLAG_BACKPRESSURE, FLAG_CANCELLED, FLAG_PIPELINED, FLAG_SYNC, HEADER_BYTES, Header, MessageKind,
};
use super::{Engine, EngineState};
use crate::base::bytes::RawBytes;
use crate::base::error::Result;
use crate::err;
use crate::identity::{Context, PeerIndex};

pub use super::transmit::Words;

/// Handles a message of a peer whose turn it is. `false`: it makes no sense.
type Handler = fn(&mut EngineState, &Header<PeerIndex>, RawBytes) -> bool;

/// The engine's own kinds, by number.
const OWN: [Handler; 13] = [
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
];
const _: () = assert!(OWN.len() == MessageKind::BYE.number() as usize + 1);

/// What a layer above does with messages of a kind of its own. `false`: the message makes no sense, and the connection to
/// its sender is closed.
pub type Added = Box<dyn FnMut(&mut Incoming<'_>) -> bool + Send>;

/// The kinds that other layers have added.
#[derive(Default)]
pub(super) struct AddedKinds(Vec<(MessageKind, Added)>);

/// A message for a layer above.
pub struct Incoming<'a> {
    state: &'a mut EngineState,
    header: &'a Header<PeerIndex>,
    payload: RawBytes<'a>,
}

impl Incoming<'_> {
    /// Who sent it.
    pub fn from(&self) -> PeerIndex {
        self.header.src
    }

    /// The contents of its header.
    pub fn words(&self) -> Words {
        Words {
            kind: self.header.kind,
            flags: self.header.flags & !FLAG_BACKPRESSURE,
            tag: self.header.tag,
            context: self.header.context,
            arg: self.header.arg,
        }
    }

    /// What follows the header.
    pub fn payload(&self) -> RawBytes<'_> {
        self.payload
    }

    /// Answers with a message of a kind that its sender knows. It is sent in the same call of progress.
    ///
    /// # Errors
    /// As for [`Engine::post`].
    pub fn reply(&mut self, words: Words, payload: &[u8]) -> Result<()> {
        self.state.post_added(self.header.src, words, payload)
    }

    /// Ends a request of [`Engine::bare_request`].
    pub fn complete(&mut self, request: RequestId, outcome: Outcome) {
        self.state.complete_bare(request, outcome);
    }
}

impl Engine {
    /// Passes messages of a kind to `handler` from now on. The kind is one of [`MessageKind::added`].
    pub fn handle(&mut self, kind: MessageKind, handler: Added) {
        debug_assert!(kind.is_added());
        self.state.added.0.retain(|(known, _)| *known != kind);
        self.state.added.0.push((kind, handler));
    }

    /// Sends a message of a kind that a layer above has added. The payload is copied.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` where the payload is longer than one message of any lane; the peer's error where it is lost.
    pub fn post(&mut self, to: PeerIndex, words: Words, payload: &[u8]) -> Result<()> {
        self.state.post_added(to, words, payload)?;
        self.flush_unless_refused(to);
        Ok(())
    }
}

impl EngineState {
    fn post_added(&mut self, to: PeerIndex, words: Words, payload: &[u8]) -> Result<()> {
        debug_assert!(words.kind.is_added() && words.flags & FLAG_BACKPRESSURE == 0);
        // The peer's lane may not be known yet.
        let most = self.limits.iter().map(|limits| limits.message).min().unwrap_or(0);
        if HEADER_BYTES + payload.len() > most {
            return Err(err!(
                Intern,
                "a message of {} bytes is longer than one that every lane carries ({most})",
                HEADER_BYTES + payload.len()
            ));
        }
        if let ConnectionState::Lost(error) = &self.peer(to).link {
            return Err(error.clone());
        }
        self.reply_with(to, words, payload);
        Ok(())
    }

    /// A message from a peer whose turn it is. `false`: it makes no sense.
    #[inline]
    pub(super) fn on_message(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        if header.kind == MessageKind::EAGER && header.flags & FLAG_SYNC == 0 {
            return self.on_eager(header, payload);
        }
        match OWN.get(usize::from(header.kind.number())) {
            Some(handler) => handler(self, header, payload),
            None => self.on_added(header, payload),
        }
    }

    #[cold]
    fn on_added(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        // Taken out, so that a handler can use the state.
        let mut added = std::mem::take(&mut self.added);
        let handler = added.0.iter_mut().find(|(kind, _)| *kind == header.kind);
        let makes_sense = handler.is_some_and(|(_, handler)| {
            handler(&mut Incoming {
                state: self,
                header,
                payload,
            })
        });
        self.added = added;
        makes_sense
    }
}
