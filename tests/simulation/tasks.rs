//! Operations of several steps as tasks: many at a time, waited for in any order.

use fastrand::Rng;
use weft::engine::request::{Outcome, RequestId};
use weft::instance::Operation;
use weft::objects::collective::{allgather_bytes, barrier, bcast_bytes};
use weft::sim::{Options, Rank, Simulation, check};

fn operation(rank: &Rank, kind: u32, number: usize) -> Operation {
    let operation = rank.world().collective();
    let (me, size) = (operation.rank(), operation.size());
    Box::pin(async move {
        match kind {
            0 => barrier(&operation).await?,
            1 => {
                let root = number as u32 % size;
                let expected: Vec<u8> = (0..700).map(|at| (at * 13 + number) as u8).collect();
                let mine = match me == root {
                    true => expected.clone(),
                    false => vec![0; expected.len()],
                };
                let bytes = bcast_bytes(&operation, root, mine).await?;
                assert_eq!(bytes, expected);
            }
            _ => {
                let all = allgather_bytes(&operation, &[me as u8, number as u8, 3, 4, 5]).await?;
                let expected: Vec<u8> = (0..size)
                    .flat_map(|rank| [rank as u8, number as u8, 3, 4, 5])
                    .collect();
                assert_eq!(all, expected);
            }
        }
        Ok(Outcome {
            bytes: number as u64,
            ..Outcome::EMPTY
        })
    })
}

async fn program(rank: Rank, seed: u64) {
    let mut common = Rng::with_seed(seed);
    let mut own = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
    let mut under_way: Vec<(usize, RequestId)> = Vec::new();
    for number in 0..40 {
        let kind = common.u32(..3);
        under_way.push((number, rank.instance().spawn(operation(&rank, kind, number))));
        match own.u32(..6) {
            0 => rank.turn().await,
            1 => rank.pause(1 << own.u32(..14)).await,
            2 => {
                // Whatever has ended is taken, as Testsome does.
                let mut engine = rank.instance().engine();
                under_way.retain(|&(number, request)| match engine.take(request) {
                    Some(outcome) => {
                        assert_eq!((outcome.bytes, outcome.error), (number as u64, None));
                        false
                    }
                    None => true,
                });
            }
            _ => {}
        }
    }
    own.shuffle(&mut under_way);
    for (number, request) in under_way {
        let outcome = rank.wait(request).await;
        assert_eq!((outcome.bytes, outcome.error), (number as u64, None));
    }
    barrier(&rank.world().collective()).await.expect("a barrier");
}

#[test]
fn many_collectives_at_a_time() {
    check("many_collectives_at_a_time", 50, |seed| {
        let ranks = [1, 2, 3, 7, 16][(seed % 5) as usize];
        Simulation::new(seed, ranks, Options::random(seed)).run(|rank| program(rank, seed));
    });
}
