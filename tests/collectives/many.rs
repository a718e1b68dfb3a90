//! Predefined operations on numbers: those that shared memory takes apart into slices, or combines in trees where there are many
//! processes. In the other tests operations are the user's.

use std::cell::RefCell;
use std::sync::Arc;

use weft::data::datatype::Datatype;
use weft::data::op::Op;
use weft::objects::collective::shared::prepare_in_simulation;
use weft::objects::collective::{self, Operands};
use weft::sim::{Options, Rank, Simulation};
use weft::system::locality::Layout;

use crate::data::Room;
use crate::{Case, call, cases, long_cases};

/// `MPI_SUM`.
const SUM: usize = 33;

fn term(rank: u32, index: u64) -> i32 {
    (rank.wrapping_mul(1_000_003) ^ (index as u32).wrapping_mul(31)) as i32
}

fn terms(rank: u32, count: u64) -> Vec<i32> {
    (0..count).map(|index| term(rank, index)).collect()
}

fn sums(ranks: u32, count: u64) -> Vec<i32> {
    // All ranks of a case ask for the same ones, in one thread.
    thread_local!(static LAST: RefCell<(u32, Vec<i32>)> = const { RefCell::new((0, Vec::new())) });
    LAST.with_borrow_mut(|last| {
        if (last.0, last.1.len() as u64) != (ranks, count) {
            let sum = |index| (0..ranks).fold(0, |sum: i32, rank| sum.wrapping_add(term(rank, index)));
            *last = (ranks, (0..count).map(sum).collect());
        }
        last.1.clone()
    })
}

fn given(send: Option<&[i32]>, receive: Option<&mut [i32]>, counts: (u64, u64)) -> Operands {
    let op: Arc<Op> = Op::predefined(SUM).expect("it is predefined").clone();
    // SAFETY: the caller keeps them until the operation has ended, and leaves them alone.
    unsafe {
        Operands::new(
            send.map(|send| send.as_ptr().cast()),
            receive.map(|receive| receive.as_mut_ptr().cast()),
            counts.0,
            counts.1,
            Datatype::int32().clone(),
            op,
        )
    }
}

/// Each reduction once.
async fn all_reductions(rank: Rank, case: Case) {
    let (me, size, count) = (rank.me().number(), case.size, case.count);
    let own = terms(me, count);
    let mut result = match case.in_place {
        true => own.clone(),
        false => vec![-1; count as usize],
    };
    let operands = given(
        (!case.in_place).then_some(&own),
        Some(&mut result),
        (count, count),
    );
    call(
        &rank,
        &case,
        &[Room::of_numbers(&mut result)],
        move |operation| async move { collective::allreduce(&operation, operands).await },
    )
    .await
    .expect("MPI_Allreduce");
    assert_eq!(result, sums(size, count), "MPI_Allreduce of {case:?}");

    let at_root = me == case.root;
    let in_place = case.in_place && at_root;
    let mut result = match in_place {
        true => own.clone(),
        false => vec![-1; count as usize],
    };
    let into = at_root.then_some(&mut result[..]);
    let operands = given((!in_place).then_some(&own), into, (count, count));
    let root = case.root;
    call(
        &rank,
        &case,
        &[Room::of_numbers(&mut result)],
        move |operation| async move { collective::reduce(&operation, root, operands).await },
    )
    .await
    .expect("MPI_Reduce");
    if at_root {
        assert_eq!(result, sums(size, count), "MPI_Reduce of {case:?}");
    }

    if count > 2000 {
        return;
    }
    let all = terms(me, count * u64::from(size));
    let mut result = match case.in_place {
        true => all.clone(),
        false => vec![-1; count as usize],
    };
    let counts = (count * u64::from(size), count);
    let operands = given((!case.in_place).then_some(&all), Some(&mut result), counts);
    call(
        &rank,
        &case,
        &[Room::of_numbers(&mut result)],
        move |operation| async move { collective::reduce_scatter_block(&operation, operands).await },
    )
    .await
    .expect("MPI_Reduce_scatter_block");
    let (from, to) = (u64::from(me) * count, (u64::from(me) + 1) * count);
    let expected = &sums(size, counts.0)[from as usize..to as usize];
    assert_eq!(
        &result[..count as usize],
        expected,
        "MPI_Reduce_scatter_block of {case:?}"
    );

    for exclusive in [false, true] {
        let mut result = match case.in_place {
            true => own.clone(),
            false => vec![-1; count as usize],
        };
        let operands = given(
            (!case.in_place).then_some(&own),
            Some(&mut result),
            (count, count),
        );
        call(
            &rank,
            &case,
            &[Room::of_numbers(&mut result)],
            move |operation| async move {
                match exclusive {
                    true => collective::exscan(&operation, operands).await,
                    false => collective::scan(&operation, operands).await,
                }
            },
        )
        .await
        .expect("a scan");
        let end = if exclusive { me } else { me + 1 };
        if end > 0 {
            assert_eq!(result, sums(end, count), "a scan of {case:?}");
        }
    }
}

#[test]
fn sums_of_numbers() {
    cases("many::sums_of_numbers", all_reductions);
}

#[test]
fn sums_of_many_numbers() {
    // In short places, in several rounds of long ones, and a part of the last one.
    long_cases("many::sums_of_many_numbers", &[1500, 57_345], all_reductions);
}

#[test]
fn sums_of_numbers_in_segments() {
    // Where they are read from other processes: in one segment of the long places of all, or in more; and through places in between.
    long_cases(
        "many::sums_of_numbers_in_segments",
        &[300_001, 57_345, 270_000],
        all_reductions,
    );
}

#[test]
fn trees_in_shared_memory() {
    for size in [9, 65, 70] {
        let mut options = Options::random(1);
        options.layout = Layout::parse("(vector,(0,1,1))").expect("a layout");
        options.processors = None;
        Simulation::new(u64::from(size), size, options).run(|rank| async move {
            let me = rank.me().number();
            for count in [1, 3, 200] {
                let (own, mut result) = (terms(me, count), vec![-1; count as usize]);
                let operands = given(Some(&own), Some(&mut result), (count, count));
                let messages = rank.world().collective();
                let (messages, used) = prepare_in_simulation(messages).await.expect("no process is lost");
                assert!(used.is_some(), "all share memory");
                collective::allreduce(&messages, operands)
                    .await
                    .expect("it works");
                assert_eq!(result, sums(size, count), "{size} processes, {count} numbers");
                drop(used);
                let messages = rank.world().collective();
                let (messages, used) = prepare_in_simulation(messages).await.expect("no process is lost");
                collective::barrier(&messages).await.expect("it works");
                drop(used);
            }
        });
    }
}
