//! The death of a rank, and of one that sends rubbish: what needed it ends with an error, all else goes on.

use std::sync::Arc;

use fastrand::Rng;
use weft::base::error::Result;
use weft::engine::Received;
use weft::engine::request::Outcome;
use weft::identity::PeerIndex;
use weft::sim::{Options, Rank, Simulation, check, join_all, skewed};

const RANKS: u32 = 6;
/// Messages of each pair.
const MESSAGES: u32 = 6;
const BYTES_MAX: usize = 4000;

/// Content and length of the message of a pair and number.
fn content(seed: u64, source: u32, destination: u32, number: u32) -> Vec<u8> {
    let mut rng =
        Rng::with_seed(seed ^ u64::from(source) << 48 ^ u64::from(destination) << 32 ^ u64::from(number));
    let mut bytes = vec![0; rng.usize(..BYTES_MAX)];
    rng.fill(&mut bytes);
    bytes
}

async fn send(rank: Rank, seed: u64, mut rng: Rng, to: u32, number: u32) -> Result<Outcome> {
    let buffer = rank.buffer(&content(seed, rank.me().number(), to, number));
    let (sync, wanted) = (rng.u32(..4) == 0, rng.bool());
    // SAFETY: the buffer is kept until the send has ended.
    let request = unsafe {
        rank.world()
            .send(to, number as i32, buffer.memory(), sync, wanted)
    }?;
    match request {
        Some(request) => into_result(rank.wait(request).await),
        None => Ok(Outcome::EMPTY),
    }
}

/// `honest`: neither is the one that sends rubbish, who asks for the wrong data, too, and gets it.
async fn receive(rank: Rank, seed: u64, honest: bool, from: u32, number: u32) -> Result<Outcome> {
    let buffer = rank.blank(BYTES_MAX);
    // SAFETY: the buffer is kept until the receive has ended.
    let received = unsafe {
        rank.world()
            .receive(Some(from), Some(number as i32), buffer.memory())
    }?;
    let outcome = into_result(match received {
        Received::Now(outcome) => outcome,
        Received::Later(request) => rank.wait(request).await,
    })?;
    if honest {
        assert_eq!(
            buffer.bytes()[..outcome.bytes as usize],
            content(seed, from, rank.me().number(), number)
        );
    }
    Ok(outcome)
}

fn into_result(mut outcome: Outcome) -> Result<Outcome> {
    match outcome.error.take() {
        Some(error) => Err(*error),
        None => Ok(outcome),
    }
}

/// Everybody sends to everybody; `doomed` dies in the midst of it.
async fn exchange(rank: Rank, seed: u64, doomed: u32, mangled: bool) {
    let me = rank.me().number();
    let mut rng = Rng::with_seed(seed ^ u64::from(me + 1) << 40);
    let mut jobs = Vec::new();
    for peer in 0..RANKS {
        for number in 0..MESSAGES {
            jobs.push((peer, number, true));
            jobs.push((peer, number, false));
        }
    }
    rng.shuffle(&mut jobs);
    let started = rng.u64(..jobs.len() as u64) as usize;
    let life_ns = if mangled { 1 << 22 } else { skewed(&mut rng, 17) };
    let ends = jobs.iter().enumerate().map(|(at, &(peer, number, sends))| {
        let (rank, mut rng) = (rank.clone(), rng.fork());
        async move {
            if at > started {
                rank.pause(skewed(&mut rng, 17)).await;
            }
            match sends {
                true => send(rank, seed, rng, peer, number).await,
                false => {
                    receive(
                        rank,
                        seed,
                        !mangled || ![me, peer].contains(&doomed),
                        peer,
                        number,
                    )
                    .await
                }
            }
        }
    });
    if me == doomed {
        let death = async {
            rank.pause(life_ns).await;
            rank.die().await
        };
        let life = async {
            join_all(ends).await;
            std::future::pending().await
        };
        let both: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(death), Box::pin(life)];
        join_all(both).await;
    } else {
        for (result, (peer, number, sends)) in join_all(ends).await.into_iter().zip(&jobs) {
            let what = if *sends { "send to" } else { "receive from" };
            assert!(
                *peer == doomed || result.is_ok(),
                "rank {me}: {what} rank {peer}, number {number}: {result:?}"
            );
        }
        // Rubbish may have been taken for messages that nobody expects.
        if mangled {
            discard_unexpected(&rank).await;
        }
    }
}

/// Takes every unexpected message, of whatever context.
async fn discard_unexpected(rank: &Rank) {
    loop {
        let found = rank.instance().engine().unexpected().next();
        let Some(envelope) = found else { break };
        let pattern = weft::engine::matching::Pattern {
            context: envelope.context,
            source: Some(envelope.source),
            tag: Some(envelope.tag),
        };
        let found = rank.instance().engine().probe_out(&pattern);
        let (envelope, message) = found.expect("it was listed");
        let buffer = rank.blank(8);
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe {
            rank.instance()
                .engine()
                .accept(envelope, message, &buffer.memory())
        };
        rank.received(received).await;
    }
}

#[test]
fn others_go_on() {
    check("others_go_on", 125, |seed| {
        let doomed = (seed % u64::from(RANKS)) as u32;
        let options = Options::random(seed);
        let simulation = Simulation::new(seed, RANKS, options);
        let instances: Vec<_> = (0..RANKS)
            .map(|rank| Arc::downgrade(simulation.instance(rank)))
            .collect();
        let ends = simulation.run(|rank| exchange(rank, seed, doomed, false));
        for (rank, end) in ends.iter().enumerate() {
            assert_eq!(end.is_none(), rank as u32 == doomed);
            // Nor is anything left of those that died: thousands of runs in one process would use up its descriptors.
            assert_eq!(instances[rank].strong_count(), 0, "rank {rank}");
        }
    });
}

/// Valid messages with some bits changed or cut: only their sender is given up.
#[test]
fn mangled_messages() {
    check("mangled_messages", 125, |seed| {
        let rogue = RANKS - 1;
        let mut options = Options::random(seed);
        options.conditions.rogue = Some(PeerIndex::new(rogue));
        options.conditions.mangled_permille = [5, 50, 500][(seed % 3) as usize];
        Simulation::new(seed, RANKS, options).run(|rank| exchange(rank, seed, rogue, true));
    });
}
