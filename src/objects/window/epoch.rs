//! Which epochs of a window are open at this process (MPI 5.0 section 12.5), and which calls they allow.
//!
//! A process has at most one access epoch, of one kind, and at most one exposure epoch by `MPI_Win_post` beside it. What a fence
//! opens is both, but only if operations follow: so after a fence without operations any other epoch may begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::base::error::Result;
use crate::err;

/// A lock that this process holds, or has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Whether nobody else may hold one at the same target.
    pub exclusive: bool,
    /// The user says that no other lock conflicts with it, so none is taken (`MPI_MODE_NOCHECK`).
    pub unchecked: bool,
}

/// The access epoch of a process. No list is in it, so that it costs nothing to replace.
#[derive(Clone, Copy, Default, Debug)]
enum Access {
    #[default]
    None,
    /// By fences.
    Fence {
        /// Operations were started in it.
        used: bool,
    },
    /// To the ranks of a group (`MPI_Win_start`): [`Epochs::group`].
    Start,
    /// To one rank, which is locked.
    Lock(u32, Lock),
    /// To several, which are locked: [`Epochs::locks`].
    Locks,
    /// To all ranks, by shared locks (`MPI_Win_lock_all`).
    LockAll {
        /// See [`Lock::unchecked`].
        unchecked: bool,
    },
}

/// The ranks of a group, in ascending order.
pub type Ranks = SmallVec<[u32; 8]>;

/// What the most common epochs allow, in one word: so an operation finds that out without the lock under which epochs are opened and ended.
/// A program orders these calls, if it makes them in several threads.
#[derive(Default, Debug)]
pub struct Open(AtomicU64);

/// By fences, and operations have been started.
const FENCED: u64 = 1;
/// `MPI_Win_lock_all`.
const LOCKED_ALL: u64 = 2;

/// One rank is locked, alone or not.
const fn locked_one(rank: u32, alone: bool) -> u64 {
    (rank as u64 + 2) << 1 | alone as u64
}

impl Open {
    /// Whether operations at a rank of the window are certainly allowed; [`Epochs::access`] knows all cases.
    #[inline(always)]
    pub fn allows(&self, rank: u32) -> bool {
        let open = self.0.load(Ordering::Relaxed);
        open == LOCKED_ALL || open == FENCED || open | 1 == locked_one(rank, true)
    }

    /// The same, and this process has not locked the rank for itself alone.
    #[inline(always)]
    pub fn shares(&self, rank: u32) -> bool {
        let open = self.0.load(Ordering::Relaxed);
        open == LOCKED_ALL || open == FENCED || open == locked_one(rank, false)
    }

    /// Whether a rank of the window, or any, is certainly locked; [`Epochs::passive`] knows all cases.
    #[inline(always)]
    pub fn is_locked(&self, rank: Option<u32>) -> bool {
        let open = self.0.load(Ordering::Relaxed);
        open == LOCKED_ALL
            || match rank {
                Some(rank) => open | 1 == locked_one(rank, true),
                None => open > LOCKED_ALL,
            }
    }
}

/// See the module.
#[derive(Default, Debug)]
pub struct Epochs {
    access: Access,
    /// Says what `access` allows.
    open: Arc<Open>,
    /// The ranks of `MPI_Win_start`, in ascending order.
    group: Ranks,
    /// Those that are locked, if they are several.
    locks: FxHashMap<u32, Lock>,
    /// Whether there is an exposure epoch of `MPI_Win_post`.
    exposed: bool,
}

impl Access {
    /// In words, for errors.
    fn describe(&self) -> &'static str {
        match self {
            Access::None => "no access epoch is open",
            Access::Fence { .. } => {
                "operations have followed the latest fence, which opened an epoch that only another fence ends"
            }
            Access::Start => "an access epoch of MPI_Win_start is open",
            Access::Lock(..) | Access::Locks => "locks of MPI_Win_lock are held",
            Access::LockAll { .. } => "the locks of MPI_Win_lock_all are held",
        }
    }

    /// Whether another kind of epoch may begin.
    fn is_idle(&self) -> bool {
        matches!(self, Access::None | Access::Fence { used: false })
    }
}

impl Access {
    /// See [`Open`]; 0: none of these.
    fn open(&self) -> u64 {
        match self {
            Access::Fence { used: true } => FENCED,
            Access::Lock(rank, lock) => locked_one(*rank, lock.exclusive),
            Access::LockAll { .. } => LOCKED_ALL,
            Access::None | Access::Fence { used: false } | Access::Start | Access::Locks => 0,
        }
    }
}

impl Epochs {
    /// What they allow, for those who don't lock them.
    pub fn open(&self) -> Arc<Open> {
        self.open.clone()
    }

    #[inline]
    fn set(&mut self, access: Access) {
        self.open.0.store(access.open(), Ordering::Relaxed);
        self.access = access;
    }

    /// An operation is started at a target.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: no epoch allows it.
    #[inline]
    pub fn access(&mut self, rank: u32) -> Result<()> {
        match self.access {
            Access::LockAll { .. } => Ok(()),
            Access::Lock(locked, _) if locked == rank => Ok(()),
            Access::Locks if self.locks.contains_key(&rank) => Ok(()),
            Access::Fence { used: true } => Ok(()),
            Access::Fence { used: false } => {
                self.set(Access::Fence { used: true });
                Ok(())
            }
            Access::Start if self.group.binary_search(&rank).is_ok() => Ok(()),
            _ => Err(self.no_access(rank)),
        }
    }

    #[cold]
    fn no_access(&self, rank: u32) -> crate::Error {
        match &self.access {
            Access::Start => err!(RmaSync, "rank {rank} is not in the group of MPI_Win_start"),
            Access::Lock(..) | Access::Locks => {
                err!(RmaSync, "rank {rank} is not locked; other ranks are")
            }
            _ => err!(
                RmaSync,
                "no access epoch is open: MPI_Win_fence, MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all has to come before the operation"
            ),
        }
    }

    /// Whether the target has to call MPI for the epoch to end: what operations there need of it costs nothing then.
    #[inline]
    pub fn is_active(&self) -> bool {
        matches!(self.access, Access::Fence { .. } | Access::Start)
    }

    /// An operation with a request is started: these belong to passive target communication (section 12.3.5).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: no lock is held there.
    pub fn access_with_request(&mut self, rank: u32) -> Result<()> {
        self.passive(Some(rank), "an operation with a request")
    }

    /// A call is made that only passive target communication has: for one rank, or for all.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: no lock is held there.
    pub fn passive(&self, rank: Option<u32>, call: &str) -> Result<()> {
        match (&self.access, rank) {
            (Access::LockAll { .. }, _) | (Access::Lock(..) | Access::Locks, None) => Ok(()),
            (Access::Lock(locked, _), Some(rank)) if *locked == rank => Ok(()),
            (Access::Locks, Some(rank)) if self.locks.contains_key(&rank) => Ok(()),
            (access, Some(rank)) => Err(err!(
                RmaSync,
                "{call} needs a lock of rank {rank}, by MPI_Win_lock or MPI_Win_lock_all, but {}",
                match access {
                    Access::Lock(..) | Access::Locks => "only others are locked",
                    other => other.describe(),
                }
            )),
            (access, None) => Err(err!(
                RmaSync,
                "{call} needs locks, by MPI_Win_lock or MPI_Win_lock_all, but {}",
                access.describe()
            )),
        }
    }

    /// A fence is called. `succeeds`: an epoch may follow it.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: an epoch is open that a fence does not end.
    pub fn may_fence(&self) -> Result<()> {
        if self.exposed {
            return Err(err!(
                RmaSync,
                "an exposure epoch of MPI_Win_post is open, which MPI_Win_wait or MPI_Win_test has to end before a fence"
            ));
        }
        match &self.access {
            Access::None | Access::Fence { .. } => Ok(()),
            other => Err(err!(RmaSync, "a fence can't be called now: {}", other.describe())),
        }
    }

    /// The fence has ended.
    pub fn fenced(&mut self, succeeds: bool) {
        self.set(match succeeds {
            true => Access::Fence { used: false },
            false => Access::None,
        });
    }

    /// An access epoch to these ranks begins.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: another one is open.
    pub fn start(&mut self, ranks: impl Iterator<Item = u32>) -> Result<()> {
        self.check_idle("MPI_Win_start")?;
        self.group = ranks.collect();
        self.group.sort_unstable();
        self.set(Access::Start);
        Ok(())
    }

    /// It ends; returns its ranks, in ascending order.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: there is none.
    pub fn complete(&mut self) -> Result<Ranks> {
        match self.access {
            Access::Start => {
                self.set(Access::None);
                Ok(std::mem::take(&mut self.group))
            }
            _ => Err(err!(
                RmaSync,
                "no access epoch of MPI_Win_start is open that MPI_Win_complete could end"
            )),
        }
    }

    /// An exposure epoch begins.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: one is open.
    pub fn post(&mut self) -> Result<()> {
        if self.exposed {
            return Err(err!(
                RmaSync,
                "an exposure epoch of MPI_Win_post is open already: MPI_Win_wait or MPI_Win_test has to end it first"
            ));
        }
        if matches!(self.access, Access::Fence { used: true }) {
            return Err(err!(
                RmaSync,
                "MPI_Win_post can't be called now: {}",
                self.access.describe()
            ));
        }
        self.exposed = true;
        Ok(())
    }

    /// Whether it is open.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: it is not.
    pub fn may_wait(&self, call: &str) -> Result<()> {
        match self.exposed {
            true => Ok(()),
            false => Err(err!(
                RmaSync,
                "no exposure epoch of MPI_Win_post is open that {call} could end"
            )),
        }
    }

    /// It has ended.
    pub fn waited(&mut self) {
        self.exposed = false;
    }

    /// Whether no access epoch is open, so that any may begin.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.access.is_idle()
    }

    /// [`Epochs::lock`], where that is so.
    #[inline]
    pub fn lock_first(&mut self, rank: u32, exclusive: bool) {
        debug_assert!(self.is_idle());
        let lock = Lock {
            exclusive,
            unchecked: false,
        };
        self.set(Access::Lock(rank, lock));
    }

    /// [`Epochs::lock_all`], likewise.
    #[inline]
    pub fn lock_all_first(&mut self) {
        debug_assert!(self.is_idle());
        self.set(Access::LockAll { unchecked: false });
    }

    /// Whether a rank is the only one that is locked, with a lock that was taken; and if so, whether it is exclusive.
    #[inline]
    pub fn only_lock(&self, rank: u32) -> Option<bool> {
        match &self.access {
            Access::Lock(locked, lock) if *locked == rank && !lock.unchecked => Some(lock.exclusive),
            _ => None,
        }
    }

    /// Whether all ranks are locked, with locks that were taken.
    #[inline]
    pub fn has_locked_all(&self) -> bool {
        matches!(self.access, Access::LockAll { unchecked: false })
    }

    /// Ends the access epoch.
    #[inline]
    pub fn end_access(&mut self) {
        self.set(Access::None);
    }

    /// Whether [`Epochs::lock`] would succeed for a rank.
    #[inline]
    pub fn may_lock(&self, rank: u32) -> bool {
        match &self.access {
            Access::Lock(locked, _) => *locked != rank,
            Access::Locks => !self.locks.contains_key(&rank),
            others => others.is_idle(),
        }
    }

    /// A rank is locked.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: it is already, or another kind of access epoch is open.
    pub fn lock(&mut self, rank: u32, lock: Lock) -> Result<()> {
        if self.lock_of(rank).is_some() {
            return Err(err!(
                RmaSync,
                "this process has locked rank {rank} of the window already, and has to unlock it first"
            ));
        }
        match self.access {
            Access::Locks => drop(self.locks.insert(rank, lock)),
            Access::Lock(first, held) => {
                self.locks.extend([(first, held), (rank, lock)]);
                self.set(Access::Locks);
            }
            _ => {
                self.check_idle("MPI_Win_lock")?;
                self.set(Access::Lock(rank, lock));
            }
        }
        Ok(())
    }

    /// The lock of a rank.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: this process has none by `MPI_Win_lock`.
    #[inline]
    pub fn locked(&self, rank: u32) -> Result<Lock> {
        self.lock_of(rank).ok_or_else(|| {
            err!(
                RmaSync,
                "this process has not locked rank {rank} of the window by MPI_Win_lock, so it can't unlock it"
            )
        })
    }

    /// The same, if this process has one.
    #[inline]
    pub fn lock_of(&self, rank: u32) -> Option<Lock> {
        match &self.access {
            Access::Lock(locked, lock) if *locked == rank => Some(*lock),
            Access::Locks => self.locks.get(&rank).copied(),
            _ => None,
        }
    }

    /// Whether operations to a rank have to wait until its lock is granted.
    pub fn needs_lock(&self, rank: u32) -> bool {
        match &self.access {
            Access::LockAll { unchecked } => !unchecked,
            Access::Lock(locked, lock) => *locked == rank && !lock.unchecked,
            Access::Locks => self.locks.get(&rank).is_some_and(|lock| !lock.unchecked),
            Access::None | Access::Fence { .. } | Access::Start => false,
        }
    }

    /// A rank is unlocked, which was locked.
    pub fn unlock(&mut self, rank: u32) {
        match self.access {
            Access::Lock(locked, _) if locked == rank => self.set(Access::None),
            Access::Locks => {
                self.locks.remove(&rank);
                if self.locks.is_empty() {
                    self.set(Access::None);
                }
            }
            _ => {}
        }
    }

    /// All ranks are locked.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: an access epoch is open.
    pub fn lock_all(&mut self, unchecked: bool) -> Result<()> {
        self.check_idle("MPI_Win_lock_all")?;
        self.set(Access::LockAll { unchecked });
        Ok(())
    }

    /// Whether all ranks are locked, and if so whether without locks being taken.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: they are not.
    pub fn locked_all(&self) -> Result<bool> {
        match self.access {
            Access::LockAll { unchecked } => Ok(unchecked),
            _ => Err(err!(
                RmaSync,
                "this process has not called MPI_Win_lock_all for the window, so it can't call MPI_Win_unlock_all"
            )),
        }
    }

    /// All ranks are unlocked, which were locked.
    pub fn unlock_all(&mut self) {
        self.end_access();
    }

    /// The window may be freed.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: an epoch is open that a call has to end.
    pub fn may_free(&self) -> Result<()> {
        if self.exposed {
            return Err(err!(
                RmaSync,
                "an exposure epoch of MPI_Win_post is open, which MPI_Win_wait or MPI_Win_test has to end before the window is freed"
            ));
        }
        match &self.access {
            Access::None | Access::Fence { .. } => Ok(()),
            other => Err(err!(
                RmaSync,
                "the window can't be freed now: {}",
                other.describe()
            )),
        }
    }

    fn check_idle(&self, call: &str) -> Result<()> {
        match self.access.is_idle() {
            true => Ok(()),
            false => Err(err!(
                RmaSync,
                "{call} can't be called now: {}",
                self.access.describe()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    const LOCK: Lock = Lock {
        exclusive: true,
        unchecked: false,
    };

    fn is_refused<T: std::fmt::Debug>(result: Result<T>) {
        assert_eq!(result.expect_err("refused").class, Class::RmaSync);
    }

    #[test]
    fn without_an_epoch_nothing_is_allowed() {
        let mut epochs = Epochs::default();
        is_refused(epochs.access(0));
        is_refused(epochs.access_with_request(0));
        is_refused(epochs.passive(None, "a flush"));
        is_refused(epochs.complete());
        is_refused(epochs.may_wait("MPI_Win_wait"));
        is_refused(epochs.locked(0));
        is_refused(epochs.locked_all());
        assert!(epochs.may_free().is_ok());
    }

    #[test]
    fn a_fence_opens_an_epoch_only_if_operations_follow() {
        let mut epochs = Epochs::default();
        epochs.may_fence().unwrap();
        epochs.fenced(true);
        epochs.lock(1, LOCK).unwrap();
        is_refused(epochs.may_fence());
        epochs.unlock(1);
        is_refused(epochs.access(1));
        epochs.fenced(true);
        epochs.access(1).unwrap();
        is_refused(epochs.lock(1, LOCK));
        is_refused(epochs.lock_all(false));
        is_refused(epochs.start([1].into_iter()));
        is_refused(epochs.post());
        is_refused(epochs.access_with_request(1));
        epochs.may_fence().unwrap();
        epochs.fenced(false);
        is_refused(epochs.access(1));
    }

    #[test]
    fn a_group_limits_access() {
        let mut epochs = Epochs::default();
        epochs.start([2, 1].into_iter()).unwrap();
        epochs.access(1).unwrap();
        is_refused(epochs.access(0));
        is_refused(epochs.lock(0, LOCK));
        is_refused(epochs.start([3].into_iter()));
        is_refused(epochs.may_fence());
        is_refused(epochs.may_free());
        assert_eq!(epochs.complete().unwrap()[..], [1, 2]);
        is_refused(epochs.complete());
    }

    #[test]
    fn one_word_says_what_the_common_epochs_allow() {
        let mut epochs = Epochs::default();
        let open = epochs.open();
        let allowed = |ranks: [u32; 2]| ranks.map(|rank| open.allows(rank));
        let locked = |ranks: [u32; 2]| ranks.map(|rank| open.is_locked(Some(rank)));
        assert!(allowed([0, 1]) == [false; 2] && !open.is_locked(None));
        epochs.fenced(true);
        assert_eq!(allowed([0, 1]), [false; 2], "whoever uses it has to say so first");
        epochs.access(0).unwrap();
        assert!(allowed([0, 1]) == [true; 2] && locked([0, 1]) == [false; 2] && !open.is_locked(None));
        epochs.fenced(false);
        assert_eq!(allowed([0, 1]), [false; 2]);
        epochs.lock(1, LOCK).unwrap();
        assert!(allowed([0, 1]) == [false, true] && locked([0, 1]) == [false, true] && open.is_locked(None));
        epochs.lock(0, LOCK).unwrap();
        epochs.unlock(1);
        assert_eq!(allowed([0, 1]), [false; 2], "there may be several");
        epochs.unlock(0);
        epochs.lock_all(false).unwrap();
        assert!(allowed([0, 1]) == [true; 2] && locked([0, 1]) == [true; 2]);
        epochs.unlock_all();
        epochs.start([1].into_iter()).unwrap();
        assert_eq!(allowed([0, 1]), [false; 2]);
        epochs.complete().unwrap();
        assert!(allowed([0, 1]) == [false; 2] && !open.is_locked(None));
    }

    #[test]
    fn exposure_and_access_go_together() {
        let mut epochs = Epochs::default();
        epochs.post().unwrap();
        epochs.start([0].into_iter()).unwrap();
        is_refused(epochs.post());
        is_refused(epochs.may_fence());
        epochs.complete().unwrap();
        is_refused(epochs.may_free());
        epochs.may_wait("MPI_Win_wait").unwrap();
        epochs.waited();
        epochs.may_free().unwrap();
    }

    #[test]
    fn locks_are_counted_by_rank() {
        let mut epochs = Epochs::default();
        epochs.lock(1, LOCK).unwrap();
        epochs.lock(2, LOCK).unwrap();
        is_refused(epochs.lock(2, LOCK));
        is_refused(epochs.access(0));
        epochs.access_with_request(2).unwrap();
        epochs.passive(Some(1), "a flush").unwrap();
        is_refused(epochs.passive(Some(0), "a flush"));
        epochs.unlock(1);
        is_refused(epochs.access(1));
        is_refused(epochs.lock_all(false));
        is_refused(epochs.locked_all());
        epochs.unlock(2);
        epochs.lock_all(true).unwrap();
        assert!(epochs.locked_all().unwrap());
        is_refused(epochs.locked(1));
        is_refused(epochs.lock(1, LOCK));
        epochs.access(7).unwrap();
        epochs.unlock_all();
        is_refused(epochs.access(7));
    }
}
