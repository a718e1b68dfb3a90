//! Communicators with virtual topologies (MPI 5.0 chapter 8).
//!
//! An argument that one process got wrong fails the call on all: nobody gets a communicator, and nobody waits.
//!
//! Which processes share a host is known to all. In which parts of it they are, they tell each other where they may be reordered, in a second
//! round: only if a host has three or more of them, and if the first round has shown that not all are in the same parts.

use std::sync::Arc;

use crate::base::error::Result;
use crate::engine::mismatch::Operation;
use crate::err;
use crate::identity::{Context, fnv};
use crate::objects::collective;
use crate::objects::communicator::{Collective, Communicator, Hosts};
use crate::objects::group::Group;
use crate::objects::topology::mapping::{self, Links, Pattern};
use crate::objects::topology::{DistGraph, Edge, Edges, Graph, Grid, Kind, Topology};
use crate::system::locality::Location;

impl Communicator {
    /// The first processes of this communicator as a grid; `None` at those for which it has no place. All give the same. `reorder`: processes
    /// may be reordered, and it says where this one is; it is not asked where that can't matter.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` if processes give different grids.
    pub async fn create_cartesian(
        self: Arc<Self>,
        grid: Result<Grid>,
        reorder: Option<impl FnOnce() -> Location>,
    ) -> Result<Option<Arc<Communicator>>> {
        let operation = self.step(const { Operation::named("MPI_Cart_create") }, false);
        let grid = grid.and_then(|grid| grid.fitting(self.size()));
        let location = self.located(grid.as_ref().map_or(0, Grid::size), reorder);
        let given = grid.map(|grid| {
            let mapping = location.and_then(|_| self.map_grid(&grid));
            (grid, mapping)
        });
        let digest = |(grid, mapping): &(Grid, Option<Vec<u32>>)| {
            let periods = grid.periods().iter().map(|&periodic| periodic.into());
            let words = grid.dims().iter().copied().chain(periods);
            digest(words.chain(mapping.iter().flatten().copied()))
        };
        let agreed = self.agree_on(&operation, given, digest, location).await?;
        let ((grid, mapping), context, locations) = agreed;
        let size = grid.size();
        let mapping = self.improved(Pattern::Grid(&grid), size, mapping, locations);
        Ok(self.arranged(context, size, mapping, |_| Kind::Cartesian(grid)))
    }

    /// The first processes of this communicator as the nodes of a graph; `None` at those for which it has no node. All give the same.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` if processes give different graphs.
    pub async fn create_graph(
        self: Arc<Self>,
        graph: Result<Graph>,
        reorder: Option<impl FnOnce() -> Location>,
    ) -> Result<Option<Arc<Communicator>>> {
        let operation = self.step(const { Operation::named("MPI_Graph_create") }, false);
        let graph = graph.and_then(|graph| graph.fitting(self.size()));
        let location = self.located(graph.as_ref().map_or(0, Graph::nodes), reorder);
        let given = graph.map(|graph| {
            let mapping = location.and_then(|_| self.map_graph(&graph));
            (graph, mapping)
        });
        let digest = |(graph, mapping): &(Graph, Option<Vec<u32>>)| {
            let words = graph.index().iter().chain(graph.edges()).copied();
            digest(words.chain(mapping.iter().flatten().copied()))
        };
        let agreed = self.agree_on(&operation, given, digest, location).await?;
        let ((graph, mut mapping), context, locations) = agreed;
        let nodes = graph.nodes();
        if locations.is_some() {
            let links = links_of(&graph);
            mapping = self.improved(Pattern::Graph(&links), nodes, mapping, locations);
        }
        Ok(self.arranged(context, nodes, mapping, |_| Kind::Graph(graph)))
    }

    /// The processes of this communicator as nodes of a graph of which each gives its own edges.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` if some processes give weights and others none, or `reorder` differs.
    pub async fn create_dist_graph_adjacent(
        self: Arc<Self>,
        graph: Result<DistGraph>,
        reorder: Option<impl FnOnce() -> Location>,
    ) -> Result<Arc<Communicator>> {
        let name = const { Operation::named("MPI_Dist_graph_create_adjacent") };
        let operation = self.step(name, false);
        let described = graph.as_ref().map(|graph| {
            let any = !graph.sources.ranks.is_empty() || !graph.destinations.ranks.is_empty();
            (any, graph.weighted)
        });
        let described = described.unwrap_or((false, false));
        let location = self.located(self.size(), reorder);
        let agreed = self.agree_on_edges(&operation, graph.is_ok(), described, location);
        let agreed = agreed.await;
        let mut graph = graph?;
        let agreed = agreed?;
        graph.weighted = agreed.weighted;
        self.finish_dist_graph(operation, agreed, graph).await
    }

    /// The same, where each process gives edges between any two.
    ///
    /// # Errors
    /// As for [`Communicator::create_dist_graph_adjacent`].
    pub async fn create_dist_graph(
        self: Arc<Self>,
        edges: Result<(Vec<Edge>, bool)>,
        reorder: Option<impl FnOnce() -> Location>,
    ) -> Result<Arc<Communicator>> {
        let operation = self.step(const { Operation::named("MPI_Dist_graph_create") }, false);
        let described = edges
            .as_ref()
            .map_or((false, false), |(edges, weighted)| (!edges.is_empty(), *weighted));
        let location = self.located(self.size(), reorder);
        let agreed = self.agree_on_edges(&operation, edges.is_ok(), described, location);
        let agreed = agreed.await;
        let (edges, _) = edges?;
        let agreed = agreed?;
        let graph = distribute(&operation, edges, agreed.weighted).await?;
        self.finish_dist_graph(operation, agreed, graph).await
    }

    /// One communicator for each part of a grid, this communicator's, in which some dimensions remain. All give the same.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` if processes let different dimensions remain.
    pub async fn cartesian_part(
        self: Arc<Self>,
        grid: &Grid,
        remain: Result<Vec<bool>>,
    ) -> Result<Arc<Communicator>> {
        let operation = self.step(const { Operation::named("MPI_Cart_sub") }, false);
        let digest = |remain: &Vec<bool>| digest(remain.iter().map(|&remains| remains.into()));
        // The parts have no process in common, so one context serves for all of them.
        let (remain, context, _) = self.agree_on(&operation, remain, digest, None).await?;
        let ranks = grid.ranks_of_part(self.rank(), &remain);
        let members = ranks.into_iter().map(|rank| self.group().member(rank)).collect();
        let group = Group::of_session(self.group().session(), members);
        let new = Communicator::new(self.instance(), context, group).expect("in its own part");
        let topology = Topology::new(Kind::Cartesian(grid.part(&remain)), new.rank());
        new.arrange(Arc::new(topology));
        Ok(new)
    }

    /// The rank that takes each place of a grid where processes may be reordered, by what is known without messages, which is hosts; `None`:
    /// each stays where it is. Every process finds out the same. A communicator that is made for the grid has each place on the same host, but
    /// perhaps at another process of it.
    pub fn map_grid(&self, grid: &Grid) -> Option<Vec<u32>> {
        let hosts = self.hosts_of_first(grid.size())?;
        mapping::of_grid(grid, &lists(&hosts))
    }

    /// The same for the nodes of a graph.
    pub fn map_graph(&self, graph: &Graph) -> Option<Vec<u32>> {
        let hosts = self.hosts_of_first(graph.nodes())?;
        mapping::of_graph(&links_of(graph), &lists(&hosts))
    }

    /// Which of the first processes share a host; `None` where no mapping of hosts is better than another: one host, hosts of one process
    /// each, no process at all, or processes of other jobs.
    fn hosts_of_first(&self, number: u32) -> Option<Hosts> {
        Hosts::by_node(&self.nodes_of_first(number)?, 0)
    }

    /// The node of each of the first processes, as the launcher says it to all; `None`: some are of other jobs, of whose nodes nothing is known.
    fn nodes_of_first(&self, number: u32) -> Option<Vec<u64>> {
        let instance = self.instance();
        let node = |process: crate::identity::PeerIndex| {
            let own_job = process.rank_in(instance.job().size).is_some();
            own_job.then(|| instance.node_of(process))
        };
        self.group().iter().take(number as usize).map(node).collect()
    }

    /// Where this process is in its host, or nowhere if that can't improve a topology of so many of the first processes; `None`: they are not
    /// reordered.
    fn located(&self, number: u32, reorder: Option<impl FnOnce() -> Location>) -> Option<Location> {
        let locate = reorder?;
        let mut nodes = self.nodes_of_first(number).unwrap_or_default();
        nodes.sort_unstable();
        // Which of the places of a host its two processes take makes no difference.
        let matters = nodes.windows(3).any(|three| three[0] == three[2]);
        Some(if matters { locate() } else { Location::default() })
    }

    /// A mapping of the first processes that is better inside hosts, if processes have said where they are.
    fn improved(
        &self,
        pattern: Pattern<'_>,
        number: u32,
        mapping: Option<Vec<u32>>,
        locations: Option<Vec<Location>>,
    ) -> Option<Vec<u32>> {
        let (Some(nodes), Some(locations)) = (self.nodes_of_first(number), locations) else {
            return mapping;
        };
        mapping::improve(pattern, mapping, &nodes, &locations[..number as usize])
    }

    /// Agrees on a context, and that all give the same. With a location from all, and not the same one, returns those of all.
    async fn agree_on<T>(
        &self,
        operation: &Collective,
        given: Result<T>,
        digest: impl Fn(&T) -> u64,
        location: Option<Location>,
    ) -> Result<(T, Context, Option<Vec<Location>>)> {
        let own = given.as_ref().map_or(0, digest);
        let ready = given.is_ok();
        let [high, low] = ends(location);
        let more = [own, !own, high, low, 0, 0];
        let agreed = self.agree(operation.clone(), ready, TROUBLE, NOBODY, more);
        let agreed = agreed.await;
        let given = given?;
        let (context, [most, least, high, low, ..]) = agreed?;
        if most != own || least != !own {
            return Err(err!(
                Topology,
                "the processes give different arguments, but all have to give the same topology"
            ));
        }
        let locations = all_locations(operation, location, [high, low]).await?;
        Ok((given, context, locations))
    }

    /// Agrees on what a distributed graph needs. `described`: whether this process gives any edges, and with weights. With a location,
    /// processes are reordered.
    async fn agree_on_edges(
        &self,
        operation: &Collective,
        ready: bool,
        (any, weighted): (bool, bool),
        location: Option<Location>,
    ) -> Result<Agreed> {
        let hosts = location.and_then(|_| self.hosts_of_first(self.size()));
        let ranks = hosts
            .iter()
            .flat_map(|hosts| (0..self.size()).map(|rank| hosts.host_of(rank)));
        let own = digest(std::iter::once(location.is_some().into()).chain(ranks));
        // Whoever gives no edges has no say where others do.
        let say = |says: bool| u64::from(says) * (1 + u64::from(any));
        let [high, low] = ends(location);
        let more = [own, !own, say(weighted), say(!weighted), high, low];
        let (context, [most, least, with, without, high, low]) = self
            .agree(operation.clone(), ready, TROUBLE, NOBODY, more)
            .await?;
        if most != own || least != !own {
            return Err(err!(
                Topology,
                "the processes give different arguments: reorder has to be the same on all"
            ));
        }
        if with == 2 && without == 2 {
            return Err(err!(
                Topology,
                "some processes give weights and others MPI_UNWEIGHTED, which either all or none have to give"
            ));
        }
        Ok(Agreed {
            context,
            weighted: with > without,
            hosts,
            locations: all_locations(operation, location, [high, low]).await?,
        })
    }

    /// A communicator of the first `number` processes or, with a mapping, of those that it puts at each place.
    fn arranged(
        &self,
        context: Context,
        number: u32,
        mapping: Option<Vec<u32>>,
        kind: impl FnOnce(u32) -> Kind,
    ) -> Option<Arc<Communicator>> {
        let group = match mapping {
            None if number == self.size() => self.group().clone(),
            None => self.some((0..number).collect()),
            Some(rank_at) => self.some(rank_at),
        };
        let new = Communicator::new(self.instance(), context, group)?;
        let topology = Topology::new(kind(new.rank()), new.rank());
        new.arrange(Arc::new(topology));
        Some(new)
    }

    /// The processes of some ranks.
    fn some(&self, ranks: Vec<u32>) -> Arc<Group> {
        let members = ranks.into_iter().map(|rank| self.group().member(rank));
        Group::of_session(self.group().session(), members.collect())
    }

    /// Makes the communicator, where each process has the edges of the node of its rank. Where a mapping may be better than others, processes
    /// are reordered.
    async fn finish_dist_graph(
        &self,
        operation: Collective,
        agreed: Agreed,
        mut graph: DistGraph,
    ) -> Result<Arc<Communicator>> {
        let Agreed {
            context,
            hosts,
            locations,
            ..
        } = agreed;
        let mut mapping = None;
        if hosts.is_some() || locations.is_some() {
            let decide = |links: &Links| {
                let by_hosts = hosts.and_then(|hosts| mapping::of_graph(links, &lists(&hosts)));
                self.improved(Pattern::Graph(links), self.size(), by_hosts, locations)
            };
            let rank_at = map_edges(&operation, &graph, decide).await?;
            graph = hand_over(&operation, graph, &rank_at).await?;
            mapping = Some(rank_at);
        }
        let new = self.arranged(context, self.size(), mapping, |_| Kind::DistGraph(graph));
        Ok(new.expect("every process has a node"))
    }
}

/// What processes agree on for a distributed graph.
struct Agreed {
    context: Context,
    weighted: bool,
    /// If processes are reordered: which of them share a host, unless this can't matter.
    hosts: Option<Hosts>,
    /// And where each of them is in its host.
    locations: Option<Vec<Location>>,
}

/// A digest of a location and its complement, so that the largest of both show whether all have the same; without one, the largest numbers.
fn ends(location: Option<Location>) -> [u64; 2] {
    match location {
        None => [u64::MAX; 2],
        Some(location) => {
            // Never the largest number.
            let digest = fnv(location.encode()) >> 1;
            [digest, !digest]
        }
    }
}

/// The locations of all, if all have one and not the same, as the largest of the [`ends`] of all show.
async fn all_locations(
    operation: &Collective,
    location: Option<Location>,
    [high, low]: [u64; 2],
) -> Result<Option<Vec<Location>>> {
    match location {
        Some(location) if high != u64::MAX && high != !low => {
            let all = collective::allgather_bytes(operation, &location.encode()).await?;
            Ok(Some(all.as_chunks().0.iter().map(Location::decode).collect()))
        }
        _ => Ok(None),
    }
}

/// Why nobody gets a communicator.
const TROUBLE: &str = "an argument is wrong";
const NOBODY: &str = "a communicator";

fn digest(words: impl Iterator<Item = u32>) -> u64 {
    fnv(words.flat_map(u32::to_le_bytes))
}

fn lists(hosts: &Hosts) -> Vec<&[u32]> {
    (0..hosts.number()).map(|host| hosts.ranks(host)).collect()
}

fn links_of(graph: &Graph) -> Links {
    let edges = graph.pairs().map(|(from, to)| (from, to, 1));
    Links::new(graph.nodes(), edges)
}

/// Takes edges to the processes at both of their ends, which get them in the order of the ranks that give them, and of each in the order
/// in which it gives them: so edges between the same two processes have the same order at both.
async fn distribute(operation: &Collective, edges: Vec<Edge>, weighted: bool) -> Result<DistGraph> {
    let me = operation.rank();
    let mut records = Vec::with_capacity(2 * edges.len());
    for (index, edge) in (0..).zip(edges) {
        let Edge {
            source,
            destination,
            weight,
        } = edge;
        records.push((source, [me, index, 0, destination, weight as u32]));
        records.push((destination, [me, index, 1, source, weight as u32]));
    }
    let mut records = route(operation, records).await?;
    records.sort_unstable();
    let mut graph = DistGraph {
        weighted,
        ..DistGraph::default()
    };
    for [_, _, direction, rank, weight] in records {
        let edges = match direction {
            0 => &mut graph.destinations,
            _ => &mut graph.sources,
        };
        edges.push(checked(rank, operation.size())?, weight as i32, weighted);
    }
    Ok(graph)
}

/// The rank that takes each node. Rank 0 gets all edges and decides; `None` from it means that each stays where it is.
async fn map_edges(
    operation: &Collective,
    graph: &DistGraph,
    decide: impl FnOnce(&Links) -> Option<Vec<u32>>,
) -> Result<Vec<u32>> {
    let (me, size) = (operation.rank(), operation.size());
    let away = graph.destinations.iter();
    let records = away.map(|(rank, weight)| (0, [me, rank, weight as u32]));
    let edges = route(operation, records.collect()).await?;
    let mut rank_at: Vec<u32> = (0..size).collect();
    if me == 0 {
        for &[from, to, _] in &edges {
            checked(from, size)?;
            checked(to, size)?;
        }
        let edges = edges
            .iter()
            .map(|&[from, to, weight]| (from, to, u64::from(weight)));
        let links = Links::new(size, edges);
        rank_at = decide(&links).unwrap_or(rank_at);
    }
    let bytes = rank_at.iter().flat_map(|rank| rank.to_le_bytes()).collect();
    let bytes = collective::bcast_bytes(operation, 0, bytes).await?;
    words(&bytes)?
        .into_iter()
        .map(|rank| checked(rank, size))
        .collect()
}

/// Gives the edges of a node to the process that takes it.
async fn hand_over(operation: &Collective, graph: DistGraph, rank_at: &[u32]) -> Result<DistGraph> {
    let me = operation.rank();
    let to = rank_at[me as usize];
    let Some(from) = rank_at.iter().position(|&rank| rank == me) else {
        return Err(nonsense());
    };
    if to == me {
        return Ok(graph);
    }
    let both = graph.sources.iter().chain(graph.destinations.iter());
    let mut given = vec![graph.sources.ranks.len() as u32];
    given.extend(both.flat_map(|(rank, weight)| [rank, weight as u32]));
    let given = given.into_iter().flat_map(u32::to_le_bytes).collect();
    let got = words(&exchange(operation, to, given, from as u32).await?)?;
    let Some((&sources, edges)) = got.split_first() else {
        return Err(nonsense());
    };
    let mut taken = DistGraph {
        weighted: graph.weighted,
        ..DistGraph::default()
    };
    for (at, &[rank, weight]) in (0..).zip(edges.as_chunks().0) {
        let edges: &mut Edges = match at < sources {
            true => &mut taken.sources,
            false => &mut taken.destinations,
        };
        edges.push(checked(rank, operation.size())?, weight as i32, graph.weighted);
    }
    Ok(taken)
}

/// Takes records to their processes, in ⌈log₂ n⌉ rounds: in the round of each power of two they go as far, if the distance to their
/// process has it as a summand. (The crystal router of G. Fox et al., Solving problems on concurrent processors, 1988.) So no process
/// needs a buffer for each other one, nor knows from whom something will come.
async fn route<const N: usize>(
    operation: &Collective,
    mut records: Vec<(u32, [u32; N])>,
) -> Result<Vec<[u32; N]>> {
    let (me, size) = (operation.rank(), operation.size());
    let mut distance = 1;
    while distance < size {
        let goes = |(to, _): &(u32, [u32; N])| ((to + size - me) % size) & distance != 0;
        let (go, stay): (Vec<_>, Vec<_>) = records.into_iter().partition(goes);
        let sent = go
            .iter()
            .flat_map(|(to, words)| std::iter::once(to).chain(words))
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let (to, from) = ((me + distance) % size, (me + size - distance) % size);
        let got = words(&exchange(operation, to, sent, from).await?)?;
        records = stay;
        for record in got.chunks_exact(N + 1) {
            let mut words = [0; N];
            words.copy_from_slice(&record[1..]);
            records.push((checked(record[0], size)?, words));
        }
        distance *= 2;
    }
    Ok(records.into_iter().map(|(_, words)| words).collect())
}

/// Exchanges bytes of any length.
async fn exchange(operation: &Collective, to: u32, bytes: Vec<u8>, from: u32) -> Result<Vec<u8>> {
    let length = (bytes.len() as u64).to_le_bytes().to_vec();
    let length = operation.exchange_bytes(to, length, from, 8).await?;
    let length = u64::from_le_bytes(length.try_into().map_err(|_| nonsense())?) as usize;
    if Vec::<u8>::new().try_reserve_exact(length).is_err() {
        return Err(err!(NoMem, "there is no memory for {length} bytes of edges"));
    }
    operation.exchange_bytes(to, bytes, from, length).await
}

fn words(bytes: &[u8]) -> Result<Vec<u32>> {
    match bytes.as_chunks() {
        (words, []) => Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect()),
        _ => Err(nonsense()),
    }
}

/// A rank in a message.
fn checked(rank: u32, size: u32) -> Result<u32> {
    match rank < size {
        true => Ok(rank),
        false => Err(nonsense()),
    }
}

#[cold]
fn nonsense() -> crate::Error {
    err!(Intern, "a process sent edges of another form")
}
