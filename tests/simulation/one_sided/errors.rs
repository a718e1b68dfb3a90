//! Calls that are wrong: each says so, changes nothing, and what is right goes on.

use std::sync::Arc;

use fastrand::Rng;
use weft::data::datatype::Datatype;
use weft::data::memory::Memory;
use weft::data::op::Op;
use weft::objects::collective;
use weft::objects::group::Group;
use weft::objects::window::{Attached, Exposed, Part, Target, Window};
use weft::sim::{Options, Rank, Simulation, check};
use weft::{Class, Result};

use super::element::SUM;
use super::idioms::Words;
use super::options;

/// `MPI_MODE_NOSUCCEED`
const NO_SUCCEED: i32 = 16384;

/// Which epochs are open at a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    None,
    /// A fence has opened it, and operations have followed.
    Fence,
    Start,
    Lock,
    LockAll,
}

const STATES: [State; 5] = [
    State::None,
    State::Fence,
    State::Start,
    State::Lock,
    State::LockAll,
];

fn is_refused<T: std::fmt::Debug>(what: &str, result: Result<T>, class: Class) {
    match result {
        Err(error) if error.class == class => {}
        other => panic!("{what}: {other:?} instead of an error of class {class:?}"),
    }
}

/// In each state, what it does not allow is refused with `MPI_ERR_RMA_SYNC`, by each rank on its own, and the epoch goes on.
#[test]
fn wrong_epochs_are_refused() {
    check("wrong_epochs_are_refused", 40, |seed| {
        let size = 2 + seed as u32 % 3;
        Simulation::new(seed, size, options(seed)).run(|rank| async move {
            let (me, state) = (rank.me().number(), STATES[seed as usize % STATES.len()]);
            let words = Words::new(&rank, 4).await;
            let window = words.window.clone();
            let next = (me + 1) % size;
            let group = |ranks: &[i64]| window.communicator().group().incl(ranks).expect("it is there");
            let exposed = state != State::Fence && state != State::Lock && seed % 2 == 0;
            if state == State::Start || exposed {
                window
                    .post(&group(&[i64::from((me + size - 1) % size)]), false)
                    .expect("no epoch");
            }
            match state {
                State::None => {}
                State::Fence => {
                    window.fence(0).await.expect("no epoch");
                    put(&rank, &words, next, 7).expect("a fence has opened an epoch");
                }
                State::Start => window
                    .start_epoch(&group(&[i64::from(next)]), false)
                    .await
                    .expect("no epoch"),
                State::Lock => window.lock(true, next, false).await.expect("no epoch"),
                State::LockAll => window.lock_all(false).await.expect("no epoch"),
            }
            let wrong = Wrong {
                rank: &rank,
                words: &words,
                state,
                exposed: state == State::Start || exposed,
                next,
            };
            wrong.calls(&mut Rng::with_seed(seed ^ u64::from(me) << 40)).await;
            // What was open is as it was.
            match state {
                State::None => {}
                State::Fence => window.fence(0).await.expect("an epoch of fences"),
                State::Start => {
                    put(&rank, &words, next, 7).expect("an epoch");
                    window.complete().await.expect("an epoch");
                }
                State::Lock => {
                    put(&rank, &words, next, 7).expect("an epoch");
                    window.unlock(next).await.expect("an epoch");
                }
                State::LockAll => {
                    put(&rank, &words, next, 7).expect("an epoch");
                    window.unlock_all().await.expect("an epoch");
                }
            }
            if exposed && state != State::Start {
                // Its partner has not started: so it does that now.
                window
                    .start_epoch(&group(&[i64::from(next)]), false)
                    .await
                    .expect("no epoch");
                window.complete().await.expect("an epoch");
            }
            if state == State::Start || exposed {
                window.wait().await.expect("an epoch");
            }
            words.barrier().await;
            let stored = if state == State::None { 0 } else { 7 };
            assert_eq!([words.word(0), words.word(1), words.word(3)], [stored, 0, 0]);
            drop(window);
            words.free().await;
        });
    });
}

/// Stores a word at word 0.
fn put(rank: &Rank, words: &Words, target: u32, value: u64) -> Result<()> {
    put_at(rank, words, target, 0, value)
}

fn put_at(rank: &Rank, words: &Words, target: u32, at: usize, value: u64) -> Result<()> {
    // It stays until the end of the run.
    let origin = Box::leak(Box::new(value));
    let _ = rank;
    // SAFETY: never freed.
    unsafe {
        words.window.put(
            Memory::run((&raw mut *origin).cast(), 8),
            &Words::target(target, at, 1),
        )
    }
}

struct Wrong<'a> {
    rank: &'a Rank,
    words: &'a Words,
    state: State,
    exposed: bool,
    next: u32,
}

impl Wrong<'_> {
    async fn calls(&self, rng: &mut Rng) {
        let window = &self.words.window;
        let Wrong { state, next, .. } = *self;
        let sync = Class::RmaSync;
        let other = window.communicator().rank();
        let others = window
            .communicator()
            .group()
            .incl(&[i64::from(next)])
            .expect("it is there");
        for _ in 0..20 {
            let what = rng.u32(..14);
            let name = format!("call {what} in state {state:?}");
            match what {
                // This rank itself is in no epoch's group, nor locked.
                0 if !matches!(state, State::Fence | State::LockAll) => {
                    is_refused(&name, put_at(self.rank, self.words, other, 1, 1), sync)
                }
                1 if state == State::None => {
                    is_refused(&name, put_at(self.rank, self.words, next, 1, 1), sync)
                }
                2 if !matches!(state, State::Lock | State::LockAll) => {
                    let origin = self.rank.blank(8);
                    // SAFETY: refused.
                    is_refused(
                        &name,
                        unsafe { window.rput(origin.memory(), &Words::target(next, 1, 1)) },
                        sync,
                    );
                }
                3 if !matches!(state, State::Lock | State::LockAll) => {
                    is_refused(&name, window.flush(Some(next)).await, sync);
                    is_refused(&name, window.flush_local(None).await, sync);
                }
                4 if state != State::Start => is_refused(&name, window.complete().await, sync),
                5 if !self.exposed => {
                    is_refused(&name, window.wait().await, sync);
                    is_refused(&name, window.test(), sync);
                }
                6 if state != State::Lock => is_refused(&name, window.unlock(next).await, sync),
                7 if state == State::Lock => is_refused(&name, window.unlock(other).await, sync),
                8 if state != State::LockAll => is_refused(&name, window.unlock_all().await, sync),
                9 if state != State::None => is_refused(&name, window.lock_all(false).await, sync),
                10 if state != State::None => is_refused(&name, window.lock(false, next, false).await, sync),
                11 if state != State::None => {
                    is_refused(&name, window.start_epoch(&others, false).await, sync)
                }
                12 if self.exposed => is_refused(&name, window.post(&others, false), sync),
                13 if self.exposed || !matches!(state, State::None | State::Fence) => {
                    is_refused(&name, window.fence(0).await, sync);
                    is_refused(&name, window.may_free(), sync);
                }
                _ => {}
            }
        }
    }
}

/// Elements that are not all within the target's memory are refused with `MPI_ERR_RMA_RANGE`, and nothing is written; displacements that no
/// memory has, with `MPI_ERR_DISP`.
#[test]
fn ranges_are_checked() {
    check("ranges_are_checked", 40, |seed| {
        Simulation::new(seed, 3, options(seed)).run(|rank| async move {
            let mut rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
            let words = Words::new(&rank, 4).await;
            words.window.lock_all(false).await.expect("no epoch");
            for _ in 0..20 {
                let target = rng.u32(..3);
                let long = [i64::MAX, i64::MIN, 1 << 60, -(1 << 60), i64::MAX / 8 + 1][rng.usize(..5)];
                let (disp, count) = match rng.u32(..4) {
                    0 => (rng.i64(4..100), 1),
                    1 => (rng.i64(-100..0), 1),
                    2 => (rng.i64(1..4), 4),
                    _ => (long, 1),
                };
                let mut at = Words::target(target, 0, count);
                at.disp = disp;
                let (buffer, result) = (rank.buffer(&vec![9; 8 * count]), rank.blank(8 * count));
                let (word, sum) = (Datatype::uint64(), Op::predefined(SUM).expect("an operation"));
                let window = &words.window;
                // SAFETY: the buffers are kept until the epoch's end; and it is refused.
                let done = unsafe {
                    match rng.u32(..4) {
                        0 => window.put(buffer.memory(), &at),
                        1 => window.get(result.memory(), &at),
                        2 => window.accumulate(buffer.memory(), word, &at, sum),
                        _ => {
                            window.get_accumulate((buffer.memory(), word), (result.memory(), word), &at, sum)
                        }
                    }
                };
                let class = match disp {
                    0..=100 => Class::RmaRange,
                    _ => Class::Disp,
                };
                is_refused(&format!("{count} words at {disp}"), done, class);
                words
                    .window
                    .flush(Some(target))
                    .await
                    .expect("nothing was started");
            }
            words.window.unlock_all().await.expect("nothing was started");
            words.barrier().await;
            assert_eq!([0, 1, 2, 3].map(|at| words.word(at)), [0; 4]);
            words.free().await;
        });
    });
}

/// What a target has not attached only the target knows: its origin learns of it when it completes the operation, at the latest. Operations
/// beside that are not concerned.
#[test]
fn what_is_not_attached_is_refused_at_the_end() {
    check("what_is_not_attached_is_refused_at_the_end", 60, |seed| {
        Simulation::new(seed, 3, options(seed)).run(|rank| async move {
            let mut rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
            let me = rank.me().number();
            let part = Part {
                exposed: Exposed::Attached(Attached::default()),
                disp_unit: 1,
                asked: None,
            };
            let window: Arc<Window> = Window::create(rank.world().clone(), Ok(part))
                .await
                .expect("a window");
            let memory = rank.buffer(&[3; 3000]);
            let address = memory.memory().contiguous().expect("one run").address as u64;
            // All but the end of it.
            window
                .attached()
                .expect("it is dynamic")
                .attach(address as usize, 2000)
                .expect("it is free");
            let all = collective::allgather_bytes(&rank.world().collective(), &address.to_le_bytes()).await;
            let addresses: Vec<u64> = all
                .expect("all live")
                .as_chunks()
                .0
                .iter()
                .map(|word| u64::from_le_bytes(*word))
                .collect();
            let fences = seed % 3 == 0;
            for round in 0..4 {
                match fences {
                    true => window.fence(0).await.expect("no epoch"),
                    false => window.lock_all(false).await.expect("no epoch"),
                }
                let target = (me + round % 3) % 3;
                let len = [8, 8, 400][rng.usize(..3)];
                let wrong = rng.bool();
                let start = if wrong {
                    rng.u64(2001 - len..2600)
                } else {
                    8 * rng.u64(..(2000 - len) / 8)
                };
                let at = Target {
                    rank: target,
                    disp: (addresses[target as usize] + start) as i64,
                    count: len / 8,
                    datatype: Datatype::uint64().clone(),
                };
                let (buffer, result) = (rank.buffer(&vec![3; len as usize]), rank.blank(len as usize));
                let (word, replace) = (
                    Datatype::uint64(),
                    Op::predefined(super::element::REPLACE).expect("an operation"),
                );
                let kind = rng.u32(..4);
                // SAFETY: the buffers are kept until the end of the epoch.
                let started = unsafe {
                    match kind {
                        0 => window.put(buffer.memory(), &at),
                        1 => window.get(result.memory(), &at),
                        2 => window.accumulate(buffer.memory(), word, &at, replace),
                        _ => window.get_accumulate(
                            (buffer.memory(), word),
                            (result.memory(), word),
                            &at,
                            replace,
                        ),
                    }
                };
                let ended = match fences {
                    true => window.fence(0).await,
                    false => {
                        let flushed = if rng.bool() {
                            window.flush(Some(target)).await
                        } else {
                            Ok(())
                        };
                        flushed.and(window.unlock_all().await)
                    }
                };
                match (started.and(ended), wrong) {
                    (Ok(()), false) => {}
                    (Err(error), true) if error.class == Class::RmaRange => {}
                    (other, _) => {
                        panic!("rank {me}, round {round}: {len} bytes at {start}, kind {kind}: {other:?}")
                    }
                }
                if !wrong && matches!(kind, 1 | 3) {
                    assert!(result.bytes().iter().all(|&byte| byte == 3), "kind {kind}");
                }
            }
            if fences {
                window.fence(0).await.expect("the last epoch's errors were told");
            }
            collective::barrier(&rank.world().collective())
                .await
                .expect("all live");
            assert!(memory.bytes().iter().all(|&byte| byte == 3));
            drop(window);
            drop(memory);
        });
    });
}

/// A group with processes that are not the window's.
#[test]
fn groups_are_the_windows() {
    Simulation::new(1, 2, options(1)).run(|rank| async move {
        let words = Words::new(&rank, 1).await;
        let group = Group::first(3);
        is_refused("post", words.window.post(&group, false), Class::Group);
        is_refused(
            "start",
            words.window.start_epoch(&group, false).await,
            Class::Group,
        );
        words.free().await;
    });
}

/// With the setting `check`, puts to the same word in one phase of fences, or under locks that are held at the same time, are an error of
/// one of them, and no others are.
#[test]
fn conflicts_are_found() {
    check("conflicts_are_found", 40, |seed| {
        let options = Options {
            check: true,
            ..options(seed)
        };
        Simulation::new(seed, 3, options).run(|rank| async move {
            let me = rank.me().number();
            // All know what all do.
            let mut rng = Rng::with_seed(seed);
            let words = Words::new(&rank, 4).await;
            let window = &words.window;
            window.fence(0).await.expect("no epoch");
            for round in 0..10 {
                let target = rng.u32(..3);
                let places = [(); 3].map(|()| rng.usize(..4));
                let fences = rng.bool();
                if !fences {
                    window.fence(NO_SUCCEED).await.expect("no epoch");
                    window.lock_all(false).await.expect("no epoch");
                }
                let buffer = rank.buffer(&[7; 8]);
                let at = Words::target(target, places[me as usize], 1);
                // SAFETY: the buffer is kept until the epoch's end; what is written is not looked at.
                unsafe { window.put(buffer.memory(), &at) }.expect("an epoch is open");
                let ended = match fences {
                    true => window.fence(0).await,
                    false => {
                        // It comes to the target before anybody completes his.
                        let arrived = window.flush_local(Some(target)).await;
                        words.barrier().await;
                        arrived.and(window.unlock_all().await)
                    }
                };
                let found = ended.is_err();
                if found {
                    is_refused(&format!("round {round}, {places:?}"), ended, Class::RmaConflict);
                }
                let all = collective::allgather_bytes(&rank.world().collective(), &[u8::from(found)]).await;
                let [a, b, c] = places;
                let expected = a == b || b == c || a == c;
                assert_eq!(
                    all.expect("all live").contains(&1),
                    expected,
                    "round {round}, {places:?}"
                );
                window.fence(0).await.expect("no epoch");
            }
            words.free().await;
        });
    });
}
