//! What is pending, in words: for reports of a hang, and for the simulator's.

use std::fmt::{self, Write};

use super::matching::{Envelope, Pattern, Posted};
use super::mismatch::Step;
use super::peer::{Link, Peer};
use super::request::{Fetch, ReceiveStage, Request, RequestId, SendStage, SendWork, Work};
use super::{Engine, State};
use crate::lane::ProcId;

/// Of each kind of thing, only so many are listed.
const LISTED_MAX: usize = 20;

impl Engine {
    /// What this process waits for, one thing a line. Ends without a newline.
    pub fn describe(&self) -> String {
        let mut text = self.state.counts();
        for line in self.pending(|_| false) {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        text
    }

    /// What is under way or has come and was not taken, a line for each thing, without that of the communicators whose
    /// contexts `spare` picks. The last lines may say that more was left out.
    pub fn pending(&self, spare: impl Fn(u64) -> bool) -> Vec<String> {
        let state = &self.state;
        let requests = state.requests.iter().map(|(_, request)| request);
        let open =
            requests.filter(|request| request.outcome.is_none() && !context(request).is_some_and(&spare));
        let mut lines = listed(
            open.map(|request| Described(request, &state.posted).to_string()),
            "requests",
        );
        lines.extend(self.untaken(spare));
        let peers = state.peers.iter().enumerate();
        lines.extend(peers.filter_map(|(at, peer)| {
            let peer = peer.as_ref()?;
            let place = self.lanes.get(peer.lane);
            peer.describe(at, place.and_then(|lane| lane.place(ProcId(at as u32))))
        }));
        if state.strangers != 0 {
            let strangers = state.strangers;
            lines.push(format!(
                "{strangers} messages that were not for this process or made no sense"
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
    /// picks.
    pub fn untaken(&self, spare: impl Fn(u64) -> bool) -> Vec<String> {
        let messages = self.state.unexpected.iter();
        let messages = messages.filter(|(envelope, _)| !spare(envelope.context));
        let described = messages.map(|(envelope, message)| {
            format!(
                "unexpected message from rank {}, tag {}, context {:#x}, {} bytes",
                envelope.source,
                envelope.tag,
                envelope.context,
                message.len()
            )
        });
        listed(described, "unexpected messages")
    }

    /// The requests that the user holds, ended or not, a line for each, without those of the communicators whose contexts
    /// `spare` picks.
    pub fn held_requests(&self, spare: impl Fn(u64) -> bool) -> Vec<String> {
        let requests = self.state.requests.iter().map(|(_, request)| request);
        let held = requests.filter(|request| !request.is_freed() && !spare(request.context));
        let described = held.map(|request| match (&request.work, &request.outcome) {
            (Work::Send(_) | Work::Sent(_), Some(_)) => {
                format!("{}: it has ended", Described(request, &self.state.posted))
            }
            (_, Some(_)) => "a receive or an operation of several steps that has ended".into(),
            (_, None) => Described(request, &self.state.posted).to_string(),
        });
        listed(described, "requests")
    }

    /// From which rank a receive of a context and a tag waits for a message, if there is such a receive.
    pub fn awaited_in(&self, context: u64, tag: i32) -> Option<u32> {
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
    pub fn is_empty(&self) -> bool {
        self.has_said_all()
            && self.state.operations.is_empty()
            && self.lanes.iter().all(|lane| lane.is_drained())
    }

    /// Whether no request is left, ended or not, no message and nothing to send. Lanes may still have to tell that what
    /// they sent is gone.
    pub fn has_said_all(&self) -> bool {
        let state = &self.state;
        state.requests.is_empty()
            && state.posted.is_empty()
            && state.unexpected.is_empty()
            && state.reads.is_empty()
            && state.withdrawn.is_empty()
            && state
                .peers
                .iter()
                .flatten()
                .all(|peer| peer.queue.is_empty() && peer.streams.is_empty())
    }

    /// Whether something has to be tried again without anything arriving first: messages that a lane did not take,
    /// cards that are being looked up.
    pub fn has_backlog(&self) -> bool {
        let state = &self.state;
        !(state.sending.is_empty()
            && state.reads.is_empty()
            && state.wanted.is_empty()
            && state.withdrawn.is_empty())
    }
}

/// So many of them, and how many more there are.
fn listed(mut all: impl Iterator<Item = String>, what: &str) -> Vec<String> {
    let mut lines: Vec<String> = all.by_ref().take(LISTED_MAX).collect();
    let more = all.count();
    if more > 0 {
        lines.push(format!("and {more} more {what}"));
    }
    lines
}

/// The context of a send's or receive's messages.
fn context(request: &Request) -> Option<u64> {
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

impl State {
    fn counts(&self) -> String {
        let open = self.requests.iter().filter(|(_, request)| request.is_under_way());
        let open = open.count();
        format!(
            "process {}: {open} requests under way, {} ended and not yet asked for, {} receives posted, {} unexpected \
             messages",
            self.me.0,
            self.requests.len() - open,
            self.posted.len(),
            self.unexpected.len()
        )
    }
}

impl Peer {
    fn describe(&self, number: usize, place: Option<String>) -> Option<String> {
        let quiet = self.queue.is_empty() && self.streams.is_empty() && self.held.is_empty();
        let mut text = match &self.link {
            Link::Up | Link::Unknown if quiet => return None,
            Link::Up | Link::Unknown => match place {
                Some(place) => format!("to process {number} at {place}:"),
                None => format!("to process {number}:"),
            },
            Link::LookingUp => format!("to process {number}: its address is being looked up;"),
            Link::Lost(error) => return Some(format!("process {number} is out of reach: {error}")),
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

struct Described<'a>(&'a Request, &'a Posted<RequestId>);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.work {
            Work::Collective(tag) => match Step::of_tag(*tag) {
                Some(step) => f.write_str(&step.words())?,
                None => f.write_str("a nonblocking collective operation")?,
            },
            Work::None | Work::Both(_) => f.write_str("an operation of several steps")?,
            Work::Send(work) => send(f, work)?,
            Work::Sent(work) => send(f, &work.as_send())?,
            Work::Receive(work) => match &work.stage {
                ReceiveStage::Posted { id, .. } => {
                    write!(f, "receive of up to {} bytes ", work.memory.len())?;
                    from(f, self.1.pattern(*id))?;
                    f.write_str(": no message has come")?;
                }
                ReceiveStage::Fetching(fetch) => fetching(f, fetch)?,
            },
        }
        if self.0.early {
            f.write_str(" (from the buffer)")?;
        }
        if self.0.is_freed() {
            f.write_str(" (its request has been freed)")?;
        }
        Ok(())
    }
}

fn from(f: &mut fmt::Formatter<'_>, pattern: &Pattern) -> fmt::Result {
    match pattern.source {
        Some(rank) => write!(f, "from rank {rank}, ")?,
        None => f.write_str("from any source, ")?,
    }
    match pattern.tag {
        Some(tag) => write!(f, "tag {tag}, ")?,
        None => f.write_str("any tag, ")?,
    }
    write!(f, "context {:#x}", pattern.context)
}

fn send(f: &mut fmt::Formatter<'_>, work: &SendWork) -> fmt::Result {
    let envelope = &work.envelope;
    write!(
        f,
        "{}send of {} bytes by rank {} to process {}, tag {}, context {:#x}: ",
        if work.sync { "synchronous " } else { "" },
        work.memory.len(),
        envelope.source,
        work.peer.0,
        envelope.tag,
        envelope.context
    )?;
    match work.stage {
        SendStage::Queued => f.write_str("queued")?,
        SendStage::InLane => f.write_str("on its way")?,
        SendStage::AwaitsReceiver => f.write_str("the receiver has not taken it")?,
        SendStage::Streaming => f.write_str("its data is being sent")?,
        SendStage::Paused { .. } => f.write_str("the receiver has not asked for the rest")?,
    }
    if work.in_lane != 0 {
        write!(f, ", {} parts have not left", work.in_lane)?;
    }
    if work.cancel_asked {
        f.write_str(", the receiver has not answered the cancel")?;
    }
    Ok(())
}

fn fetching(f: &mut fmt::Formatter<'_>, fetch: &Fetch) -> fmt::Result {
    write!(
        f,
        "receive from rank {} (process {}), tag {}, context {:#x}: ",
        fetch.envelope.source, fetch.peer.0, fetch.envelope.tag, fetch.envelope.context
    )?;
    match &fetch.key {
        Some(_) => write!(f, "its {} bytes are being read", fetch.limit),
        None => write!(f, "{} of {} bytes have come", fetch.received, fetch.limit),
    }
}
