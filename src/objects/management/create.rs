//! Making communicators from others (MPI 5.0 section 7.4.2). Context ids are made by one member and sent with
//! the messages that are needed anyway, so there is nothing to agree on.

use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::FxHasher;

use crate::base::error::{Error, Result};
use crate::engine::mismatch::Operation;
use crate::err;
use crate::identity::{Context, PeerIndex};
use crate::instance::Instance;
use crate::objects::collective;
use crate::objects::communicator::{Collective, Communicator};
use crate::objects::group::Group;

/// The color of a process that is to be in no communicator (`MPI_UNDEFINED`).
pub const NO_COLOR: i32 = -32766;

impl Communicator {
    /// The same processes with a context of their own; the collective part of `MPI_Comm_dup`. `ready`: whether this
    /// process can have a duplicate. All get one, or none does, so that no process waits for one that has none.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if a process was not ready.
    pub async fn duplicate(self: Arc<Self>, ready: bool) -> Result<Arc<Communicator>> {
        let (twin, operation) = (self.unfinished(), self.duplication(false));
        self.finish(&twin, ready, operation).await?;
        Ok(twin)
    }

    /// A communicator of the same processes that can only be used in local calls so far: no message can be sent on it, as no other
    /// process knows its context.
    pub fn unfinished(&self) -> Arc<Communicator> {
        let twin = self.twin(self.instance().new_context());
        if let Some(topology) = self.topology() {
            twin.arrange(topology.clone());
        }
        twin
    }

    /// Begins the operation by which a duplicate is made, or refused.
    pub fn duplication(self: &Arc<Self>, nonblocking: bool) -> Collective {
        self.step(const { Operation::named("MPI_Comm_dup") }, nonblocking)
    }

    /// Makes a duplicate of an unfinished one, by an operation of [`Communicator::duplication`].
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if a process was not ready.
    pub async fn finish(
        self: Arc<Self>,
        unfinished: &Communicator,
        ready: bool,
        operation: Collective,
    ) -> Result<()> {
        let trouble = "an attribute's copy callback failed";
        let (context, _) = self
            .agree(operation, ready, trouble, "a duplicate", [0; 6])
            .await?;
        unfinished.finish_with(context);
        Ok(())
    }

    /// As [`Communicator::duplicate`], for the messages of a window or a file: the user never sees it.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if a process was not ready.
    pub async fn hidden(self: Arc<Self>, ready: bool) -> Result<Arc<Communicator>> {
        let (context, _) = self
            .agree(self.collective(), ready, "a window can't be made", "one", [0; 6])
            .await?;
        Ok(self.twin(context))
    }

    /// A context for another communicator of these processes, and the largest of each of a few more numbers that they give.
    pub(super) async fn agree(
        &self,
        operation: Collective,
        ready: bool,
        trouble: &str,
        what: &str,
        more: [u64; 6],
    ) -> Result<(Context, [u64; 6])> {
        let operation = operation.everybody();
        let context = match operation.rank() {
            0 => self.instance().new_context(),
            _ => Context::NONE,
        };
        let unready = if ready { 0 } else { u64::from(operation.rank()) + 1 };
        let [a, b, c, d, e, f] = more;
        let [context, unready, a, b, c, d, e, f] =
            collective::largest(&operation, [context.bits(), unready, a, b, c, d, e, f]).await?;
        if let Some(rank) = unready.checked_sub(1) {
            let at = match self.is_inter() {
                true => format!("process {}", operation.process(rank as u32)),
                false => format!("rank {rank}"),
            };
            return Err(err!(Other, "{trouble} at {at}, so no process gets {what}"));
        }
        Ok((Context::of_bits(context), [a, b, c, d, e, f]))
    }

    /// The same processes with another context.
    fn twin(&self, context: Context) -> Arc<Communicator> {
        let (group, peers) = (self.group().clone(), self.peers().clone());
        Communicator::between(self.instance(), context, group, peers).expect("a member")
    }

    /// One communicator for each color, ranks by key and then by old rank; `None` for [`NO_COLOR`]. On an
    /// intercommunicator, an intercommunicator of the processes of this color in both groups; `None` if one group has none.
    pub async fn split(self: Arc<Self>, color: i32, key: i32) -> Result<Option<Arc<Communicator>>> {
        self.split_by(const { Operation::named("MPI_Comm_split") }, color, key)
            .await
    }

    /// The same as the collective part of another procedure.
    pub(super) async fn split_by(
        self: Arc<Self>,
        operation: Operation,
        color: i32,
        key: i32,
    ) -> Result<Option<Arc<Communicator>>> {
        let call = ColorsAndKeys::gather(&self, operation, color, key).await?;
        if color == NO_COLOR {
            return Ok(None);
        }
        let session = self.group().session();
        let together = |answers: Vec<Answer>| {
            let members = answers.into_iter().map(|answer| answer.process).collect();
            Group::of_session(session, members)
        };
        let group = call.of_color(color, self.group());
        let mut context = group[0].context;
        let group = together(group);
        if !self.is_inter() {
            return Ok(Communicator::new(self.instance(), context, group));
        }
        let peers = call.of_color(color, self.peers());
        let Some(first) = peers.first() else {
            return Ok(None);
        };
        // Both groups take the context that the first process of the first group made.
        if !self.is_first() {
            context = first.context;
        }
        Ok(Communicator::between(
            self.instance(),
            context,
            group,
            together(peers),
        ))
    }

    /// A communicator of a part of the processes; all processes of this one take part in the call; groups of different
    /// callers are equal or disjoint (`MPI_Comm_create`). On an intercommunicator, one between parts of the two groups,
    /// of which each process passes the part of its own group; `None` if one part is empty.
    pub async fn create(self: Arc<Self>, group: Arc<Group>) -> Result<Option<Arc<Communicator>>> {
        if let Some(outsider) = group
            .iter()
            .find(|&process| self.group().rank_of(process).is_none())
        {
            return Err(not_inside(outsider));
        }
        let place = group.rank_of(self.instance().me());
        // The color names the group by its first member; its order gives the keys. The two groups of an
        // intercommunicator do not know each other's part, but there is only one of each.
        let color = match place {
            None => NO_COLOR,
            Some(_) if self.is_inter() => 0,
            Some(_) => self.group().rank_of(group.member(0)).expect("checked") as i32,
        };
        let operation = const { Operation::named("MPI_Comm_create") };
        self.split_by(operation, color, place.map_or(0, |rank| rank as i32))
            .await
    }

    /// A communicator of a part of the processes, of which only those take part in the call
    /// (`MPI_Comm_create_group`). Calls at the same time differ in their tag or have no process in common.
    pub async fn create_group(
        self: Arc<Self>,
        group: Arc<Group>,
        tag: i32,
    ) -> Result<Option<Arc<Communicator>>> {
        let mut ranks = Vec::with_capacity(group.size() as usize);
        for process in group.iter() {
            ranks.push(self.group().rank_of(process).ok_or_else(|| not_inside(process))?);
        }
        let Some(place) = group.rank_of(self.instance().me()) else {
            return Ok(None);
        };
        let (place, size) = (place as usize, ranks.len());
        let operation = self.partial(tag);
        let mut context = self.instance().new_context().encode().to_vec();
        // A binomial tree from the group's first member.
        let mut mask = 1;
        while mask < size {
            if place & mask != 0 {
                context = operation
                    .receive_bytes(ranks[place - mask], context.len())
                    .await?;
                break;
            }
            mask *= 2;
        }
        mask /= 2;
        while mask > 0 {
            if let Some(&to) = ranks.get(place + mask) {
                operation.send_bytes(to, context.clone()).await?;
            }
            mask /= 2;
        }
        Ok(Communicator::new(self.instance(), context_of(&context), group))
    }

    /// A communicator of a group whose members find each other by the group and a string tag, without a parent
    /// (`MPI_Comm_create_from_group`). `None` if this process is not a member.
    pub async fn from_group(
        instance: Arc<Instance>,
        group: Arc<Group>,
        text: &str,
    ) -> Result<Option<Arc<Communicator>>> {
        let Some(meeting) = Communicator::meeting(&instance, group.clone(), Meeting::Group, text) else {
            return Ok(None);
        };
        let _note = instance.note(format!(
            "a communicator of {} processes from process {} on is made with the string tag '{text}': all of them have to \
             give the same group and string tag",
            group.size(),
            group.member(0)
        ));
        let operation = meeting.collective();
        let context = instance.new_context().encode().to_vec();
        let context = collective::bcast_bytes(&operation, 0, context).await?;
        Ok(Communicator::new(&instance, context_of(&context), group))
    }

    /// A communicator whose context id is made of the group and the text, and that is only used to send
    /// the id of another one. Its messages are in order, so the same group and text may be used again. `None` if this
    /// process is not a member.
    pub(super) fn meeting(
        instance: &Arc<Instance>,
        group: Arc<Group>,
        purpose: Meeting,
        text: &str,
    ) -> Option<Arc<Communicator>> {
        let mut hasher = FxHasher::default();
        hasher.write_u8(purpose as u8);
        for process in group.iter() {
            hasher.write(&instance.directory().name(process).encode());
        }
        hasher.write(text.as_bytes());
        Communicator::new(instance, Context::meeting(hasher.finish()), group)
    }
}

/// The context id in a message.
fn context_of(bytes: &[u8]) -> Context {
    Context::decode(bytes.try_into().expect("the bytes of a context"))
}

/// The purpose of a meeting: calls of different kinds may have the same group and text.
#[derive(Clone, Copy)]
pub(super) enum Meeting {
    /// A communicator of the group.
    Group,
    /// One group of an intercommunicator.
    Side,
    /// The leaders of both groups.
    Leaders,
}

/// The entry of one process when a communicator is divided.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub process: PeerIndex,
    pub color: i32,
    key: i32,
    /// A context id that it made. Every process makes one, and one of them is used.
    pub context: Context,
}

/// The entries of all processes of a communicator; for an intercommunicator, of both groups.
pub(super) struct ColorsAndKeys(Vec<Answer>);

impl ColorsAndKeys {
    const ANSWER: usize = 16;

    /// Begins a collective operation in which each process sends its color and key.
    pub async fn gather(
        communicator: &Arc<Communicator>,
        operation: Operation,
        color: i32,
        key: i32,
    ) -> Result<ColorsAndKeys> {
        let operation = communicator.step(operation, false);
        let operation = operation.everybody();
        let mut mine = [0; Self::ANSWER];
        mine[..4].copy_from_slice(&color.to_le_bytes());
        mine[4..8].copy_from_slice(&key.to_le_bytes());
        let context = communicator.instance().new_context();
        mine[8..].copy_from_slice(&context.encode());
        let all = collective::allgather_bytes(&operation, &mine).await?;
        let int = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        let answers = all
            .chunks_exact(Self::ANSWER)
            .enumerate()
            .map(|(rank, said)| Answer {
                process: operation.process(rank as u32),
                color: int(&said[..4]),
                key: int(&said[4..8]),
                context: context_of(&said[8..]),
            });
        Ok(ColorsAndKeys(answers.collect()))
    }

    /// The entries of the processes of a group that have this color, by key and then by rank in the group.
    fn of_color(&self, color: i32, group: &Group) -> Vec<Answer> {
        let mut answers: Vec<Answer> = self.of(group).filter(|answer| answer.color == color).collect();
        answers.sort_by_key(|answer| answer.key);
        answers
    }

    /// The entries of the processes of a group, by rank.
    pub fn of(&self, group: &Group) -> impl Iterator<Item = Answer> {
        let inside = |answer: &Answer| group.rank_of(answer.process).is_some();
        self.0.iter().copied().filter(inside)
    }
}

#[cold]
fn not_inside(process: PeerIndex) -> Error {
    err!(
        Group,
        "the group holds process {}, which is not in this communicator",
        process
    )
}
