//! Procedures that only move data. Each rank takes layouts of its own.

use std::sync::Arc;

use weft::data::memory::Memory;
use weft::objects::collective::{self, Buffer, WBuffer};
use weft::sim::Rank;

use crate::data::{Area, LAYOUTS, Layout, Room, element};
use crate::{Case, call, cases, long_cases, rooted_cases};

fn layout(case: &Case, rank: u32, which: u64) -> Layout {
    let mut rng = case.own(rank);
    rng.seed(rng.get_seed() ^ which << 20);
    Layout::new(rng.usize(..LAYOUTS))
}

pub async fn barrier_case(rank: Rank, case: Case) {
    call(&rank, &case, &[], |operation| async move {
        collective::barrier(&operation).await
    })
    .await
    .unwrap();
}

#[test]
fn barrier() {
    cases("barrier", barrier_case);
}

pub async fn bcast_case(rank: Rank, case: Case) {
    let me = rank.me().number();
    let layout = layout(&case, me, 0);
    let expected = Area::of(&layout, case.root, case.count);
    let mut area = if me == case.root {
        expected.clone()
    } else {
        Area::new(&layout, 0..case.count as i64)
    };
    let buffer = area.buffer(case.count);
    let root = case.root;
    call(&rank, &case, &[area.room()], move |operation| async move {
        collective::bcast(&operation, root, buffer).await
    })
    .await
    .unwrap();
    area.check(&expected, &(me, &case));
}

#[test]
fn bcast() {
    rooted_cases("bcast", bcast_case);
}

#[test]
fn bcast_long() {
    long_cases("bcast_long", &[768, 769, 4000, 33_000], bcast_case);
}

pub async fn gather_case(rank: Rank, case: Case) {
    let (me, root, count) = (rank.me().number(), case.root, case.count);
    let mut own = Area::of(&layout(&case, me, 0), me, count);
    let before = own.clone();
    let mut all = Area::new(&layout(&case, me, 1), 0..(count * u64::from(case.size)) as i64);
    let mut expected = all.clone();
    for index in 0..count {
        for from in 0..case.size {
            expected.put(
                index as i64 + i64::from(from) * count as i64,
                element(from, index),
            );
        }
        if case.in_place {
            all.put(index as i64 + i64::from(me) * count as i64, element(me, index));
        }
    }
    let send = (me != root || !case.in_place).then(|| own.buffer(count));
    let receive = (me == root).then(|| all.blocks(count, case.size));
    call(&rank, &case, &[all.room()], move |operation| async move {
        collective::gather(&operation, root, send, receive).await
    })
    .await
    .unwrap();
    own.check(&before, &(me, &case));
    if me == root {
        all.check(&expected, &(me, &case));
    }
}

#[test]
fn gather() {
    rooted_cases("gather", gather_case);
}

pub async fn scatter_case(rank: Rank, case: Case) {
    let (me, root, count) = (rank.me().number(), case.root, case.count);
    let mut all = Area::of(&layout(&case, me, 0), root, count * u64::from(case.size));
    let before = all.clone();
    let mut own = Area::new(&layout(&case, me, 1), 0..count as i64);
    let mut expected = own.clone();
    let in_place = me == root && case.in_place;
    if !in_place {
        for index in 0..count {
            expected.put(index as i64, element(root, index + u64::from(me) * count));
        }
    }
    let send = (me == root).then(|| all.blocks(count, case.size));
    let receive = (!in_place).then(|| own.buffer(count));
    call(&rank, &case, &[own.room()], move |operation| async move {
        collective::scatter(&operation, root, send, receive).await
    })
    .await
    .unwrap();
    all.check(&before, &(me, &case));
    own.check(&expected, &(me, &case));
}

#[test]
fn scatter() {
    rooted_cases("scatter", scatter_case);
}

/// Counts that differ from rank to rank, with zeros, and places for them in another order and with gaps: counts,
/// displacements, elements in all.
fn uneven(case: &Case, counts: &[u64]) -> (Vec<i64>, i64) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    case.common().shuffle(&mut order);
    let (mut displs, mut end) = (vec![0; counts.len()], -3);
    for (step, rank) in order.into_iter().enumerate() {
        displs[rank] = end;
        end += counts[rank] as i64 + (step % 3) as i64;
    }
    (displs, end + 3)
}

fn counts(case: &Case) -> Vec<u64> {
    let mut rng = case.common();
    (0..case.size)
        .map(|_| match rng.u32(..4) {
            0 => 0,
            1 => case.count,
            _ => rng.u64(..case.count + 1),
        })
        .collect()
}

fn area(layout: &Layout, end: i64) -> Area {
    Area::new(layout, -3..end + 1)
}

async fn gatherv_case(rank: Rank, case: Case) {
    let (me, root) = (rank.me().number(), case.root);
    let counts = counts(&case);
    let mine = counts[me as usize];
    let (displs, end) = uneven(&case, &counts);
    let mut own = Area::of(&layout(&case, me, 0), me, mine);
    let before = own.clone();
    let receive_layout = layout(&case, me, 1);
    let mut all = area(&receive_layout, end);
    let mut expected = all.clone();
    for from in 0..case.size {
        for index in 0..counts[from as usize] {
            expected.put(displs[from as usize] + index as i64, element(from, index));
        }
    }
    if case.in_place {
        for index in 0..mine {
            all.put(displs[me as usize] + index as i64, element(me, index));
        }
    }
    let send = (me != root || !case.in_place).then(|| own.buffer(mine));
    let receive = (me == root).then(|| all.uneven(&counts, &displs));
    call(&rank, &case, &[all.room()], move |operation| async move {
        collective::gatherv(&operation, root, send, receive).await
    })
    .await
    .unwrap();
    own.check(&before, &(me, &case));
    if me == root {
        all.check(&expected, &(me, &case));
    }
}

#[test]
fn gatherv() {
    rooted_cases("gatherv", gatherv_case);
}

async fn scatterv_case(rank: Rank, case: Case) {
    let (me, root) = (rank.me().number(), case.root);
    let counts = counts(&case);
    let mine = counts[me as usize];
    let (displs, end) = uneven(&case, &counts);
    let send_layout = layout(&case, me, 1);
    let mut all = area(&send_layout, end);
    for to in 0..case.size {
        for index in 0..counts[to as usize] {
            all.put(displs[to as usize] + index as i64, element(to, index));
        }
    }
    let before = all.clone();
    let own_layout = layout(&case, me, 0);
    let mut own = Area::new(&own_layout, 0..mine as i64);
    let in_place = me == root && case.in_place;
    let expected = match in_place {
        true => own.clone(),
        false => Area::of(&own_layout, me, mine),
    };
    let receive = (!in_place).then(|| own.buffer(mine));
    let send = (me == root).then(|| all.uneven(&counts, &displs));
    call(&rank, &case, &[own.room()], move |operation| async move {
        collective::scatterv(&operation, root, send, receive).await
    })
    .await
    .unwrap();
    all.check(&before, &(me, &case));
    own.check(&expected, &(me, &case));
}

#[test]
fn scatterv() {
    rooted_cases("scatterv", scatterv_case);
}

pub async fn allgather_case(rank: Rank, case: Case) {
    let (me, count) = (rank.me().number(), case.count);
    let mut own = Area::of(&layout(&case, me, 0), me, count);
    let before = own.clone();
    let mut all = Area::new(&layout(&case, me, 1), 0..(count * u64::from(case.size)) as i64);
    let mut expected = all.clone();
    for index in 0..count {
        for from in 0..case.size {
            expected.put(
                index as i64 + i64::from(from) * count as i64,
                element(from, index),
            );
        }
        if case.in_place {
            all.put(index as i64 + i64::from(me) * count as i64, element(me, index));
        }
    }
    let send = (!case.in_place).then(|| own.buffer(count));
    let receive = all.blocks(count, case.size);
    call(&rank, &case, &[all.room()], move |operation| async move {
        collective::allgather(&operation, send, receive).await
    })
    .await
    .unwrap();
    own.check(&before, &(me, &case));
    all.check(&expected, &(me, &case));
}

#[test]
fn allgather() {
    cases("allgather", allgather_case);
}

#[test]
fn allgather_long() {
    long_cases("allgather_long", &[1024, 4200, 9000], allgather_case);
}

pub async fn allgatherv_case(rank: Rank, case: Case) {
    let me = rank.me().number();
    let counts = counts(&case);
    let mine = counts[me as usize];
    let (displs, end) = uneven(&case, &counts);
    let mut own = Area::of(&layout(&case, me, 0), me, mine);
    let before = own.clone();
    let receive_layout = layout(&case, me, 1);
    let mut all = area(&receive_layout, end);
    let mut expected = all.clone();
    for from in 0..case.size {
        for index in 0..counts[from as usize] {
            expected.put(displs[from as usize] + index as i64, element(from, index));
        }
    }
    if case.in_place {
        for index in 0..mine {
            all.put(displs[me as usize] + index as i64, element(me, index));
        }
    }
    let send = (!case.in_place).then(|| own.buffer(mine));
    let receive = all.uneven(&counts, &displs);
    call(&rank, &case, &[all.room()], move |operation| async move {
        collective::allgatherv(&operation, send, receive).await
    })
    .await
    .unwrap();
    own.check(&before, &(me, &case));
    all.check(&expected, &(me, &case));
}

#[test]
fn allgatherv() {
    cases("allgatherv", allgatherv_case);
}

#[test]
fn allgatherv_long() {
    long_cases("allgatherv_long", &[900, 2000], allgatherv_case);
}

/// Element `index` from one rank for another.
fn crossing(from: u32, to: u32, index: u64) -> [u32; 4] {
    element(from, u64::from(to) << 24 | index)
}

pub async fn alltoall_case(rank: Rank, case: Case) {
    let (me, count) = (rank.me().number(), case.count);
    let elements = 0..(count * u64::from(case.size)) as i64;
    let mut send = Area::new(&layout(&case, me, 0), elements.clone());
    let mut receive = Area::new(&layout(&case, me, 1), elements);
    let mut expected = receive.clone();
    for other in 0..case.size {
        for index in 0..count {
            let place = i64::from(other) * count as i64 + index as i64;
            let outgoing = if case.in_place { &mut receive } else { &mut send };
            outgoing.put(place, crossing(me, other, index));
            expected.put(place, crossing(other, me, index));
        }
    }
    let before = send.clone();
    let outgoing: Option<Buffer> = (!case.in_place).then(|| send.blocks(count, case.size));
    let incoming = receive.blocks(count, case.size);
    call(&rank, &case, &[receive.room()], move |operation| async move {
        collective::alltoall(&operation, outgoing, incoming).await
    })
    .await
    .unwrap();
    send.check(&before, &(me, &case));
    receive.check(&expected, &(me, &case));
}

#[test]
fn alltoall() {
    cases("alltoall", alltoall_case);
}

/// How many elements go from rank to rank. In place as many come back.
fn crossings(case: &Case, from: u32, to: u32) -> u64 {
    let (from, to) = match case.in_place {
        true => (from.min(to), from.max(to)),
        false => (from, to),
    };
    case.count * u64::from((from * 7 + to * 3 + from * to) % 5) / 4
}

async fn alltoallv_case(rank: Rank, case: Case) {
    let me = rank.me().number();
    let out: Vec<u64> = (0..case.size).map(|to| crossings(&case, me, to)).collect();
    let into: Vec<u64> = (0..case.size).map(|from| crossings(&case, from, me)).collect();
    let (out_displs, out_end) = uneven(&case, &out);
    let (into_displs, into_end) = uneven(&case, &into);
    let (send_layout, receive_layout) = (layout(&case, me, 0), layout(&case, me, 1));
    let mut send = area(&send_layout, out_end);
    let mut receive = area(&receive_layout, into_end);
    let mut expected = receive.clone();
    for other in 0..case.size {
        let at = other as usize;
        for index in 0..into[at] {
            let place = into_displs[at] + index as i64;
            expected.put(place, crossing(other, me, index));
            if case.in_place {
                receive.put(place, crossing(me, other, index));
            }
        }
        for index in 0..out[at] {
            send.put(out_displs[at] + index as i64, crossing(me, other, index));
        }
    }
    let before = send.clone();
    let outgoing = (!case.in_place).then(|| send.uneven(&out, &out_displs));
    let incoming = receive.uneven(&into, &into_displs);
    call(&rank, &case, &[receive.room()], move |operation| async move {
        collective::alltoallv(&operation, outgoing, incoming).await
    })
    .await
    .unwrap();
    send.check(&before, &(me, &case));
    receive.check(&expected, &(me, &case));
}

#[test]
fn alltoallv() {
    cases("alltoallv", alltoallv_case);
}

/// Every block is an area of its own, addressed in bytes from the first one.
async fn alltoallw_case(rank: Rank, case: Case) {
    let me = rank.me().number();
    let prepare = |which: u64, counts: &[u64], content: &dyn Fn(u32, u64) -> Option<[u32; 4]>| {
        let mut rng = case.own(me);
        let mut areas = Vec::new();
        for (other, &count) in (0..).zip(counts) {
            let layout = Layout::new((rng.usize(..LAYOUTS) + which as usize) % LAYOUTS);
            let mut area = Area::new(&layout, 0..count as i64);
            for index in 0..count {
                if let Some(element) = content(other, index) {
                    area.put(index as i64, element);
                }
            }
            areas.push((layout, area));
        }
        areas
    };
    let argument = |areas: &mut Vec<(Layout, Area)>, counts: &[u64]| {
        let base = areas[0].1.address();
        let displs: Vec<i64> = areas
            .iter_mut()
            .map(|(_, area)| (area.address() as i64).wrapping_sub(base as i64))
            .collect();
        let datatypes: Vec<_> = areas.iter().map(|(layout, _)| layout.datatype.clone()).collect();
        // SAFETY: as for `Area::blocks`.
        unsafe { WBuffer::new(base, counts.into(), displs.into(), Arc::from(datatypes)) }
    };
    let out: Vec<u64> = (0..case.size).map(|to| crossings(&case, me, to)).collect();
    let into: Vec<u64> = (0..case.size).map(|from| crossings(&case, from, me)).collect();
    let mut send = prepare(0, &out, &|other, index| Some(crossing(me, other, index)));
    let before = send.clone();
    let mut receive = prepare(1, &into, &|other, index| {
        case.in_place.then(|| crossing(me, other, index))
    });
    let expected = prepare(1, &into, &|other, index| Some(crossing(other, me, index)));
    let outgoing = (!case.in_place).then(|| argument(&mut send, &out));
    let incoming = argument(&mut receive, &into);
    let rooms: Vec<Room> = receive.iter_mut().map(|(_, area)| area.room()).collect();
    call(&rank, &case, &rooms, move |operation| async move {
        collective::alltoallw(&operation, outgoing, incoming).await
    })
    .await
    .unwrap();
    for (areas, expected) in [(&send, &before), (&receive, &expected)] {
        for ((_, area), (_, expected)) in areas.iter().zip(expected) {
            area.check(expected, &(me, &case));
        }
    }
}

#[test]
fn alltoallw() {
    cases("alltoallw", alltoallw_case);
}

#[test]
fn alltoall_long() {
    long_cases("alltoall_long", &[900, 5000], alltoall_case);
}

#[test]
fn bytes() {
    rooted_cases("bytes", |rank, case| async move {
        let me = rank.me().number();
        let content = |from: u32| vec![from as u8; case.count as usize];
        let bytes = collective::bcast_bytes(&rank.world().collective(), case.root, content(me))
            .await
            .unwrap();
        assert_eq!(bytes, content(case.root));
        let all = collective::allgather_bytes(&rank.world().collective(), &content(me))
            .await
            .unwrap();
        let expected: Vec<u8> = (0..case.size).flat_map(content).collect();
        assert_eq!(all, expected);
    });
}

/// What was sent before has arrived behind it, from everybody.
#[test]
fn flush() {
    const TAG: i32 = 77;
    cases("flush", |rank, case| async move {
        let world = rank.world();
        for to in 0..case.size {
            // SAFETY: it has no memory.
            let request = unsafe { world.send(to, TAG, Memory::empty(), false, true) };
            if let Some(request) = request.expect("nobody dies") {
                rank.instance().engine().release(request);
            }
        }
        call(&rank, &case, &[], |operation| async move {
            collective::flush(&operation).await
        })
        .await
        .unwrap();
        let arrived = |rank: &Rank| {
            let engine = rank.instance().engine();
            engine.unexpected().filter(|one| one.tag == TAG).count()
        };
        assert_eq!(arrived(&rank), case.size as usize);
        collective::barrier(&world.collective()).await.unwrap();
        for from in 0..case.size {
            // SAFETY: as above.
            let received = unsafe { world.receive(Some(from), Some(TAG), Memory::empty()) };
            rank.received(received.expect("nobody dies")).await;
        }
    });
}

#[test]
fn alltoallv_long() {
    long_cases("alltoallv_long", &[900, 9000], alltoallv_case);
}

#[test]
fn alltoallw_long() {
    long_cases("alltoallw_long", &[900, 9000], alltoallw_case);
}

#[test]
fn scatter_long() {
    long_cases("scatter_long", &[900, 9000], scatter_case);
}

#[test]
fn scatterv_long() {
    long_cases("scatterv_long", &[900, 9000], scatterv_case);
}
