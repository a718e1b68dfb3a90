//! Cancelling: sends and receives that are taken back, and requests that are abandoned or can no longer end.

use crate::base::bytes::RawBytes;
use crate::base::error::Error;
use crate::engine::matching::Envelope;
use crate::engine::peer::{ConnectionState, Outgoing, Payload};
use crate::engine::request::{Outcome, ReceiveStage, ReceiveWork, RequestId, SendStage, Work};
use crate::engine::transmit::Words;
use crate::engine::wire::{FLAG_CANCELLED, Header, MessageKind};
use crate::engine::{Engine, EngineState};
use crate::err;
use crate::identity::{Context, PeerIndex};

impl Engine {
    /// Asks for the end of a request (MPI 5.0 section 3.8.4). It ends in any case, cancelled or not.
    pub fn cancel(&mut self, id: RequestId) {
        let state = &mut self.state;
        let Some(request) = state.requests.get_mut(id) else {
            return;
        };
        if let Work::Sent(sent) = &request.work {
            request.work = Work::Send(sent.as_send());
        }
        match &mut request.work {
            Work::Receive(ReceiveWork {
                stage: ReceiveStage::Posted { id: place, .. },
                ..
            }) => {
                let place = *place;
                state.posted.remove(place);
                state.complete(
                    id,
                    Outcome {
                        cancelled: true,
                        ..Outcome::EMPTY
                    },
                );
            }
            Work::Send(work) if !work.cancel_asked && !work.taken_back && work.failed.is_none() => {
                let to = work.peer;
                if work.stage == SendStage::Queued && work.seq.is_none() {
                    work.taken_back = true;
                    if let Some(peer) = state.peers.get_mut(to) {
                        peer.withdraw(id);
                    }
                    if let Some(region) = work.region.take() {
                        let lane = state.peers.get(to).map_or(0, |peer| peer.lane);
                        state.deregistered.push((lane, region));
                    }
                    state.complete(
                        id,
                        Outcome {
                            cancelled: true,
                            ..Outcome::EMPTY
                        },
                    );
                    self.deregister();
                    return;
                }
                let lost = state
                    .peers
                    .get(to)
                    .is_none_or(|peer| matches!(peer.link, ConnectionState::Lost(_)) || peer.has_said_bye());
                if lost {
                    return;
                }
                let streaming = work.stage.is_streaming();
                if streaming {
                    let peer = state.peers.get(to);
                    let mut streams = peer.into_iter().flat_map(|peer| &peer.streams);
                    // A message that is not pipelined is on its way only because a receive has matched it.
                    if !streams.any(|stream| stream.pipelined && stream.request == id) {
                        return;
                    }
                }
                if work.seq.is_none() {
                    return;
                }
                work.cancel_asked = true;
                request.outcome = None;
                request.early = false;
                if streaming {
                    // The receiver is asked after the last piece.
                    return;
                }
                state.ask_back(id);
                self.flush_unless_refused(to);
                // This process has the answer itself, so a program that tests only once sees the result at once.
                while to == self.state.me && self.awaits_answer(id) && self.progress(false) {}
            }
            _ => {}
        }
    }

    /// Whether a send in a context that `concerns` was cancelled and its receiver has not answered.
    pub fn awaits_answers(&self, concerns: impl Fn(Context) -> bool) -> bool {
        self.state.requests.iter().any(|(_, request)| {
            // Where the receiver is lost the send has failed, and no answer comes.
            request.is_under_way()
                && matches!(&request.work, Work::Send(work) if work.cancel_asked && concerns(work.envelope.context))
        })
    }

    /// Whether the receiver of a send has been asked to give it back and has not answered.
    fn awaits_answer(&self, id: RequestId) -> bool {
        let work = self.state.requests.get(id).map(|request| &request.work);
        matches!(work, Some(Work::Send(work)) if work.cancel_asked)
    }

    /// Abandons a request of an operation that failed: it ends as soon as no lane touches its memory any more, with
    /// an error if it had not ended.
    pub fn abandon(&mut self, id: RequestId) {
        self.give_up(id, err!(Other, "the operation was given up"));
    }

    /// As [`Engine::abandon`], with this error.
    pub(in crate::engine) fn give_up(&mut self, id: RequestId, error: Error) {
        let state = &mut self.state;
        let Some(request) = state.requests.get_mut(id) else {
            return;
        };
        if request.outcome.is_some() {
            return;
        }
        match &mut request.work {
            Work::Send(_) => {
                state.fail_send(id, error);
                self.deregister();
            }
            Work::Receive(work) => match &work.stage {
                ReceiveStage::Posted { id: place, .. } => {
                    let place = *place;
                    state.posted.remove(place);
                    state.complete(id, Outcome::failed(error));
                }
                ReceiveStage::Fetching(fetch) => {
                    let waiting = state.reads.iter().position(|&read| read == id);
                    if fetch.key.is_none() || waiting.is_some() {
                        waiting.map(|at| state.reads.remove(at));
                        state.complete(id, Outcome::failed(error));
                    }
                    // A read under way ends through its lane.
                }
            },
            Work::None | Work::Collective(_) | Work::Both(_) | Work::Sent(_) => {}
        }
    }
}

impl EngineState {
    /// Asks the receiver of a send whether the message can be taken back.
    pub(in crate::engine) fn ask_back(&mut self, id: RequestId) {
        let Some(Work::Send(work)) = self.requests.get(id).map(|request| &request.work) else {
            return;
        };
        let Some(seq) = work.seq else { return };
        let (to, envelope) = (work.peer, work.envelope);
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&id.to_u64().to_le_bytes());
        payload[8..12].copy_from_slice(&envelope.source.to_le_bytes());
        self.peer(to).queue.push_back(Outgoing {
            words: Words {
                kind: MessageKind::CANCEL,
                flags: 0,
                tag: envelope.tag,
                context: envelope.context.bits(),
                arg: seq.into(),
            },
            payload: Payload::short(&payload),
            request: None,
        });
        self.list(to);
    }

    /// A sender cancels a message: that succeeds if no receive has matched it.
    pub(in crate::engine) fn on_cancel(&mut self, header: &Header<PeerIndex>, payload: RawBytes) -> bool {
        let Some(payload) = payload.array::<16>() else {
            return false;
        };
        let (request, rest) = payload.split_first_chunk::<8>().expect("16 bytes");
        let source = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let envelope = Envelope {
            context: Context::of_bits(header.context),
            source,
            tag: header.tag,
        };
        let found = (self.unexpected).find_exact(&envelope, |message| message.is(header.src, header.arg));
        let found = found.map(|id| self.unkeep(id));
        let cancelled = found.is_some();
        if let Some((_, message)) = found {
            self.forget(message);
        }
        let request = u64::from_le_bytes(*request);
        let reply = Words {
            kind: MessageKind::CANCEL_REPLY,
            flags: if cancelled { FLAG_CANCELLED } else { 0 },
            tag: 0,
            context: 0,
            arg: request,
        };
        self.reply_with(header.src, reply, &[]);
        true
    }

    /// Handles the receiver's answer to a cancel.
    pub(in crate::engine) fn on_cancel_reply(&mut self, from: PeerIndex, id: u64, cancelled: bool) -> bool {
        let id = RequestId::from_u64(id);
        let Some(request) = self.requests.get_mut(id) else {
            return true;
        };
        let Work::Send(work) = &mut request.work else {
            return false;
        };
        if work.failed.is_some() {
            return true;
        }
        if work.peer != from || !work.cancel_asked || (cancelled && work.stage.is_streaming()) {
            return false;
        }
        work.cancel_asked = false;
        if cancelled {
            if let Some(region) = work.region.take() {
                let lane = self.peers.get(from).map_or(0, |peer| peer.lane);
                self.deregistered.push((lane, region));
            }
            work.stage = SendStage::InLane;
            work.taken_back = true;
        }
        self.end_send(id);
        true
    }

    /// Ends with `error` every request that only `peer` could have ended otherwise.
    pub(in crate::engine) fn fail_requests_of(&mut self, peer: PeerIndex, error: &Error) {
        let mut failed = Vec::new();
        for (id, request) in self.requests.iter() {
            if !request.is_under_way() {
                continue;
            }
            let concerned = match &request.work {
                // The lane still reports the outcome of a message that it has: the peer may have received it before it
                // was lost.
                Work::Send(work) => {
                    work.peer == peer && (work.stage != SendStage::InLane || work.cancel_asked)
                }
                Work::Receive(ReceiveWork {
                    stage: ReceiveStage::Posted { peer: source, .. },
                    ..
                }) => *source == Some(peer),
                // A read under way ends through its lane.
                Work::Receive(ReceiveWork {
                    stage: ReceiveStage::Fetching(fetch),
                    ..
                }) => fetch.peer == peer && (fetch.key.is_none() || self.reads.contains(&id)),
                Work::None | Work::Collective(_) | Work::Both(_) | Work::Sent(_) => false,
            };
            if concerned {
                failed.push(id);
            }
        }
        for id in failed {
            let Some(request) = self.requests.get(id) else {
                continue;
            };
            match &request.work {
                Work::Send(_) => self.fail_send(id, error.clone()),
                Work::Receive(work) => {
                    if let ReceiveStage::Posted { id: place, .. } = &work.stage {
                        self.posted.remove(*place);
                    }
                    self.complete(id, Outcome::failed(error.clone()));
                }
                Work::None | Work::Collective(_) | Work::Both(_) | Work::Sent(_) => {}
            }
        }
    }
}
