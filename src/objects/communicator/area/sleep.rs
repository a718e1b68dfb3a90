//! Waiting for words in an area, and waking those that do.

use std::future::poll_fn;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{Ordering, compiler_fence, fence};
use std::task::Poll;

use super::{AT_BELL, AT_INODE, AT_PID, AT_WHOM, Area};
use crate::base::error::Result;
use crate::engine::matching::Pattern;
use crate::engine::{Sleeper, WatchId, Watched};
use crate::instance::{Instance, Poller, poller};
use crate::lane::shm::BellPull;

impl Area {
    /// Wakes the processes that sleep and wait for this one.
    #[inline]
    pub(super) fn wake(&self) {
        match self.fences {
            true => fence(Ordering::SeqCst),
            false => compiler_fence(Ordering::SeqCst),
        }
        for at in (0..self.size as usize).step_by(64) {
            let sleeping = self.word(at / 8).load(Relaxed);
            if sleeping != 0 {
                self.ring(at / 8, sleeping);
            }
        }
    }

    #[cold]
    fn ring(&self, at: usize, mut sleeping: u64) {
        while sleeping != 0 {
            let bit = sleeping & sleeping.wrapping_neg();
            sleeping ^= bit;
            let member = at as u32 * 8 + bit.trailing_zeros();
            if member >= self.size || member == self.mine {
                continue;
            }
            let of = self.member(member);
            if self.half(of + AT_WHOM).load(Relaxed) != self.mine {
                continue;
            }
            if self.word(at).fetch_and(!bit, Relaxed) & bit == 0 {
                continue;
            }
            let mut bells = self.bells.lock();
            let bell = &mut bells[member as usize];
            if bell.is_none() {
                let pid = self.half(of + AT_PID).load(Relaxed);
                let descriptor = self.half(of + AT_BELL).load(Relaxed);
                *bell = BellPull::open(pid, descriptor, self.word(of + AT_INODE).load(Relaxed)).ok();
            }
            // Without one, it wakes after a time.
            if let Some(bell) = bell {
                bell.ring();
            }
        }
    }

    /// Waits until a word that a process raises has this value.
    #[inline(always)]
    pub(super) async fn wait(&self, member: u32, at: usize, least: u64) -> Result<()> {
        // Acquire: pairs with the release in `publish` and in `done_with`.
        if self.word(at).load(Acquire) >= least {
            return Ok(());
        }
        self.wait_on(member, at, least).await
    }

    async fn wait_on(&self, member: u32, at: usize, least: u64) -> Result<()> {
        let mut watch = Watching(None);
        poll_fn(|context| {
            if self.word(at).load(Acquire) >= least {
                return Poll::Ready(Ok(()));
            }
            let instance = &self.instance;
            if let Some((instance, id)) = watch.0 {
                let failure = instance.engine().failure_of(id);
                return match failure {
                    None => Poll::Pending,
                    // What a process publishes before it is lost counts.
                    Some(_) if self.word(at).load(Acquire) >= least => Poll::Ready(Ok(())),
                    Some(error) => Poll::Ready(Err(error)),
                };
            }
            let id = match poller(context) {
                Poller::Blocks => {
                    let is_reached = || self.word(at).load(Acquire) >= least;
                    let watched = || self.watched(member, at, least);
                    return Poll::Ready(instance.wait_for_word(is_reached, watched));
                }
                Poller::Looks => return Poll::Pending,
                Poller::Task(task) => {
                    let watched = self.watched(member, at, least);
                    instance.engine().watch_for(watched, task)
                }
                Poller::Other => instance.engine().watch(self.watched(member, at, least)),
            };
            watch.0 = Some((&**instance, id));
            Poll::Pending
        })
        .await
    }

    fn watched(&self, member: u32, at: usize, least: u64) -> Watched {
        Watched {
            map: self.map.clone(),
            at,
            least,
            sleeper: Sleeper {
                at: self.mine as usize / 64 * 8,
                bit: 1 << (self.mine % 64),
                whom_at: self.member(self.mine) + AT_WHOM,
                whom: member,
            },
            pattern: Pattern {
                context: self.context,
                source: Some(self.ranks[member as usize]),
                tag: Some(self.tag.load(Relaxed) as i32),
            },
            peer: self.peers[member as usize],
        }
    }
}

/// A word that the engine watches for an operation that is not a blocking one.
struct Watching<'a>(Option<(&'a Instance, WatchId)>);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if let Some((instance, id)) = self.0.take() {
            instance.engine().unwatch(id);
        }
    }
}
