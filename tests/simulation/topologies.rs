//! Communicators with topologies are made for all processes or for none, each has the edges that were given for it, and reordering
//! never parts neighbours. (What reordering gains is in `reordering`.)

use std::sync::Arc;

use fastrand::Rng;
use weft::err;
use weft::objects::collective;
use weft::objects::communicator::Communicator;
use weft::objects::topology::{DistGraph, Edge, Edges, Graph, Grid, Kind};
use weft::sim::{Options, Simulation, check};
use weft::system::locality::Location;
use weft::{Class, Error, Result};

/// The edges that each process gives: between any two, repeated, from a process to itself, or none at all.
fn given(rng: &mut Rng, size: u32, weighted: bool) -> Vec<Vec<Edge>> {
    let edges = |rng: &mut Rng| {
        let most = if rng.u32(..3) == 0 { 0 } else { 3 * size };
        let edge = |rng: &mut Rng| Edge {
            source: rng.u32(..size),
            destination: rng.u32(..size),
            weight: if weighted { rng.i32(0..5) } else { 1 },
        };
        let mut edges: Vec<Edge> = (0..rng.u32(..=most)).map(|_| edge(rng)).collect();
        edges.extend_from_within(..edges.len() / 3);
        edges
    };
    (0..size).map(|_| edges(rng)).collect()
}

/// The edges of each node in the order of who gives them.
fn model(given: &[Vec<Edge>], weighted: bool) -> Vec<DistGraph> {
    let mut nodes = vec![
        DistGraph {
            weighted,
            ..DistGraph::default()
        };
        given.len()
    ];
    for edge in given.iter().flatten() {
        let (from, to) = (edge.source, edge.destination);
        nodes[from as usize].destinations.push(to, edge.weight, weighted);
        nodes[to as usize].sources.push(from, edge.weight, weighted);
    }
    nodes
}

/// The weight of edges between processes that share a host, a package, a memory, a cache, where each rank's process is this one.
pub(crate) fn together(
    edges: &[Edge],
    node_of: impl Fn(u32) -> u32,
    locations: &[Location],
    process: impl Fn(u32) -> u32,
) -> [i64; 1 + Location::LEVELS] {
    let mut sums = [0; 1 + Location::LEVELS];
    for edge in edges.iter().filter(|edge| edge.source != edge.destination) {
        let [one, other] = [edge.source, edge.destination].map(&process);
        if node_of(one) != node_of(other) {
            continue;
        }
        let [one, other] = [one, other].map(|process| locations[process as usize].parts);
        let levels = one
            .iter()
            .zip(&other)
            .take_while(|(one, other)| one.is_some() && one == other);
        for sum in &mut sums[..=levels.count()] {
            *sum += i64::from(edge.weight);
        }
    }
    sums
}

/// Where processes are in their hosts: in one of two packages, in there of two memories, behind one of two caches; or some of this is not known.
pub(crate) fn locations(rng: &mut Rng, size: u32) -> Vec<Location> {
    let unknown = rng.u32(1..12);
    let location = |_| {
        let package = rng.u32(..2);
        let memory = 2 * package + rng.u32(..2);
        let mut location = Location {
            parts: [package, memory, 2 * memory + rng.u32(..2)].map(Some),
        };
        if rng.u32(..unknown) == 0 {
            location.parts[rng.usize(..Location::LEVELS)..].fill(None);
        }
        location
    };
    (0..size).map(location).collect()
}

/// No reordering.
const STAY: Option<fn() -> Location> = None;

/// Reordering, perhaps, of a process that is nowhere.
fn from_nowhere(reorder: bool) -> Option<fn() -> Location> {
    reorder.then_some(Location::default)
}

pub(crate) fn process(communicator: &Communicator, rank: u32) -> u32 {
    communicator.group().member(rank).number()
}

#[test]
fn distributed_graphs() {
    check("distributed_graphs", 150, |seed| {
        let mut rng = Rng::with_seed(seed);
        let size = 1 + seed as u32 % 9;
        let (weighted, reorder, adjacent) = (rng.bool(), rng.bool(), rng.bool());
        let given = given(&mut rng, size, weighted);
        let nodes = model(&given, weighted);
        let any = given.iter().any(|edges| !edges.is_empty());
        let locations = locations(&mut rng, size);
        let options = Options::random(seed);
        let layout = options.layout.clone();
        let (given, nodes, located) = (&given, &nodes, &locations);
        let processes = Simulation::new(seed, size, options).run(|rank| async move {
            let (me, world) = (rank.me().number() as usize, rank.world().clone());
            let reorder = reorder.then_some(|| located[me]);
            let new: Result<Arc<Communicator>> = match adjacent {
                true => {
                    let graph = nodes[me].clone();
                    world.create_dist_graph_adjacent(Ok(graph), reorder).await
                }
                false => {
                    let edges = (given[me].clone(), weighted);
                    world.create_dist_graph(Ok(edges), reorder).await
                }
            };
            let new = new.expect("the arguments are good");
            let Some(Kind::DistGraph(graph)) = new.topology().map(|topology| topology.kind()) else {
                panic!("it has a graph");
            };
            assert_eq!(graph.sources, nodes[new.rank() as usize].sources);
            assert_eq!(graph.destinations, nodes[new.rank() as usize].destinations);
            assert!(!any || graph.weighted == weighted);
            assert_eq!(process(&new, new.rank()), me as u32);
            (0..size).map(|rank| process(&new, rank)).collect::<Vec<u32>>()
        });
        let first = processes[0].clone().expect("it lived");
        assert!(processes.iter().all(|other| other.as_ref() == Some(&first)));
        let edges = given.concat();
        let node = |process| layout.node_of(process);
        let before = together(&edges, node, &locations, |rank| rank);
        let after = together(&edges, node, &locations, |rank| first[rank as usize]);
        assert!(after >= before, "{before:?} before and {after:?} after");
        assert!(reorder || first.is_sorted());
    });
}

#[test]
fn grids_and_graphs() {
    check("grids_and_graphs", 150, |seed| {
        let mut rng = Rng::with_seed(seed);
        let size = 1 + seed as u32 % 9;
        let reorder = rng.bool();
        let mut dims = Vec::new();
        while dims.len() < 3 && rng.u32(..4) != 0 {
            let places: i32 = dims.iter().product();
            dims.push(rng.i32(1..=size as i32 / places));
        }
        let periods: Vec<bool> = dims.iter().map(|_| rng.bool()).collect();
        let grid = Grid::new(&dims, periods).expect("a grid");
        let remain: Vec<bool> = dims.iter().map(|_| rng.bool()).collect();
        let nodes = rng.u32(..=size);
        let (mut index, mut edges) = (Vec::new(), Vec::new());
        for _ in 0..nodes {
            edges.extend((0..rng.u32(..4)).map(|_| rng.i32(0..nodes as i32)));
            index.push(edges.len() as i32);
        }
        let graph = Graph::new(&index, |_| Ok(&edges)).expect("a graph");
        let locations = locations(&mut rng, size);
        let (grid, graph, remain, located) = (&grid, &graph, &remain, &locations);
        let options = Options::random(seed);
        let layout = options.layout.clone();
        let found = Simulation::new(seed, size, options).run(|rank| async move {
            let world = rank.world().clone();
            let locate = reorder.then_some(|| located[world.rank() as usize]);
            let new = world.clone().create_cartesian(Ok(grid.clone()), locate).await;
            let new = new.expect("the grid fits");
            if let Some(new) = &new
                && reorder
            {
                let mapped = world.map_grid(grid);
                for place in 0..grid.size() {
                    let mapped = mapped.as_ref().map_or(place, |rank_at| rank_at[place as usize]);
                    let node = |process| rank.instance().node_of(process);
                    let nodes = [
                        node(world.group().member(mapped)),
                        node(new.group().member(place)),
                    ];
                    assert_eq!(nodes[0], nodes[1], "the same hosts as MPI_Cart_map");
                }
            }
            let mut in_grid = None;
            if let Some(new) = &new {
                let twin = new.clone().duplicate(true).await.expect("a duplicate");
                let Some(Kind::Cartesian(found)) = twin.topology().map(|topology| topology.kind()) else {
                    panic!("a duplicate has it, too");
                };
                assert_eq!(found, grid);
                let split = new.clone().split(0, 0).await.expect("one color");
                assert!(split.expect("a part").topology().is_none());
                let part = new
                    .clone()
                    .cartesian_part(grid, Ok(remain.clone()))
                    .await
                    .expect("a part");
                let ranks = grid.ranks_of_part(new.rank(), remain);
                let expected: Vec<u32> = ranks.iter().map(|&rank| process(new, rank)).collect();
                let members: Vec<u32> = part.group().iter().map(|process| process.number()).collect();
                assert_eq!(members, expected);
                // The parts have one context, and each its own messages.
                let (operation, me) = (part.collective(), u64::from(rank.me().number()));
                let largest = collective::largest(&operation, [me]);
                let largest = largest.await.expect("nobody dies");
                assert_eq!(largest, [u64::from(*expected.iter().max().expect("members"))]);
                in_grid = Some(
                    (0..grid.size())
                        .map(|rank| process(new, rank))
                        .collect::<Vec<u32>>(),
                );
            }
            let locate = reorder.then_some(|| located[rank.me().number() as usize]);
            let new = world
                .create_graph(Ok(graph.clone()), locate)
                .await
                .expect("the graph fits");
            let in_graph = new.map(|new| (0..nodes).map(|rank| process(&new, rank)).collect::<Vec<u32>>());
            (in_grid, in_graph)
        });
        let found: Vec<_> = found.into_iter().map(|found| found.expect("it lived")).collect();
        let node = |process| layout.node_of(process);
        let link = |(source, destination)| Edge {
            source,
            destination,
            weight: 1,
        };
        let forward = |rank| (0..dims.len()).filter_map(move |at| Some((rank, grid.shifted(rank, at, 1)?)));
        let links: Vec<Edge> = (0..grid.size()).flat_map(forward).map(link).collect();
        let edges: Vec<Edge> = graph.pairs().map(link).collect();
        let all_agree = |lists: Vec<&Vec<u32>>, number: u32, links: &[Edge]| {
            assert_eq!(lists.len(), number as usize, "so many have a place");
            let Some(first) = lists.first() else {
                return;
            };
            assert!(lists.iter().all(|list| list == first));
            let before = together(links, node, &locations, |rank| rank);
            let after = together(links, node, &locations, |rank| first[rank as usize]);
            assert!(after >= before, "{before:?} before and {after:?} after");
        };
        all_agree(
            found.iter().filter_map(|found| found.0.as_ref()).collect(),
            grid.size(),
            &links,
        );
        all_agree(
            found.iter().filter_map(|found| found.1.as_ref()).collect(),
            nodes,
            &edges,
        );
    });
}

/// What a process gives wrong, and the class of the error that it gets; the others are told.
#[test]
fn for_all_or_none() {
    check("topologies_for_all_or_none", 60, |seed| {
        let size = 2 + seed as u32 % 6;
        let wrong = seed as u32 / 6 % size;
        let results = Simulation::new(seed, size, Options::random(seed)).run(|rank| async move {
            let (me, world) = (rank.me().number(), rank.world().clone());
            let bad = me == wrong;
            let argument = || err!(Arg, "weights[0] is -1, but a weight must not be negative");
            let grid = |size: u32| Grid::new(&[size as i32], vec![true]);
            let ring = |weighted| {
                let mut graph = DistGraph {
                    weighted,
                    ..DistGraph::default()
                };
                graph.sources.push((me + size - 1) % size, 1, weighted);
                graph.destinations.push((me + 1) % size, 1, weighted);
                graph
            };
            let graph = |good: bool| if good { Ok(ring(true)) } else { Err(argument()) };
            let edges = |good: bool| {
                if good {
                    Ok((Vec::new(), false))
                } else {
                    Err(argument())
                }
            };
            let failed: Vec<Error> = vec![
                world
                    .clone()
                    .create_cartesian(grid(size + u32::from(bad)), STAY)
                    .await
                    .err(),
                world
                    .clone()
                    .create_dist_graph_adjacent(graph(!bad), from_nowhere(true))
                    .await
                    .err(),
                world.clone().create_dist_graph(edges(!bad), STAY).await.err(),
                // Arguments that are good alone, and do not fit together.
                world
                    .clone()
                    .create_cartesian(grid(size - u32::from(bad)), from_nowhere(true))
                    .await
                    .err(),
                world
                    .clone()
                    .create_dist_graph_adjacent(Ok(ring(bad)), STAY)
                    .await
                    .err(),
                world
                    .clone()
                    .create_dist_graph_adjacent(Ok(ring(false)), from_nowhere(bad))
                    .await
                    .err(),
            ]
            .into_iter()
            .map(|error| error.expect("somebody is wrong"))
            .collect();
            let classes: Vec<Class> = failed.iter().map(|error| error.class).collect();
            let others = if bad {
                [Class::Dims, Class::Arg, Class::Arg]
            } else {
                [Class::Other; 3]
            };
            assert_eq!(classes[..3], others);
            assert_eq!(classes[3..], [Class::Topology; 3]);
            if !bad {
                assert!(
                    failed[0].message.contains(&format!("rank {wrong}")),
                    "{}",
                    failed[0]
                );
            }
            // A process without edges has no say in whether they have weights.
            let mut graph = ring(true);
            if size == 2 && bad {
                graph = DistGraph::default();
            } else if size == 2 {
                (graph.sources, graph.destinations) = (Edges::default(), Edges::default());
                graph.sources.push(me, 3, true);
                graph.destinations.push(me, 3, true);
            }
            let new = world
                .create_dist_graph_adjacent(Ok(graph), STAY)
                .await
                .expect("good at last");
            let Some(Kind::DistGraph(graph)) = new.topology().map(|topology| topology.kind()) else {
                panic!("it has a graph");
            };
            graph.weighted
        });
        assert!(results.into_iter().all(|weighted| weighted == Some(true)));
    });
}
