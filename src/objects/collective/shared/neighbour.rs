//! Operations among the neighbours in a topology, in shared memory: one round, in which each process publishes all of its blocks at once,
//! and reads from the place of each source the block that is for it. So a process waits for its sources alone. Neighbours on other hosts
//! get messages meanwhile.
//!
//! A source says with its blocks in which form they are, so nothing has to be agreed on ([`Form`]). Which of a source's blocks is whose is
//! found out by messages, in the first of these operations of an area.

use super::moving::truncated;
use super::{Area, Bytes, LONG, Published, Room, Round, Run, SHORT, chunk_of, direct, get, part, take};
use crate::base::error::{Error, Result};
use crate::err;
use crate::objects::collective::buffer::{Blocks, Buffer, Chunk, Packed};
use crate::objects::collective::neighbour::{UnderWay, start};
use crate::objects::collective::run::Network;
use crate::objects::collective::scratch::{Scratch, copy};
use crate::objects::communicator::Collective;
use crate::objects::communicator::area::{Destination, Edges, PAIR, Source};
use crate::objects::topology::Neighbours;

/// How a process has published its blocks, which is what `total` says ([`Published`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// They follow each other, and all have so many bytes.
    Even(u64),
    /// Behind a table of where each begins, and of its length.
    Table,
    /// A table of their addresses and lengths is there, and they can be read until this process is done with the round.
    Lent,
    /// They come as messages.
    Messages,
}

/// Above all lengths.
const LENT: u64 = u64::MAX - 2;
const TABLE: u64 = u64::MAX - 1;
const MESSAGES: u64 = u64::MAX;

impl Form {
    fn total(self) -> u64 {
        match self {
            Form::Even(len) => len,
            Form::Table => TABLE,
            Form::Lent => LENT,
            Form::Messages => MESSAGES,
        }
    }

    fn of(found: &Published) -> Form {
        match found.total {
            TABLE => Form::Table,
            LENT => Form::Lent,
            MESSAGES => Form::Messages,
            len => Form::Even(len),
        }
    }
}

/// Blocks to and from neighbours. `outgoing` is the block for a destination; with `same` it is one for all.
///
/// # Errors
/// It could not be found out which block is whose; other failures are noted.
pub async fn exchange(
    run: &mut Run<'_>,
    area: &Area,
    neighbours: &Neighbours,
    same: bool,
    outgoing: &(impl Fn(u32) -> Chunk + Send + Sync),
    receive: &impl Blocks,
) -> Result<()> {
    let edges = edges(run, area, neighbours).await?;
    let under_way = match edges.all_here {
        true => UnderWay::new(),
        false => {
            let away = |rank| area.place_of_rank(rank).is_none();
            start(run, neighbours, away, outgoing, receive)
        }
    };
    let round = area.next();
    // Declared first: it is dropped after what reads it.
    let mut packed = None;
    let mut form = None;
    if edges.lead_here() {
        form = Some(publish(run, area, round, edges, same, outgoing, &mut packed).await);
    }
    let beside = beside(run);
    let mut messages = Run::new(&beside);
    let mut sends = UnderWay::new();
    if form == Some(Form::Messages) {
        for at in blocks(edges, false) {
            let block = outgoing(at);
            if let Some(to) = neighbours.destinations[at as usize].filter(|_| !block.is_empty()) {
                let sending = messages.send(to, block);
                messages.keep(&mut sends, sending);
            }
        }
    }
    for (place, source) in (0..).zip(&edges.sources) {
        if let Source::Own(block) = *source {
            run.note(copy(&outgoing(block), &receive.block(place)));
        }
    }
    fetch(run, &mut messages, area, round, neighbours, same, receive).await;
    if form == Some(Form::Lent) {
        for to in &edges.destinations {
            if let Destination::Here(member) = *to {
                let done = area.done_by(member, round).await;
                run.note(done);
            }
        }
    }
    run.end_all(under_way).await;
    messages.end_all(sends).await;
    run.note(messages.finish());
    Ok(())
}

/// The rest of an operation on a communicator that has a topology and such memory, in which this process has published its blocks, and which
/// [`short::neighbours`](super::short::neighbours) could not end.
///
/// # Errors
/// As for the operation.
pub async fn rest(operation: Collective, round: Round, same: bool, receive: Buffer) -> Result<()> {
    let mut run = Run::new(&operation);
    let communicator = operation.communicator();
    if let (Some(area), Some(topology)) = (run.area_of_host(), communicator.topology()) {
        let beside = beside(&run);
        let mut messages = Run::new(&beside);
        let neighbours = topology.neighbours()?;
        fetch(&mut run, &mut messages, area, round, neighbours, same, &receive).await;
        run.note(messages.finish());
    }
    run.finish()
}

/// Where this process's neighbours are, and which blocks of theirs are its own.
async fn edges<'a>(run: &mut Run<'_>, area: &'a Area, neighbours: &Neighbours) -> Result<&'a Edges> {
    if let Some(edges) = area.edges().get() {
        return Ok(edges);
    }
    let found = find_edges(run, area, neighbours).await?;
    Ok(area.edges().get_or_init(|| found))
}

/// Each process tells its destinations which of its blocks is theirs, by the messages that the blocks could be.
async fn find_edges(run: &mut Run<'_>, area: &Area, neighbours: &Neighbours) -> Result<Edges> {
    const NUMBER: usize = size_of::<u32>();
    let me = run.rank;
    let here = |rank| rank != me && area.place_of_rank(rank).is_some();
    let numbers: Vec<u8> = (0..neighbours.destinations.len() as u32)
        .flat_map(u32::to_ne_bytes)
        .collect();
    let theirs = Scratch::bytes(neighbours.sources.len() * NUMBER)?;
    let mine = Scratch::of(&numbers)?;
    let receive = Packed::new(theirs.address(), neighbours.sources.iter().map(|_| NUMBER as u64));
    let outgoing = |at: u32| mine.part(at as usize * NUMBER, NUMBER);
    let messages = start(run, neighbours, here, &outgoing, &receive);
    run.end_all(messages).await;
    let theirs = theirs.to_vec();
    let number = |place: usize| {
        let bytes = theirs[place * NUMBER..][..NUMBER].try_into();
        u32::from_ne_bytes(bytes.expect("as many"))
    };
    let source = |(place, rank): (usize, &Option<u32>)| match *rank {
        None => Source::Nobody,
        Some(rank) => area
            .place_of_rank(rank)
            .map_or(Source::Away, |member| Source::Here {
                member,
                block: number(place),
            }),
    };
    let mut sources: Box<[Source]> = neighbours.sources.iter().enumerate().map(source).collect();
    for (place, block) in neighbours.own(me) {
        sources[place] = Source::Own(block);
    }
    let destination = |rank: &Option<u32>| match *rank {
        Some(rank) if rank != me => area
            .place_of_rank(rank)
            .map_or(Destination::Away, Destination::Here),
        _ => Destination::Nobody,
    };
    let destinations = neighbours.destinations.iter().map(destination).collect();
    Ok(Edges::new(sources, destinations))
}

/// From so many bytes on, blocks are read where they are, if they can be.
const READ_MIN: u64 = 4 << 10;

/// What a process has for others in the area.
struct Outgoing {
    /// Number of blocks, and how long they are together; `None`: longer than can be counted.
    blocks: u64,
    bytes: Option<u64>,
    /// The length of all of them, if they are equally long.
    even: Option<u64>,
    /// Number of places in a table of them.
    places: u64,
}

impl Outgoing {
    fn of(edges: &Edges, same: bool, outgoing: &impl Fn(u32) -> Chunk) -> Outgoing {
        let mut lengths = blocks(edges, same).map(|at| outgoing(at).len());
        let first = lengths.next().unwrap_or(0);
        let (mut blocks, mut bytes, mut even) = (1, Some(first), first < LENT);
        for len in lengths {
            blocks += 1;
            bytes = bytes.and_then(|bytes: u64| bytes.checked_add(len));
            even &= len == first;
        }
        Outgoing {
            blocks,
            bytes,
            even: even.then_some(first),
            places: if same { 1 } else { edges.destinations.len() as u64 },
        }
    }

    fn table(&self) -> u64 {
        self.places * PAIR as u64
    }

    /// In which form they are to be published, how many bytes of a place that takes, and of which place.
    fn form(&self, area: &Area) -> (Form, u64, Room) {
        let (form, size) = match self.even {
            Some(len) => (Form::Even(len), len.checked_mul(self.places)),
            None => (
                Form::Table,
                self.bytes.and_then(|bytes| bytes.checked_add(self.table())),
            ),
        };
        let size = size.unwrap_or(u64::MAX);
        let long = self.bytes.is_none_or(|bytes| bytes / self.blocks >= READ_MIN);
        let fits = size <= LONG as u64;
        if size <= SHORT as u64 {
            (form, size, Room::Short)
        } else if area.reads() && self.table() <= SHORT as u64 && (long || !fits) {
            (Form::Lent, self.table(), Room::Short)
        } else if fits && area.allocate_long() {
            (form, size, Room::Long)
        } else {
            (Form::Messages, 0, Room::Short)
        }
    }
}

/// Publishes this process's blocks. What is lent and not one run of bytes is `packed`: to be kept until all have read it.
async fn publish(
    run: &mut Run<'_>,
    area: &Area,
    round: Round,
    edges: &Edges,
    same: bool,
    outgoing: &(impl Fn(u32) -> Chunk + Send + Sync),
    packed: &mut Option<Scratch>,
) -> Form {
    let (form, size, room) = Outgoing::of(edges, same, outgoing).form(area);
    let claimed = area.claim(round, room).await;
    run.note(claimed);
    let size = size as usize;
    let place = area.own(round, size, room);
    match form {
        Form::Even(len) => {
            let len = len as usize;
            for at in blocks(edges, same) {
                let to = place.part(at as usize * len, len);
                run.note(copy(&outgoing(at), &chunk_of(to)));
            }
        }
        Form::Table => {
            let mut end = if same { 1 } else { edges.destinations.len() } * PAIR;
            for at in blocks(edges, same) {
                let block = outgoing(at);
                let len = block.len() as usize;
                place.set_pair(at as usize, [end as u64, len as u64]);
                run.note(copy(&block, &chunk_of(place.part(end, len))));
                end += len;
            }
        }
        Form::Lent => {
            let scattered = |at: &u32| outgoing(*at).run().is_none();
            let bytes = blocks(edges, same)
                .filter(scattered)
                .map(|at| outgoing(at).len() as usize)
                .fold(0, usize::saturating_add);
            if bytes > 0 {
                let Ok(room) = Scratch::kept(bytes) else {
                    // Messages need no memory for all at once.
                    area.publish(round, 0, Room::Short, Form::Messages.total());
                    return Form::Messages;
                };
                *packed = Some(room);
            }
            let mut end = 0;
            for at in blocks(edges, same) {
                let mut block = outgoing(at);
                if let (None, Some(packed)) = (block.run(), &*packed) {
                    let to = packed.part(end, block.len() as usize);
                    run.note(copy(&block, &to));
                    end += block.len() as usize;
                    block = to;
                }
                let run = block
                    .run()
                    .map(|(address, len)| [address.get().expose_provenance(), len]);
                place.set_pair(at as usize, run.unwrap_or_default().map(|number| number as u64));
            }
        }
        Form::Messages => {}
    }
    area.publish(round, size, room, form.total());
    form
}

/// The blocks that go to others in the area.
fn blocks(edges: &Edges, same: bool) -> impl Iterator<Item = u32> + Send {
    let destinations = (0..).zip(&edges.destinations);
    let here = destinations.filter(|(_, to)| matches!(to, Destination::Here(_)));
    here.map(|(at, _)| at)
        .take(if same { 1 } else { usize::MAX })
        .map(move |at| if same { 0 } else { at })
}

/// The operation for messages inside the area. While a process waits for a flag, it has posted a receive that would take another one
/// ([`engine::watched`](crate::engine)).
fn beside(run: &Run<'_>) -> Collective {
    match run.network() {
        Network::Real(operation) => operation.inside(),
        #[cfg(feature = "sim")]
        Network::Model { .. } => unreachable!("a model has no area"),
    }
}

/// Reads the blocks of the sources in the area, which they have published in a round or send as `messages` then. Reading a block again does
/// no harm.
async fn fetch(
    run: &mut Run<'_>,
    messages: &mut Run<'_>,
    area: &Area,
    round: Round,
    neighbours: &Neighbours,
    same: bool,
    receive: &impl Blocks,
) {
    let Some(edges) = area.edges().get() else {
        return;
    };
    let mut under_way = UnderWay::new();
    for place in neighbours.order() {
        let Source::Here { member, block } = edges.sources[place] else {
            continue;
        };
        let incoming = receive.block(place as u32);
        if incoming.is_empty() {
            continue;
        }
        let Some(found) = get(run, area, member, round).await else {
            continue;
        };
        let block = if same { 0 } else { block as usize };
        let bytes = match Form::of(&found) {
            Form::Even(len) => even_block(found.bytes, block, len),
            Form::Table => table_block(found.bytes, block),
            Form::Lent => match found.bytes.pair(block) {
                None => None,
                Some(entry) => {
                    let lent = area.lent_at(member, entry);
                    let len = fitting(run, member, lent.number(), &incoming);
                    let read = direct::read(area, &lent, 0, &part(&incoming, 0, len)).await;
                    run.note(read);
                    continue;
                }
            },
            Form::Messages => {
                if let Some(from) = neighbours.sources[place] {
                    let receiving = messages.receive(from, incoming);
                    messages.keep(&mut under_way, receiving);
                }
                continue;
            }
        };
        match bytes {
            None => run.note::<()>(Err(nonsense(member))),
            Some(bytes) => {
                fitting(run, member, bytes.number() as u64, &incoming);
                take(run, &chunk_of(bytes), &incoming, 0);
            }
        }
    }
    area.done(round);
    messages.end_all(under_way).await;
}

/// How many bytes of a block there is room for; it is an error if these are not all.
fn fitting(run: &mut Run<'_>, member: u32, theirs: u64, incoming: &Chunk) -> u64 {
    let mine = incoming.len();
    if theirs > mine {
        run.note::<()>(Err(truncated(member, theirs, mine)));
    }
    theirs.min(mine)
}

/// A block among blocks that all have `len` bytes, if it is there.
#[inline(always)]
pub fn even_block(all: Bytes, block: usize, len: u64) -> Option<Bytes> {
    let len = usize::try_from(len).ok()?;
    let end = block.checked_add(1)?.checked_mul(len)?;
    (end <= all.number()).then(|| all.part(end - len, len))
}

/// A block of those behind a table, if it is there.
fn table_block(all: Bytes, block: usize) -> Option<Bytes> {
    let [start, len] = all.pair(block)?;
    let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
    (start.checked_add(len)? <= all.number()).then(|| all.part(start, len))
}

#[cold]
fn nonsense(member: u32) -> Error {
    err!(
        Intern,
        "what process {member} of this host wrote into shared memory for its neighbours makes no sense"
    )
}
