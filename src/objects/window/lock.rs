//! The locks of a window's processes in memory that all its processes share: the words of a [`ticket`] lock for each process.
//!
//! A process that does not get a lock at once looks for it again for a while: where there are more processes than processors, who has it may
//! need this one, and takes and leaves it often before it is another one's turn to run. Then it draws a ticket and sleeps in the end, as
//! all that wait for words in shared memory do ([`sharers`](crate::objects::communicator::sharers)), and is woken when its own turn has come. Its
//! wait ends with an error if the process that had the lock last when it began to wait is lost, or, where nobody has had it, the one whose
//! lock it is. Then the lock can't be had any more. What another one leaves behind nobody notices here.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::Members;
use super::segments::{Control, Segments};
use super::ticket::{self, Words};
use crate::base::error::Result;
use crate::objects::communicator::sharers::Awaited;

/// How long a process looks for a lock before it draws a ticket: longer than it takes all processes that want it, some for each processor, to
/// find out that who has it is not running.
const PATIENCE: Duration = Duration::from_millis(2);
/// How often it looks before it lets others run.
const LOOKS: u32 = 64;

/// The lock of a process.
struct Lock<'a> {
    segments: &'a Segments,
    control: Control<'a>,
}

impl Lock<'_> {
    /// What those sleep for who wait for a ticket of this lock.
    fn turn(&self, ticket: u64) -> u32 {
        // Different locks and tickets may be taken for the same, which wakes somebody too early.
        self.control.place() << 16 | (ticket & 0xffff) as u32
    }

    /// What a wait for a value of a word is, which whoever has the lock now, or who comes behind him, raises.
    fn awaited(&self, at: usize, least: u64, ticket: u64, tag: i32) -> Awaited {
        let sharers = self.segments.sharers();
        let holder = self.control.holder().load(Relaxed).checked_sub(1);
        let holder = holder.filter(|&place| place < sharers.size() && place != sharers.mine());
        Awaited {
            at,
            least,
            sleeps_for: self.turn(ticket),
            by: holder.unwrap_or(self.control.place()),
            tag,
        }
    }

    /// Said by whoever has got it.
    fn has_holder(&self) {
        self.control
            .holder()
            .store(self.segments.sharers().mine() + 1, Relaxed);
    }
}

impl Words for Lock<'_> {
    fn state(&self) -> u64 {
        self.control.state().load(Acquire)
    }
    #[inline]
    fn change(&self, from: u64, to: u64) -> Result<(), u64> {
        let changed = self.control.state().compare_exchange(from, to, AcqRel, Acquire);
        changed.map(drop)
    }
    fn draw(&self) -> u64 {
        self.control.drawn().fetch_add(1, Relaxed)
    }
    fn first(&self) -> u64 {
        self.control.first().load(Acquire)
    }
    fn set_first(&self, to: u64) {
        self.control.first().store(to, Release);
    }
    fn given(&self) -> u64 {
        self.control.given().load(Acquire)
    }
    fn set_given(&self, to: u64) {
        self.control.given().store(to, Release);
    }
    fn wake(&self, ticket: u64) {
        self.segments.sharers().wake(self.turn(ticket));
    }
}

impl Members {
    fn lock_of(&self, rank: u32) -> Lock<'_> {
        let segments = self.segments().expect("all processes share memory");
        let control = segments.control(rank).expect("one of the processes");
        Lock { segments, control }
    }

    /// Takes the lock of a rank if it is free, and if it is found at once.
    #[inline(always)]
    pub fn try_lock(&self, rank: u32, exclusive: bool) -> bool {
        let Some(line) = self.lines(rank) else {
            return false;
        };
        let (free, taken) = (ticket::FREE, ticket::taken_by_one(exclusive));
        match line.state.compare_exchange(free, taken, AcqRel, Acquire) {
            Ok(_) => {
                // All share the memory, so that places are ranks.
                line.holder.store(self.mine() + 1, Relaxed);
                true
            }
            Err(_) => self.try_again(rank, exclusive),
        }
    }

    /// Others may share it.
    #[cold]
    #[inline(never)]
    fn try_again(&self, rank: u32, exclusive: bool) -> bool {
        let lock = self.lock_of(rank);
        let taken = ticket::try_take(&lock, exclusive);
        if taken {
            lock.has_holder();
        }
        taken
    }

    /// Gives back what [`Members::try_lock`] has taken, or one of the others. `false`: it is not found at once.
    #[inline(always)]
    pub fn try_unlock(&self, rank: u32, exclusive: bool) -> bool {
        let Some(line) = self.lines(rank) else {
            return false;
        };
        let (free, taken) = (ticket::FREE, ticket::taken_by_one(exclusive));
        if line.state.compare_exchange(taken, free, AcqRel, Acquire).is_err() {
            self.unlock(rank, exclusive);
        }
        true
    }

    /// The same for a while, with `between` again and again. Other processes run in between, if there is no processor for them.
    ///
    /// # Panics
    /// As there.
    pub fn look_for_lock(&self, rank: u32, exclusive: bool, between: impl Fn()) -> bool {
        let lock = self.lock_of(rank);
        let since = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if ticket::is_free(&lock, exclusive) && ticket::try_take(&lock, exclusive) {
                    lock.has_holder();
                    return true;
                }
                between();
                std::hint::spin_loop();
            }
            if since.elapsed() > PATIENCE {
                return false;
            }
            lock.segments.sharers().instance().step();
            std::thread::yield_now();
        }
    }

    /// Waits for the lock of a rank, where all are in shared memory. `tag`: that of the message that stands for the
    /// wait in reports, which nobody sends.
    ///
    /// The result is awaited to its end: others wait for this process's turn to pass.
    ///
    /// # Errors
    /// A process is lost, as far as it is known to have the lock. Nobody gets the lock any more then.
    ///
    /// # Panics
    /// If the locks are elsewhere.
    pub async fn lock(&self, rank: u32, exclusive: bool, tag: i32) -> Result<()> {
        let lock = self.lock_of(rank);
        if ticket::try_take(&lock, exclusive) {
            lock.has_holder();
            return Ok(());
        }
        let [first, given] = lock.control.places();
        let ticket = ticket::draw(&lock, exclusive);
        let sharers = lock.segments.sharers();
        if !ticket::is_first(&lock, ticket) {
            let awaited = lock.awaited(first, ticket.number, ticket.number, tag);
            sharers.wait(awaited).await?;
        }
        if !ticket::claim(&lock, ticket) && !ticket::is_given(&lock, ticket) {
            let awaited = lock.awaited(given, ticket.number + 1, ticket.number, tag);
            sharers.wait(awaited).await?;
        }
        lock.has_holder();
        ticket::entered(&lock, ticket);
        Ok(())
    }

    /// Gives the lock of a rank back, which this process has got by [`Members::lock`], or one of the others.
    ///
    /// # Panics
    /// If the locks are elsewhere.
    #[cold]
    #[inline(never)]
    pub fn unlock(&self, rank: u32, exclusive: bool) {
        ticket::release(&self.lock_of(rank), exclusive);
    }
}
