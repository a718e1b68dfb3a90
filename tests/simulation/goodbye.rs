//! Launchers that are gone once they were told that a process may exit: processes say so at different times, some before
//! `MPI_Init` (their sessions have ended) and all after `MPI_Finalize`, and then each still finds each other one.

use std::cell::Cell;
use std::pin::Pin;

use fastrand::Rng;
use weft::objects::collective::{allgather_bytes, barrier};
use weft::objects::communicator::Communicator;
use weft::sim::{Options, Rank, Simulation, check, join_all, skewed};
use weft::system::bootstrap::AfterFinalize;

async fn program(rank: Rank, seed: u64) {
    let mut common = Rng::with_seed(seed);
    let mut own = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
    let instance = rank.instance();
    // Some have talked before, and know some of the others.
    if common.bool() {
        barrier(&rank.world().collective()).await.expect("a barrier");
    }
    let rested = common.bool() && own.bool();
    if rested {
        instance.take_leave().expect("this launcher takes all");
    }
    rank.pause(skewed(&mut own, 16)).await;
    let check = None::<fn(Vec<String>)>;
    let had_sessions = || rested;
    let ending = Communicator::finalize_world(instance, had_sessions, had_sessions, check, None);
    rank.each_turn(ending).await.expect("nobody dies");
    // Nobody has to ask the launcher, which has better things to do than to answer each process about each other one.
    assert_eq!(instance.unknown_cards(), []);
    rank.pause(skewed(&mut own, 16)).await;
    instance.take_leave().expect("this launcher takes all");
    assert!(instance.bootstrap().is_over());
    // As in a later session: each with each other one.
    let world = Communicator::world(instance);
    let (me, size) = (rank.me().number(), instance.job().size);
    for distance in 1..size {
        let operation = world.collective();
        let (to, from) = ((me + distance) % size, (me + size - distance) % size);
        let got = Cell::new(0);
        let sent = async {
            operation
                .send_bytes(to, vec![me as u8])
                .await
                .expect("it is there")
        };
        let received = async {
            let received = operation.receive_bytes(from, 1).await;
            got.set(received.expect("it is there")[0]);
        };
        let both: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![Box::pin(sent), Box::pin(received)];
        join_all(both).await;
        assert_eq!(u32::from(got.get()), from);
    }
    let gathered = allgather_bytes(&world.collective(), &[me as u8]).await;
    let all = gathered.expect("all are there");
    assert!(all.iter().zip(0..).all(|(&got, rank)| u32::from(got) == rank));
}

#[test]
fn sessions_after_a_goodbye() {
    check("sessions_after_a_goodbye", 40, |seed| {
        let ranks = [1, 2, 3, 5, 8, 13][(seed % 6) as usize];
        let options = Options {
            after_finalize: AfterFinalize::Ends,
            ..Options::random(seed)
        };
        Simulation::new(seed, ranks, options).run(|rank| program(rank, seed));
    });
}
