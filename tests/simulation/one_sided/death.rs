//! A rank dies in the midst of epochs of groups or locks: what the others do ends, with an error or without.
//!
//! Not so in fences, which are collective operations: one that has failed at a process does not always end at the others. Nor with locks in
//! shared memory, of which only the last holder's death is noticed (`objects::window::lock`): so locks are by messages here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fastrand::Rng;
use weft::Result;
use weft::base::settings::Access;
use weft::objects::collective;
use weft::sim::{Rank, Simulation, check, join_all, skewed};

use super::element::SUM;
use super::idioms::Words;
use super::{by_lanes, options};

const RANKS: u32 = 4;

/// What a rank may do for as long as it lives.
async fn life(rank: &Rank, words: &Words, seed: u64) {
    let mut rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
    for _ in 0..12 {
        let target = rng.u32(..RANKS);
        // Each of these says for itself what went wrong; what follows it is tried nevertheless.
        let _: Result<()> = match (seed % 2, rng.u32(..4)) {
            (0, 0) => all(words, rank.me().number(), target).await,
            (0, 1) => locked(rank, words, false, target, &mut rng).await,
            (0, _) => locked(rank, words, true, target, &mut rng).await,
            _ => groups(words, rank).await,
        };
        rank.pause(skewed(&mut rng, 12)).await;
    }
}

async fn all(words: &Words, me: u32, target: u32) -> Result<()> {
    words.window.lock_all(false).await?;
    let updated = words.update(target, 0, SUM, 1).await;
    let written = words.write(target, 2 + me as usize * 90, &[7; 90]).await;
    let ended = words.window.unlock_all().await;
    updated.and(written).and(ended)
}

async fn locked(rank: &Rank, words: &Words, exclusive: bool, target: u32, rng: &mut Rng) -> Result<()> {
    words.window.lock(exclusive, target, false).await?;
    let updated = match words.read(target, 1, 1).await {
        Ok(found) if exclusive => words.write(target, 1, &[found[0] + 1]).await,
        other => other.map(drop),
    };
    rank.pause(skewed(rng, 12)).await;
    let ended = words.window.unlock(target).await;
    updated.and(ended)
}

/// Each accesses the next. Each makes all calls, whatever became of those before: others may wait for them.
async fn groups(words: &Words, rank: &Rank) -> Result<()> {
    let me = rank.me().number();
    let group = |of: u32| {
        words
            .window
            .communicator()
            .group()
            .incl(&[i64::from(of % RANKS)])
            .expect("a rank")
    };
    let posted = words.window.post(&group(me + RANKS - 1), false);
    let mut done = words.window.start_epoch(&group(me + 1), false).await;
    if done.is_ok() {
        done = start_put(words, (me + 1) % RANKS);
        let completed = words.window.complete().await;
        done = done.and(completed);
    }
    let ended = words.window.wait().await;
    posted.and(done).and(ended)
}

fn start_put(words: &Words, target: u32) -> Result<()> {
    let data: &'static [u8] = &[1; 8 * 100];
    let memory = weft::data::memory::Memory::of(data);
    // SAFETY: the data is only read, and stays.
    unsafe { words.window.put(memory, &Words::target(target, 2, 100)) }
}

#[test]
fn nobody_hangs() {
    check("nobody_hangs", 100, |seed| {
        let doomed = seed as u32 % RANKS;
        let ended = Arc::new(AtomicU32::new(0));
        let mut options = options(seed);
        if seed % 2 == 0 {
            match seed % 4 {
                0 => options.windows = Access::Messages,
                _ => by_lanes(seed, &mut options),
            }
        }
        let ends = Simulation::new(seed, RANKS, options).run(|rank| {
            let ended = ended.clone();
            async move {
                let words = Words::new(&rank, 400).await;
                let _: Result<()> = collective::barrier(&rank.world().collective()).await;
                let mut rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 50);
                let living = async {
                    life(&rank, &words, seed).await;
                    ended.fetch_add(1, Ordering::Relaxed);
                    // The others may still want to access this one's memory.
                    let others = || ended.load(Ordering::Relaxed) >= RANKS - 1;
                    rank.until(others).await;
                };
                if rank.me().number() == doomed {
                    let dying = async {
                        rank.pause(skewed(&mut rng, 18)).await;
                        rank.die().await
                    };
                    let forever = async {
                        life(&rank, &words, seed).await;
                        std::future::pending().await
                    };
                    let both: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 2] =
                        [Box::pin(dying), Box::pin(forever)];
                    join_all(both).await;
                }
                living.await;
                // Those who may still access it are not waited for, as one of them may have died: so its memory stays until the end of all.
                words
            }
        });
        for (rank, end) in ends.iter().enumerate() {
            assert_eq!(end.is_none(), rank as u32 == doomed, "rank {rank}");
        }
    });
}
