//! `MPI_Allreduce` (MPI 5.0 section 6.9.6). Whatever the algorithm, each element is combined in one order only and
//! so has the same bits on every process.

use smallvec::SmallVec;

use super::bcast;
use super::buffer::{Address, Operands};
use super::choose;
use super::flat;
use super::gather::no_receive;
use super::inter;
use super::pieces::Pieces;
use super::reduce;
use super::reduction::{Accumulator, Folding, Halving, Order, Reducer, even_pieces};
use super::run::{Network, Run, UnderWay};
use super::scratch::Scratch;
use super::shared;
use super::two_level;
use crate::base::error::Result;
use crate::instance::selection::{Algorithm, Choice, Operation};
use crate::objects::communicator::Collective;

/// The elements of all ranks combined, for every process; on an intercommunicator, those of each group for the other.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process whose peer sends more elements.
pub async fn allreduce(operation: &Collective, operands: Operands) -> Result<()> {
    let Operands {
        send,
        receive,
        count,
        reducer,
        ..
    } = operands.whole()?;
    let receive = receive.ok_or_else(no_receive)?;
    if operation.is_across() {
        return inter::allreduce(operation, send, receive, &reducer, count).await;
    }
    among(Network::Real(operation), send, receive, &reducer, count).await
}

/// The same, wherever its messages go.
pub(super) async fn among(
    network: Network<'_>,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    if let Some(hosts) = two_level::hosts_for(network, Operation::Allreduce, reducer, count) {
        return Box::pin(two_level::allreduce(
            network, hosts, send, receive, reducer, count,
        ))
        .await;
    }
    let mut run = Run::on(network);
    within(&mut run, send, receive, reducer, count).await?;
    run.finish()
}

/// Among the processes of a run.
pub(super) async fn within(
    run: &mut Run<'_>,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let bytes = count * reducer.datatype.size();
    if let Some(area) = run.area_for(Operation::Allreduce, bytes)
        && count != 0
        && shared::allreduce(run, area, send, receive, reducer, count).await?
    {
        return Ok(());
    }
    if count == 0 {
        return Ok(());
    }
    let choice = choose::reducing(run, Operation::Allreduce, reducer, count, None);
    let algorithm = choice.algorithm;
    if run.size == 1 {
        if let Some(send) = send {
            reducer.copy(send, receive, 0..count);
        }
    } else if algorithm == Algorithm::Flat {
        match run.rank {
            0 => flat::reduce(run, 0, send, Some(receive), reducer, count).await?,
            _ => flat::reduce(run, 0, send.or(Some(receive)), None, reducer, count).await?,
        }
        flat::broadcast(run, 0, &reducer.chunk(receive, 0..count)).await;
    } else if algorithm == Algorithm::Root {
        let (own, result) = match run.rank {
            0 => (send, Some(receive)),
            _ => (send.or(Some(receive)), None),
        };
        // The others wait for the second part also where the first has failed here.
        let reduced = reduce::by_messages(run, 0, own, result, reducer, count).await;
        run.note(reduced);
        bcast::by_messages(run, 0, reducer.chunk(receive, 0..count)).await?;
    } else if algorithm == Algorithm::Ring {
        ring(run, send, receive, reducer, count).await?;
    } else {
        let scratch = Scratch::elements(&reducer.datatype, count, 1)?;
        let sum = match send {
            Some(send) => Accumulator::reading(reducer, send, [receive, scratch.slot(0)]),
            None => Accumulator::owning(reducer, receive, scratch.slot(0)),
        };
        folded(run, sum, receive, count, choice).await?;
    }
    Ok(())
}

/// Among a power of two of processes; the others send their elements before and get the result after.
async fn folded(
    run: &mut Run<'_>,
    mut sum: Accumulator<'_>,
    receive: Address,
    count: u64,
    choice: Choice,
) -> Result<()> {
    let reducer = sum.reducer;
    let folding = Folding::of(run.size);
    let Some(folded) = folding.fold(run, &mut sum, 0..count).await else {
        run.receive_now(run.rank + 1, reducer.chunk(receive, 0..count))
            .await;
        return Ok(());
    };
    if choice.algorithm == Algorithm::Doubling && choice.radix > 2 {
        multiplying(run, sum.sum, receive, reducer, count, choice.radix).await?;
    } else if choice.algorithm == Algorithm::Doubling {
        for round in 0..folding.rounds() {
            let partner = folding.rank(folded ^ 1 << round);
            sum.exchange(run, partner, 0..count).await;
        }
        sum.settle(receive, 0..count);
    } else {
        let start = even_pieces(count, folding);
        let halving = Halving {
            folding,
            order: Order::NearFirst,
            start: &start,
        };
        let piece = halving.reduce_scatter(run, &mut sum, folded).await;
        sum.settle(receive, piece);
        halving.allgather(run, reducer, receive, folded).await;
    }
    if run.rank < 2 * folding.pairs {
        let sending = run.send(run.rank - 1, reducer.chunk(receive, 0..count));
        run.end(sending).await;
    }
    Ok(())
}

/// Recursive multiplying among folded ranks: in each round the processes whose numbers differ in one digit, to the base of the radix,
/// exchange what they have (as k-port algorithms in E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication:
/// theory, practice, and experience, 2007). The radix is a power of two, and so is the number of processes; the last digit may be smaller.
async fn multiplying(
    run: &mut Run<'_>,
    own: Address,
    receive: Address,
    reducer: &Reducer,
    count: u64,
    radix: u32,
) -> Result<()> {
    let folding = Folding::of(run.size);
    let folded = folding.folded(run.rank).expect("only folded ranks come here");
    let scratch = Scratch::elements(&reducer.datatype, count, radix as usize + 1)?;
    let mut sum = scratch.slot(0);
    let mut places: SmallVec<[Address; 16]> = (1..=radix as usize).map(|slot| scratch.slot(slot)).collect();
    reducer.copy(own, sum, 0..count);
    let mut shift = 0;
    while shift < folding.rounds() {
        let bits = radix.ilog2().min(folding.rounds() - shift);
        let digits = 1 << bits;
        let mine = folded >> shift & (digits - 1);
        let others = (0..digits).filter(|&digit| digit != mine);
        let rank = |digit: u32| folding.rank(folded ^ (digit ^ mine) << shift);
        let into = |digit: u32| reducer.chunk(places[digit as usize], 0..count);
        let first = u32::from(mine == 0);
        let mut receives = UnderWay::new();
        for digit in others.clone().filter(|&digit| digit != first) {
            receives.push(run.receive(rank(digit), into(digit)));
        }
        let mut sends = UnderWay::new();
        for digit in others {
            let sending = run.send(rank(digit), reducer.chunk(sum, 0..count));
            run.keep(&mut sends, sending);
        }
        run.receive_now(rank(first), into(first)).await;
        run.end_all(receives).await;
        run.end_all(sends).await;
        // All combine from the last one down, so all have the same bits.
        places[mine as usize] = std::mem::replace(&mut sum, places[mine as usize]);
        let result = places[digits as usize - 1];
        for digit in (0..digits - 1).rev() {
            reducer.combine(places[digit as usize], result, 0..count);
        }
        places[digits as usize - 1] = std::mem::replace(&mut sum, result);
        shift += bits;
    }
    reducer.copy(sum, receive, 0..count);
    Ok(())
}

/// Piece after piece round a ring, twice: first combined, then distributed. For operations that commute.
async fn ring(
    run: &mut Run<'_>,
    send: Option<Address>,
    receive: Address,
    reducer: &Reducer,
    count: u64,
) -> Result<()> {
    let pieces = Pieces {
        total: count,
        number: run.size,
    };
    let (to, from) = (run.above(1), run.below(1));
    let (rank, size) = (run.rank, run.size);
    // The piece of the process `distance` below.
    let piece = |distance: u32| {
        let at = (rank + size - distance % size) % size;
        pieces.range(at, at + 1)
    };
    // With `MPI_IN_PLACE`, operands are received into other memory than this process's own.
    let longest = count.div_ceil(size.into());
    let scratch = Scratch::elements(&reducer.datatype, if send.is_some() { 0 } else { longest }, 1)?;
    for step in 0..size - 1 {
        let (out, into) = (piece(step), piece(step + 1));
        let source = match send {
            Some(send) if step == 0 => send,
            _ => receive,
        };
        let incoming = match send {
            Some(_) => reducer.chunk(receive, into.clone()),
            None => reducer.chunk(scratch.slot(0), 0..into.end - into.start),
        };
        run.exchange(to, reducer.chunk(source, out), from, incoming).await;
        match send {
            Some(send) => reducer.combine(send, receive, into),
            None => {
                let mine = receive.element(into.start, &reducer.datatype);
                reducer.combine(scratch.slot(0), mine, 0..into.end - into.start);
            }
        }
    }
    // The last piece that came is complete.
    for step in 0..size - 1 {
        let (out, into) = (piece(step + size - 1), piece(step));
        let (out, into) = (reducer.chunk(receive, out), reducer.chunk(receive, into));
        run.exchange(to, out, from, into).await;
    }
    Ok(())
}
