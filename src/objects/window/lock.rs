//! The locks of a window's processes in memory that all its processes share: the words of a [`ticket`] lock for each process.
//!
//! A process that waits sleeps in the end, as all that wait for words in shared memory do
//! ([`sharers`](crate::objects::communicator::sharers)), and is woken when its own turn has come. Its wait ends with an error if the
//! process that had the lock last when it began to wait is lost, or, where nobody has had it, the one whose lock it is. Then the lock can't be had any
//! more. What another one leaves behind nobody notices here.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Members;
use super::segments::{Control, Segments};
use super::ticket::{self, Words};
use crate::base::error::Result;
use crate::objects::communicator::sharers::Awaited;

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
}

impl Words for Lock<'_> {
    fn draw(&self) -> u64 {
        self.control.users().fetch_add(1, Relaxed)
    }
    fn write(&self) -> u64 {
        self.control.write().load(Acquire)
    }
    fn raise_write(&self) -> u64 {
        self.control.write().fetch_add(1, Release).wrapping_add(1)
    }
    fn read(&self) -> u64 {
        self.control.read().load(Acquire)
    }
    fn set_read(&self, to: u64) {
        self.control.read().store(to, Release);
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

    /// Waits for the lock of a rank, where all are in shared memory ([`Members::all_here`]). `tag`: that of the message that stands for the
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
        let sharers = lock.segments.sharers();
        let ticket = ticket::take(&lock, exclusive);
        if !ticket::is_granted(&lock, ticket) {
            let [write, read] = lock.control.places();
            let holder = lock.control.holder().load(Relaxed).checked_sub(1);
            let holder = holder.filter(|&place| place < sharers.size() && place != sharers.mine());
            let awaited = Awaited {
                at: if exclusive { write } else { read },
                least: ticket.number,
                sleeps_for: lock.turn(ticket.number),
                by: holder.unwrap_or(lock.control.place()),
                tag,
            };
            sharers.wait(awaited).await?;
        }
        lock.control.holder().store(sharers.mine() + 1, Relaxed);
        ticket::entered(&lock, ticket);
        Ok(())
    }

    /// Gives the lock of a rank back, which this process has got by [`Members::lock`].
    ///
    /// # Panics
    /// If the locks are elsewhere.
    pub fn unlock(&self, rank: u32, exclusive: bool) {
        ticket::release(&self.lock_of(rank), exclusive);
    }
}
