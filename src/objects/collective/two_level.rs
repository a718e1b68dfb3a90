//! Collective operations over several hosts in two levels: among the processes of each host, which share memory, and between
//! one process of each host, its head. So each host gets the data once.
//!
//! The head of a host is its lowest rank, or the root of the operation. The runs of one operation share its tag: those inside hosts and
//! those between heads have no pair of processes in common, and two runs inside a host follow each other.

use smallvec::SmallVec;

use super::barrier::within as barrier_within;
use super::bcast;
use super::buffer::{Address, Chunk};
use super::choose;
use super::gather::no_send;
use super::reduction::Reducer;
use super::run::{Network, Run, head};
use super::scratch::Scratch;
use super::shared;
use super::tree;
use crate::base::error::Result;
use crate::instance::selection::{Algorithm, Operation};
use crate::objects::communicator::Hosts;

/// The hosts of a reduction, if it is to be in two levels: see [`choose::over_hosts`].
pub(super) fn hosts_for<'a>(
    network: Network<'a>,
    what: Operation,
    reducer: &Reducer,
    count: u64,
) -> Option<&'a Hosts> {
    let hosts = network.hosts()?;
    let bytes = count * reducer.datatype.size();
    let two =
        || choose::over_hosts(network, hosts, what, bytes, reducer.commutes()).algorithm == Algorithm::Levels;
    (count > 0 && two()).then_some(hosts)
}

/// No process leaves before all have come: up a tree in each host, dissemination between heads, and down again.
pub(super) async fn barrier(network: Network<'_>, hosts: &Hosts) -> Result<()> {
    let mut run = Run::inside(network, hosts);
    if let Some(area) = run.area {
        shared::arrive(&mut run, area).await;
    } else {
        for (child, _) in tree::children(run.rank, run.size, 2) {
            run.receive_now(child, Chunk::empty()).await;
        }
        if run.rank != 0 {
            let sending = run.send(tree::parent(run.rank, 2), Chunk::empty());
            run.end(sending).await;
        }
    }
    if let Some(mut heads) = Run::heads(network, hosts, None) {
        barrier_within(&mut heads).await;
        run.note(heads.finish());
    }
    bcast::broadcast(&mut run, 0, Chunk::empty()).await?;
    run.finish()
}

/// From the root to all: see [`choose::over_hosts`]. `false`: in one level, which has not been done.
pub(super) async fn broadcast(network: Network<'_>, hosts: &Hosts, root: u32, chunk: &Chunk) -> Result<bool> {
    let choice = choose::over_hosts(network, hosts, Operation::Bcast, chunk.len(), true);
    match choice.algorithm {
        Algorithm::ChainOfHosts => {
            let pieces = choose::pieces(choice, chunk.len(), network.size());
            chain(network, hosts, root, chunk, pieces).await?;
            return Ok(true);
        }
        Algorithm::Levels => {}
        _ => return Ok(false),
    }
    let (host, mut run) = (hosts.host_of(root), Run::inside(network, hosts));
    if let Some(mut heads) = Run::heads(network, hosts, Some(root)) {
        bcast::broadcast(&mut heads, host, chunk.clone()).await?;
        run.note(heads.finish());
    }
    let top = hosts.place(head(hosts, Some(root), hosts.mine()));
    bcast::broadcast(&mut run, top, chunk.clone()).await?;
    run.finish().map(|()| true)
}

/// Piece after piece from host to host, and in each host down a binary tree meanwhile.
async fn chain(network: Network<'_>, hosts: &Hosts, root: u32, chunk: &Chunk, pieces: u32) -> Result<()> {
    let mut run = Run::on(network);
    let (parent, children) = chain_neighbours(hosts, root, run.rank);
    bcast::pipeline(&mut run, chunk, pieces, parent, &children).await?;
    run.finish()
}

/// From which rank a rank gets the pieces (the root from none), and to which it passes them on.
fn chain_neighbours(hosts: &Hosts, root: u32, rank: u32) -> (Option<u32>, SmallVec<[u32; 4]>) {
    let (host, first, number) = (hosts.host_of(rank), hosts.host_of(root), hosts.number());
    let ranks = hosts.ranks(host);
    let size = ranks.len() as u32;
    let top = hosts.place(head(hosts, Some(root), host));
    let inside = |place: u32| ranks[((place + top) % size) as usize];
    let place = (hosts.place(rank) + size - top) % size;
    let mut children = SmallVec::new();
    let parent = if place == 0 {
        let (before, behind) = ((host + number - 1) % number, (host + 1) % number);
        if behind != first {
            children.push(head(hosts, Some(root), behind));
        }
        (host != first).then(|| head(hosts, Some(root), before))
    } else {
        Some(inside((place - 1) / 2))
    };
    let below = [2 * place + 1, 2 * place + 2];
    children.extend(below.into_iter().filter(|&place| place < size).map(inside));
    (parent, children)
}

/// All elements combined, for the root: inside each host for its head, then among heads. Only the root passes `receive`.
pub(super) async fn reduce(
    network: Network<'_>,
    hosts: &Hosts,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    if send.or(receive).is_none() {
        return Err(no_send());
    }
    let mut run = Run::inside(network, hosts);
    let heads = Run::heads(network, hosts, Some(root));
    let top = hosts.place(head(hosts, Some(root), hosts.mine()));
    let alone = run.size == 1;
    let needs_place = heads.is_some() && receive.is_none() && !alone;
    let scratch = Scratch::elements(&reducer.datatype, if needs_place { count } else { 0 }, 1)?;
    // Where the sum of this host goes.
    let place = receive.or(needs_place.then(|| scratch.slot(0)));
    if !alone {
        super::reduce::within(&mut run, top, send, place, reducer, count).await?;
    }
    if let Some(mut heads) = heads {
        let own = match (alone, receive) {
            (true, _) => send,
            (false, Some(_)) => None,
            (false, None) => place,
        };
        super::reduce::within(&mut heads, hosts.host_of(root), own, receive, reducer, count).await?;
        run.note(heads.finish());
    }
    run.finish()
}

/// All elements combined, for every process: inside each host, among heads, and inside again.
pub(super) async fn allreduce(
    network: Network<'_>,
    hosts: &Hosts,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let mut run = Run::inside(network, hosts);
    let alone = run.size == 1;
    if !alone {
        let (own, sum) = match run.rank {
            0 => (send, Some(receive)),
            _ => (send.or(Some(receive)), None),
        };
        super::reduce::within(&mut run, 0, own, sum, reducer, count).await?;
    }
    if let Some(mut heads) = Run::heads(network, hosts, None) {
        let own = send.filter(|_| alone);
        super::allreduce::within(&mut heads, own, receive, reducer, count).await?;
        run.note(heads.finish());
    }
    bcast::broadcast(&mut run, 0, reducer.chunk(receive, 0..count)).await?;
    run.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_reach_every_rank_once_and_every_host_once() {
        let layouts: [&[u64]; 4] = [
            &[0, 0, 1, 1, 2, 2, 3, 3],
            &[0, 1, 2, 0, 1, 2, 0],
            &[5, 5, 5, 5, 5, 5, 5, 2],
            &[1, 0, 0, 1, 1, 9, 0, 0, 1, 1, 1],
        ];
        for nodes in layouts {
            let hosts = Hosts::by_node(nodes, 0).expect("several hosts");
            for root in 0..nodes.len() as u32 {
                let mut from = vec![None; nodes.len()];
                let mut between = 0;
                for rank in 0..nodes.len() as u32 {
                    for child in chain_neighbours(&hosts, root, rank).1 {
                        assert_eq!(from[child as usize].replace(rank), None, "{nodes:?} {root}");
                        between += u32::from(hosts.host_of(rank) != hosts.host_of(child));
                    }
                }
                for rank in 0..nodes.len() as u32 {
                    let (parent, _) = chain_neighbours(&hosts, root, rank);
                    assert_eq!(parent, from[rank as usize], "{nodes:?} {root} {rank}");
                    assert_eq!(parent.is_none(), rank == root);
                }
                assert_eq!(between, hosts.number() - 1);
            }
        }
    }
}
