//! Many persistent operations at once: ranks make them in one order and start them in any.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use fastrand::Rng;
use weft::base::error::{Class, Result};
use weft::data::memory::Memory;
use weft::engine::mismatch::Operation;
use weft::engine::request::{Outcome, RequestId};
use weft::objects::collective;
use weft::objects::collective::shared::prepare_persistent;
use weft::objects::communicator::Communicator;
use weft::sim::{Options, Rank, Simulation, check};

use crate::SIZES;
use crate::data::{Area, LAYOUTS, Layout as Elements, element, operands, operation};

/// One operation: what it sends in which round, and what it receives then.
struct Made {
    start: Box<dyn Fn() -> Result<RequestId>>,
    layout: Elements,
    own: Area,
    all: Area,
    which: u32,
    kind: u32,
    root: u32,
}

const COUNT: u64 = 60;

/// The elements of a rank in a round: others for each operation.
fn index(which: u32, round: u32, index: u64) -> u64 {
    u64::from(round) << 24 | u64::from(which) << 16 | index
}

impl Made {
    /// All ranks make the same one: in shared memory or by messages.
    async fn new(communicator: &Arc<Communicator>, which: u32, rng: &mut Rng) -> Made {
        let size = communicator.size();
        let layout = Elements::new(rng.usize(..LAYOUTS));
        let mut own = Area::new(&layout, 0..COUNT as i64);
        let mut all = Area::new(&layout, 0..(COUNT * u64::from(size)) as i64);
        let root = rng.u32(..size);
        let kind = rng.u32(..4);
        let shared = rng.u32(..4) > 0;
        // Some are short: several of them are between two ranks at once.
        let named = async |name| {
            let operation = communicator.persistent_step(name);
            match shared {
                true => prepare_persistent(operation).await.expect("nobody dies"),
                false => operation,
            }
        };
        let start: Box<dyn Fn() -> Result<RequestId>> = match kind {
            0 => {
                let buffer = own.buffer(COUNT);
                let operation = named(const { Operation::named("MPI_Bcast") }.of_root(root)).await;
                let made = collective::persistent(operation, move |operation| async move {
                    collective::bcast(&operation, root, buffer).await
                });
                Box::new(move || made.start())
            }
            1 => {
                let (op, _) = self::operation(false);
                let given = operands(Some(&mut own), Some(&mut all), (COUNT, COUNT), (&layout, &op));
                let operation = named(const { Operation::named("MPI_Allreduce") }).await;
                let made = collective::persistent(operation, move |operation| async move {
                    collective::allreduce(&operation, given).await
                });
                Box::new(move || made.start())
            }
            2 => {
                let (send, receive) = (Some(own.buffer(COUNT)), all.blocks(COUNT, size));
                let operation = named(const { Operation::named("MPI_Allgather") }).await;
                let made = collective::persistent(operation, move |operation| async move {
                    collective::allgather(&operation, send, receive).await
                });
                Box::new(move || made.start())
            }
            _ => {
                let operation = named(const { Operation::named("MPI_Barrier") }).await;
                let made = collective::persistent(operation, |operation| async move {
                    collective::barrier(&operation).await
                });
                Box::new(move || made.start())
            }
        };
        Made {
            start,
            layout,
            own,
            all,
            which,
            kind,
            root,
        }
    }

    /// Fills what it sends in a round, and starts it.
    fn start(&mut self, me: u32, round: u32) -> RequestId {
        for at in 0..COUNT {
            self.own.put(at as i64, element(me, index(self.which, round, at)));
        }
        (self.start)().expect("it is not under way")
    }

    fn check(&self, size: u32, round: u32) {
        let of = |rank: u32, at: u64| element(rank, index(self.which, round, at));
        let mut own = Area::new(&self.layout, 0..COUNT as i64);
        let mut all = Area::new(&self.layout, 0..(COUNT * u64::from(size)) as i64);
        for at in 0..COUNT {
            match self.kind {
                0 => own.put(at as i64, of(self.root, at)),
                1 => {
                    let (_, combine) = operation(false);
                    let product = (0..size).map(|rank| of(rank, at)).reduce(combine);
                    all.put(at as i64, product.expect("one rank at least"));
                }
                2 => (0..size).for_each(|rank| {
                    all.put((u64::from(rank) * COUNT + at) as i64, of(rank, at));
                }),
                _ => {}
            }
        }
        let what = (self.which, self.kind, round);
        if self.kind == 0 {
            self.own.check(&own, &what);
        }
        self.all.check(&all, &what);
    }
}

/// A message to the next rank, and one from the one before.
async fn pass_on(rank: &Rank, tag: i32) {
    let world = rank.world();
    let (me, size) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % size, (me + size - 1) % size);
    let mut got = [0u8; 4];
    let told = (me as i32 * 1000 + tag).to_le_bytes();
    // SAFETY: both outlive the messages.
    let (receiving, sending) = unsafe {
        (
            world.receive(Some(from), Some(tag), Memory::of_mut(&mut got)),
            world.send(to, tag, Memory::of(&told), false, true),
        )
    };
    rank.received(receiving.expect("nobody dies")).await;
    if let Some(request) = sending.expect("nobody dies") {
        rank.wait(request).await;
    }
    assert_eq!(i32::from_le_bytes(got), from as i32 * 1000 + tag);
}

#[test]
fn many_in_any_order() {
    const ROUNDS: u32 = 4;
    check("many_in_any_order", 3 * SIZES.len() as u64, |seed| {
        let size = SIZES[seed as usize % SIZES.len()];
        Simulation::new(seed, size, Options::random(seed)).run(|rank| async move {
            let me = rank.me().number();
            let mut common = Rng::with_seed(seed);
            let mut mine = Rng::with_seed(seed ^ u64::from(me + 1) << 32);
            let other = rank.world().clone().duplicate(true).await.expect("all are ready");
            let mut made = Vec::new();
            for which in 0..8 {
                let communicator = if common.bool() { rank.world() } else { &other };
                made.push(Made::new(communicator, which, &mut common).await);
            }
            for round in 0..ROUNDS {
                // Some are freed, by each rank in its own time, and others made: in the memory of those that are free everywhere.
                for which in 0..8 {
                    if round > 0 && common.u32(..4) == 0 {
                        let communicator = if common.bool() { rank.world() } else { &other };
                        let old = made.remove(which as usize);
                        let kept = mine.bool().then_some(old);
                        let new = Made::new(communicator, which, &mut common).await;
                        drop(kept);
                        made.insert(which as usize, new);
                    }
                }
                let mut started: Vec<usize> = (0..made.len()).filter(|_| common.u32(..4) > 0).collect();
                mine.shuffle(&mut started);
                let mut requests = Vec::new();
                // Others are begun between the starts: all ranks begin them in the same order.
                let mut between = started.len().min(2);
                for (nth, &at) in started.iter().enumerate() {
                    requests.push((Some(at), made[at].start(me, round)));
                    if between > 0 && (mine.bool() || nth + between >= started.len()) {
                        between -= 1;
                        let operation = other.step(const { Operation::named("MPI_Barrier") }, true);
                        let barrier = rank.instance().spawn(Box::pin(async move {
                            collective::barrier(&operation).await?;
                            Ok(Outcome::EMPTY)
                        }));
                        requests.push((None, barrier));
                    }
                }
                pass_on(&rank, round as i32).await;
                mine.shuffle(&mut requests);
                for (at, request) in requests {
                    assert_eq!(rank.wait(request).await.error, None, "{at:?} in round {round}");
                    if let Some(at) = at {
                        made[at].check(size, round);
                    }
                }
                if common.bool() {
                    collective::barrier(&other.collective()).await.unwrap();
                }
            }
        });
    });
}

/// A rank may be several starts ahead of another.
#[test]
fn a_root_runs_ahead() {
    check("a_root_runs_ahead", 20, |seed| {
        Simulation::new(seed, 3, Options::random(seed)).run(|rank| async move {
            let me = rank.me().number();
            let layout = Elements::new(0);
            let mut area = Area::new(&layout, 0..2);
            let buffer = area.buffer(2);
            let mut operation = rank
                .world()
                .persistent_step(const { Operation::named("MPI_Bcast") });
            if seed % 2 == 0 {
                operation = prepare_persistent(operation).await.expect("nobody dies");
            }
            let bcast = collective::persistent(operation, move |operation| async move {
                collective::bcast(&operation, 1, buffer).await
            });
            for round in 0..30 {
                let expected = element(1, round);
                if me == 1 {
                    area.put(0, expected);
                }
                let request = bcast.start().unwrap();
                assert_eq!(rank.wait(request).await.error, None);
                let mut copy = Area::new(&layout, 0..2);
                copy.put(0, expected);
                area.check(&copy, &(me, round));
                if me == 2 && round % 3 == 0 {
                    rank.pause(10_000_000).await;
                }
            }
        });
    });
}

/// Counts the allocations of one size that a thread makes.
struct Counting;

thread_local! {
    static COUNTED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, number) = COUNTED.get();
        if layout.size() == size {
            COUNTED.set((size, number + 1));
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The first start allocates the temporary memory that all of them use.
#[test]
fn temporary_memory_is_kept() {
    // Its messages are half as long at most.
    const ELEMENTS: u64 = 4000;
    let mut options = Options::random(1);
    options.conditions.limits.message = 1 << 20;
    // Each has a processor, so the operation is done by halves: a whole operand that comes early is kept in memory of the engine.
    options.processors = None;
    let made = Simulation::new(1, 4, options).run(|rank| async move {
        let layout = Elements::new(0);
        let (op, _) = operation(true);
        let mut own = Area::of(&layout, rank.me().number(), ELEMENTS);
        let mut all = Area::new(&layout, 0..ELEMENTS as i64);
        let given = operands(
            Some(&mut own),
            Some(&mut all),
            (ELEMENTS, ELEMENTS),
            (&layout, &op),
        );
        let operation = (rank.world()).persistent_step(const { Operation::named("MPI_Allreduce") });
        let sum = collective::persistent(operation, move |operation| async move {
            collective::allreduce(&operation, given).await
        });
        let mut allocated = Vec::new();
        for _ in 0..5 {
            collective::barrier(&rank.world().collective()).await.unwrap();
            COUNTED.set((ELEMENTS as usize * size_of::<[u32; 4]>(), 0));
            let request = sum.start().unwrap();
            assert_eq!(rank.wait(request).await.error, None);
            collective::barrier(&rank.world().collective()).await.unwrap();
            allocated.push(COUNTED.get().1);
        }
        allocated
    });
    // All ranks run in one thread.
    for (rank, allocated) in made.into_iter().enumerate() {
        let allocated = allocated.expect("it lived");
        assert!(
            allocated[0] > 0 && allocated[1..] == [0; 4],
            "as rank {rank} saw it: {allocated:?}"
        );
    }
}

/// While one start is under way there is no other.
#[test]
fn an_active_one_is_not_started() {
    Simulation::new(1, 2, Options::random(1)).run(|rank| async move {
        let operation = rank
            .world()
            .persistent_step(const { Operation::named("MPI_Barrier") });
        let barrier = collective::persistent(operation, |operation| async move {
            collective::barrier(&operation).await
        });
        if rank.me().number() == 0 {
            let request = barrier.start().unwrap();
            assert_eq!(barrier.start().unwrap_err().class, Class::Request);
            collective::barrier(&rank.world().collective()).await.unwrap();
            assert_eq!(rank.wait(request).await.error, None);
        } else {
            collective::barrier(&rank.world().collective()).await.unwrap();
            let request = barrier.start().unwrap();
            assert_eq!(rank.wait(request).await.error, None);
        }
    });
}
