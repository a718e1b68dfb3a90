//! Operations among the neighbours in a topology: those in the area [`exchange`] their blocks there; neighbours on other hosts get messages
//! meanwhile. Which of a source's blocks is whose is found out by messages, in the first of these operations of an area.

use super::exchange::{self, Edges, Incoming};
use super::{Area, Round, Run};
use crate::base::error::Result;
use crate::objects::collective::buffer::{Blocks, Buffer, Chunk, Packed};
use crate::objects::collective::neighbour::{UnderWay, start};
use crate::objects::collective::scratch::{Scratch, copy};
use crate::objects::communicator::Collective;
use crate::objects::communicator::area::{self, Destination, Source};
use crate::objects::topology::Neighbours;

/// The neighbours that are in the area.
struct Here<'a> {
    neighbours: &'a Neighbours,
    edges: &'a area::Edges,
    same: bool,
}

impl Edges for Here<'_> {
    fn outgoing(&self) -> impl Iterator<Item = (u32, u32)> + Send {
        let same = self.same;
        let destinations = (0..).zip(&self.edges.destinations);
        destinations.filter_map(move |(at, to)| match *to {
            Destination::Here(member) => Some((if same { 0 } else { at }, member)),
            _ => None,
        })
    }

    fn incoming(&self) -> impl Iterator<Item = Incoming> + Send {
        self.neighbours
            .order()
            .filter_map(|place| match self.edges.sources[place] {
                Source::Here { member, block } => Some(Incoming {
                    place: place as u32,
                    member,
                    block: if self.same { 0 } else { block },
                }),
                _ => None,
            })
    }

    fn places(&self) -> u32 {
        match self.same {
            true => 1,
            false => self.edges.destinations.len() as u32,
        }
    }

    fn same(&self) -> bool {
        self.same
    }
}

/// Blocks to and from neighbours. `outgoing` is the block for a destination; with `same` it is one for all.
///
/// # Errors
/// It could not be found out which block is whose; other failures are noted.
pub async fn among_neighbours(
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
    let here = Here {
        neighbours,
        edges,
        same,
    };
    let own = |run: &mut Run<'_>| {
        for (place, source) in (0..).zip(&edges.sources) {
            if let Source::Own(block) = *source {
                run.note(copy(&outgoing(block), &receive.block(place)));
            }
        }
    };
    exchange::exchange(run, area, &here, outgoing, receive, false, own).await;
    run.end_all(under_way).await;
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
        let neighbours = topology.neighbours()?;
        if let Some(edges) = area.edges().get() {
            let here = Here {
                neighbours,
                edges,
                same,
            };
            exchange::rest(&mut run, area, round, &here, &receive).await;
        }
    }
    run.finish()
}

/// Where this process's neighbours are, and which blocks of theirs are its own.
async fn edges<'a>(run: &mut Run<'_>, area: &'a Area, neighbours: &Neighbours) -> Result<&'a area::Edges> {
    if let Some(edges) = area.edges().get() {
        return Ok(edges);
    }
    let found = find_edges(run, area, neighbours).await?;
    Ok(area.edges().get_or_init(|| found))
}

/// Each process tells its destinations which of its blocks is theirs, by the messages that the blocks could be.
async fn find_edges(run: &mut Run<'_>, area: &Area, neighbours: &Neighbours) -> Result<area::Edges> {
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
    Ok(area::Edges::new(sources, destinations))
}
