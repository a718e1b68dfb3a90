//! What is pending, in words: for reports of hangs, and for those of the simulator.

use std::fmt::{self, Write};

use super::Engine;
use super::matching::{Envelope, Pattern, Posted};
use super::mismatch::Step;
use super::peer::{ConnectionState, Peer};
use super::request::{Fetch, ReceiveStage, Request, RequestId, SendStage, SendWork, Work};
use crate::identity::{Context, PeerIndex};

/// The number of items of each kind that are listed.
const LISTED_MAX: usize = 20;

/// The name of the messages of a context for people.
pub struct Called {
    /// The communicator's name, or what else they are for.
    pub name: String,
    /// Whether they are the library's own: for example, a step of a collective operation.
    pub own: bool,
}

/// Returns the name for people of the messages of a context and a tag.
pub type Names<'a> = &'a dyn Fn(Context, Option<i32>) -> Called;

/// The same, owned.
pub type OwnNames = Box<dyn Fn(Context, Option<i32>) -> Called>;

/// The bare number, where no names are known: in tests.
pub fn bare(context: Context, _: Option<i32>) -> Called {
    Called {
        name: format!("context {:#x}", context.bits()),
        own: false,
    }
}

impl Engine {
    /// What this process waits for, one item a line. Ends without a newline.
    #[cfg(feature = "sim")]
    pub fn describe(&self, names: Names) -> String {
        let mut lines = vec![format!("process {}:", self.state.me.number())];
        lines.extend(self.pending(names, |_| false));
        lines.join("\n  ")
    }

    /// What is under way or has come and was not taken, a line for each item, except for the communicators whose contexts
    /// `spare` selects. The last lines may say that more was left out.
    pub fn pending(&self, names: Names, spare: impl Fn(Context) -> bool) -> Vec<String> {
        let state = &self.state;
        let requests = state.requests.iter().map(|(_, request)| request);
        let open =
            requests.filter(|request| request.outcome.is_none() && !context(request).is_some_and(&spare));
        let mut lines = listed(open.map(|request| self.words(request, names)), "requests");
        // A process may wait several times for the same thing.
        lines.dedup();
        lines.extend(listed(self.untaken(names, spare).into_iter(), "messages"));
        lines.extend(state.peers.iter().filter_map(|(id, peer)| {
            let place = self.lanes.get(peer.lane);
            peer.describe(id, place.and_then(|lane| lane.place(id)))
        }));
        let waiting = state.accesses.len();
        if waiting != 0 {
            let operations = count(waiting as u64, "operation");
            lines.push(format!(
                "{operations} on remote memory: their lanes have not taken them"
            ));
        }
        if state.unauthenticated != 0 {
            let unauthenticated = state.unauthenticated;
            lines.push(format!(
                "{unauthenticated} messages that were not for this process or made no sense"
            ));
        }
        for lane in self.lanes.iter().filter(|lane| !lane.is_drained()) {
            lines.push(format!(
                "lane {}: messages or reads have not completed",
                lane.name()
            ));
        }
        lines
    }

    /// The messages that no receive has taken, a line for each, without those of the communicators whose contexts `spare`
    /// selects.
    pub fn untaken(&self, names: Names, spare: impl Fn(Context) -> bool) -> Vec<String> {
        let messages = self.state.unexpected.iter();
        let messages = messages.filter(|(envelope, _)| !spare(envelope.context));
        let described = messages.map(|(envelope, message)| {
            let Called { name, own } = names(envelope.context, Some(envelope.tag));
            let (source, tag) = (envelope.source, envelope.tag);
            match own {
                true => format!("rank {source} has begun {name}"),
                false => {
                    let bytes = count(message.len(), "byte");
                    format!(
                        "message of {bytes} from rank {source}, tag {tag}, on {name}: no receive has taken it"
                    )
                }
            }
        });
        described.collect()
    }

    /// The requests that the user holds, ended or not, a line for each, without those of the communicators whose contexts
    /// `spare` selects.
    pub fn held_requests(&self, names: Names, spare: impl Fn(Context) -> bool) -> Vec<String> {
        let requests = self.state.requests.iter().map(|(_, request)| request);
        let held = requests.filter(|request| !request.is_freed() && !spare(request.context));
        held.map(|request| self.words(request, names)).collect()
    }

    fn words(&self, request: &Request, names: Names) -> String {
        Described {
            request,
            posted: &self.state.posted,
            names,
        }
        .to_string()
    }

    /// From which rank a receive of a context and a tag waits for a message, if there is such a receive.
    pub fn awaited_in(&self, context: Context, tag: i32) -> Option<u32> {
        self.state
            .posted
            .iter()
            .filter(|(pattern, _)| pattern.context == context && pattern.tag == Some(tag))
            .find_map(|(pattern, _)| pattern.source)
    }

    /// The envelopes of the messages that no receive has taken, in no order.
    pub fn unexpected(&self) -> impl Iterator<Item = Envelope> {
        self.state.unexpected.iter().map(|(envelope, _)| *envelope)
    }

    /// Whether nothing at all is left: no request, ended or not, no message, nothing to send, nothing that a lane waits
    /// for.
    #[cfg(feature = "sim")]
    pub fn is_empty(&self) -> bool {
        self.has_said_all()
            && self.state.operations.is_empty()
            && self.lanes.iter().all(|lane| lane.is_drained())
    }

    /// The processes of other jobs of which anything is kept.
    #[cfg(feature = "sim")]
    pub fn kept_of_other_jobs(&self) -> Vec<PeerIndex> {
        let state = &self.state;
        let peers = state.peers.iter().map(|(peer, _)| peer);
        peers
            .chain(state.numberings.peers())
            .filter(|peer| peer.rank_in(state.size).is_none())
            .collect()
    }

    /// Whether no request is left, ended or not, no message and nothing to send. Lanes may still have to report that what
    /// they sent is gone.
    #[cfg(feature = "sim")]
    pub fn has_said_all(&self) -> bool {
        let state = &self.state;
        state.requests.is_empty()
            && state.posted.is_empty()
            && state.unexpected.is_empty()
            && state.reads.is_empty()
            && state.accesses.is_empty()
            && state.deregistered.is_empty()
            && state.watched.is_empty()
            && state.peers.iter().all(|(_, peer)| !peer.has_messages())
    }

    /// Whether something has to be tried again without anything arriving first: messages that a lane did not take,
    /// cards that are being looked up.
    #[cfg(feature = "sim")]
    pub fn has_backlog(&self) -> bool {
        let state = &self.state;
        !(state.sending.is_empty()
            && state.reads.is_empty()
            && state.accesses.is_empty()
            && state.wanted.is_empty()
            && state.deregistered.is_empty()
            && !state.has_reached_words())
    }
}

/// The first of them, and how many more there are.
pub fn listed(mut all: impl Iterator<Item = String>, what: &str) -> Vec<String> {
    let mut lines: Vec<String> = all.by_ref().take(LISTED_MAX).collect();
    let more = all.count();
    if more > 0 {
        lines.push(format!("and {more} more {what}"));
    }
    lines
}

/// "1 byte", "2 bytes".
fn count(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// The context of a send's or receive's messages.
fn context(request: &Request) -> Option<Context> {
    match &request.work {
        Work::Send(work) => Some(work.envelope.context),
        Work::Sent(work) => Some(work.envelope.context),
        Work::Receive(work) => Some(match &work.stage {
            ReceiveStage::Posted { .. } => request.context,
            ReceiveStage::Fetching(fetch) => fetch.envelope.context,
        }),
        Work::None | Work::Collective(_) | Work::Both(_) => None,
    }
}

impl Peer {
    fn describe(&self, number: PeerIndex, place: Option<String>) -> Option<String> {
        let quiet = !self.has_messages() && self.held.is_empty();
        let mut text = match &self.link {
            ConnectionState::Up
            | ConnectionState::Parting
            | ConnectionState::Greeting
            | ConnectionState::Unknown
                if quiet =>
            {
                return None;
            }
            ConnectionState::Up | ConnectionState::Unknown => match place {
                Some(place) => format!("to process {number} at {place}:"),
                None => format!("to process {number}:"),
            },
            ConnectionState::Greeting => format!("to process {number}: it has not answered yet;"),
            ConnectionState::Parting => {
                format!("to process {number}: it has not said that it sends no more;")
            }
            ConnectionState::LookingUp => format!("to process {number}: its address is being looked up;"),
            ConnectionState::Lost(error) => return Some(format!("process {number} is unreachable: {error}")),
        };
        // Writing into a String does not fail.
        let _ = write!(
            text,
            " {} messages queued, {} rendezvous messages being sent",
            self.queue.len(),
            self.streams.len()
        );
        if self.flow.blocked {
            text += ", until it has taken more of what was sent";
        }
        if !self.held.is_empty() {
            let _ = write!(
                text,
                ", {} messages from it came early (number {} is missing)",
                self.held.len(),
                self.next_in
            );
        }
        Some(text)
    }
}

struct Described<'a> {
    request: &'a Request,
    posted: &'a Posted<RequestId>,
    names: Names<'a>,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = self.request;
        match &request.work {
            Work::Collective(tag) => match Step::of_tag(*tag) {
                Some(_) => f.write_str(&self.on(request.context.collective(), *tag))?,
                None => f.write_str("a nonblocking collective operation")?,
            },
            Work::None | Work::Both(_) => match &request.outcome {
                Some(outcome) if outcome.source >= 0 && outcome.tag >= 0 => write!(
                    f,
                    "receive of {} from rank {}, tag {}, on {}",
                    count(outcome.bytes, "byte"),
                    outcome.source,
                    outcome.tag,
                    self.on(request.context, outcome.tag)
                )?,
                _ => f.write_str("an operation of several steps")?,
            },
            Work::Send(work) => {
                self.send(f, work.memory.len(), work.peer, &work.envelope, work.sync)?;
                if request.outcome.is_none() {
                    stage(f, work)?;
                }
            }
            Work::Sent(work) => self.send(f, work.bytes.into(), work.peer, &work.envelope, false)?,
            Work::Receive(work) => match &work.stage {
                ReceiveStage::Posted { id, .. } => {
                    self.posted(f, work.memory.len(), self.posted.pattern(*id))?
                }
                ReceiveStage::Fetching(fetch) => self.fetching(f, fetch)?,
            },
        }
        if request.outcome.is_some() {
            f.write_str(": it has ended")?;
        }
        if request.early {
            f.write_str(" (from the buffer)")?;
        }
        if request.is_freed() {
            f.write_str(" (its request has been freed)")?;
        }
        Ok(())
    }
}

impl Described<'_> {
    fn on(&self, context: Context, tag: i32) -> String {
        (self.names)(context, Some(tag)).name
    }

    fn posted(&self, f: &mut fmt::Formatter<'_>, room: u64, pattern: &Pattern) -> fmt::Result {
        let Called { name, own } = (self.names)(pattern.context, pattern.tag);
        match (own, pattern.source) {
            (true, Some(rank)) => return write!(f, "{name}: nothing has come from rank {rank}"),
            (true, None) => return write!(f, "{name}: nothing has come"),
            (false, Some(rank)) => {
                write!(f, "receive of up to {} from rank {rank}, ", count(room, "byte"))?;
            }
            (false, None) => write!(f, "receive of up to {} from any source, ", count(room, "byte"))?,
        }
        match pattern.tag {
            Some(tag) => write!(f, "tag {tag}")?,
            None => f.write_str("any tag")?,
        }
        write!(f, ", on {name}: no message has come")
    }

    fn send(
        &self,
        f: &mut fmt::Formatter<'_>,
        bytes: u64,
        to: PeerIndex,
        envelope: &Envelope,
        sync: bool,
    ) -> fmt::Result {
        let Called { name, own } = (self.names)(envelope.context, Some(envelope.tag));
        if own {
            return write!(f, "{name}: {} to process {}", count(bytes, "byte"), to.number());
        }
        // On this one communicator they are numbered alike.
        let whom = if name == "MPI_COMM_WORLD" {
            "rank"
        } else {
            "process"
        };
        let kind = if sync { "synchronous send" } else { "send" };
        let (bytes, tag) = (count(bytes, "byte"), envelope.tag);
        write!(
            f,
            "{kind} of {bytes} to {whom} {}, tag {tag}, on {name}",
            to.number()
        )
    }

    fn fetching(&self, f: &mut fmt::Formatter<'_>, fetch: &Fetch) -> fmt::Result {
        let Called { name, own } = (self.names)(fetch.envelope.context, Some(fetch.envelope.tag));
        let source = fetch.envelope.source;
        match own {
            true => write!(f, "{name}: from rank {source} ")?,
            false => write!(
                f,
                "receive from rank {source}, tag {}, on {name}: ",
                fetch.envelope.tag
            )?,
        }
        match &fetch.key {
            Some(_) => write!(f, "{} are being read", count(fetch.limit, "byte")),
            None => write!(
                f,
                "{} of {} have come",
                fetch.received,
                count(fetch.limit, "byte")
            ),
        }
    }
}

/// How far a send is that has not ended.
fn stage(f: &mut fmt::Formatter<'_>, work: &SendWork) -> fmt::Result {
    f.write_str(match work.stage {
        SendStage::Queued => ": it has not left yet",
        SendStage::InLane => ": it is on its way",
        SendStage::AwaitsReceiver => ": no receive has taken it",
        SendStage::Streaming => ": its data is being sent",
        SendStage::Paused { .. } => ": the receiver has not asked for the rest",
    })?;
    if work.in_lane != 0 {
        let parts = count(work.in_lane.into(), "part");
        write!(f, ", {parts} of it not sent yet")?;
    }
    if work.cancel_asked {
        f.write_str(", the receiver has not answered the cancel")?;
    }
    Ok(())
}
