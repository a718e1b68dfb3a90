//! What reordering gains: neighbours that share a host, a package, a memory (NUMA node) and a cache are counted before and after.

use std::cell::Cell;
use std::sync::Arc;

use fastrand::Rng;
use weft::objects::communicator::Communicator;
use weft::objects::topology::{DistGraph, Edge, Graph, Grid};
use weft::sim::{Options, Rank, Simulation, check};
use weft::system::locality::{Layout, Location};

use crate::topologies::{locations, process, together};

/// Hosts by the launcher's list, and where processes are in them.
struct Machine {
    layout: Layout,
    locations: Vec<Location>,
}

impl Machine {
    fn new(layout: &str, locations: Vec<Location>) -> Machine {
        Machine {
            layout: Layout::parse(layout).expect("a layout"),
            locations,
        }
    }

    /// Runs a program on it.
    fn run<F: Future>(&self, seed: u64, program: impl Fn(Rank) -> F) -> Vec<F::Output> {
        let options = Options {
            layout: self.layout.clone(),
            ..Options::random(seed)
        };
        let ended = Simulation::new(seed, self.locations.len() as u32, options).run(program);
        ended
            .into_iter()
            .map(|result| result.expect("it lived"))
            .collect()
    }

    /// The process at each place, where each process has made the same communicator.
    fn same(found: Vec<Vec<u32>>) -> Vec<u32> {
        assert!(found.iter().all(|other| *other == found[0]), "{found:?}");
        found.into_iter().next().expect("a process")
    }

    /// Weights of neighbours that share a host, a package, a memory, a cache, before and after.
    fn counted(&self, edges: &[Edge], processes: &[u32]) -> [[i64; 4]; 2] {
        let node = |process| self.layout.node_of(process);
        let sums = |process: &dyn Fn(u32) -> u32| together(edges, node, &self.locations, process);
        [sums(&|place| place), sums(&|place| processes[place as usize])]
    }

    fn grid(&self, grid: &Grid) -> [[i64; 4]; 2] {
        let found = self.run(1, |rank| async move {
            let me = rank.me().number() as usize;
            let reorder = Some(|| self.locations[me]);
            let new = rank
                .world()
                .clone()
                .create_cartesian(Ok(grid.clone()), reorder)
                .await;
            processes(&new.expect("it fits").expect("a place"))
        });
        self.counted(&edges_of(grid), &Machine::same(found))
    }

    /// The same edges as a graph that all know, and as one of which each process gives its own.
    fn graphs(&self, grid: &Grid) -> [[[i64; 4]; 2]; 2] {
        let lists: Vec<Vec<u32>> = (0..grid.size())
            .map(|rank| grid.neighbours(rank).into_iter().flatten().collect())
            .collect();
        let mut end = 0;
        let index: Vec<i32> = lists
            .iter()
            .map(|list| (end += list.len() as i32, end).1)
            .collect();
        let all: Vec<i32> = lists.concat().iter().map(|&rank| rank as i32).collect();
        let whole = Graph::new(&index, |_| Ok(&all)).expect("a graph");
        let (lists, whole) = (&lists, &whole);
        let found = self.run(2, |rank| async move {
            let (me, world) = (rank.me().number() as usize, rank.world().clone());
            let locate = || Some(|| self.locations[me]);
            let first = world.clone().create_graph(Ok(whole.clone()), locate()).await;
            let mut own = DistGraph::default();
            for &rank in &lists[me] {
                own.sources.push(rank, 1, false);
                own.destinations.push(rank, 1, false);
            }
            let second = world.create_dist_graph_adjacent(Ok(own), locate()).await;
            let first = first.expect("it fits").expect("a node");
            (processes(&first), processes(&second.expect("good edges")))
        });
        let (first, second): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        [first, second].map(|found| self.counted(&edges_of(grid), &Machine::same(found)))
    }
}

/// The process at each place.
fn processes(communicator: &Communicator) -> Vec<u32> {
    (0..communicator.size())
        .map(|rank| process(communicator, rank))
        .collect()
}

fn edges_of(grid: &Grid) -> Vec<Edge> {
    let forward =
        |rank| (0..grid.dims().len()).filter_map(move |at| Some((rank, grid.shifted(rank, at, 1)?)));
    let edges = (0..grid.size()).flat_map(forward);
    edges
        .map(|(source, destination)| Edge {
            source,
            destination,
            weight: 1,
        })
        .collect()
}

fn at(package: u32, cache: u32) -> Location {
    Location {
        parts: [package, package, cache].map(Some),
    }
}

fn grid(dims: &[i32]) -> Grid {
    Grid::new(dims, vec![false; dims.len()]).expect("a grid")
}

/// 16 ranks by turns on two packages, and in each on two caches.
#[test]
fn ranks_that_take_turns_are_put_together() {
    let turns = |number: u32| {
        (0..16)
            .map(|rank| at(rank / number % 2, rank / number / 2 % 2))
            .collect()
    };
    let one = Machine::new("(vector,(0,1,16))", turns(1));
    let blocks = Machine::new("(vector,(0,2,8))", turns(1));
    let singly = Machine::new("(vector,(0,2,1))", turns(2));
    for (machine, dims, before, after) in [
        (&one, &[4, 4][..], [24, 12, 12, 12], [24, 20, 20, 16]),
        (&one, &[16], [15, 0, 0, 0], [15, 14, 14, 12]),
        (&blocks, &[4, 4], [20, 8, 8, 8], [20, 16, 16, 8]),
        (&blocks, &[2, 2, 4], [20, 8, 8, 8], [24, 16, 16, 8]),
        (&singly, &[4, 4], [12, 12, 12, 0], [20, 16, 16, 8]),
    ] {
        assert_eq!(machine.grid(&grid(dims)), [before, after], "{dims:?}");
        for [was, is] in machine.graphs(&grid(dims)) {
            assert_eq!(was, before);
            assert_eq!(is, after, "{dims:?}");
        }
    }
}

#[test]
fn hosts_and_packages_may_be_uneven_and_some_processes_know_nothing() {
    // Five and three ranks on two hosts; on the first, three on one package and two on the other.
    let packages = [0, 1, 0, 1, 0, 7, 7, 7].map(|package| at(package, package));
    let mut machine = Machine::new("(vector,(0,1,5),(1,1,3))", packages.to_vec());
    assert_eq!(machine.grid(&grid(&[8])), [[6, 2, 2, 2], [6, 5, 5, 5]]);
    for [before, after] in machine.graphs(&grid(&[8])) {
        assert_eq!([before, after], [[6, 2, 2, 2], [6, 5, 5, 5]]);
    }
    // One of the package of two is not bound.
    machine.locations[3] = Location::default();
    assert_eq!(machine.grid(&grid(&[8])), [[6, 2, 2, 2], [6, 4, 4, 4]]);
    // Nobody is.
    machine.locations.fill(Location::default());
    assert_eq!(machine.grid(&grid(&[8])), [[6, 0, 0, 0]; 2]);
}

/// A communicator of some of the processes, in another order, and a grid of some of these.
#[test]
fn parts_of_communicators() {
    check("reordering_parts", 60, |seed| {
        let mut rng = Rng::with_seed(seed);
        let size = rng.u32(4..14);
        let (hosts, block) = (rng.u32(1..4), rng.u32(1..8));
        let layout = format!("(vector,(0,{hosts},{block}))");
        let machine = Machine::new(&layout, locations(&mut rng, size));
        let keys: Vec<i32> = (0..size).map(|_| rng.i32(..100)).collect();
        let left_out = rng.u32(2..5);
        let members: Vec<u32> = {
            let mut members: Vec<u32> = (0..size).filter(|rank| rank % left_out != 1).collect();
            members.sort_by_key(|&rank| (keys[rank as usize], rank));
            members
        };
        let rows = rng.i32(1..=members.len() as i32);
        let grid = grid(&[rows, members.len() as i32 / rows]);
        let (machine_, keys, grid_) = (&machine, &keys, &grid);
        let found = machine.run(seed, |rank| async move {
            let me = rank.me().number();
            let color = if me % left_out == 1 { -1 } else { 0 };
            let part = rank
                .world()
                .clone()
                .split(color, keys[me as usize])
                .await
                .expect("a color");
            let reorder = Some(|| machine_.locations[me as usize]);
            let new: Option<Arc<Communicator>> = match part.filter(|_| color == 0) {
                Some(part) => part
                    .create_cartesian(Ok(grid_.clone()), reorder)
                    .await
                    .expect("it fits"),
                None => None,
            };
            new.map(|new| processes(&new))
        });
        let found: Vec<Vec<u32>> = found.into_iter().flatten().collect();
        assert_eq!(found.len(), grid.size() as usize);
        let edges = edges_of(&grid);
        let first = Machine::same(found);
        let node = |process| machine.layout.node_of(process);
        let before = together(&edges, node, &machine.locations, |place| members[place as usize]);
        let after = together(&edges, node, &machine.locations, |place| first[place as usize]);
        assert!(after >= before, "{before:?} before and {after:?} after");
    });
}

/// Processes tell each other where they are only if not all are in the same parts.
#[test]
fn no_messages_where_nothing_is_gained() {
    let sent = |locations: Vec<Location>| {
        let machine = &Machine::new("(vector,(0,1,6))", locations);
        let sent = machine.run(5, |rank| async move {
            let me = rank.me();
            let reorder = Some(|| machine.locations[me.number() as usize]);
            let new = rank
                .world()
                .clone()
                .create_cartesian(Ok(grid(&[6])), reorder)
                .await;
            new.expect("it fits");
            rank.network().sent(me)
        });
        sent.into_iter().sum::<u64>()
    };
    let least = sent(vec![Location::default(); 6]);
    assert_eq!(sent(vec![at(3, 3); 6]), least);
    assert!(sent((0..6).map(|rank| at(rank % 2, 0)).collect()) > least);
}

/// Processes are not asked where they are if a host has at most two of them; and nobody moves, or waits, if some don't want to.
#[test]
fn only_where_it_can_matter() {
    let singly = Machine::new("(vector,(0,3,2))", vec![Location::default(); 6]);
    let asked = Cell::new(0);
    let (singly, asked) = (&singly, &asked);
    let reorder = || Some(|| (asked.set(asked.get() + 1), Location::default()).1);
    singly.run(3, |rank| async move {
        let world = rank.world().clone();
        let new = world.clone().create_cartesian(Ok(grid(&[2, 3])), reorder()).await;
        new.expect("it fits");
        let new = world.create_dist_graph(Ok((Vec::new(), false)), reorder()).await;
        new.expect("no edges");
    });
    assert_eq!(asked.get(), 0);

    let by_turns = Machine::new("(vector,(0,1,6))", (0..6).map(|rank| at(rank % 2, 0)).collect());
    let by_turns = &by_turns;
    for wants in [0b11_1111u32, 0b11_1110, 0b00_0001, 0] {
        let found = by_turns.run(4, |rank| async move {
            let me = rank.me().number();
            let reorder = (wants >> me & 1 != 0).then_some(|| by_turns.locations[me as usize]);
            let new = rank
                .world()
                .clone()
                .create_cartesian(Ok(grid(&[6])), reorder)
                .await;
            processes(&new.expect("it fits").expect("a place"))
        });
        let expected = if wants == 0b11_1111 {
            [0, 2, 4, 1, 3, 5]
        } else {
            [0, 1, 2, 3, 4, 5]
        };
        assert_eq!(Machine::same(found), expected);
    }
}
