//! Blocks from processes to others in shared memory, whichever they are ([`Edges`]): in one round each process publishes all of its blocks
//! at once, and takes from each of its sources the block that is for it, first from those that have published theirs. So a process waits for
//! its sources alone.
//!
//! A source says with its blocks in which form they are ([`Form`]), so nothing has to be agreed on: not even that all know how long the
//! blocks of others are.

use smallvec::SmallVec;

use super::moving::truncated;
use super::{
    Area, Bytes, LONG, Published, Room, Round, Run, SHORT, chunk_of, direct, get, part, rounds, take,
};
use crate::base::error::Error;
use crate::err;
use crate::objects::collective::buffer::{Blocks, Chunk};
use crate::objects::collective::neighbour::UnderWay;
use crate::objects::collective::run::Network;
use crate::objects::collective::scratch::{Scratch, copy};
use crate::objects::communicator::Collective;
use crate::objects::communicator::area::PAIR;

/// From so many bytes on, blocks are read where they are, if they can be.
const READ_MIN: u64 = 4 << 10;
/// At most so many bytes are packed at a time, but at least [`PIECE_MIN`] of each block. Each further piece takes a round.
const PACKED: u64 = 1 << 20;
/// See [`PACKED`].
const PIECE_MIN: u64 = 64 << 10;

/// Between which processes of an area blocks go, as one of them knows it.
pub trait Edges: Send + Sync {
    /// Of each block for another process: its number among this process's blocks, and the process. With [`Edges::same`] all numbers are 0.
    fn outgoing(&self) -> impl Iterator<Item = (u32, u32)> + Send;

    /// Of each block from another process, where it comes from. Of the blocks of one process, those that are sent first come first.
    fn incoming(&self) -> impl Iterator<Item = Incoming> + Send;

    /// Among how many numbers those of the outgoing blocks are.
    fn places(&self) -> u32;

    /// Whether all get the same block.
    fn same(&self) -> bool;

    /// Whether a block goes from each process to each other one.
    fn connect_all(&self) -> bool {
        false
    }
}

/// A block from another process.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Its number in the receive buffer.
    pub place: u32,
    /// The process.
    pub member: u32,
    /// Its number among the blocks of that process.
    pub block: u32,
}

/// What goes where in operations in which all processes of an area take part, with the number of this process and of all of them.
#[derive(Clone, Copy)]
pub struct All {
    pub rank: u32,
    pub size: u32,
    pub pattern: Pattern,
}

/// See [`All`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// From each process a block for each.
    Alltoall,
    /// From each process one block for all.
    Allgather,
    /// From this process a block for each.
    Scatter(u32),
}

impl All {
    /// All other processes, from the next one on.
    fn others(self) -> impl Iterator<Item = u32> + Send {
        (self.rank + 1..self.size).chain(0..self.rank)
    }
}

impl Edges for All {
    fn outgoing(&self) -> impl Iterator<Item = (u32, u32)> + Send {
        let All { rank, pattern, .. } = *self;
        self.others().filter_map(move |to| match pattern {
            Pattern::Alltoall => Some((to, to)),
            Pattern::Allgather => Some((0, to)),
            Pattern::Scatter(root) => (rank == root).then_some((to, to)),
        })
    }

    fn incoming(&self) -> impl Iterator<Item = Incoming> + Send {
        let All { rank, pattern, .. } = *self;
        self.others().filter_map(move |member| {
            let (comes, place, block) = match pattern {
                Pattern::Alltoall => (true, member, rank),
                Pattern::Allgather => (true, member, 0),
                Pattern::Scatter(root) => (member == root, 0, rank),
            };
            comes.then_some(Incoming { place, member, block })
        })
    }

    fn places(&self) -> u32 {
        match self.pattern {
            Pattern::Alltoall | Pattern::Scatter(_) => self.size,
            Pattern::Allgather => 1,
        }
    }

    fn same(&self) -> bool {
        self.places() == 1
    }

    fn connect_all(&self) -> bool {
        matches!(self.pattern, Pattern::Alltoall | Pattern::Allgather)
    }
}

/// How a process has published its blocks, which is what `total` says ([`Published`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// They follow each other, and all have so many bytes.
    Even(u64),
    /// Behind a table of where each begins, and of its length.
    Table,
    /// A table of their addresses and lengths is there. So many bytes of each can be read until this process is done with the round, and the
    /// next ones in the next round.
    Lent(u64),
    /// They come as messages. In the place is a table of their lengths, if a short one has room for it.
    Messages,
}

/// All bytes of a block.
const WHOLE: u64 = (1 << 62) - 1;
/// Above all lengths; the other bits say how many bytes can be read.
pub const LENT: u64 = 1 << 62;
const TABLE: u64 = u64::MAX - 1;
const MESSAGES: u64 = u64::MAX;

impl Form {
    pub fn total(self) -> u64 {
        match self {
            Form::Even(len) => len,
            Form::Table => TABLE,
            Form::Lent(piece) => LENT | piece,
            Form::Messages => MESSAGES,
        }
    }

    /// `None`: it makes no sense.
    fn of(found: &Published) -> Option<Form> {
        match found.total {
            TABLE => Some(Form::Table),
            MESSAGES => Some(Form::Messages),
            len if len < LENT => Some(Form::Even(len)),
            lent => (LENT + 1..=LENT | WHOLE)
                .contains(&lent)
                .then_some(Form::Lent(lent - LENT)),
        }
    }
}

/// The numbers of the blocks that go to others.
fn blocks(edges: &impl Edges) -> impl Iterator<Item = u32> + Send {
    let most = if edges.same() { 1 } else { usize::MAX };
    edges.outgoing().map(|(block, _)| block).take(most)
}

/// What a process has for others in the area.
#[derive(Clone, Copy)]
struct Outgoing {
    /// Number of blocks, and how long they are together; `None`: longer than can be counted.
    blocks: u64,
    bytes: Option<u64>,
    longest: u64,
    shortest: u64,
    /// Whether all are equally long.
    even: bool,
    /// How many bytes are packed before others read them.
    scattered: u64,
    /// Number of places in a table of them.
    places: u64,
    /// Whether received data may overwrite them.
    must_pack: bool,
}

impl Outgoing {
    fn of(edges: &impl Edges, outgoing: &impl Fn(u32) -> Chunk, must_pack: bool) -> Outgoing {
        let mut all = Outgoing {
            blocks: 0,
            bytes: Some(0),
            longest: 0,
            shortest: u64::MAX,
            even: true,
            scattered: 0,
            places: edges.places().into(),
            must_pack,
        };
        for block in blocks(edges).map(outgoing) {
            let len = block.len();
            all.even &= (all.blocks == 0 || len == all.longest) && len < LENT;
            all.longest = all.longest.max(len);
            all.shortest = all.shortest.min(len);
            all.blocks += 1;
            all.bytes = all.bytes.and_then(|bytes| bytes.checked_add(len));
            if must_pack || block.run().is_none() {
                all.scattered = all.scattered.saturating_add(len);
            }
        }
        all
    }

    fn table(&self) -> u64 {
        self.places * PAIR as u64
    }

    /// The same where only their lengths are in it: nothing, if a short place has no room for it.
    fn lengths(&self) -> u64 {
        Some(self.table())
            .filter(|&table| table <= SHORT as u64)
            .unwrap_or(0)
    }

    /// In which form they are to be published, how many bytes of a place that takes, and of which place.
    fn form(&self, area: &Area) -> (Form, u64, Room) {
        let (form, size) = match self.even {
            true => (Form::Even(self.longest), self.longest.checked_mul(self.places)),
            false => (
                Form::Table,
                self.bytes.and_then(|bytes| bytes.checked_add(self.table())),
            ),
        };
        let size = size.unwrap_or(u64::MAX);
        let long = self
            .bytes
            .is_none_or(|bytes| bytes / self.blocks.max(1) >= READ_MIN);
        let fits = size <= LONG as u64;
        let too_many = || rounds(self.longest, self.piece()).is_none();
        let has_room = |len| len <= SHORT as u64 || len <= LONG as u64 && area.allocate_long();
        if size <= SHORT as u64 {
            (form, size, Room::Short)
        } else if area.reads() && (long || !fits) && has_room(self.table()) && !too_many() {
            (
                Form::Lent(self.piece()),
                self.table(),
                super::room_for(self.table()),
            )
        } else if fits && area.allocate_long() {
            (form, size, Room::Long)
        } else {
            (Form::Messages, self.lengths(), Room::Short)
        }
    }

    /// How much of each block is lent at a time. Of what received data overwrites, it is the same on all processes: then what comes in a
    /// round takes the place of what has been packed for it.
    fn piece(&self) -> u64 {
        if !self.must_pack && self.scattered <= PACKED {
            return WHOLE;
        }
        (PACKED / self.places.max(1)).max(PIECE_MIN)
    }
}

/// A process's blocks, as it has published them.
struct Publication<'a, E, F> {
    edges: &'a E,
    outgoing: &'a F,
    form: Form,
    room: Room,
    /// Bytes of the place.
    size: usize,
    /// How many rounds they take.
    rounds: u64,
    must_pack: bool,
    /// Whether all other processes get something.
    to_all: bool,
    /// What is lent and not one run of bytes.
    packed: Option<Scratch>,
}

impl<E: Edges, F: Fn(u32) -> Chunk + Send + Sync> Publication<'_, E, F> {
    fn new<'a>(
        run: &mut Run<'_>,
        area: &Area,
        edges: &'a E,
        outgoing: &'a F,
        must_pack: bool,
    ) -> Publication<'a, E, F> {
        let all = Outgoing::of(edges, outgoing, must_pack);
        let (form, size, room) = all.form(area);
        let mut mine = Publication {
            edges,
            outgoing,
            form,
            room,
            size: size as usize,
            rounds: 1,
            must_pack,
            to_all: edges.connect_all() && all.shortest > 0,
            packed: None,
        };
        if let Form::Lent(piece) = form {
            mine.rounds = all.longest.div_ceil(piece).max(1);
            let bytes = match mine.rounds {
                1 => all.scattered,
                _ => all.blocks.saturating_mul(piece.min(all.longest)),
            };
            if all.scattered > 0 {
                mine.packed = Scratch::kept(bytes as usize).ok();
            }
            if all.scattered > 0 && mine.packed.is_none() {
                // Messages need no memory for all at once.
                (mine.form, mine.size, mine.room) = (Form::Messages, all.lengths() as usize, Room::Short);
                mine.rounds = 1;
            }
        }
        if mine.form == Form::Messages && must_pack {
            match Scratch::bytes(usize::try_from(all.scattered).unwrap_or(usize::MAX)) {
                Ok(packed) => mine.packed = Some(packed),
                // The others get messages all the same.
                Err(error) => run.note::<()>(Err(error)),
            }
            let mut end = 0;
            for block in blocks(edges).map(outgoing) {
                mine.pack(run, &block, block.clone(), &mut end);
            }
        }
        mine
    }

    /// Some bytes of a block, which are packed behind the `end` of what is packed, if they have to be.
    fn pack(&self, run: &mut Run<'_>, block: &Chunk, some: Chunk, end: &mut usize) -> Chunk {
        match &self.packed {
            Some(packed) if self.must_pack || block.run().is_none() => {
                let into = packed.part(*end, some.len() as usize);
                *end += some.len() as usize;
                run.note(copy(&some, &into));
                into
            }
            _ => some,
        }
    }

    /// Starts to send the blocks as messages.
    fn send<'b>(&self, messages: &mut Run<'b>, area: &Area, under_way: &mut UnderWay<'b>) {
        let mut end = 0;
        for (at, to) in self.edges.outgoing() {
            let mut block = (self.outgoing)(at);
            if let Some(packed) = &self.packed {
                let len = block.len() as usize;
                block = packed.part(end, len);
                end += len;
            }
            if !block.is_empty() {
                let sending = messages.send(area.rank_of(to), block);
                messages.keep(under_way, sending);
            }
        }
    }

    /// Publishes all of the blocks, or the pieces of this number.
    async fn publish(&self, run: &mut Run<'_>, area: &Area, round: Round, nth: u64) {
        let claimed = area.claim(round, self.room).await;
        run.note(claimed);
        let place = area.own(round, self.size, self.room);
        match self.form {
            Form::Even(len) => {
                let len = len as usize;
                for at in blocks(self.edges) {
                    let to = place.part(at as usize * len, len);
                    run.note(copy(&(self.outgoing)(at), &chunk_of(to)));
                }
            }
            Form::Table => {
                let mut end = self.edges.places() as usize * PAIR;
                for at in blocks(self.edges) {
                    let block = (self.outgoing)(at);
                    let len = block.len() as usize;
                    place.set_pair(at as usize, [end as u64, len as u64]);
                    run.note(copy(&block, &chunk_of(place.part(end, len))));
                    end += len;
                }
            }
            Form::Lent(piece) => self.lend(run, place, nth.saturating_mul(piece), piece),
            Form::Messages if self.size == 0 => {}
            Form::Messages => {
                for at in blocks(self.edges) {
                    place.set_pair(at as usize, [0, (self.outgoing)(at).len()]);
                }
            }
        }
        area.publish(round, self.size, self.room, self.form.total());
    }

    fn lend(&self, run: &mut Run<'_>, place: Bytes, start: u64, piece: u64) {
        let mut end = 0;
        for at in blocks(self.edges) {
            let block = (self.outgoing)(at);
            let some = self.pack(run, &block, part(&block, start, piece), &mut end);
            let address = some
                .run()
                .map_or(0, |(address, _)| address.get().expose_provenance());
            place.set_pair(at as usize, [address as u64, block.len()]);
        }
    }

    /// Waits until nobody reads any more what was lent in a round.
    async fn returned(&self, run: &mut Run<'_>, area: &Area, round: Round) {
        if self.to_all {
            let returned = area.returned(round).await;
            return run.note(returned);
        }
        for (at, to) in self.edges.outgoing() {
            if !(self.outgoing)(at).is_empty() {
                let done = area.done_by(to, round).await;
                run.note(done);
            }
        }
    }
}

/// Exchanges the blocks of an operation. `outgoing` is the block of a number; with `must_pack`, received data may overwrite them. `meanwhile`
/// is done when they have been published. This is the last that the operation does in the area.
pub async fn exchange(
    run: &mut Run<'_>,
    area: &Area,
    edges: &impl Edges,
    outgoing: &(impl Fn(u32) -> Chunk + Send + Sync),
    receive: &impl Blocks,
    must_pack: bool,
    meanwhile: impl FnOnce(&mut Run<'_>) + Send,
) {
    let mut round = area.next();
    let has_some = edges.outgoing().next().is_some();
    let mine = has_some.then(|| Publication::new(run, area, edges, outgoing, must_pack));
    if let Some(mine) = &mine {
        mine.publish(run, area, round, 0).await;
    }
    meanwhile(run);
    let mut sources = Sources::of(edges, receive);
    // The last round in which something was lent.
    let mut lent = mine
        .as_ref()
        .filter(|mine| matches!(mine.form, Form::Lent(_)))
        .map(|_| round);
    let mut nth = 0;
    let from_all = edges.connect_all() && sources.unfinished.len() + 1 == area.size() as usize;
    loop {
        sources.fetch(run, area, round, receive).await;
        if from_all && nth == 0 {
            area.all_in(round);
        }
        area.done(round);
        nth += 1;
        let more = mine.as_ref().filter(|mine| nth < mine.rounds);
        if more.is_none() && sources.unfinished.is_empty() {
            break;
        }
        round = area.next();
        if let Some(mine) = more {
            if let Some(lent) = lent.replace(round) {
                mine.returned(run, area, lent).await;
            }
            mine.publish(run, area, round, nth).await;
        }
    }
    // Sources of others may wait for this process before they go on to their messages.
    area.done_with_all();
    if let (Some(mine), Some(lent)) = (&mine, lent) {
        mine.returned(run, area, lent).await;
    }
    let sent = mine.as_ref().filter(|mine| mine.form == Form::Messages);
    if sent.is_some() || !sources.by_message.is_empty() {
        messages(run, area, sent, &sources.by_message, receive).await;
    }
}

/// The rest of an exchange in which this process has published its blocks in a round, whole. Taking a block again does no harm.
pub async fn rest(run: &mut Run<'_>, area: &Area, round: Round, edges: &impl Edges, receive: &impl Blocks) {
    let mut sources = Sources::of(edges, receive);
    let mut round = round;
    loop {
        sources.fetch(run, area, round, receive).await;
        area.done(round);
        if sources.unfinished.is_empty() {
            break;
        }
        round = area.next();
    }
    area.done_with_all();
    if !sources.by_message.is_empty() {
        let sent = None::<&Publication<'_, All, fn(u32) -> Chunk>>;
        messages(run, area, sent, &sources.by_message, receive).await;
    }
}

/// Exchanges blocks as messages: this process's, if they are `sent` so, and those of others.
async fn messages<E: Edges, F: Fn(u32) -> Chunk + Send + Sync>(
    run: &mut Run<'_>,
    area: &Area,
    sent: Option<&Publication<'_, E, F>>,
    incoming: &[Incoming],
    receive: &impl Blocks,
) {
    let beside = beside(run);
    let mut messages = Run::new(&beside);
    let mut under_way = UnderWay::new();
    // In the order in which those of one process are sent.
    for from in incoming {
        let receiving = messages.receive(area.rank_of(from.member), receive.block(from.place));
        messages.keep(&mut under_way, receiving);
    }
    if let Some(sent) = sent {
        sent.send(&mut messages, area, &mut under_way);
    }
    messages.end_all(under_way).await;
    run.note(messages.finish());
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

/// A block that has not come yet.
#[derive(Clone, Copy)]
struct Source {
    from: Incoming,
    /// How much of it has come; `None`: there is no more.
    done: Option<u64>,
    /// Whether what its process publishes in this round has been taken.
    seen: bool,
}

/// What is still to come.
struct Sources {
    unfinished: SmallVec<[Source; 8]>,
    by_message: SmallVec<[Incoming; 8]>,
}

impl Sources {
    fn of(edges: &impl Edges, receive: &impl Blocks) -> Sources {
        // Of an only source it is seen whether it sends too much, also where nothing is expected.
        let only = edges.incoming().nth(1).is_none();
        let some = edges
            .incoming()
            .filter(|from| only || !receive.block(from.place).is_empty())
            .map(|from| Source {
                from,
                done: Some(0),
                seen: false,
            });
        Sources {
            unfinished: some.collect(),
            by_message: SmallVec::new(),
        }
    }

    /// Takes what is published in a round, as it comes.
    async fn fetch(&mut self, run: &mut Run<'_>, area: &Area, round: Round, receive: &impl Blocks) {
        loop {
            let (mut missing, mut took) = (None, false);
            for at in 0..self.unfinished.len() {
                let Source { from, done, seen } = self.unfinished[at];
                if seen {
                    continue;
                }
                if !area.has_published(from.member, round) {
                    missing.get_or_insert(from.member);
                    continue;
                }
                let block = receive.block(from.place);
                let done = self.take(run, area, round, from, &block, done.unwrap_or(0)).await;
                self.unfinished[at] = Source {
                    from,
                    done,
                    seen: true,
                };
                took = true;
            }
            match missing {
                None => break,
                // Others may have published something meanwhile.
                Some(_) if took => {}
                Some(member) => {
                    if get(run, area, member, round).await.is_none() {
                        self.unfinished.retain(|source| source.from.member != member);
                    }
                }
            }
        }
        self.unfinished.retain(|source| {
            source.seen = false;
            source.done.is_some()
        });
    }

    /// Takes what there is of a block in a round, of which `done` bytes have come before; returns how many have come if more are to.
    async fn take(
        &mut self,
        run: &mut Run<'_>,
        area: &Area,
        round: Round,
        from: Incoming,
        block: &Chunk,
        done: u64,
    ) -> Option<u64> {
        let Incoming {
            member,
            block: number,
            ..
        } = from;
        let found = get(run, area, member, round).await?;
        let number = number as usize;
        let bytes = match Form::of(&found) {
            Some(Form::Even(len)) => even_block(found.bytes, number, len),
            Some(Form::Table) => table_block(found.bytes, number),
            Some(Form::Lent(piece)) if rounds(block.len(), piece).is_some() => {
                if let Some([address, whole]) = found.bytes.pair(number) {
                    if done == 0 {
                        fitting(run, member, whole, block);
                    }
                    let len = piece.min(whole.saturating_sub(done));
                    let lent = area.lent_at(member, [address, len]);
                    let into = part(block, done, len);
                    if !into.is_empty() {
                        run.note(direct::read(area, &lent, 0, &into).await);
                    }
                    let done = done.saturating_add(len);
                    return (len != 0 && done < whole.min(block.len())).then_some(done);
                }
                None
            }
            Some(Form::Messages) => {
                // An empty block is not sent.
                if found.bytes.pair(number).is_none_or(|[_, len]| len != 0) {
                    self.by_message.push(from);
                }
                return None;
            }
            _ => None,
        };
        match bytes {
            None => run.note::<()>(Err(nonsense(member))),
            Some(bytes) => {
                fitting(run, member, bytes.number() as u64, block);
                take(run, &chunk_of(bytes), block, 0);
            }
        }
        None
    }
}

/// It is an error if there is no room for all of a block.
fn fitting(run: &mut Run<'_>, member: u32, theirs: u64, block: &Chunk) {
    let mine = block.len();
    if theirs > mine {
        run.note::<()>(Err(truncated(member, theirs, mine)));
    }
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
        "what process {member} of this host wrote into shared memory for others makes no sense"
    )
}
