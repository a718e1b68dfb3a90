//! `MPI_Scan`, `MPI_Exscan` (MPI 5.0 section 6.11). In round `k` each process gets the combined elements of the `2^k`
//! ranks that end `2^k` below it, and puts them before what it has: the order of ranks is kept.

use super::buffer::{Address, Operands};
use super::gather::{no_receive, no_send};
use super::reduction::Reducer;
use super::run::Run;
use super::scratch::Scratch;
use super::shared;
use crate::base::error::Result;
use crate::objects::communicator::Collective;

/// The elements of the ranks up to and including each one combined, for that one.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` at a process whose peer sends more elements.
pub async fn scan(operation: &Collective, operands: Operands) -> Result<()> {
    let mut run = Run::new(operation);
    let Operands {
        send,
        receive,
        count,
        reducer,
        ..
    } = operands.whole()?;
    let receive = receive.ok_or_else(no_receive)?;
    if count == 0 {
        return Ok(());
    }
    if let Some(area) = run.area
        && shared::scan(&mut run, area, send, receive, &reducer, count, false).await?
    {
        return run.finish();
    }
    if let Some(send) = send {
        reducer.copy(send, receive, 0..count);
    }
    let scratch = Scratch::elements(&reducer.datatype, if run.rank > 0 { count } else { 0 }, 1)?;
    let mut distance = 1;
    while distance < run.size {
        if shift(&mut run, &reducer, distance, receive, scratch.slot(0), count).await {
            reducer.combine(scratch.slot(0), receive, 0..count);
        }
        distance *= 2;
    }
    run.finish()
}

/// The elements of the ranks below each one combined, for that one; rank 0 gets nothing, and needs no receive buffer.
///
/// # Errors
/// As for [`scan`].
pub async fn exscan(operation: &Collective, operands: Operands) -> Result<()> {
    let mut run = Run::new(operation);
    let Operands {
        send,
        receive,
        count,
        reducer,
        ..
    } = operands.whole()?;
    if count == 0 {
        return Ok(());
    }
    // What is passed on: this process's elements after the result.
    let own = send.or(receive).ok_or_else(no_send)?;
    let receive = match run.rank {
        0 => own,
        _ => receive.ok_or_else(no_receive)?,
    };
    if let Some(area) = run.area
        && shared::scan(&mut run, area, Some(own), receive, &reducer, count, true).await?
    {
        return run.finish();
    }
    // The last ranks forward nothing; rank 0 forwards only its own.
    let scratch = Scratch::elements(&reducer.datatype, if run.rank > 0 { count } else { 0 }, 2)?;
    let (operand, partial) = (scratch.slot(0), scratch.slot(1));
    let sum = if run.rank > 0 {
        reducer.copy(own, partial, 0..count);
        partial
    } else {
        own
    };
    let mut any = false;
    let mut distance = 1;
    while distance < run.size {
        if shift(&mut run, &reducer, distance, sum, operand, count).await {
            if any {
                reducer.combine(operand, receive, 0..count);
            } else {
                reducer.copy(operand, receive, 0..count);
                any = true;
            }
            reducer.combine(operand, partial, 0..count);
        }
        distance *= 2;
    }
    run.finish()
}

/// Sends to the rank `distance` above and receives from the one `distance` below, where they exist. `true`: something
/// was received.
async fn shift(
    run: &mut Run<'_>,
    reducer: &Reducer,
    distance: u32,
    from: Address,
    into: Address,
    count: u64,
) -> bool {
    let sending = (run.size - run.rank > distance)
        .then(|| run.send(run.rank + distance, reducer.chunk(from, 0..count)));
    let comes = run.rank >= distance;
    if comes {
        run.receive_now(run.rank - distance, reducer.chunk(into, 0..count))
            .await;
    }
    if let Some(sending) = sending {
        run.end(sending).await;
    }
    comes
}
