//! Reductions, with an operation that commutes and one that does not. All ranks take the same layout, as the standard
//! asks for.

use std::sync::Arc;

use weft::data::datatype::Datatype;
use weft::data::op::Op;
use weft::objects::collective;
use weft::sim::Rank;

use crate::data::{Area, Element, LAYOUTS, Layout, Room, element, operands, operation};
use crate::{Case, call, cases, long_cases, rooted_cases};

struct Setup {
    me: u32,
    layout: Layout,
    op: Arc<Op>,
    combine: fn(Element, Element) -> Element,
}

fn setup(rank: &Rank, case: &Case) -> Setup {
    let mut rng = case.common();
    let layout = Layout::new(rng.usize(..LAYOUTS));
    let (op, combine) = operation(rng.bool());
    Setup {
        me: rank.me().number(),
        layout,
        op,
        combine,
    }
}

impl Setup {
    /// The elements `index` of these ranks combined.
    fn result(&self, ranks: std::ops::Range<u32>, index: u64) -> Element {
        ranks
            .map(|rank| element(rank, index))
            .reduce(self.combine)
            .expect("one rank at least")
    }

    fn results(&self, ranks: std::ops::Range<u32>, count: u64) -> Area {
        let mut area = Area::new(&self.layout, 0..count as i64);
        for index in 0..count {
            area.put(index as i64, self.result(ranks.clone(), index));
        }
        area
    }

    /// What a reduction is handed: see [`operands`].
    fn given(
        &self,
        send: Option<&mut Area>,
        receive: Option<&mut Area>,
        counts: (u64, u64),
    ) -> collective::Operands {
        operands(send, receive, counts, (&self.layout, &self.op))
    }

    /// This rank's elements, and a receive buffer, which holds them in place.
    fn operands(&self, case: &Case, count: u64) -> (Area, Area) {
        let own = Area::of(&self.layout, self.me, count);
        let receive = match case.in_place {
            true => own.clone(),
            false => Area::new(&self.layout, 0..count as i64),
        };
        (own, receive)
    }
}

pub async fn reduce_case(rank: Rank, case: Case) {
    let setup = setup(&rank, &case);
    let (me, root, count) = (setup.me, case.root, case.count);
    let (mut own, mut receive) = setup.operands(&case, count);
    let before = own.clone();
    let send = (me != root || !case.in_place).then_some(&mut own);
    let into = (me == root).then_some(&mut receive);
    let given = setup.given(send, into, (count, count));
    call(&rank, &case, &[receive.room()], move |operation| async move {
        collective::reduce(&operation, root, given).await
    })
    .await
    .unwrap();
    own.check(&before, &(me, &case));
    if me == root {
        receive.check(&setup.results(0..case.size, count), &(me, &case));
    }
}

#[test]
fn reduce() {
    rooted_cases("reduce", reduce_case);
}

#[test]
fn reduce_long() {
    long_cases("reduce_long", &[512, 513, 4000, 16_384], reduce_case);
}

pub async fn allreduce_case(rank: Rank, case: Case) {
    let setup = setup(&rank, &case);
    let count = case.count;
    let (mut own, mut receive) = setup.operands(&case, count);
    let before = own.clone();
    let send = (!case.in_place).then_some(&mut own);
    let given = setup.given(send, Some(&mut receive), (count, count));
    call(&rank, &case, &[receive.room()], move |operation| async move {
        collective::allreduce(&operation, given).await
    })
    .await
    .unwrap();
    own.check(&before, &(setup.me, &case));
    receive.check(&setup.results(0..case.size, count), &(setup.me, &case));
}

#[test]
fn allreduce() {
    cases("allreduce", allreduce_case);
}

#[test]
fn allreduce_long() {
    long_cases("allreduce_long", &[512, 513, 4000, 16_384], allreduce_case);
}

pub async fn reduce_scatter_case(rank: Rank, case: Case) {
    let setup = setup(&rank, &case);
    reduce_scatter_of(rank, case, setup).await;
}

async fn reduce_scatter_of(rank: Rank, case: Case, setup: Setup) {
    let mut rng = case.common();
    let even = rng.bool();
    let counts: Vec<u64> = (0..case.size)
        .map(|_| match (even, rng.u32(..4)) {
            (true, _) => case.count,
            (false, 0) => 0,
            _ => rng.u64(..case.count + 1),
        })
        .collect();
    let total: u64 = counts.iter().sum();
    let first: u64 = counts[..setup.me as usize].iter().sum();
    let mine = counts[setup.me as usize];
    let (mut own, mut receive) = setup.operands(&case, total);
    let before = own.clone();
    let mut expected = receive.clone();
    for index in 0..mine {
        expected.put(index as i64, setup.result(0..case.size, first + index));
    }
    let send = (!case.in_place).then_some(&mut own);
    let given = setup.given(send, Some(&mut receive), (total, mine));
    call(&rank, &case, &[receive.room()], move |operation| async move {
        if even {
            collective::reduce_scatter_block(&operation, given).await
        } else {
            collective::reduce_scatter(&operation, given, counts.into()).await
        }
    })
    .await
    .unwrap();
    own.check(&before, &(setup.me, &case));
    receive.check(&expected, &(setup.me, &case));
}

#[test]
fn reduce_scatter() {
    cases("reduce_scatter", reduce_scatter_case);
}

#[test]
fn reduce_scatter_long() {
    long_cases("reduce_scatter_long", &[300, 2000], reduce_scatter_case);
}

/// So long that each block goes straight to its owner, who combines those of the ranks below and above apart.
#[test]
fn reduce_scatter_long_in_order() {
    long_cases("reduce_scatter_long_in_order", &[3000], |rank, case| async move {
        let (op, combine) = operation(false);
        let setup = Setup {
            op,
            combine,
            ..setup(&rank, &case)
        };
        reduce_scatter_of(rank, case, setup).await;
    });
}

async fn scan_case(rank: Rank, case: Case) {
    let setup = setup(&rank, &case);
    let (me, count) = (setup.me, case.count);
    let exclusive = case.common().u32(..2) == 1;
    let (mut own, mut receive) = setup.operands(&case, count);
    let before = own.clone();
    let expected = match (exclusive, me) {
        (true, 0) => receive.clone(),
        (true, _) => setup.results(0..me, count),
        (false, _) => setup.results(0..me + 1, count),
    };
    let send = (!case.in_place).then_some(&mut own);
    let given = setup.given(send, Some(&mut receive), (count, count));
    call(&rank, &case, &[receive.room()], move |operation| async move {
        if exclusive {
            collective::exscan(&operation, given).await
        } else {
            collective::scan(&operation, given).await
        }
    })
    .await
    .unwrap();
    own.check(&before, &(me, &case));
    receive.check(&expected, &(me, &case));
}

#[test]
fn scan() {
    cases("scan", scan_case);
}

/// `MPI_DOUBLE_INT` has a gap, and ties go to the lowest index on every rank.
#[test]
fn locations() {
    const MAXLOC: usize = 57;
    const DOUBLE_INT: usize = 553;
    cases("locations", |rank, case| async move {
        let (me, count) = (rank.me().number(), case.count as usize);
        let value = |rank: u32, index: usize| (rank + index as u32) as u8 % 3;
        let mut pairs = vec![(0.0f64, 0i32); count];
        let mut bytes = vec![0u8; 16 * count];
        for (index, bytes) in bytes.chunks_exact_mut(16).enumerate() {
            bytes[..8].copy_from_slice(&f64::from(value(me, index)).to_le_bytes());
            bytes[8..12].copy_from_slice(&(me as i32).to_le_bytes());
            let best = (0..case.size)
                .max_by_key(|&rank| (value(rank, index), std::cmp::Reverse(rank)))
                .expect("one rank at least");
            pairs[index] = (value(best, index).into(), best as i32);
        }
        let datatype = Datatype::predefined(DOUBLE_INT).unwrap().clone();
        let op = Op::predefined(MAXLOC).unwrap().clone();
        let (into, number) = (Some(bytes.as_mut_ptr()), count as u64);
        // SAFETY: the bytes outlive the operation, and are so many elements.
        let given = unsafe { collective::Operands::new(None, into, number, number, datatype, op) };
        call(
            &rank,
            &case,
            &[Room::of(&mut bytes)],
            move |operation| async move { collective::allreduce(&operation, given).await },
        )
        .await
        .unwrap();
        for (bytes, (value, index)) in bytes.chunks_exact(16).zip(pairs) {
            assert_eq!(bytes[..8], value.to_le_bytes());
            assert_eq!(bytes[8..12], index.to_le_bytes());
        }
    });
}
