//! `MPI_Reduce` (MPI 5.0 section 6.9.1).

use super::buffer::{Address, Operands};
use super::choose;
use super::flat;
use super::gather::{no_receive, no_send};
use super::inter::{self, Root};
use super::reduction::{Accumulator, Folding, Halving, Order, Reducer, even_pieces};
use super::run::Run;
use super::scratch::Scratch;
use super::shared;
use super::two_level;
use crate::base::error::Result;
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
    if let Some(hosts) = two_level::hosts_for(&operation, &reducer, count) {
        return Box::pin(two_level::reduce(
            &operation, hosts, root, send, receive, &reducer, count,
        ))
        .await;
    }
    let mut run = Run::new(&operation);
    within(&mut run, root, send, receive, &reducer, count).await?;
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
    if let Some(area) = run.area_for(bytes)
        && count != 0
        && shared::reduce(run, area, root, send, receive, reducer, count).await?
    {
        return Ok(());
    }
    if count == 0 {
    } else if run.size == 1 {
        if let (Some(send), Some(receive)) = (send, receive) {
            reducer.copy(send, receive, 0..count);
        }
    } else if choose::reduce_by_halving(bytes, count, run.size) {
        halving(run, root, send, receive, reducer, count).await?;
    } else {
        whole(run, root, send, receive, reducer, count).await?;
    }
    Ok(())
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
    if run.flat {
        flat::reduce(run, root, send, receive, reducer, count).await
    } else {
        binomial(run, root, send, receive, reducer, count).await
    }
}

/// Up a binomial tree. Only the root passes `receive`. Where the order of operands matters, the tree's root is
/// rank 0, which sends the result on.
async fn binomial(
    run: &mut Run<'_>,
    root: u32,
    send: Option<Address>,
    receive: Option<Address>,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let top = if reducer.commutes() { root } else { 0 };
    let relative = run.relative(top);
    let own = send.or(receive).ok_or_else(no_send)?;
    let mut levels = 0;
    while relative & (1 << levels) == 0 && relative + (1 << levels) < run.size {
        levels += 1;
    }
    // One operand is being received while the previous one is combined with the sum; the sum is stored where the previous
    // one was received: `inout` is the higher ranks' operand.
    let scratch = Scratch::elements(&reducer.datatype, count, levels.min(3))?;
    let place = |level: usize| match receive {
        // The last sum may be computed directly in the receive buffer, unless that still holds this process's own operand,
        // as it does until the first sum is there.
        Some(receive) if level + 1 == levels && (send.is_some() || level > 1) => receive,
        _ => scratch.slot(level % 3),
    };
    let mut sum = own;
    let post = |run: &Run<'_>, level: usize| {
        let chunk = reducer.chunk(place(level), 0..count);
        run.receive(run.above(1 << level), chunk)
    };
    let mut next = (levels > 0).then(|| post(run, 0));
    for level in 0..levels {
        let receiving = next.take().expect("posted in the round before");
        next = (level + 1 < levels).then(|| post(run, level + 1));
        run.end(receiving).await;
        reducer.combine(sum, place(level), 0..count);
        sum = place(level);
    }
    if relative != 0 {
        let sending = run.send(
            run.below(relative & relative.wrapping_neg()),
            reducer.chunk(sum, 0..count),
        );
        run.end(sending).await;
    } else if run.rank != root {
        let sending = run.send(root, reducer.chunk(sum, 0..count));
        run.end(sending).await;
    }
    match receive {
        Some(receive) if top != root => {
            let receiving = run.receive(top, reducer.chunk(receive, 0..count));
            run.end(receiving).await;
        }
        Some(receive) if sum != receive => reducer.copy(sum, receive, 0..count),
        _ => {}
    }
    Ok(())
}

/// Each process combines a piece and sends it to the root (Rabenseifner).
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
        let mut receives = Vec::new();
        for other in (0..folding.number).filter(|&other| Some(other) != folded) {
            let piece = halving.range(halving.pieces(other, folding.rounds()));
            let receiving = run.receive(folding.rank(other), reducer.chunk(receive, piece));
            run.keep(&mut receives, receiving);
        }
        run.end_all(receives).await;
    }
    Ok(())
}
