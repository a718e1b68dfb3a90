//! Operations among neighbours, on grids, graphs and distributed graphs, held against a model that says where each block comes from.

use std::sync::Arc;

use fastrand::Rng;
use weft::Class;
use weft::objects::collective::{self, WBuffer};
use weft::objects::communicator::Communicator;
use weft::objects::topology::{DistGraph, Graph, Grid};
use weft::sim::{Options, Rank, Simulation};
use weft::system::locality::Location;

use crate::data::{Area, Element, LAYOUTS, Layout, Room, element};
use crate::{Case, call_on, cases, long_cases, messages};

/// For each block that a process receives: who sends it, and which of the sender's blocks it is. `None`: nobody.
type Incoming = Vec<Option<(u32, usize)>>;

/// A communicator with a topology, and where blocks come from at each of its ranks; and whom each block goes to.
struct Arranged {
    communicator: Arc<Communicator>,
    incoming: Vec<Incoming>,
    outgoing: Vec<Vec<Option<u32>>>,
}

/// Of edges between the same two processes, the first that one sends is the first that the other receives.
fn matched(sources: &[Vec<u32>], destinations: &[Vec<u32>]) -> Vec<Incoming> {
    let of_rank = |me: usize| {
        let block = |(at, &from): (usize, &u32)| {
            let before = sources[me][..at].iter().filter(|&&other| other == from).count();
            let out = destinations[from as usize].iter().enumerate();
            let mut here = out.filter(|(_, to)| **to == me as u32);
            Some((from, here.nth(before).expect("an edge has two ends").0))
        };
        sources[me].iter().enumerate().map(block).collect()
    };
    (0..sources.len()).map(of_rank).collect()
}

fn some(lists: &[Vec<u32>]) -> Vec<Vec<Option<u32>>> {
    lists
        .iter()
        .map(|list| list.iter().copied().map(Some).collect())
        .collect()
}

/// Perhaps processes are reordered: those of each host are on two packages by turns.
fn reordering(world: &Communicator, rng: &mut Rng) -> Option<impl FnOnce() -> Location + use<>> {
    let me = world.rank();
    rng.bool().then_some(move || Location::pretended(me, 0, 2))
}

async fn grid(world: Arc<Communicator>, rng: &mut Rng) -> Arranged {
    let mut dims = Vec::new();
    let mut rest = world.size() as i32;
    while rest > 1 || (dims.len() < 3 && rng.bool()) {
        let divisors: Vec<i32> = (1..=rest).filter(|divisor| rest % divisor == 0).collect();
        let size = *rng.choice(&divisors).expect("1 at least");
        dims.push(size);
        rest /= size;
    }
    let periods: Vec<bool> = dims.iter().map(|_| rng.bool()).collect();
    let coords = |rank: u32| {
        let mut rest = rank as i32;
        let mut coords: Vec<i32> = dims
            .iter()
            .rev()
            .map(|size| (rest % size, rest /= size).0)
            .collect();
        coords.reverse();
        coords
    };
    let step = |rank: u32, dimension: usize, by: i32| {
        let mut at = coords(rank);
        at[dimension] += by;
        if !(0..dims[dimension]).contains(&at[dimension]) && !periods[dimension] {
            return None;
        }
        at[dimension] = at[dimension].rem_euclid(dims[dimension]);
        let wanted = (0..world.size()).find(|&other| coords(other) == at);
        Some(wanted.expect("every place has a rank"))
    };
    // Section 8.6.2: what goes down comes from above, and the other way round.
    let both = |rank, dimension| {
        [(-1, 2 * dimension + 1), (1, 2 * dimension)]
            .map(|(by, block)| step(rank, dimension, by).map(|other| (other, block)))
    };
    let of_rank = |rank| {
        (0..dims.len())
            .flat_map(|at| both(rank, at))
            .collect::<Incoming>()
    };
    let to = |rank| {
        (0..dims.len())
            .flat_map(|at| [-1, 1].map(|by| step(rank, at, by)))
            .collect()
    };
    let (incoming, outgoing) = (
        (0..world.size()).map(of_rank).collect(),
        (0..world.size()).map(to).collect(),
    );
    let reorder = reordering(&world, rng);
    let made = world.create_cartesian(Grid::new(&dims, periods), reorder).await;
    Arranged {
        communicator: made.expect("it fits").expect("all have a place"),
        incoming,
        outgoing,
    }
}

async fn graph(world: Arc<Communicator>, rng: &mut Rng) -> Arranged {
    let size = world.size();
    let mut lists = vec![Vec::new(); size as usize];
    for _ in 0..rng.u32(..=2 * size) {
        let (one, other) = (rng.u32(..size), rng.u32(..size));
        for _ in 0..rng.u32(1..3) {
            lists[one as usize].push(other);
            if one != other {
                lists[other as usize].push(one);
            }
        }
    }
    lists.iter_mut().for_each(|list| rng.shuffle(list));
    let mut end = 0;
    let index: Vec<i32> = lists
        .iter()
        .map(|list| (end += list.len() as i32, end).1)
        .collect();
    let edges: Vec<i32> = lists.concat().iter().map(|&to| to as i32).collect();
    let reorder = reordering(&world, rng);
    let made = world
        .create_graph(Graph::new(&index, |_| Ok(&edges)), reorder)
        .await;
    Arranged {
        communicator: made.expect("it fits").expect("all have a node"),
        incoming: matched(&lists, &lists),
        outgoing: some(&lists),
    }
}

async fn dist_graph(world: Arc<Communicator>, rng: &mut Rng) -> Arranged {
    let (size, me) = (world.size(), world.rank() as usize);
    let (mut sources, mut destinations) = (vec![Vec::new(); size as usize], vec![Vec::new(); size as usize]);
    for _ in 0..rng.u32(..=3 * size) {
        let (from, to) = (rng.u32(..size), rng.u32(..size));
        for _ in 0..rng.u32(1..3) {
            destinations[from as usize].push(to);
            sources[to as usize].push(from);
        }
    }
    for list in sources.iter_mut().chain(&mut destinations) {
        rng.shuffle(list);
    }
    let mut mine = DistGraph::default();
    sources[me]
        .iter()
        .for_each(|&rank| mine.sources.push(rank, 1, false));
    destinations[me]
        .iter()
        .for_each(|&rank| mine.destinations.push(rank, 1, false));
    let reorder = reordering(&world, rng);
    let made = world.create_dist_graph_adjacent(Ok(mine), reorder).await;
    Arranged {
        communicator: made.expect("good arguments"),
        incoming: matched(&sources, &destinations),
        outgoing: some(&destinations),
    }
}

/// A random topology, the same at all ranks.
async fn arranged(rank: &Rank, case: &Case) -> Arranged {
    let (mut rng, world) = (case.common(), rank.world().clone());
    match rng.u32(..3) {
        0 => grid(world, &mut rng).await,
        1 => graph(world, &mut rng).await,
        _ => dist_graph(world, &mut rng).await,
    }
}

/// The element `index` of a block of a rank.
fn of(from: u32, block: usize, index: u64) -> Element {
    element(from * 1000 + block as u32, index)
}

/// How many elements a block has.
fn count(case: &Case, from: u32, block: usize) -> u64 {
    let mut rng = case.common();
    rng.seed(rng.get_seed() ^ u64::from(from * 1000 + block as u32) << 24);
    [0, case.count, rng.u64(..=case.count)][rng.usize(..3)]
}

/// Where blocks of these counts begin, in another order and with gaps, and where the last one ends.
fn places(rng: &mut Rng, counts: &[u64]) -> (Vec<i64>, i64) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    rng.shuffle(&mut order);
    let (mut displs, mut end) = (vec![0; counts.len()], 0);
    for block in order {
        displs[block] = end + rng.i64(0..3);
        end = displs[block] + counts[block] as i64;
    }
    (displs, end)
}

fn layout(rng: &mut Rng) -> Layout {
    Layout::new(rng.usize(..LAYOUTS))
}

/// What each process sends to all of its destinations, with and without displacements at the receiver.
async fn allgather_case(rank: Rank, case: Case) {
    let arranged = arranged(&rank, &case).await;
    allgather_on(&arranged, rank, case).await;
}

async fn allgather_on(arranged: &Arranged, rank: Rank, case: Case) {
    let Arranged {
        communicator,
        incoming,
        ..
    } = arranged;
    let (me, with_counts) = (communicator.rank(), case.in_place);
    let mut rng = case.own(rank.me().number());
    let length = |from: u32| {
        if with_counts {
            count(&case, from, 0)
        } else {
            case.count
        }
    };
    let mut own = Area::of(&layout(&mut rng), me, length(me));
    let before = own.clone();
    let sources = &incoming[me as usize];
    let counts: Vec<u64> = sources
        .iter()
        .map(|source| source.map_or(case.count, |(from, _)| length(from)))
        .collect();
    let (displs, end) = match with_counts {
        true => places(&mut rng, &counts),
        false => {
            let count = case.count as i64;
            let number = counts.len() as i64;
            ((0..number).map(|block| block * count).collect(), number * count)
        }
    };
    let mut all = Area::new(&layout(&mut rng), 0..end);
    let mut expected = all.clone();
    for ((source, &displ), &count) in sources.iter().zip(&displs).zip(&counts) {
        if let Some((from, _)) = *source {
            (0..count).for_each(|index| expected.put(displ + index as i64, element(from, index)));
        }
    }
    let send = own.buffer(length(me));
    let messages = messages(&case, communicator);
    let room = [all.room()];
    let result = match with_counts {
        true => {
            let receive = all.uneven(&counts, &displs);
            call_on(&rank, &case, messages, &room, move |operation| async move {
                collective::neighbour_allgatherv(&operation, send, receive).await
            })
            .await
        }
        false => {
            let receive = all.blocks(case.count, counts.len() as u32);
            call_on(&rank, &case, messages, &room, move |operation| async move {
                collective::neighbour_allgather(&operation, send, receive).await
            })
            .await
        }
    };
    result.expect("nobody dies");
    own.check(&before, &(me, &case));
    all.check(&expected, &(me, &case));
}

#[test]
fn neighbour_allgather() {
    cases("neighbour_allgather", allgather_case);
}

#[test]
fn neighbour_allgather_long() {
    long_cases("neighbour_allgather_long", &[769, 9000], allgather_case);
}

/// A block for each destination, with and without displacements.
async fn alltoall_case(rank: Rank, case: Case) {
    let arranged = arranged(&rank, &case).await;
    alltoall_on(&arranged, rank, case).await;
}

async fn alltoall_on(arranged: &Arranged, rank: Rank, case: Case) {
    let Arranged {
        communicator,
        incoming,
        outgoing,
    } = arranged;
    let (me, with_counts) = (communicator.rank(), case.in_place);
    let mut rng = case.own(rank.me().number());
    let length = |from: u32, block: usize| {
        if with_counts {
            count(&case, from, block)
        } else {
            case.count
        }
    };
    let (sources, destinations) = (&incoming[me as usize], &outgoing[me as usize]);
    let in_row = |number: usize| {
        let places = (0..number as i64).map(|block| block * case.count as i64);
        (places.collect::<Vec<i64>>(), number as i64 * case.count as i64)
    };
    let out: Vec<u64> = (0..destinations.len()).map(|block| length(me, block)).collect();
    let into: Vec<u64> = sources
        .iter()
        .map(|source| source.map_or(case.count, |(from, block)| length(from, block)))
        .collect();
    let [(out_displs, out_end), (into_displs, into_end)] = match with_counts {
        true => [places(&mut rng, &out), places(&mut rng, &into)],
        false => [in_row(out.len()), in_row(into.len())],
    };
    let mut send = Area::new(&layout(&mut rng), 0..out_end);
    for (block, (&displ, &count)) in out_displs.iter().zip(&out).enumerate() {
        (0..count).for_each(|index| send.put(displ + index as i64, of(me, block, index)));
    }
    let before = send.clone();
    let mut receive = Area::new(&layout(&mut rng), 0..into_end);
    let mut expected = receive.clone();
    for ((source, &displ), &count) in sources.iter().zip(&into_displs).zip(&into) {
        if let Some((from, block)) = *source {
            (0..count).for_each(|index| expected.put(displ + index as i64, of(from, block, index)));
        }
    }
    let messages = messages(&case, communicator);
    let room = [receive.room()];
    let result = match with_counts {
        true => {
            let (outgoing, incoming) = (
                send.uneven(&out, &out_displs),
                receive.uneven(&into, &into_displs),
            );
            call_on(&rank, &case, messages, &room, move |operation| async move {
                collective::neighbour_alltoallv(&operation, outgoing, incoming).await
            })
            .await
        }
        false => {
            let outgoing = send.blocks(case.count, out.len() as u32);
            let incoming = receive.blocks(case.count, into.len() as u32);
            call_on(&rank, &case, messages, &room, move |operation| async move {
                collective::neighbour_alltoall(&operation, outgoing, incoming).await
            })
            .await
        }
    };
    result.expect("nobody dies");
    send.check(&before, &(me, &case));
    receive.check(&expected, &(me, &case));
}

#[test]
fn neighbour_alltoall() {
    cases("neighbour_alltoall", alltoall_case);
}

#[test]
fn neighbour_alltoall_long() {
    long_cases("neighbour_alltoall_long", &[769, 9000], alltoall_case);
}

/// Every block is an area of its own with its own layout, addressed in bytes from the first one.
async fn alltoallw_case(rank: Rank, case: Case) {
    let arranged = arranged(&rank, &case).await;
    alltoallw_on(&arranged, rank, case).await;
}

async fn alltoallw_on(arranged: &Arranged, rank: Rank, case: Case) {
    let Arranged {
        communicator,
        incoming,
        outgoing,
    } = arranged;
    let me = communicator.rank();
    let mut rng = case.own(rank.me().number());
    let mut area = |number: u64| {
        let layout = layout(&mut rng);
        (Area::new(&layout, 0..number as i64), layout, number)
    };
    let mut send: Vec<(Area, Layout, u64)> = (0..outgoing[me as usize].len())
        .map(|block| area(count(&case, me, block)))
        .collect();
    for (block, (area, _, number)) in send.iter_mut().enumerate() {
        (0..*number).for_each(|index| area.put(index as i64, of(me, block, index)));
    }
    let before = send.clone();
    let sources = &incoming[me as usize];
    let number = |source: &Option<(u32, usize)>| source.map_or(1, |(from, block)| count(&case, from, block));
    let mut receive: Vec<(Area, Layout, u64)> = sources.iter().map(|source| area(number(source))).collect();
    let mut expected = receive.clone();
    for (source, (area, _, number)) in sources.iter().zip(&mut expected) {
        if let Some((from, block)) = *source {
            (0..*number).for_each(|index| area.put(index as i64, of(from, block, index)));
        }
    }
    let argument = |areas: &mut Vec<(Area, Layout, u64)>| {
        let base = areas
            .first_mut()
            .map_or(std::ptr::null_mut(), |(area, ..)| area.address());
        let displs: Vec<i64> = areas
            .iter_mut()
            .map(|(area, ..)| (area.address() as i64).wrapping_sub(base as i64))
            .collect();
        let datatypes: Vec<_> = areas
            .iter()
            .map(|(_, layout, _)| layout.datatype.clone())
            .collect();
        let counts: Vec<u64> = areas.iter().map(|(.., number)| *number).collect();
        // SAFETY: as for `Area::blocks`.
        unsafe { WBuffer::new(base, counts.into(), displs.into(), Arc::from(datatypes)) }
    };
    let (to, from) = (argument(&mut send), argument(&mut receive));
    let rooms: Vec<Room> = receive.iter_mut().map(|(area, ..)| area.room()).collect();
    let messages = messages(&case, communicator);
    call_on(&rank, &case, messages, &rooms, move |operation| async move {
        collective::neighbour_alltoallw(&operation, to, from).await
    })
    .await
    .expect("nobody dies");
    for (areas, expected) in [(&send, &before), (&receive, &expected)] {
        for ((area, ..), (expected, ..)) in areas.iter().zip(expected) {
            area.check(expected, &(me, &case));
        }
    }
}

#[test]
fn neighbour_alltoallw() {
    cases("neighbour_alltoallw", alltoallw_case);
}

/// Many operations on one communicator, others between them, and processes of different speeds: some are far ahead of those that are not
/// their neighbours.
async fn sequence_case(rank: Rank, case: Case) {
    let arranged = arranged(&rank, &case).await;
    let (mut common, mut own) = (case.common(), case.own(rank.me().number() + 100));
    let slow = own.u64(..3);
    for step in 0..15 {
        if own.u32(..4) == 0 {
            rank.pause(slow * own.u64(..20_000)).await;
        }
        let case = Case {
            count: [0, 1, 2, 40, case.count][common.usize(..5)],
            in_place: common.bool(),
            seed: case.seed << 8 ^ step << 50,
            ..case.clone()
        };
        match common.u32(..8) {
            0..2 => allgather_on(&arranged, rank.clone(), case).await,
            2..5 => alltoall_on(&arranged, rank.clone(), case).await,
            5..7 => alltoallw_on(&arranged, rank.clone(), case).await,
            _ => {
                let messages = messages(&case, &arranged.communicator);
                call_on(&rank, &case, messages, &[], |operation| async move {
                    collective::barrier(&operation).await
                })
                .await
                .expect("nobody dies");
            }
        }
    }
}

#[test]
fn neighbour_sequences() {
    cases("neighbour_sequences", sequence_case);
}

#[test]
fn neighbour_sequences_long() {
    long_cases("neighbour_sequences_long", &[300, 9000], sequence_case);
}

/// Without a topology, and on a graph with an edge that has none back, all processes get an error.
#[test]
fn no_neighbours() {
    Simulation::new(1, 3, Options::random(1)).run(|rank| async move {
        let world = rank.world().clone();
        let graph = Graph::new(&[1, 1, 1], |_| Ok(&[2]));
        let lonely = world
            .clone()
            .create_graph(graph, None::<fn() -> Location>)
            .await
            .expect("it fits")
            .expect("a node");
        for communicator in [world, lonely] {
            let mut area = Area::of(&Layout::new(0), 0, 1);
            let buffer = area.buffer(1);
            let operation = communicator.collective();
            let result = collective::neighbour_allgather(&operation, buffer.clone(), buffer);
            assert_eq!(
                result.await.expect_err("nobody is a neighbour").class,
                Class::Topology
            );
        }
    });
}
