//! What programs build of one-sided communication: counters, locks, lists, flags. What each rank does depends on what it has fetched.

use std::sync::Arc;

use fastrand::Rng;
use weft::base::settings::Access;
use weft::data::datatype::Datatype;
use weft::data::op::Op;
use weft::objects::collective;
use weft::objects::window::{Exposed, Part, Target, Users, Window};
use weft::sim::{Buffer, Options, Rank, Simulation, check, skewed};

use super::element::{NO_OP, REPLACE, SUM};
use super::{by_hardware, options};

/// A window of 64-bit words, and this rank's memory of it.
pub struct Words {
    pub window: Arc<Window>,
    rank: Rank,
    memory: Buffer,
}

impl Words {
    pub async fn new(rank: &Rank, words: usize) -> Words {
        let memory = rank.buffer(&vec![0; 8 * words]);
        let address = memory.memory().contiguous().expect("one run").address;
        // SAFETY: the memory is dropped after the window.
        let users = unsafe { Users::new(address, 8 * words) };
        let part = Part {
            exposed: Exposed::Users(users),
            disp_unit: 8,
            asked: None,
        };
        let window = Window::create(rank.world().clone(), Ok(part))
            .await
            .expect("a window");
        Words {
            window,
            rank: rank.clone(),
            memory,
        }
    }

    pub fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(
            self.memory.bytes()[8 * at..8 * at + 8]
                .try_into()
                .expect("8 bytes"),
        )
    }

    pub async fn barrier(&self) {
        let collective = self.rank.world().collective();
        collective::barrier(&collective).await.expect("all live");
    }

    /// The end, when all have come to theirs.
    pub async fn free(self) {
        self.barrier().await;
        let Words { window, memory, .. } = self;
        window.may_free().expect("no epoch is open");
        window.retire(true);
        drop(window);
        drop(memory);
    }

    pub fn target(rank: u32, at: usize, count: usize) -> Target {
        Target {
            rank,
            disp: at as i64,
            count: count as u64,
            datatype: Datatype::uint64().clone(),
        }
    }

    pub async fn update(&self, rank: u32, at: usize, op: usize, value: u64) -> weft::Result<u64> {
        let (origin, result) = (self.rank.buffer(&value.to_le_bytes()), self.rank.blank(8));
        let word = Datatype::uint64();
        let op = Op::predefined(op).expect("an operation");
        // SAFETY: the buffers are kept until the flush.
        unsafe {
            self.window.get_accumulate(
                (origin.memory(), word),
                (result.memory(), word),
                &Words::target(rank, at, 1),
                op,
            )
        }?;
        self.window.flush(Some(rank)).await?;
        Ok(number(&result))
    }

    pub async fn swap_if(&self, rank: u32, at: usize, expected: u64, value: u64) -> weft::Result<u64> {
        let (origin, compare) = (
            self.rank.buffer(&value.to_le_bytes()),
            self.rank.buffer(&expected.to_le_bytes()),
        );
        let result = self.rank.blank(8);
        // SAFETY: the buffers are kept until the flush.
        unsafe {
            self.window.compare_and_swap(
                origin.memory(),
                compare.memory(),
                result.memory(),
                &Words::target(rank, at, 1),
            )
        }?;
        self.window.flush(Some(rank)).await?;
        Ok(number(&result))
    }

    pub async fn read(&self, rank: u32, at: usize, words: usize) -> weft::Result<Vec<u64>> {
        let result = self.rank.blank(8 * words);
        // SAFETY: the buffer is kept until the flush.
        unsafe { self.window.get(result.memory(), &Words::target(rank, at, words)) }?;
        self.window.flush(Some(rank)).await?;
        let words = result.bytes().as_chunks().0.iter();
        Ok(words.map(|word| u64::from_le_bytes(*word)).collect())
    }

    pub async fn write(&self, rank: u32, at: usize, words: &[u64]) -> weft::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let origin = self.rank.buffer(&bytes);
        // SAFETY: the buffer is kept until the flush.
        unsafe {
            self.window
                .put(origin.memory(), &Words::target(rank, at, words.len()))
        }?;
        self.window.flush(Some(rank)).await
    }
}

fn number(buffer: &Buffer) -> u64 {
    u64::from_le_bytes(buffer.bytes().try_into().expect("8 bytes"))
}

fn rng(seed: u64, rank: &Rank) -> Rng {
    Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40)
}

/// Everybody increments a word of rank 0: by fetching sums, whose results are all different, and by comparing and swapping until it works.
#[test]
fn counters_count() {
    check("counters_count", 60, |seed| {
        let size = 1 + seed as u32 % 6;
        let drawn = Simulation::new(seed, size, options(seed)).run(|rank| async move {
            let words = Words::new(&rank, 2).await;
            let mut drawn = Vec::new();
            words.window.lock_all(false).await.expect("no epoch");
            for _ in 0..5 {
                drawn.push(words.update(0, 0, SUM, 1).await.expect("all live"));
                let mut seen = words.update(0, 1, NO_OP, 0).await.expect("all live");
                loop {
                    let found = words.swap_if(0, 1, seen, seen + 1).await.expect("all live");
                    if found == seen {
                        break;
                    }
                    assert!(found > seen, "it never goes back");
                    seen = found;
                }
            }
            words.window.unlock_all().await.expect("all live");
            words.barrier().await;
            if rank.me().number() == 0 {
                assert_eq!(
                    (words.word(0), words.word(1)),
                    (5 * u64::from(size), 5 * u64::from(size))
                );
            }
            words.free().await;
            drawn
        });
        let mut drawn: Vec<u64> = drawn
            .into_iter()
            .flat_map(|drawn| drawn.expect("it lived"))
            .collect();
        drawn.sort_unstable();
        assert!(drawn.into_iter().eq(0..5 * u64::from(size)));
    });
}

/// What a flushed get has read may be changed at once, whatever the target's lane is still busy with.
#[test]
fn what_was_got_may_be_changed() {
    check("what_was_got_may_be_changed", 320, |seed| {
        const SLOT: usize = 2;
        let size = 2 + seed as u32 % 3;
        let options = Options {
            windows: Access::Messages,
            ..options(seed)
        };
        Simulation::new(seed, size, options).run(|rank| async move {
            let me = rank.me().number() as usize;
            let words = Words::new(&rank, SLOT * size as usize).await;
            words.window.lock_all(false).await.expect("no epoch");
            for turn in 0..8 {
                for target in 0..size {
                    let found = words.read(target, SLOT * me, SLOT).await.expect("all live");
                    assert_eq!(found, [turn; SLOT]);
                    let next = [turn + 1; SLOT];
                    words.write(target, SLOT * me, &next).await.expect("all live");
                }
            }
            words.window.unlock_all().await.expect("all live");
            words.free().await;
        });
    });
}

/// Whoever has an exclusive lock is alone: it appends to a list with operations that are not atomic. Those who read it with a shared lock
/// see whole entries only.
#[test]
fn exclusive_locks_exclude() {
    check("exclusive_locks_exclude", 60, |seed| {
        let size = 1 + seed as u32 % 6;
        let entries = 4;
        Simulation::new(seed, size, options(seed)).run(|rank| async move {
            let mut rng = rng(seed, &rank);
            let me = u64::from(rank.me().number());
            let room = 1 + 2 * entries * size as usize;
            let words = Words::new(&rank, room).await;
            let mut left = vec![entries; size as usize];
            while left.iter().any(|&left| left > 0) {
                let target = rng.u32(..size);
                let exclusive = rng.u32(..3) != 0 && left[target as usize] > 0;
                words
                    .window
                    .lock(exclusive, target, false)
                    .await
                    .expect("no epoch");
                let len = words.read(target, 0, 1).await.expect("all live")[0];
                if exclusive {
                    left[target as usize] -= 1;
                    words
                        .write(target, 1 + 2 * len as usize, &[me, !me])
                        .await
                        .expect("all live");
                    if rng.bool() {
                        rank.pause(skewed(&mut rng, 12)).await;
                    }
                    words.write(target, 0, &[len + 1]).await.expect("all live");
                } else {
                    let list = words.read(target, 0, room).await.expect("all live");
                    assert_eq!(list[0], len, "nobody adds to it now");
                    for at in 0..len as usize {
                        assert_eq!(list[1 + 2 * at], !list[2 + 2 * at], "entry {at} of {len}");
                    }
                }
                words.window.unlock(target).await.expect("all live");
            }
            words.barrier().await;
            assert_eq!(words.word(0), (entries * size as usize) as u64);
            let mut found: Vec<u64> = (0..words.word(0) as usize)
                .map(|at| words.word(1 + 2 * at))
                .collect();
            found.sort_unstable();
            let expected = (0..u64::from(size)).flat_map(|rank| std::iter::repeat_n(rank, entries));
            assert!(found.into_iter().eq(expected));
            words.free().await;
        });
    });
}

/// Whoever has an exclusive lock writes all of a list, in two parts. When the second one begins, the first one is complete at its origin only:
/// by that nobody knows that the lock is granted.
#[test]
fn nothing_is_written_before_the_lock_is_granted() {
    check("nothing_is_written_before_the_lock_is_granted", 60, |seed| {
        let size = 3 + seed as u32 % 3;
        let half = [100, 1300, 4000][(seed / 3 % 3) as usize];
        let mut options = options(seed);
        if seed % 2 == 0 {
            by_hardware(&mut options);
        }
        Simulation::new(seed, size, options).run(|rank| async move {
            let mut rng = rng(seed, &rank);
            let words = Words::new(&rank, 2 * half).await;
            let me = u64::from(rank.me().number() + 1);
            let bytes: Vec<u8> = std::iter::repeat_n(me.to_le_bytes(), half).flatten().collect();
            let part = rank.buffer(&bytes);
            for _ in 0..6 {
                let (target, exclusive) = (rng.u32(..2), rng.u32(..4) != 0);
                let window = &words.window;
                window.lock(exclusive, target, false).await.expect("no epoch");
                if exclusive {
                    let places = [0, half].map(|at| Words::target(target, at, half));
                    // SAFETY: the buffer is kept until the window is freed.
                    unsafe { window.put(part.memory(), &places[0]) }.expect("all live");
                    window.flush_local(Some(target)).await.expect("all live");
                    if rng.bool() {
                        rank.pause(skewed(&mut rng, 12)).await;
                    }
                    // SAFETY: as above.
                    unsafe { window.put(part.memory(), &places[1]) }.expect("all live");
                } else {
                    let list = words.read(target, 0, 2 * half).await.expect("all live");
                    let others = list.iter().position(|word| *word != list[0]);
                    assert_eq!(
                        others,
                        None,
                        "{} was there before {}",
                        list[0],
                        list[2 * half - 1]
                    );
                }
                window.unlock(target).await.expect("all live");
            }
            words.free().await;
        });
    });
}

/// Two ranks lock all, and each gets the lock of its neighbour first, then the one that the other has. In between two others want these locks for
/// themselves: who locks all does not wait behind them.
#[test]
fn those_who_lock_all_do_not_wait_for_each_other() {
    check("those_who_lock_all_do_not_wait_for_each_other", 8, |seed| {
        let options = Options {
            windows: Access::Messages,
            ..options(seed)
        };
        // More than a request needs to arrive.
        let a_while = 1 << 20;
        Simulation::new(seed, 4, options).run(|rank| async move {
            let me = rank.me().number();
            let words = Words::new(&rank, 1).await;
            if me < 2 {
                let [first, second] = [2 + me, 3 - me];
                words.window.lock_all(false).await.expect("no epoch");
                words.update(first, 0, SUM, 1).await.expect("all live");
                words.barrier().await;
                rank.pause(a_while).await;
                words.update(second, 0, SUM, 1).await.expect("all live");
                rank.pause(a_while).await;
                words.window.unlock_all().await.expect("all live");
            } else {
                words.barrier().await;
                let other = 5 - me;
                words.window.lock(true, other, false).await.expect("no epoch");
                let found = words.update(other, 0, SUM, 10).await.expect("all live");
                assert_eq!(found, 2, "the other two had that lock before");
                words.window.unlock(other).await.expect("all live");
            }
            words.barrier().await;
            assert_eq!(words.word(0), if me < 2 { 0 } else { 12 });
            words.free().await;
        });
    });
}

/// A rank stores data at another one, completes that, and sets a flag; who sees the flag sees the data. The reader looks by operations, or in
/// its own memory.
#[test]
fn a_flag_comes_after_the_data() {
    check("a_flag_comes_after_the_data", 60, puts_data_and_a_flag);
}

/// With this one, a process found something to do at each look at its own flag, and time did not pass.
#[test]
fn who_waits_for_a_flag_lets_time_pass() {
    puts_data_and_a_flag(780_910_590);
}

fn puts_data_and_a_flag(seed: u64) {
    let size = 2 + seed as u32 % 4;
    let len = [1, 3, 40, 1500][(seed / 4 % 4) as usize];
    Simulation::new(seed, size, options(seed)).run(|rank| async move {
        let me = rank.me().number();
        let words = Words::new(&rank, 2 + len).await;
        words
            .window
            .lock_all(seed.is_multiple_of(3))
            .await
            .expect("no epoch");
        let (next, last) = ((me + 1) % size, (me + size - 1) % size);
        for round in 1..4u64 {
            let data: Vec<u64> = (0..len as u64).map(|at| at * round + u64::from(me)).collect();
            words.write(next, 2, &data).await.expect("all live");
            words.update(next, 0, REPLACE, round).await.expect("all live");
            loop {
                // As programs do that read their own memory.
                let flag = match seed % 2 {
                    0 => words.update(me, 0, NO_OP, 0).await.expect("all live"),
                    _ => {
                        words.window.sync();
                        rank.turn().await;
                        // SAFETY: of an atomic update by somebody else, in one simulated process.
                        unsafe {
                            words
                                .memory
                                .memory()
                                .contiguous()
                                .expect("one run")
                                .address
                                .cast::<u64>()
                                .read_volatile()
                        }
                    }
                };
                assert!(flag <= round);
                if flag == round {
                    break;
                }
                rank.turn().await;
            }
            words.window.sync();
            for at in 0..len {
                assert_eq!(
                    words.word(2 + at),
                    at as u64 * round + u64::from(last),
                    "word {at} in round {round}"
                );
            }
            // The other one may overwrite it now.
            words.barrier().await;
        }
        words.window.unlock_all().await.expect("all live");
        words.free().await;
    });
}
