//! Blocking and persistent collective operations in memory that the processes of a host share ([`area`](crate::objects::communicator::area)), without
//! messages: inside a communicator that has one host, and inside each host where there are several.
//!
//! - here: when a communicator gets such memory, and what operations do with its rounds
//! - [`short`]: what fits into one round
//! - `exchange`: blocks between any processes; `moving`: operations that move data, `neighbour`: operations among neighbours
//! - `reducing`: reductions; `reading`: the same of long operands that are read where they are
//! - `direct`: reads of other processes' memory
//!
//! A function here returns `false` where it has done nothing, and messages are to be used: for reasons that all processes see alike.

mod direct;
mod exchange;
mod moving;
mod neighbour;
mod reading;
mod reducing;
pub mod short;

use std::sync::Arc;

use super::bcast;
use super::buffer::{Address, Chunk};
use super::run::{Network, Run};
use super::scratch::{Scratch, copy};
use crate::base::error::Result;
use crate::instance::Instance;
use crate::objects::communicator::area::{
    ALL_LONG, Area, Bytes, LONG, MEMBERS_MAX, Published, ROUNDS_MAX, Room, Round, SHORT, Use,
};
use crate::objects::communicator::{Collective, Communicator};
use crate::system::shared_memory::{self, Finding, Map};

pub(super) use moving::{
    allgather, alltoall, arrive, barrier, blocks_to_all, broadcast, gather, offer, scatter, scatter_short,
};
pub(super) use neighbour::among_neighbours;
pub use neighbour::rest as rest_among_neighbours;
pub(super) use reducing::{allreduce, reduce, reduce_scatter, scan};

const PAGE: usize = 4096;

/// A communicator gets memory at its blocking operation of this number, from 0: many have only one or two in their lives.
const BEFORE: u32 = 2;

/// Makes a blocking operation one in shared memory, where its communicator has some or now gets it.
///
/// # Errors
/// A process with which it would be shared is lost; another thread is in an operation of the communicator.
#[inline]
pub fn prepare(operation: Collective) -> Result<(Collective, Option<Use<Arc<Area>>>)> {
    let communicator = operation.communicator();
    let area = match communicator.area().get() {
        Some(area) => area.as_ref(),
        None => settle(&operation)?,
    };
    let Some(area) = area else {
        return Ok((operation, None));
    };
    let used = Area::begin(area.clone(), operation.tag())?;
    Ok((operation.on_area(), Some(used)))
}

/// As [`prepare`], for simulated processes, which can't block: its communicator gets memory now unless it has.
///
/// # Errors
/// As for [`prepare`].
#[cfg(feature = "sim")]
pub async fn prepare_in_simulation(operation: Collective) -> Result<(Collective, Option<Use<Arc<Area>>>)> {
    let communicator = operation.communicator();
    if communicator.area().get().is_none() {
        let area = set_up(&operation).await?;
        communicator.area().get_or_init(|| area);
    }
    prepare(operation)
}

/// Makes a persistent operation one in shared memory of its own, if it can have some. All processes of its communicator take part, as
/// they may where such an operation is made (MPI 5.0 section 6.13).
///
/// # Errors
/// A process with which it would be shared is lost.
pub async fn prepare_persistent(operation: Collective) -> Result<Collective> {
    let kept = operation.communicator().kept_areas();
    // After a failure, which others may not have seen, this process goes on as they do.
    let mut agreed = Ok(());
    if !kept.lock().is_empty() {
        let free = kept.lock().free();
        let mut run = on_this_host(&operation);
        let free = agree(&mut run, free).await?;
        agreed = run.finish();
        let area = kept.lock().first_of(free);
        if area.is_some() {
            return agreed.map(|()| operation.on_own_area(area));
        }
    }
    if kept.lock().is_refused() {
        return agreed.map(|()| operation);
    }
    let made = set_up(&operation).await;
    match &made {
        Ok(Some(area)) => kept.lock().keep(area),
        _ => kept.lock().refuse(),
    }
    let made = made?;
    agreed.map(|()| operation.on_own_area(made))
}

#[cold]
fn settle(operation: &Collective) -> Result<Option<&Arc<Area>>> {
    let communicator = operation.communicator();
    let members = members(communicator);
    if members.is_some() && communicator.count_before_area() < BEFORE {
        return Ok(None);
    }
    let made = match members {
        Some(_) => communicator.instance().block_on(set_up(operation)),
        None => Ok(None),
    };
    // After a failure, which the others see too, all go on with messages.
    let (area, failure) = match made {
        Ok(area) => (area, None),
        Err(error) => (None, Some(error)),
    };
    communicator.area().get_or_init(|| area);
    if let Some(error) = failure {
        return Err(error);
    }
    Ok(communicator.area().get().and_then(Option::as_ref))
}

/// The ranks that share this process's host, in order, if there are others and it is known of all.
pub fn members(communicator: &Communicator) -> Option<Vec<u32>> {
    let instance = communicator.instance();
    if communicator.is_inter() {
        return None;
    }
    let members: Vec<u32> = match communicator.hosts() {
        Some(hosts) => hosts.ranks(hosts.mine()).to_vec(),
        None => {
            let here = instance.node_of(instance.me());
            let mut processes = communicator.group().iter();
            if processes.any(|process| instance.node_of(process) != here) {
                return None;
            }
            (0..communicator.size()).collect()
        }
    };
    let number = members.len() as u32;
    (2..=MEMBERS_MAX).contains(&number).then_some(members)
}

/// Memory for the processes of an operation's communicator on this host; `None`: one of them can't have it. The messages for that are
/// the first ones of the operation, so a report names that.
///
/// # Errors
/// One of them is lost.
pub async fn set_up(operation: &Collective) -> Result<Option<Arc<Area>>> {
    let communicator = operation.communicator();
    let Some(ranks) = members(communicator) else {
        return Ok(None);
    };
    let mut run = on_this_host(operation);
    let sizes = Sizes {
        bytes: Area::bytes(run.size),
        at_first: Area::bytes_at_first(run.size),
    };
    let (mine, context) = (run.rank, operation.context());
    let join = |found| join(communicator, mine, found, &ranks, context);
    let area = file_among(&mut run, |_| Some(sizes), Vec::new(), join).await?;
    let area = match area {
        Some(mut area) => {
            let readable = area.try_reads();
            let all_read = agree(&mut run, readable.is_some().into()).await? == 1;
            area.meet(readable.filter(|_| all_read));
            Some(area)
        }
        None => None,
    };
    run.finish()?;
    Ok(area.map(Arc::new))
}

/// The bytes of a memory file, and how many of them, the first ones, are allocated when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// All.
    pub bytes: usize,
    /// The first ones.
    pub at_first: usize,
}

/// A memory file as the processes of a host find it.
pub struct Found {
    finding: Finding,
    /// Its bytes, as its maker says.
    pub bytes: usize,
    /// What each process has said, one after the other.
    pub said: Vec<u8>,
}

impl Found {
    /// Maps it; `None`: that is not possible, or it has other sizes than those.
    pub fn map(&self, sizes: Sizes) -> Option<Map> {
        (sizes.bytes == self.bytes)
            .then(|| self.finding.join(self.bytes).ok())
            .flatten()
    }
}

/// Memory for the processes of an operation's communicator on this host ([`members`]); `None`: one of them can't have it. Each says something
/// to all others, of the same length. The first process makes the file, of the sizes that `sizes` returns; all get at it by `join`.
///
/// # Errors
/// One of them is lost.
pub async fn file_of_host<T>(
    operation: &Collective,
    said: Vec<u8>,
    sizes: impl FnOnce(&[u8]) -> Option<Sizes>,
    join: impl FnOnce(Found) -> Option<T>,
) -> Result<Option<T>> {
    let mut run = on_this_host(operation);
    let joined = file_among(&mut run, sizes, said, join).await?;
    run.finish().map(|()| joined)
}

async fn file_among<T>(
    run: &mut Run<'_>,
    sizes: impl FnOnce(&[u8]) -> Option<Sizes>,
    said: Vec<u8>,
    join: impl FnOnce(Found) -> Option<T>,
) -> Result<Option<T>> {
    let len = said.len();
    let mut all = Vec::new();
    if len != 0 && run.rank == 0 {
        all = said;
        for from in 1..run.size {
            let theirs = Scratch::bytes(len)?;
            let receiving = run.receive(from, theirs.all());
            run.end(receiving).await;
            all.extend(theirs.to_vec());
        }
    } else if len != 0 {
        let said = Scratch::of(&said)?;
        let sending = run.send(0, said.all());
        run.end(sending).await;
    }
    // The file is open until all have agreed.
    let made = (run.rank == 0).then(|| sizes(&all).and_then(make)).flatten();
    let (finding, bytes) = match &made {
        Some((_, finding, bytes)) => (finding.encode(), *bytes),
        None => (Finding::NONE, 0),
    };
    let (finding_end, bytes_end) = (Finding::BYTES, Finding::BYTES + 8);
    let mut told = finding.to_vec();
    told.extend((bytes as u64).to_le_bytes());
    all.resize(len * run.size as usize, 0);
    told.extend(all);
    let told = Scratch::of(&told)?;
    bcast::broadcast(run, 0, told.all()).await?;
    let told = told.to_vec();
    let number = told[finding_end..bytes_end].first_chunk().expect("eight bytes");
    let bytes = usize::try_from(u64::from_le_bytes(*number)).unwrap_or(0);
    let finding = Finding::decode(told.first_chunk().expect("it begins with that"));
    let found = finding.map(|finding| Found {
        finding,
        bytes,
        said: told[bytes_end..].to_vec(),
    });
    let joined = found.and_then(join);
    // No process opens it after that: the file may be closed.
    let all = agree(run, joined.is_some().into()).await? == 1;
    Ok(joined.filter(|_| all))
}

/// A run by messages among the processes that share this one's host.
fn on_this_host(operation: &Collective) -> Run<'_> {
    match operation.hosts() {
        Some(hosts) => Run::inside(Network::Real(operation), hosts),
        None => Run::new(operation),
    }
}

fn make(sizes: Sizes) -> Option<(std::fs::File, Finding, usize)> {
    if (PAGE + sizes.bytes) as u64 > shared_memory::longest() {
        return None;
    }
    let (file, finding) = Finding::make(sizes.bytes).ok()?;
    shared_memory::allocate(&file, PAGE, sizes.at_first).ok()?;
    Some((file, finding, sizes.bytes))
}

fn join(
    communicator: &Communicator,
    mine: u32,
    found: Found,
    ranks: &[u32],
    context: crate::identity::Context,
) -> Option<Area> {
    let instance: &Arc<Instance> = communicator.instance();
    let doorbell = instance.engine().doorbell()?;
    let size = ranks.len() as u32;
    let sizes = Sizes {
        bytes: Area::bytes(size),
        at_first: Area::bytes_at_first(size),
    };
    if !instance.settings().shared_collectives || !instance.share(sizes.at_first) {
        return None;
    }
    let Some(map) = found.map(sizes) else {
        instance.unshare(sizes.at_first);
        return None;
    };
    let peers = ranks
        .iter()
        .map(|&rank| communicator.group().member(rank))
        .collect();
    let area = Area::new(map, instance, mine, peers, ranks.into(), context, doorbell);
    let sample = instance.engine().sample();
    area.offer_sample(sample.filter(|_| instance.settings().cma));
    Some(area)
}

/// The bits that are set on all processes of a run.
async fn agree(run: &mut Run<'_>, mine: u64) -> Result<u64> {
    let bits = |said: &Scratch| said.to_vec().try_into().map_or(0, u64::from_le_bytes);
    let mut all = mine;
    if run.rank == 0 {
        for from in 1..run.size {
            let said = Scratch::bytes(8)?;
            let receiving = run.receive(from, said.all());
            run.end(receiving).await;
            all &= bits(&said);
        }
    } else {
        let said = Scratch::of(&mine.to_le_bytes())?;
        let sending = run.send(0, said.all());
        run.end(sending).await;
    }
    let verdict = Scratch::of(&all.to_le_bytes())?;
    bcast::broadcast(run, 0, verdict.all()).await?;
    Ok(bits(&verdict))
}

/// Copies bytes to where they belong in a chunk, as far as there is room.
fn take(run: &mut Run<'_>, from: &Chunk, chunk: &Chunk, start: u64) {
    let len = from.len().min(chunk.len().saturating_sub(start));
    if len != 0 {
        run.note(copy(&part(from, 0, len), &part(chunk, start, len)));
    }
}

/// Where bytes begin.
fn start_of(bytes: Bytes) -> Address {
    // SAFETY: they are the operation's, by the promise of whoever made them.
    unsafe { Address::new(bytes.address()) }
}

fn chunk_of(bytes: Bytes) -> Chunk {
    Chunk::bytes(start_of(bytes), bytes.number())
}

/// A part of a chunk's packed bytes.
fn part(chunk: &Chunk, start: u64, len: u64) -> Chunk {
    match start == 0 && len >= chunk.len() {
        true => chunk.clone(),
        // SAFETY: of the same memory.
        false => unsafe { Chunk::of(chunk.memory().part(start, len)) },
    }
}

/// The kind of place for so many bytes.
fn room_for(len: u64) -> Room {
    match len <= SHORT as u64 {
        true => Room::Short,
        false => Room::Long,
    }
}

/// Publishes a chunk that a place has room for.
async fn put(run: &mut Run<'_>, area: &Area, round: Round, chunk: &Chunk, room: Room, total: u64) {
    let claimed = area.claim(round, room).await;
    run.note(claimed);
    let len = chunk.len() as usize;
    if len != 0 {
        run.note(copy(chunk, &chunk_of(area.own(round, len, room))));
    }
    area.publish(round, len, room, total);
}

/// Waits for what a process publishes; `None` where that failed, which is noted.
async fn get(run: &mut Run<'_>, area: &Area, member: u32, round: Round) -> Option<Published> {
    match area.published(member, round).await {
        Ok(published) => Some(published),
        Err(error) => {
            run.note::<()>(Err(error));
            None
        }
    }
}

/// Whether all processes have long places, which they allocate now unless they have.
async fn all_have_long(run: &mut Run<'_>, area: &Area) -> bool {
    if let Some(has) = area.has_long() {
        return has;
    }
    let round = area.next();
    let mine = area.allocate_long();
    let claimed = area.claim(round, Room::Short).await;
    run.note(claimed);
    area.publish(round, 0, Room::Short, mine.into());
    let mut all = mine;
    for member in area.others() {
        let theirs = get(run, area, member, round).await;
        all &= theirs.is_some_and(|theirs| theirs.total == 1);
    }
    area.all_in(round);
    area.done(round);
    area.set_long(all);
    all
}

/// In how many rounds a number of bytes goes, in pieces of this length; `None` for more than an operation has.
fn rounds(bytes: u64, piece: u64) -> Option<u64> {
    let rounds = bytes.div_ceil(piece).max(1);
    // A few are for what comes before.
    (rounds < ROUNDS_MAX - 16).then_some(rounds)
}
