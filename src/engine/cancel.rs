//! Taking back: cancelled sends and receives, and requests that are given up or can't end any more.

use super::matching::Envelope;
use super::peer::{Link, Outgoing, Payload};
use super::request::{Outcome, ReceiveStage, ReceiveWork, RequestId, SendStage, Work};
use super::wire::{FLAG_CANCELLED, Header, Kind};
use super::{Engine, State};
use crate::err;
use crate::error::Error;
use crate::lane::ProcId;

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
                    if let Some(peer) = state.peers.get_mut(to.0 as usize).and_then(Option::as_mut) {
                        peer.queue.retain(|outgoing| outgoing.request != Some(id));
                    }
                    if let Some(region) = work.region.take() {
                        let lane = state.peers[to.0 as usize].as_ref().map_or(0, |peer| peer.lane);
                        state.withdrawn.push((lane, region));
                    }
                    state.complete(
                        id,
                        Outcome {
                            cancelled: true,
                            ..Outcome::EMPTY
                        },
                    );
                    self.withdraw();
                    return;
                }
                let lost = state.peers[to.0 as usize]
                    .as_ref()
                    .is_none_or(|peer| matches!(peer.link, Link::Lost(_)));
                if lost {
                    return;
                }
                let streaming = work.stage.is_streaming();
                if streaming {
                    let peer = state.peers[to.0 as usize].as_ref();
                    let mut streams = peer.into_iter().flat_map(|peer| &peer.streams);
                    // What is not pushed is on its way because a receive has matched it.
                    if !streams.any(|stream| stream.pushed && stream.request == id) {
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
                    // The receiver is asked behind the last piece.
                    return;
                }
                state.ask_back(id);
                self.flush(to);
                // This process has the answer itself: programs that test once and go on are not told "not yet".
                while to == self.state.me && self.awaits_answer(id) && self.progress(false) {}
            }
            _ => {}
        }
    }

    /// Whether a send in a context that `concerns` is to be taken back, and its receiver has not answered.
    pub fn awaits_answers(&self, concerns: impl Fn(u64) -> bool) -> bool {
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

    /// Gives up a request of an operation that failed: it ends as soon as no lane touches its memory any more, with
    /// an error if it had not ended.
    pub fn abandon(&mut self, id: RequestId) {
        self.give_up(id, err!(Other, "the operation was given up"));
    }

    /// As [`Engine::abandon`], with this error.
    pub(super) fn give_up(&mut self, id: RequestId, error: Error) {
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
                self.withdraw();
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

impl State {
    /// Asks the receiver of a send whether it can be had back.
    pub(super) fn ask_back(&mut self, id: RequestId) {
        let Some(Work::Send(work)) = self.requests.get(id).map(|request| &request.work) else {
            return;
        };
        let Some(seq) = work.seq else { return };
        let (to, envelope) = (work.peer, work.envelope);
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&id.to_u64().to_le_bytes());
        payload[8..12].copy_from_slice(&envelope.source.to_le_bytes());
        self.peer(to).queue.push_back(Outgoing {
            kind: Kind::Cancel,
            flags: 0,
            tag: envelope.tag,
            context: envelope.context,
            arg: seq.into(),
            payload: Payload::short(&payload),
            request: None,
        });
        self.list(to);
    }

    /// A sender wants to take back a message: it gets it if no receive has matched it.
    pub(super) fn on_cancel(&mut self, header: &Header, payload: &[u8]) -> bool {
        let Ok(payload) = <&[u8; 16]>::try_from(payload) else {
            return false;
        };
        let (request, rest) = payload.split_first_chunk::<8>().expect("16 bytes");
        let source = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let envelope = Envelope {
            context: header.context,
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
        self.reply_flagged(
            header.src,
            Kind::CancelReply,
            if cancelled { FLAG_CANCELLED } else { 0 },
            0,
            request,
            &[],
        );
        true
    }

    /// The receiver's answer to a cancel.
    pub(super) fn on_cancel_reply(&mut self, from: ProcId, id: u64, cancelled: bool) -> bool {
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
                let lane = self.peers[from.0 as usize].as_ref().map_or(0, |peer| peer.lane);
                self.withdrawn.push((lane, region));
            }
            work.stage = SendStage::InLane;
            work.taken_back = true;
        }
        self.end_send(id);
        true
    }

    /// Ends with `error` every request that only `peer` could have ended otherwise.
    pub(super) fn fail_requests_of(&mut self, peer: ProcId, error: &Error) {
        let mut failed = Vec::new();
        for (id, request) in self.requests.iter() {
            if !request.is_under_way() {
                continue;
            }
            let concerned = match &request.work {
                // The lane still says what became of a message that it has: the peer may have got it, and only then
                // have gone.
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
