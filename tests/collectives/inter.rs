//! Operations across intercommunicators: the processes are split in two at random, and each operation is held against
//! the model as those of one group are. Each process takes layouts of its own where it may.

use std::sync::Arc;

use weft::objects::collective::{self, Root, VBuffer, WBuffer};
use weft::objects::communicator::Communicator;
use weft::objects::management::Bridge;
use weft::sim::Rank;

use crate::data::{Area, Element, LAYOUTS, Layout, element, operands, operation};
use crate::{Case, call_on, cases, long_cases, messages, rooted_cases};

/// An intercommunicator, as one process sees it.
struct Pair {
    inter: Arc<Communicator>,
    /// This process in the world, and in its group.
    me: u32,
    rank: usize,
    /// The processes of its group and of the other, in the world.
    here: Vec<u32>,
    there: Vec<u32>,
}

impl Pair {
    /// Everybody on one of two sides. `None` for a single process.
    async fn new(rank: &Rank, case: &Case) -> Option<Pair> {
        if case.size < 2 {
            return None;
        }
        let mut rng = case.common();
        let mut processes: Vec<u32> = (0..case.size).collect();
        rng.shuffle(&mut processes);
        let there = processes.split_off(rng.usize(1..processes.len()));
        let me = rank.me().number();
        let color = i32::from(there.contains(&me));
        let [here, there] = match color {
            0 => [processes, there],
            _ => [there, processes],
        };
        let at = here
            .iter()
            .position(|&process| process == me)
            .expect("one of them");
        let local = rank
            .world()
            .clone()
            .split(color, at as i32)
            .await
            .unwrap()
            .expect("a color");
        let bridge = (at == 0).then(|| Bridge::over(rank.world(), there[0] as i32, 0));
        Some(Pair {
            inter: local.connect(0, bridge).await.unwrap(),
            me,
            rank: at,
            here,
            there,
        })
    }

    /// What this process names the root, which has a rank in the world; `None`: it has no part.
    fn root(&self, root: u32) -> Option<Root> {
        match self.there.iter().position(|&process| process == root) {
            Some(rank) => Some(Root::Rank(rank as u32)),
            None => (root == self.me).then_some(Root::Here),
        }
    }

    fn layout(&self, case: &Case, which: u64) -> Layout {
        let mut rng = case.own(self.me);
        rng.seed(rng.get_seed() ^ which << 20);
        Layout::new(rng.usize(..LAYOUTS))
    }
}

/// Elements of one process for another, of which it has more or fewer than of others; some have none.
fn some(case: &Case, from: u32, to: u32) -> u64 {
    case.count * u64::from((from * 7 + to * 3 + case.seed as u32) % 3)
}

/// A place for each block, in another order than that of the ranks and with gaps: displacements, and elements in all.
fn places(counts: &[u64]) -> (Vec<i64>, i64) {
    let mut end = 2;
    let mut displs = vec![0; counts.len()];
    for (rank, &count) in counts.iter().enumerate().rev() {
        displs[rank] = end;
        end += count as i64 + 1;
    }
    (displs, end)
}

/// Blocks in places, each with the elements that `of` gives of its rank.
fn blocks(layout: &Layout, counts: &[u64], of: impl Fn(usize, u64) -> Option<Element>) -> Area {
    let (displs, end) = places(counts);
    let mut area = Area::new(layout, 0..end + 1);
    for (rank, &count) in counts.iter().enumerate() {
        for index in 0..count {
            if let Some(element) = of(rank, index) {
                area.put(displs[rank] + index as i64, element);
            }
        }
    }
    area
}

/// The arguments that describe blocks in places.
fn in_extents(area: &mut Area, counts: &[u64]) -> VBuffer {
    area.uneven(counts, &places(counts).0)
}

/// The same with displacements in bytes.
fn in_bytes(area: &mut Area, layout: &Layout, counts: &[u64]) -> WBuffer {
    let datatype = &layout.datatype;
    let displs = places(counts).0.into_iter();
    // SAFETY: as for `Area::blocks`.
    unsafe {
        WBuffer::new(
            area.address(),
            counts.into(),
            displs.map(|displ| displ * datatype.extent()).collect(),
            counts.iter().map(|_| datatype.clone()).collect(),
        )
    }
}

/// Blocks of `count` elements one behind another.
fn even(layout: &Layout, ranks: usize, count: u64, of: impl Fn(usize, u64) -> Element) -> Area {
    let mut area = Area::new(layout, 0..(count * ranks as u64) as i64);
    for rank in 0..ranks {
        for index in 0..count {
            area.put((rank as u64 * count + index) as i64, of(rank, index));
        }
    }
    area
}

async fn rooted_case(rank: Rank, case: Case) {
    let Some(pair) = Pair::new(&rank, &case).await else {
        return;
    };
    let count = case.count;
    let root = pair.root(case.root);
    let at_root = root == Some(Root::Here);
    let own_layout = pair.layout(&case, 1);
    let all_layout = pair.layout(&case, 2);
    let what = (pair.me, &case);
    let Some(root) = root else {
        for _ in 0..5 {
            messages(&case, &pair.inter);
        }
        return;
    };

    let mut area = Area::new(&own_layout, 0..count as i64);
    let expected = Area::of(&own_layout, case.root, count);
    if at_root {
        area = expected.clone();
    }
    let buffer = area.buffer(count);
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[area.room()],
        move |operation| async move { collective::bcast(&operation, root, buffer).await },
    )
    .await
    .unwrap();
    area.check(&expected, &what);

    let ranks = pair.there.len();
    let mut own = Area::of(&own_layout, pair.me, count);
    let expected = even(&all_layout, ranks, count, |rank, index| {
        element(pair.there[rank], index)
    });
    let mut all = Area::new(&all_layout, 0..(count * ranks as u64) as i64);
    let send = (!at_root).then(|| own.buffer(count));
    let receive = at_root.then(|| all.blocks(count, ranks as u32));
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[all.room()],
        move |operation| async move { collective::gather(&operation, root, send, receive).await },
    )
    .await
    .unwrap();
    if at_root {
        all.check(&expected, &what);
    }

    let mut all = even(&all_layout, ranks, count, |rank, index| {
        element(pair.me, rank as u64 * count + index)
    });
    let mut own = Area::new(&own_layout, 0..count as i64);
    let mut expected = own.clone();
    for index in 0..count {
        expected.put(index as i64, element(case.root, pair.rank as u64 * count + index));
    }
    let send = at_root.then(|| all.blocks(count, ranks as u32));
    let receive = (!at_root).then(|| own.buffer(count));
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[own.room()],
        move |operation| async move { collective::scatter(&operation, root, send, receive).await },
    )
    .await
    .unwrap();
    if !at_root {
        own.check(&expected, &what);
    }

    let counts: Vec<u64> = pair
        .there
        .iter()
        .map(|&from| some(&case, from, case.root))
        .collect();
    let mine = some(&case, pair.me, case.root);
    let mut own = Area::of(&own_layout, pair.me, mine);
    let expected = blocks(&all_layout, &counts, |rank, index| {
        Some(element(pair.there[rank], index))
    });
    let mut all = blocks(&all_layout, &counts, |_, _| None);
    let send = (!at_root).then(|| own.buffer(mine));
    let receive = at_root.then(|| in_extents(&mut all, &counts));
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[all.room()],
        move |operation| async move { collective::gatherv(&operation, root, send, receive).await },
    )
    .await
    .unwrap();
    if at_root {
        all.check(&expected, &what);
    }

    let mut all = blocks(&all_layout, &counts, |rank, index| {
        Some(element(pair.there[rank], index))
    });
    let mut own = Area::new(&own_layout, 0..mine as i64);
    let expected = Area::of(&own_layout, pair.me, mine);
    let send = at_root.then(|| in_extents(&mut all, &counts));
    let receive = (!at_root).then(|| own.buffer(mine));
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[own.room()],
        move |operation| async move { collective::scatterv(&operation, root, send, receive).await },
    )
    .await
    .unwrap();
    drop(all);
    if !at_root {
        own.check(&expected, &what);
    }
}

#[test]
fn inter_rooted() {
    rooted_cases("inter_rooted", rooted_case);
}

#[test]
fn inter_rooted_long() {
    long_cases("inter_rooted_long", &[768, 4000], rooted_case);
}

async fn all_case(rank: Rank, case: Case) {
    let Some(pair) = Pair::new(&rank, &case).await else {
        return;
    };
    let what = (pair.me, &case);
    let ranks = pair.there.len();
    let (send_layout, receive_layout) = (pair.layout(&case, 1), pair.layout(&case, 2));
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[],
        |operation| async move { collective::barrier(&operation).await },
    )
    .await
    .unwrap();

    // The group of process 0 has more for the other than that for it.
    let extra = |group: &[u32]| if group.contains(&0) { 2 } else { 0 };
    let (out, count) = (case.count + extra(&pair.here), case.count + extra(&pair.there));
    let mut own = Area::of(&send_layout, pair.me, out);
    let before = own.clone();
    let expected = even(&receive_layout, ranks, count, |rank, index| {
        element(pair.there[rank], index)
    });
    let mut all = Area::new(&receive_layout, 0..(count * ranks as u64) as i64);
    let send = Some(own.buffer(out));
    let receive = all.blocks(count, ranks as u32);
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[all.room()],
        move |operation| async move { collective::allgather(&operation, send, receive).await },
    )
    .await
    .unwrap();
    own.check(&before, &what);
    all.check(&expected, &what);

    let counts: Vec<u64> = pair.there.iter().map(|&from| some(&case, from, 0)).collect();
    let mine = some(&case, pair.me, 0);
    let mut own = Area::of(&send_layout, pair.me, mine);
    let of = |rank: usize, index| Some(element(pair.there[rank], index));
    let expected = blocks(&receive_layout, &counts, of);
    let mut all = blocks(&receive_layout, &counts, |_, _| None);
    let receive = in_extents(&mut all, &counts);
    let send = Some(own.buffer(mine));
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[all.room()],
        move |operation| async move { collective::allgatherv(&operation, send, receive).await },
    )
    .await
    .unwrap();
    all.check(&expected, &what);

    let mut send_area = even(&send_layout, ranks, out, |rank, index| {
        element(pair.me, u64::from(pair.there[rank]) << 20 | index)
    });
    let expected = even(&receive_layout, ranks, count, |rank, index| {
        element(pair.there[rank], u64::from(pair.me) << 20 | index)
    });
    let mut all = Area::new(&receive_layout, 0..(count * ranks as u64) as i64);
    let send = Some(send_area.blocks(out, ranks as u32));
    let receive = all.blocks(count, ranks as u32);
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[all.room()],
        move |operation| async move { collective::alltoall(&operation, send, receive).await },
    )
    .await
    .unwrap();
    all.check(&expected, &what);

    let out: Vec<u64> = pair.there.iter().map(|&to| some(&case, pair.me, to)).collect();
    let counts: Vec<u64> = pair
        .there
        .iter()
        .map(|&from| some(&case, from, pair.me))
        .collect();
    for by_bytes in [false, true] {
        let to = |rank: usize, index| Some(element(pair.me, u64::from(pair.there[rank]) << 20 | index));
        let from = |rank: usize, index| Some(element(pair.there[rank], u64::from(pair.me) << 20 | index));
        let mut outgoing = blocks(&send_layout, &out, to);
        let mut all = blocks(&receive_layout, &counts, |_, _| None);
        let vectors = [in_extents(&mut outgoing, &out), in_extents(&mut all, &counts)];
        let bytes = [
            in_bytes(&mut outgoing, &send_layout, &out),
            in_bytes(&mut all, &receive_layout, &counts),
        ];
        let expected = blocks(&receive_layout, &counts, from);
        call_on(
            &rank,
            &case,
            messages(&case, &pair.inter),
            &[all.room()],
            move |operation| async move {
                if by_bytes {
                    let [send, receive] = bytes;
                    collective::alltoallw(&operation, Some(send), receive).await
                } else {
                    let [send, receive] = vectors;
                    collective::alltoallv(&operation, Some(send), receive).await
                }
            },
        )
        .await
        .unwrap();
        drop(outgoing);
        all.check(&expected, &what);
    }
}

#[test]
fn inter_all() {
    cases("inter_all", all_case);
}

#[test]
fn inter_all_long() {
    long_cases("inter_all_long", &[768, 4000], all_case);
}

async fn reducing_case(rank: Rank, case: Case) {
    let Some(pair) = Pair::new(&rank, &case).await else {
        return;
    };
    let what = (pair.me, &case);
    let mut rng = case.common();
    // All take the same layout, as the standard asks for.
    let layout = Layout::new(rng.usize(..LAYOUTS));
    let (op, combine) = operation(rng.bool());
    let of_group = |index: u64| {
        let operands = pair.there.iter().map(|&process| element(process, index));
        operands.reduce(combine).expect("somebody")
    };
    let results = |first: u64, count: u64| {
        let mut area = Area::new(&layout, 0..count as i64);
        for index in 0..count {
            area.put(index as i64, of_group(first + index));
        }
        area
    };
    let count = case.count;

    let mut own = Area::of(&layout, pair.me, count);
    let before = own.clone();
    let mut all = Area::new(&layout, 0..count as i64);
    let given = operands(Some(&mut own), Some(&mut all), (count, count), (&layout, &op));
    call_on(
        &rank,
        &case,
        messages(&case, &pair.inter),
        &[all.room()],
        move |operation| async move { collective::allreduce(&operation, given).await },
    )
    .await
    .unwrap();
    all.check(&results(0, count), &what);

    let operation = messages(&case, &pair.inter);
    if let Some(root) = pair.root(case.root) {
        let at_root = root == Root::Here;
        let mut all = Area::new(&layout, 0..count as i64);
        let (send, receive) = ((!at_root).then_some(&mut own), at_root.then_some(&mut all));
        let given = operands(send, receive, (count, count), (&layout, &op));
        call_on(
            &rank,
            &case,
            operation,
            &[all.room()],
            move |operation| async move { collective::reduce(&operation, root, given).await },
        )
        .await
        .unwrap();
        if at_root {
            all.check(&results(0, count), &what);
        }
    }
    own.check(&before, &what);

    // Both groups get as many elements in all; each shares them out as it likes.
    let block = count * pair.there.len() as u64;
    let total = block * pair.here.len() as u64;
    let mut own = Area::of(&layout, pair.me, total);
    let mut counts: Vec<u64> = vec![0; pair.here.len()];
    let mut left = total;
    for (rank, count) in counts.iter_mut().enumerate().skip(1) {
        *count = (left / 2).min(rank as u64 * 5);
        left -= *count;
    }
    counts[0] = left;
    for even in [true, false] {
        let (first, mine) = match even {
            true => (pair.rank as u64 * block, block),
            false => (counts[..pair.rank].iter().sum(), counts[pair.rank]),
        };
        let mut all = Area::new(&layout, 0..mine as i64);
        let given = operands(Some(&mut own), Some(&mut all), (total, mine), (&layout, &op));
        let counts: Arc<[u64]> = counts.clone().into();
        call_on(
            &rank,
            &case,
            messages(&case, &pair.inter),
            &[all.room()],
            move |operation| async move {
                match even {
                    true => collective::reduce_scatter_block(&operation, given).await,
                    false => collective::reduce_scatter(&operation, given, counts).await,
                }
            },
        )
        .await
        .unwrap();
        all.check(&results(first, mine), &what);
    }
}

#[test]
fn inter_reducing() {
    cases("inter_reducing", reducing_case);
}

#[test]
fn inter_reducing_long() {
    long_cases("inter_reducing_long", &[600, 3000], reducing_case);
}
