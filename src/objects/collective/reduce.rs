//! `MPI_Reduce` (MPI 5.0 section 6.9.1).

use smallvec::SmallVec;

use super::buffer::{Address, Operands};
use super::choose;
use super::flat;
use super::gather::{no_receive, no_send};
use super::inter::{self, Root};
use super::queue::Queue;
use super::reduction::{Accumulator, Folding, Halving, Order, Reducer, even_pieces};
use super::run::{Network, Run, UnderWay};
use super::scratch::Scratch;
use super::shared;
use super::tree;
use super::two_level;
use crate::base::error::Result;
use crate::instance::selection::{Algorithm, Operation};
use crate::objects::communicator::Collective;

/// The elements of all ranks combined, for `root`. The receive buffer matters only there.
/// On an intercommunicator: the elements of the group that the root is not in.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process whose peer sends more elements.
pub async fn reduce(operation: &Collective, root: impl Into<Root>, operands: Operands) -> Result<()> {
    let Operands {
        send,
        receive,
        count,
        reducer,
        ..
    } = operands.whole()?;
    let root = root.into();
    if operation.is_across() {
        return inter::reduce(operation, root, send, receive, &reducer, count).await;
    }
    let (operation, root) = root.among(operation);
    let receive = match operation.rank() == root {
        true => Some(receive.ok_or_else(no_receive)?),
        false => None,
    };
    among(Network::Real(&operation), root, send, receive, &reducer, count).await
}

/// The same, wherever its messages go.
pub(super) async fn among(
    network: Network<'_>,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    if let Some(hosts) = two_level::hosts_for(network, Operation::Reduce, reducer, count) {
        return Box::pin(two_level::reduce(
            network, hosts, root, send, receive, reducer, count,
        ))
        .await;
    }
    let mut run = Run::on(network);
    within(&mut run, root, send, receive, reducer, count).await?;
    run.finish()
}

/// Among processes of which this is one. Only the root passes `receive`.
pub(super) async fn within(
    run: &mut Run<'_>,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let bytes = count * reducer.datatype.size();
    if let Some(area) = run.area_for(Operation::Reduce, bytes)
        && count != 0
        && shared::reduce(run, area, root, send, receive, reducer, count).await?
    {
        return Ok(());
    }
    if count == 0 {
        return Ok(());
    }
    if run.size == 1 {
        if let (Some(send), Some(receive)) = (send, receive) {
            reducer.copy(send, receive, 0..count);
        }
        return Ok(());
    }
    by_messages(run, root, send, receive, reducer, count).await
}

/// The same of one element or more, among several processes, without the memory that they may share.
pub(super) async fn by_messages(
    run: &mut Run<'_>,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let choice = choose::reducing(run, Operation::Reduce, reducer, count, Some(root));
    match choice.algorithm {
        Algorithm::Halving => halving(run, root, send, receive, reducer, count).await,
        Algorithm::Flat => flat::reduce(run, root, send, receive, reducer, count).await,
        Algorithm::Chain => chain(run, choice.piece, root, send, receive, reducer, count).await,
        _ => tree(run, choice.radix, root, send, receive, reducer, count).await,
    }
}

/// All elements in each message. Only the root passes `receive`.
pub(super) async fn whole(
    run: &mut Run<'_>,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    if run.crowded {
        flat::reduce(run, root, send, receive, reducer, count).await
    } else {
        tree(run, 2, root, send, receive, reducer, count).await
    }
}

/// Up a k-nomial tree. Only the root passes `receive`. Where the order of operands matters, the tree's root is
/// rank 0, which sends the result on.
async fn tree<'a>(
    run: &mut Run<'a>,
    radix: u32,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let top = if reducer.commutes() { root } else { 0 };
    let relative = run.relative(top);
    let own = send.or(receive).ok_or_else(no_send)?;
    // In the order of ranks, each with all that are below it.
    let mut children: SmallVec<[u32; 32]> = tree::children(relative, run.size, radix)
        .map(|(child, _)| child)
        .collect();
    children.sort_unstable();
    let number = children.len();
    // One operand is being received while the previous one is combined with the sum; the sum is stored where the previous
    // one was received: `inout` is the higher ranks' operand.
    let scratch = Scratch::elements(&reducer.datatype, count, number.min(3))?;
    let place = |at: usize| match receive {
        // The last sum may be computed directly in the receive buffer, unless that still holds this process's own operand,
        // as it does until the first sum is there.
        Some(receive) if at + 1 == number && (send.is_some() || at > 1) => receive,
        _ => scratch.slot(at % 3),
    };
    let mut sum = own;
    let source = |run: &Run<'a>, at: usize| {
        let from = run.above(children[at] - relative);
        (from, reducer.chunk(place(at), 0..count))
    };
    let mut next = None;
    for at in 0..number {
        let receiving = next.take();
        next = (at + 1 < number).then(|| {
            let (from, chunk) = source(run, at + 1);
            run.receive(from, chunk)
        });
        match receiving {
            Some(receiving) => run.end(receiving).await,
            None => {
                let (from, chunk) = source(run, at);
                run.receive_now(from, chunk).await;
            }
        }
        reducer.combine(sum, place(at), 0..count);
        sum = place(at);
    }
    if relative != 0 {
        let parent = run.below(relative - tree::parent(relative, radix));
        let sending = run.send(parent, reducer.chunk(sum, 0..count));
        run.end(sending).await;
    } else if run.rank != root {
        let sending = run.send(root, reducer.chunk(sum, 0..count));
        run.end(sending).await;
    }
    match receive {
        Some(receive) if top != root => {
            run.receive_now(top, reducer.chunk(receive, 0..count)).await;
        }
        Some(receive) if sum != receive => reducer.copy(sum, receive, 0..count),
        _ => {}
    }
    Ok(())
}

/// Piece after piece along a chain that ends at the root, where the order of operands allows it (see [`choose::reducing`]); for whom the
/// idea is, see the chain of a broadcast. Only the root passes `receive`.
async fn chain<'a>(
    run: &mut Run<'a>,
    piece: u64,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let own = send.or(receive).ok_or_else(no_send)?;
    let relative = run.relative(root);
    let (to, from) = (run.below(1), run.above(1));
    let (is_first, is_last) = (relative == 0, relative + 1 == run.size);
    let datatype = &reducer.datatype;
    // Elements of a piece.
    let each = (piece / datatype.size().max(1)).clamp(1, count);
    let pieces = count.div_ceil(each);
    let range = |piece: u64| piece * each..count.min((piece + 1) * each);
    let scratch = Scratch::elements(datatype, if is_last { 0 } else { each }, SLOTS)?;
    // Where a piece of the ranks behind this one is received, and combined with this one's.
    let place = |piece: u64| match (is_first, send, receive) {
        (true, Some(_), Some(receive)) => receive.element(piece * each, datatype),
        _ => scratch.slot(piece as usize % SLOTS),
    };
    let mut sends = Queue::new();
    let post = |run: &Run<'a>, piece: u64| {
        let length = range(piece).end - range(piece).start;
        (!is_last && piece < pieces).then(|| run.receive(from, reducer.chunk(place(piece), 0..length)))
    };
    let mut next = post(run, 0);
    for piece in 0..pieces {
        // Of the places, one is received into next, and one combined in.
        while sends.len() > SLOTS - 2 {
            let oldest = sends.pop().expect("there are some");
            run.end(oldest).await;
        }
        let receiving = next.take();
        next = if piece + 1 < pieces {
            post(run, piece + 1)
        } else {
            None
        };
        let (at, length) = (
            own.element(piece * each, datatype),
            range(piece).end - range(piece).start,
        );
        let Some(receiving) = receiving else {
            sends.push(run.send(to, reducer.chunk(at, 0..length)));
            continue;
        };
        run.end(receiving).await;
        reducer.combine(at, place(piece), 0..length);
        match receive {
            Some(receive) if is_first => {
                let result = receive.element(piece * each, datatype);
                if place(piece) != result {
                    reducer.copy(place(piece), result, 0..length);
                }
            }
            _ => sends.push(run.send(to, reducer.chunk(place(piece), 0..length))),
        }
    }
    while let Some(oldest) = sends.pop() {
        run.end(oldest).await;
    }
    Ok(())
}

/// How many pieces a process of a chain has room for.
const SLOTS: usize = 4;

/// Each process combines a piece and sends it to the root (R. Rabenseifner: Optimization of collective reduction operations, 2004).
async fn halving(
    run: &mut Run<'_>,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let slots = match (send, receive) {
        (Some(_), None) => 2,
        _ => 1,
    };
    let scratch = Scratch::elements(&reducer.datatype, count, slots)?;
    let mut sum = match (send, receive) {
        (Some(send), Some(receive)) => Accumulator::reading(reducer, send, [receive, scratch.slot(0)]),
        (Some(send), None) => Accumulator::reading(reducer, send, [scratch.slot(0), scratch.slot(1)]),
        (None, Some(receive)) => Accumulator::owning(reducer, receive, scratch.slot(0)),
        (None, None) => return Err(no_send()),
    };
    let folding = Folding::of(run.size);
    let start = even_pieces(count, folding);
    let halving = Halving {
        folding,
        order: Order::NearFirst,
        start: &start,
    };
    let folded = folding.fold(run, &mut sum, 0..count).await;
    if let Some(folded) = folded {
        let piece = halving.reduce_scatter(run, &mut sum, folded).await;
        match receive {
            Some(receive) => sum.settle(receive, piece),
            None => {
                let sending = run.send(root, reducer.chunk(sum.sum, piece));
                run.end(sending).await;
            }
        }
    }
    if let Some(receive) = receive {
        let mut receives = UnderWay::new();
        for other in (0..folding.number).filter(|&other| Some(other) != folded) {
            let piece = halving.range(halving.pieces(other, folding.rounds()));
            let receiving = run.receive(folding.rank(other), reducer.chunk(receive, piece));
            run.keep(&mut receives, receiving);
        }
        run.end_all(receives).await;
    }
    Ok(())
}
