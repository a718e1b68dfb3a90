//! Making intercommunicators, and merging them (MPI 5.0 section 7.6.2). The leaders of the two groups exchange the sizes
//! of their groups and then the groups; a leader makes the context id, as everywhere.

use std::sync::Arc;

use super::create::{ColorsAndKeys, Meeting};
use super::exchange_texts;
use super::introduce::{Way, introduce};
use super::links::link_jobs;
use crate::base::error::{Class, Error, Result};
use crate::engine::mismatch::Operation;
use crate::err;
use crate::identity::{Context, Directory, PeerIndex, ProcessName};
use crate::instance::Instance;
use crate::objects::collective;
use crate::objects::communicator::{Collective, Communicator};
use crate::objects::group::Group;

/// The connection of one group's leader to the other's.
pub struct Bridge {
    operation: Collective,
    /// The other leader, as a rank of the operation.
    to: u32,
}

impl Bridge {
    /// Over a communicator to which both belong. Its other messages are not disturbed, whatever their tags.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` if the other leader is not one of its ranks.
    pub fn over(peer: &Arc<Communicator>, leader: i32, tag: i32) -> Result<Bridge> {
        let size = peer.peers().size();
        match u32::try_from(leader).ok().filter(|&leader| leader < size) {
            Some(to) => Ok(Bridge {
                operation: peer.operation(peer.context().bridge(), tag),
                to,
            }),
            None => Err(err!(
                Rank,
                "remote_leader {leader} is outside peer_comm of {size} processes"
            )),
        }
    }

    /// To a process that passes the same text, without a communicator.
    fn to_process(instance: &Arc<Instance>, leader: PeerIndex, text: &str) -> Bridge {
        let mut both = vec![instance.me(), leader];
        both.sort_unstable_by_key(|&process| instance.directory().name(process));
        let both = Group::of(both);
        let to = both.rank_of(leader).expect("put in above");
        let meeting = Communicator::meeting(instance, both, Meeting::Leaders, text).expect("a member");
        Bridge {
            operation: meeting.collective(),
            to,
        }
    }

    /// Exchanges bytes of any number with the other leader.
    pub(super) async fn exchange_bytes(&self, mine: Vec<u8>) -> Result<Vec<u8>> {
        exchange_texts(&self.operation, self.to, mine).await
    }

    /// Exchanges a group and a context id with the other leader.
    async fn exchange(&self, group: &Group, context: Context) -> Result<(Vec<PeerIndex>, Context)> {
        let directory = self.operation.communicator().instance().directory();
        let mine = Head {
            class: 0,
            len: group.size(),
            context,
        };
        let theirs = self
            .operation
            .exchange_bytes(self.to, mine.encode().to_vec(), self.to, Head::BYTES)
            .await?;
        let theirs = Head::decode(theirs.first_chunk().expect("a head"));
        let mine = encode(group.iter(), directory);
        let bytes = theirs.len as usize * ProcessName::BYTES;
        let members = self
            .operation
            .exchange_bytes(self.to, mine, self.to, bytes)
            .await?;
        Ok((decode(&members, directory)?, theirs.context))
    }
}

/// The header before a group, or before the text of an error.
struct Head {
    /// The class of an error; 0: a group follows; or [`STRANGERS`].
    class: u32,
    /// Processes of the group, or bytes of the text.
    len: u32,
    context: Context,
}

impl Head {
    const BYTES: usize = 16;

    fn encode(&self) -> [u8; Head::BYTES] {
        let mut bytes = [0; Head::BYTES];
        bytes[..4].copy_from_slice(&self.class.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..].copy_from_slice(&self.context.encode());
        bytes
    }

    fn decode(bytes: &[u8; Head::BYTES]) -> Head {
        let ([class, len], context) = (
            [0, 4].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))),
            bytes[8..].try_into().expect("the bytes of a context"),
        );
        Head {
            class,
            len,
            context: Context::decode(context),
        }
    }
}

/// In a head: the processes are of several jobs, and the groups have to be introduced to each other.
const STRANGERS: u32 = u32::MAX;

/// The names of processes for a message.
fn encode(group: impl Iterator<Item = PeerIndex>, directory: &Directory) -> Vec<u8> {
    group
        .flat_map(|process| directory.name(process).encode())
        .collect()
}

/// The processes of these names.
fn decode(bytes: &[u8], directory: &Directory) -> Result<Vec<PeerIndex>> {
    let (names, _) = bytes.as_chunks::<{ ProcessName::BYTES }>();
    let place = |bytes| {
        let name = ProcessName::decode(bytes);
        let ProcessName { job, rank } = name;
        directory
            .place(name)
            .ok_or_else(|| err!(Intern, "there is no process {rank} in job {:#x}", job.0))
    };
    names.iter().map(place).collect()
}

impl Communicator {
    /// An intercommunicator between the processes of this intracommunicator and those of another one that do the same
    /// (`MPI_Intercomm_create`). `bridge` matters only at the rank `leader`; an error in it is an error of all
    /// processes of the group, so that none of them waits for its leader. To be awaited by [`Instance::block_on_turns`].
    ///
    /// # Errors
    /// `MPI_ERR_COMM` in both groups if they have a process in common.
    pub async fn connect(
        self: Arc<Self>,
        leader: u32,
        bridge: Option<Result<Bridge>>,
    ) -> Result<Arc<Communicator>> {
        // Two steps of one operation: between any two processes, messages keep their order.
        let operation = match self.context().is_meeting() {
            true => self.collective(),
            false => self.step(const { Operation::named("MPI_Intercomm_create") }, false),
        };
        let mut head = [0; Head::BYTES];
        let mut follows = Vec::new();
        if self.rank() == leader {
            let met = match &bridge {
                None => Err(err!(Intern, "the leader of a group has no way to the other one")),
                Some(Err(error)) => Err(error.clone()),
                Some(Ok(bridge)) => self.meet(bridge).await,
            };
            let said = match met {
                Ok((members, _)) if self.are_strangers(&members) => Head {
                    class: STRANGERS,
                    len: 0,
                    context: Context::NONE,
                },
                Ok((members, context)) => {
                    follows = encode(members.into_iter(), self.instance().directory());
                    Head {
                        class: 0,
                        len: (follows.len() / ProcessName::BYTES) as u32,
                        context,
                    }
                }
                Err(error) => {
                    follows = error.message.as_bytes().to_vec();
                    Head {
                        class: error.class as u32,
                        len: follows.len() as u32,
                        context: Context::NONE,
                    }
                }
            };
            head = said.encode();
        }
        let head = collective::bcast_bytes(&operation, leader, head.to_vec()).await?;
        let head = Head::decode(head.first_chunk().expect("a head"));
        if head.class == STRANGERS {
            let way = bridge
                .as_ref()
                .map(|bridge| bridge.as_ref().map(Way::Messages).map_err(Error::clone));
            let before = self.instance().connected_jobs();
            let other = introduce(&operation, leader, way).await?;
            let peers = Group::of_session(self.group().session(), other.peers);
            let group = self.group().clone();
            let new = Communicator::between(self.instance(), other.context, group, peers).expect("a member");
            // Whoever finds it later counts it again, which changes nothing. Until then who dies would not be told.
            new.connects();
            link_jobs(&new, &before, None).await;
            return Ok(new);
        }
        let bytes = head.len as usize * if head.class == 0 { ProcessName::BYTES } else { 1 };
        follows.resize(bytes, 0);
        let follows = collective::bcast_bytes(&operation, leader, follows).await?;
        if head.class != 0 {
            return Err(leaders_error(head.class, &follows));
        }
        let peers = Group::of_session(
            self.group().session(),
            decode(&follows, self.instance().directory())?,
        );
        let group = self.group().clone();
        Ok(Communicator::between(self.instance(), head.context, group, peers).expect("a member"))
    }

    /// Whether there is more than one job in this group and another: their processes may not know how to reach each other.
    fn are_strangers(&self, members: &[PeerIndex]) -> bool {
        let all = self.group().iter().chain(members.iter().copied());
        self.instance().directory().has_others()
            && all
                .into_iter()
                .any(|process| !self.instance().is_of_this_job(process))
    }

    /// The leader's part: exchanges the groups and the context id.
    async fn meet(&self, bridge: &Bridge) -> Result<(Vec<PeerIndex>, Context)> {
        let mine = self.instance().new_context();
        let (members, theirs) = bridge.exchange(self.group(), mine).await?;
        if members.is_empty() {
            return Err(err!(Intern, "the other leader named an empty group"));
        }
        let both = members
            .iter()
            .find(|&&process| self.group().rank_of(process).is_some());
        if let Some(both) = both {
            return Err(err!(
                Comm,
                "process {} is in both groups: the groups must not share a process",
                both
            ));
        }
        let others = Group::of(members.clone());
        let first = |group: &Group| self.instance().directory().name(group.member(0));
        let context = match first(self.group()) < first(&others) {
            true => mine,
            false => theirs,
        };
        Ok((members, context))
    }

    /// An intercommunicator of two groups whose leaders find each other by a text
    /// (`MPI_Intercomm_create_from_groups`). `remote_leader` matters only at the rank `leader`; an error in it is
    /// an error of all processes of the group.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP` if this process is not in the local group; otherwise as for [`Communicator::connect`].
    pub async fn between_groups(
        instance: Arc<Instance>,
        group: Arc<Group>,
        leader: u32,
        remote_leader: Result<PeerIndex>,
        text: &str,
    ) -> Result<Arc<Communicator>> {
        let side = Communicator::meeting(&instance, group, Meeting::Side, text)
            .ok_or_else(|| err!(Group, "this process is not in local_group"))?;
        let bridge = match side.rank() == leader {
            true => Some(remote_leader.map(|process| Bridge::to_process(&instance, process, text))),
            false => None,
        };
        side.connect(leader, bridge).await
    }

    /// All processes of both groups of this intercommunicator in one intracommunicator (`MPI_Intercomm_merge`): the
    /// group whose processes pass `high` comes after the other one.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` everywhere if processes of the same group do not pass the same.
    pub async fn merge(self: Arc<Self>, high: bool) -> Result<Arc<Communicator>> {
        let call = ColorsAndKeys::gather(
            &self,
            const { Operation::named("MPI_Intercomm_merge") },
            high.into(),
            0,
        )
        .await?;
        let everybody = self.everybody();
        let said = |group: &Group| -> Result<bool> {
            let mut answers = call.of(group).map(|answer| answer.color != 0);
            let first = answers.next().unwrap_or(false);
            match answers.all(|high| high == first) {
                true => Ok(first),
                false => Err(err!(
                    Arg,
                    "the processes of one group gave different values of high"
                )),
            }
        };
        let (mine, theirs) = (said(self.group())?, said(self.peers())?);
        // Where both groups pass the same, the implementation chooses the order.
        let before = if mine == theirs { self.is_first() } else { theirs };
        let [low, high] = match before {
            true => [self.group(), self.peers()],
            false => [self.peers(), self.group()],
        };
        let members = low.iter().chain(high.iter()).collect();
        let group = Group::of_session(self.group().session(), members);
        let context = call
            .of(&everybody)
            .next()
            .expect("this process has answered")
            .context;
        Ok(Communicator::new(self.instance(), context, group).expect("a member"))
    }
}

/// The error that the leader of this process's group reports.
#[cold]
fn leaders_error(class: u32, words: &[u8]) -> Error {
    let class = Class::of_number(class);
    let words = String::from_utf8_lossy(words).into_owned();
    Error::new(class.unwrap_or(Class::Other), words)
}
