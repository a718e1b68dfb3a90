//! Operations in two levels: how many messages they send between hosts, held against the same operations in one level.

use std::future::Future;

use weft::base::error::Result;
use weft::objects::collective;
use weft::objects::communicator::Collective;
use weft::sim::{Options, Rank, Simulation};
use weft::system::locality::Layout;

use crate::data::{Area, Layout as Elements, operands, operation};

/// 4 hosts of 2 ranks, host after host or a rank on each in turn.
const BLOCKS: &str = "(vector,(0,4,2))";
const CYCLIC: &str = "(vector,(0,4,1))";
const SIZE: u32 = 8;

/// A network on which each message of an operation is one message of the network.
fn options(layout: &str, two_level: bool) -> Options {
    let mut options = Options::random(1);
    options.conditions.limits.message = 64 << 20;
    options.conditions.limits.buffered = 64 << 20;
    options.conditions.limits.eager = 64 << 20;
    options.conditions.again_permille = 0;
    options.eager_max = Some(64 << 20);
    options.unexpected_max = Some(u64::MAX);
    options.layout = Layout::parse(layout).expect("a layout");
    options.two_level = two_level;
    options
}

/// The messages between hosts that an operation takes, in one level and in two.
fn between_hosts<F>(layout: &str, program: impl Fn(Rank) -> F) -> [usize; 2]
where
    F: Future<Output = Result<()>>,
{
    [false, true].map(|two_level| {
        let options = options(layout, two_level);
        let node = |rank: u32| options.layout.node_of(rank);
        let nodes: Vec<u32> = (0..SIZE).map(node).collect();
        let sent = Simulation::new(1, SIZE, options).run(|rank| {
            let (running, nodes) = (program(rank.clone()), &nodes);
            async move {
                running.await.expect("the operation");
                let me = rank.me();
                let elsewhere = rank
                    .world()
                    .group()
                    .iter()
                    .filter(|to| nodes[to.index()] != nodes[me.index()]);
                elsewhere.map(|to| rank.network().sent_to(me, to)).sum::<usize>()
            }
        });
        sent.into_iter().flatten().sum()
    })
}

fn world(rank: &Rank) -> Collective {
    rank.world().collective()
}

async fn bcast(rank: Rank, root: u32, bytes: usize) -> Result<()> {
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let mine = match rank.me().number() == root {
        true => sent.clone(),
        false => vec![0; bytes],
    };
    let got = collective::bcast_bytes(&world(&rank), root, mine).await?;
    assert!(got == sent, "the bytes of the root");
    Ok(())
}

async fn allreduce(rank: Rank, count: u64) -> Result<()> {
    let layout = Elements::new(0);
    let (op, _) = operation(true);
    let mut own = Area::of(&layout, rank.me().number(), count);
    let mut sum = Area::new(&layout, 0..count as i64);
    let given = operands(Some(&mut own), Some(&mut sum), (count, count), (&layout, &op));
    collective::allreduce(&world(&rank), given).await
}

async fn reduce(rank: Rank, root: u32, count: u64) -> Result<()> {
    let layout = Elements::new(0);
    let (op, _) = operation(true);
    let mut own = Area::of(&layout, rank.me().number(), count);
    let mut sum = Area::new(&layout, 0..count as i64);
    let into = (rank.me().number() == root).then_some(&mut sum);
    let given = operands(Some(&mut own), into, (count, count), (&layout, &op));
    collective::reduce(&world(&rank), root, given).await
}

#[test]
fn an_allreduce_sends_half_as_many_messages_between_hosts() {
    for layout in [BLOCKS, CYCLIC] {
        assert_eq!(
            between_hosts(layout, |rank| allreduce(rank, 1)),
            [16, 8],
            "{layout}"
        );
    }
    // Halving and doubling.
    assert_eq!(between_hosts(BLOCKS, |rank| allreduce(rank, 4000)), [32, 16]);
}

#[test]
fn a_broadcast_sends_each_host_its_data_once() {
    // The first is in one level: a tree of radix 4 or 2. In blocks, from rank 0, the latter sends each host its data once, too.
    for (bytes, in_one_level) in [(1, [5, 7, 6]), (12 << 10, [3, 7, 6])] {
        let counted = [(BLOCKS, 0), (BLOCKS, 3), (CYCLIC, 0)]
            .map(|(layout, root)| between_hosts(layout, |rank| bcast(rank, root, bytes)));
        assert_eq!(counted, in_one_level.map(|number| [number, 3]), "{bytes} bytes");
    }
}

#[test]
fn a_long_broadcast_sends_at_most_half_as_many_messages_between_hosts() {
    for (bytes, one_level, two_levels) in [
        (16 << 10, 19, 9),
        (512 << 10, 19, 9),
        (1 << 20, 31, 15),
        (4 << 20, 31, 15),
    ] {
        let counted = between_hosts(BLOCKS, |rank| bcast(rank, 0, bytes));
        assert_eq!(counted, [one_level, two_levels], "{bytes} bytes");
    }
}

#[test]
fn other_operations_send_fewer_messages_between_hosts_too() {
    let barrier = |rank: Rank| async move { collective::barrier(&world(&rank)).await };
    assert_eq!(between_hosts(BLOCKS, barrier), [28, 8]);
    assert_eq!(between_hosts(CYCLIC, |rank| reduce(rank, 5, 1)), [6, 3]);
}
