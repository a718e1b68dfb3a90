//! The collective operations under the simulator, held against what the standard says their results are: every byte
//! of every buffer, gaps and surroundings included. Each seed is one number of processes on one kind of network.

mod data;
mod failures;
mod inter;
mod levels;
mod many;
mod moving;
mod reducing;

use std::future::Future;
use std::sync::Arc;

use fastrand::Rng;
use weft::base::error::Result;
use weft::engine::request::Outcome;
use weft::objects::collective;
use weft::objects::communicator::Collective;
use weft::sim::{Options, Rank, Simulation, check};

/// Powers of two, their neighbours, and others.
const SIZES: [u32; 9] = [1, 2, 3, 4, 5, 7, 8, 13, 16];

/// A few networks for each size.
const SEEDS: u64 = 3 * SIZES.len() as u64;

/// What one collective call is like; all ranks know it.
#[derive(Clone, Debug)]
struct Case {
    size: u32,
    count: u64,
    root: u32,
    in_place: bool,
    /// For whatever else may differ.
    seed: u64,
}

impl Case {
    /// What a rank decides for itself in this case.
    fn own(&self, rank: u32) -> Rng {
        Rng::with_seed(self.seed ^ u64::from(rank + 1) << 32)
    }

    /// What all decide alike.
    fn common(&self) -> Rng {
        Rng::with_seed(self.seed)
    }
}

/// Runs `program` for short and medium counts, in place and not, over many seeds: for procedures without a root.
fn cases<F: Future<Output = ()>>(test: &str, program: impl Fn(Rank, Case) -> F + Sync) {
    check(test, SEEDS, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        let roots = [seed as u32 % size];
        run(
            seed,
            size,
            Options::random(seed),
            &roots,
            &[0, 1, 3, 100],
            &program,
        );
    });
}

/// The same with every root that matters.
fn rooted_cases<F: Future<Output = ()>>(test: &str, program: impl Fn(Rank, Case) -> F + Sync) {
    check(test, SEEDS, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        let mut roots = vec![0, size / 2, size - 1];
        // Behind this one a subtree of eight ranks goes round past the last.
        roots.extend((size == 16).then_some(5));
        roots.dedup();
        run(
            seed,
            size,
            Options::random(seed),
            &roots,
            &[0, 1, 3, 100],
            &program,
        );
    });
}

/// The same for long messages, on a network with longer frames.
fn long_cases<F: Future<Output = ()>>(test: &str, counts: &[u64], program: impl Fn(Rank, Case) -> F + Sync) {
    // The gate takes the second to the fifth, fresh seeds take all.
    const SIZES: [u32; 6] = [2, 3, 8, 5, 7, 4];
    check(test, 4, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        let mut options = Options::random(seed);
        options.conditions.limits.message = 64 << 10;
        options.conditions.limits.buffered = 8 << 10;
        options.conditions.limits.eager = 4 << 10;
        let roots = [seed as u32 % size];
        run(seed, size, options, &roots, counts, &program);
    });
}

fn run<F: Future<Output = ()>>(
    seed: u64,
    size: u32,
    options: Options,
    roots: &[u32],
    counts: &[u64],
    program: &impl Fn(Rank, Case) -> F,
) {
    Simulation::new(seed, size, options).run(|rank| async move {
        let mut number = seed << 16;
        for &count in counts {
            for &root in roots {
                for in_place in [false, true] {
                    number += 1;
                    let case = Case {
                        size,
                        count,
                        root,
                        in_place,
                        seed: number,
                    };
                    program(rank.clone(), case).await;
                }
            }
        }
    });
}

/// Runs an operation as a blocking call does, by messages or in shared memory, or as a nonblocking one.
async fn call<F>(
    rank: &Rank,
    case: &Case,
    operation: impl FnOnce(Collective) -> F + Send + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    call_on(rank, case, rank.world().collective(), operation).await
}

/// The same with the messages of another communicator.
async fn call_on<F>(
    rank: &Rank,
    case: &Case,
    messages: Collective,
    operation: impl FnOnce(Collective) -> F + Send + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    if case.common().u32(..2) == 0 {
        let (messages, _used) = collective::shared::prepare_in_simulation(messages).await?;
        return operation(messages).await;
    }
    let future = operation(messages);
    if case.own(rank.me().number()).bool() {
        return future.await;
    }
    let instance: &Arc<_> = rank.instance();
    let request = instance.spawn(Box::pin(async move {
        future.await?;
        Ok(Outcome::EMPTY)
    }));
    match rank.wait(request).await.error {
        None => Ok(()),
        Some(error) => Err(*error),
    }
}
