//! The collective operations under the simulator, held against what the standard says their results are: every byte
//! of every buffer, gaps and surroundings included. Each seed is one number of processes on one kind of network.

mod algorithms;
mod data;
mod failures;
mod inter;
mod levels;
mod many;
mod moving;
mod neighbours;
mod persistent;
mod reducing;
mod table;

use std::future::Future;
use std::sync::Arc;

use fastrand::Rng;
use weft::base::error::Result;
use weft::engine::mismatch::Operation;
use weft::engine::request::Outcome;
use weft::objects::collective;
use weft::objects::communicator::{Collective, Communicator};
use weft::sim::{Options, Rank, Simulation, check};

use data::Room;

/// 1 to 9, and two more.
const SIZES: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16];

/// A few networks for each size; fresh seeds take more (`ci/soak.d/simulation`).
const SEEDS: u64 = 2 * SIZES.len() as u64;

/// What one collective call is like; all ranks know it.
#[derive(Clone, Debug)]
struct Case {
    size: u32,
    count: u64,
    root: u32,
    in_place: bool,
    /// Whether it is by messages, never in shared memory.
    by_messages: bool,
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
    // The gate takes the second to the fourth, fresh seeds take all.
    const SIZES: [u32; 6] = [2, 3, 8, 5, 7, 4];
    check(test, 3, |seed| {
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
    // Otherwise shared memory may take the place of the algorithms that are named.
    let by_messages = !options.collectives.is_empty();
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
                        by_messages,
                        seed: number,
                    };
                    program(rank.clone(), case).await;
                }
            }
        }
    });
}

/// How often an operation of this case is started. All ranks know it.
fn starts(case: &Case) -> usize {
    Rng::with_seed(!case.seed)
        .choice([1, 1, 1, 2])
        .expect("one of them")
}

/// The messages of the next operation of a communicator in this case: those of a persistent one where it is started several times.
fn messages(case: &Case, communicator: &Arc<Communicator>) -> Collective {
    match starts(case) {
        1 => communicator.collective(),
        _ => communicator.persistent_step(const { Operation::named("MPI_Allgather") }),
    }
}

/// Runs an operation as a blocking call does, by messages or in shared memory, or as a nonblocking one, or as the starts of a persistent
/// request do: once or several times, each time on the same contents of the memory that it writes to. Whether it is in shared memory all
/// ranks decide alike; otherwise each does it in its own way.
async fn call<F>(
    rank: &Rank,
    case: &Case,
    written: &[Room],
    operation: impl FnOnce(Collective) -> F + Clone + Send + Sync + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    call_on(rank, case, messages(case, rank.world()), written, operation).await
}

/// The same with the messages of another communicator.
async fn call_on<F>(
    rank: &Rank,
    case: &Case,
    messages: Collective,
    written: &[Room],
    operation: impl FnOnce(Collective) -> F + Clone + Send + Sync + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    if starts(case) == 1 && !case.by_messages && case.common().bool() {
        let (messages, _used) = collective::shared::prepare_in_simulation(messages).await?;
        return operation(messages).await;
    }
    let contents = || written.iter().map(|room| room.read()).collect::<Vec<_>>();
    let before = contents();
    let mut results = Vec::new();
    let is_shared = starts(case) > 1 && !case.by_messages && case.common().bool();
    let own = match is_shared {
        true => collective::shared::prepare_persistent(messages.clone()).await?,
        false => messages.clone(),
    };
    let persistent = collective::persistent(own, operation.clone());
    let mut how = case.own(rank.me().number());
    for _ in 0..starts(case) {
        for (room, bytes) in written.iter().zip(&before) {
            room.write(bytes);
        }
        let instance: &Arc<_> = rank.instance();
        let request = match how.u32(..4) {
            _ if is_shared => Some(persistent.start()?),
            0 => {
                operation.clone()(messages.clone()).await?;
                None
            }
            1 => {
                let future = operation.clone()(messages.clone());
                Some(instance.spawn(Box::pin(async move {
                    future.await?;
                    Ok(Outcome::EMPTY)
                })))
            }
            _ => Some(persistent.start()?),
        };
        if let Some(request) = request
            && let Some(error) = rank.wait(request).await.error
        {
            return Err(*error);
        }
        results.push(contents());
    }
    assert!(
        results.iter().all(|result| *result == results[0]),
        "each start has the same result: {case:?}"
    );
    Ok(())
}
