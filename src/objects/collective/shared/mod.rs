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
use crate::system::shared_memory::{self, Finding};

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

/// The ranks that share this process's host, if there are others and it is known of all.
fn members(communicator: &Communicator) -> Option<Vec<u32>> {
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
    let made = (run.rank == 0).then(|| make(run.size)).flatten();
    let finding = made
        .as_ref()
        .map_or(Finding::NONE, |(_, finding)| finding.encode());
    let finding = Scratch::of(&finding)?;
    bcast::broadcast(&mut run, 0, finding.all()).await?;
    let area = join(communicator, &run, &finding.to_vec(), &ranks, operation.context());
    // No process opens it after that: the file may be closed.
    let all = agree(&mut run, area.is_some().into()).await? == 1;
    let mut area = area.filter(|_| all);
    if let Some(area) = &mut area {
        let readable = area.try_reads();
        let all_read = agree(&mut run, readable.is_some().into()).await? == 1;
        area.meet(readable.filter(|_| all_read));
    }
    run.finish()?;
    Ok(area.map(Arc::new))
}

/// A run by messages among the processes that share this one's host.
fn on_this_host(operation: &Collective) -> Run<'_> {
    match operation.hosts() {
        Some(hosts) => Run::inside(Network::Real(operation), hosts),
        None => Run::new(operation),
    }
}

fn make(size: u32) -> Option<(std::fs::File, Finding)> {
    let (file, finding) = Finding::make(Area::bytes(size)).ok()?;
    shared_memory::allocate(&file, PAGE, Area::bytes_at_first(size)).ok()?;
    Some((file, finding))
}

fn join(
    communicator: &Communicator,
    run: &Run<'_>,
    finding: &[u8],
    ranks: &[u32],
    context: crate::identity::Context,
) -> Option<Area> {
    let instance: &Arc<Instance> = communicator.instance();
    let doorbell = instance.engine().doorbell()?;
    let finding = Finding::decode(finding.first_chunk()?)?;
    if !instance.settings().shared_collectives || !instance.share(Area::bytes_at_first(run.size)) {
        return None;
    }
    let Ok(map) = finding.join(Area::bytes(run.size)) else {
        instance.unshare(Area::bytes_at_first(run.size));
        return None;
    };
    let peers = ranks
        .iter()
        .map(|&rank| communicator.group().member(rank))
        .collect();
    let area = Area::new(map, instance, run.rank, peers, ranks.into(), context, doorbell);
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
