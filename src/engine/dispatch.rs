//! What is done with a message, by its kind: the engine's own kinds in a table, and those that other layers add.

use super::wire::{FLAG_CANCELLED, FLAG_PIPELINED, FLAG_SYNC, Header, MessageKind};
use super::{Engine, EngineState};
use crate::base::bytes::RawBytes;
use crate::identity::{Context, PeerIndex};

/// Handles a message whose turn it is. `false`: it makes no sense.
type Handler = fn(&mut EngineState, &Header, RawBytes) -> bool;

/// The engine's own kinds, by number.
const OWN: [Handler; 10] = [
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
];
const _: () = assert!(OWN.len() == MessageKind::WAITS.number() as usize + 1);

/// What a layer above does with messages of a kind of its own. `false`: the message makes no sense, and the connection to
/// its sender is closed.
pub type Added = Box<dyn FnMut(&mut Incoming<'_>) -> bool + Send>;

/// The kinds that other layers have added.
#[derive(Default)]
pub(super) struct AddedKinds(Vec<(MessageKind, Added)>);

/// A message for a layer above.
pub struct Incoming<'a> {
    state: &'a mut EngineState,
    header: &'a Header,
    payload: RawBytes<'a>,
}

impl Incoming<'_> {
    /// Who sent it.
    pub fn from(&self) -> PeerIndex {
        self.header.src
    }

    /// Its header's tag and two numbers.
    pub fn words(&self) -> (i32, u64, u64) {
        (self.header.tag, self.header.context, self.header.arg)
    }

    /// What follows the header.
    pub fn payload(&self) -> RawBytes<'_> {
        self.payload
    }

    /// Answers with a message of a kind that its sender knows: two numbers, and few bytes. It is sent in the same call of
    /// progress that has delivered this one.
    pub fn reply(&mut self, kind: MessageKind, (context, arg): (u64, u64), payload: &[u8]) {
        let to = self.from();
        self.state.reply(to, kind, context, arg, payload);
    }
}

impl Engine {
    /// Passes messages of a kind to `handler` from now on. The kind is one of [`MessageKind::added`].
    pub fn handle(&mut self, kind: MessageKind, handler: Added) {
        debug_assert!(kind.number() as usize >= OWN.len());
        self.state.added.0.retain(|(known, _)| *known != kind);
        self.state.added.0.push((kind, handler));
    }

    /// Sends a message of a kind that a layer above has added: tag, two numbers, and few bytes.
    pub fn post(&mut self, to: PeerIndex, kind: MessageKind, (context, arg): (u64, u64), payload: &[u8]) {
        self.state.reply(to, kind, context, arg, payload);
        self.flush(to);
    }
}

impl EngineState {
    /// A message from a peer whose turn it is. `false`: it makes no sense.
    #[inline]
    pub(super) fn on_message(&mut self, header: &Header, payload: RawBytes) -> bool {
        if header.kind == MessageKind::EAGER && header.flags & FLAG_SYNC == 0 {
            return self.on_eager(header, payload);
        }
        match OWN.get(usize::from(header.kind.number())) {
            Some(handler) => handler(self, header, payload),
            None => self.on_added(header, payload),
        }
    }

    #[cold]
    fn on_added(&mut self, header: &Header, payload: RawBytes) -> bool {
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
