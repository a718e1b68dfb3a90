//! The lock of a process's part of a window, where it is granted by messages: who holds it and who waits, in the order in which they came.
//!
//! Nobody overtakes: a shared lock waits behind an exclusive one that came before it, so that neither kind starves. But whoever locks all
//! takes the locks in no common order, so two of them could wait for each other, each behind a third one that wants an exclusive lock and
//! waits for the other: from its second lock on, such a process waits for those only who have an exclusive lock, and these wait for nobody.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// A process that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Its rank.
    pub rank: u32,
    /// Whether it wants to be alone.
    pub exclusive: bool,
    /// Whether it locks all and holds the lock of another target.
    pub holds_others: bool,
    /// The tag of the message that it waits for; `None`: it waits for none.
    pub tag: Option<i32>,
}

impl Waiting {
    /// Whether it does not wait for those before it that don't have the lock yet.
    fn overtakes(&self) -> bool {
        self.holds_others && !self.exclusive
    }
}

/// See the module.
#[derive(Default, Debug)]
pub struct Queue {
    /// Who holds it, and whether alone.
    holders: FxHashMap<u32, bool>,
    waiting: VecDeque<Waiting>,
}

impl Queue {
    /// A process asks for the lock. `None`: it holds it or waits already, which makes no sense; otherwise whether it was granted at once.
    pub fn ask(&mut self, asks: Waiting) -> Option<bool> {
        let known =
            self.holders.contains_key(&asks.rank) || self.waiting.iter().any(|other| other.rank == asks.rank);
        if known {
            return None;
        }
        let granted = (self.waiting.is_empty() || asks.overtakes()) && self.admits(asks.exclusive);
        match granted {
            true => drop(self.holders.insert(asks.rank, asks.exclusive)),
            false => self.waiting.push_back(asks),
        }
        Some(granted)
    }

    /// A process gives the lock back, and the next get it. `None`: it did not hold it.
    pub fn give_back(&mut self, rank: u32) -> Option<Vec<Waiting>> {
        self.holders.remove(&rank)?;
        Some(self.grant())
    }

    /// A process is lost, which may hold the lock or wait for it. Those who get it then.
    pub fn forget(&mut self, rank: u32) -> Vec<Waiting> {
        self.holders.remove(&rank);
        self.waiting.retain(|other| other.rank != rank);
        self.grant()
    }

    /// Gives the lock to those whose turn it is.
    fn grant(&mut self) -> Vec<Waiting> {
        let mut granted = Vec::new();
        while let Some(&next) = self.waiting.front()
            && self.admits(next.exclusive)
        {
            self.holders.insert(next.rank, next.exclusive);
            granted.push(next);
            self.waiting.pop_front();
        }
        if self.admits(false) {
            let holders = &mut self.holders;
            self.waiting.retain(|&other| {
                if other.overtakes() {
                    holders.insert(other.rank, false);
                    granted.push(other);
                }
                !other.overtakes()
            });
        }
        granted
    }

    fn admits(&self, exclusive: bool) -> bool {
        match exclusive {
            true => self.holders.is_empty(),
            false => self.holders.values().all(|alone| !alone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(rank: u32, exclusive: bool) -> Waiting {
        Waiting {
            rank,
            exclusive,
            holds_others: false,
            tag: None,
        }
    }

    /// One of those that locks all, not with its first lock.
    fn asks_again(rank: u32) -> Waiting {
        Waiting {
            holds_others: true,
            ..asks(rank, false)
        }
    }

    fn ranks(granted: Option<Vec<Waiting>>) -> Vec<u32> {
        granted
            .expect("it held the lock")
            .into_iter()
            .map(|one| one.rank)
            .collect()
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut queue = Queue::default();
        assert_eq!(queue.ask(asks(1, false)), Some(true));
        assert_eq!(queue.ask(asks(2, false)), Some(true));
        assert_eq!(queue.ask(asks(3, true)), Some(false));
        assert_eq!(ranks(queue.give_back(1)), []);
        assert_eq!(ranks(queue.give_back(2)), [3]);
        assert_eq!(queue.ask(asks(1, false)), Some(false));
        assert_eq!(ranks(queue.give_back(3)), [1]);
    }

    #[test]
    fn nobody_overtakes() {
        let mut queue = Queue::default();
        assert_eq!(queue.ask(asks(0, false)), Some(true));
        for (rank, exclusive) in [(1, true), (2, false), (3, false), (4, true), (5, false)] {
            assert_eq!(queue.ask(asks(rank, exclusive)), Some(false));
        }
        assert_eq!(ranks(queue.give_back(0)), [1]);
        assert_eq!(ranks(queue.give_back(1)), [2, 3]);
        assert_eq!(ranks(queue.give_back(3)), []);
        assert_eq!(ranks(queue.give_back(2)), [4]);
        assert_eq!(ranks(queue.give_back(4)), [5]);
        assert_eq!(ranks(queue.give_back(5)), []);
    }

    #[test]
    fn who_holds_others_waits_for_exclusive_holders_only() {
        let mut queue = Queue::default();
        assert_eq!(queue.ask(asks(0, false)), Some(true));
        assert_eq!(queue.ask(asks(1, true)), Some(false));
        assert_eq!(queue.ask(asks_again(2)), Some(true));
        assert_eq!(ranks(queue.give_back(0)), []);
        assert_eq!(ranks(queue.give_back(2)), [1]);
        for asks in [asks(3, false), asks(4, true), asks_again(5), asks(6, false)] {
            assert_eq!(queue.ask(asks), Some(false));
        }
        assert_eq!(ranks(queue.give_back(1)), [3, 5]);
        assert_eq!(ranks(queue.give_back(3)), []);
        assert_eq!(ranks(queue.give_back(5)), [4]);
        assert_eq!(queue.ask(asks_again(5)), Some(false));
        assert_eq!(ranks(queue.give_back(4)), [6, 5]);
    }

    #[test]
    fn lost_processes_are_passed_over() {
        let mut queue = Queue::default();
        assert_eq!(queue.ask(asks(0, true)), Some(true));
        for (rank, exclusive) in [(1, true), (2, false), (3, false)] {
            assert_eq!(queue.ask(asks(rank, exclusive)), Some(false));
        }
        assert_eq!(queue.forget(1), []);
        assert_eq!(ranks(Some(queue.forget(0))), [2, 3]);
        assert_eq!(queue.forget(7), []);
        assert_eq!(queue.ask(asks(4, true)), Some(false));
        assert_eq!(queue.forget(2), []);
        assert_eq!(ranks(Some(queue.forget(3))), [4]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut queue = Queue::default();
        assert_eq!(queue.give_back(0), None);
        assert_eq!(queue.ask(asks(0, true)), Some(true));
        assert_eq!(queue.ask(asks(0, false)), None);
        assert_eq!(queue.ask(asks(1, false)), Some(false));
        assert_eq!(queue.ask(asks(1, false)), None);
        assert_eq!(queue.give_back(1), None);
    }
}
