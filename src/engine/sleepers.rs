//! Threads of this process that sleep while others work: whatever another thread does may be what a sleeper waits for,
//! and the lanes wake a sleeper only for messages that no thread has taken yet.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// See the module. Protected by the engine's lock, as all of the engine is.
///
/// There are two descriptors, so that a thread that goes to sleep again is not woken by the same ring a second time,
/// while other threads that the ring was for have not run yet.
pub(super) struct Sleepers {
    groups: [Group; 2],
    /// A thread that goes to sleep now joins this group. The other one has been woken, or is empty.
    current: usize,
}

/// The threads that sleep on one descriptor.
struct Group {
    count: u32,
    /// The descriptor is readable: from the first ring until the last thread that slept then has woken.
    rung: bool,
    event: Option<File>,
}

/// Which group a thread sleeps in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bed(usize);

impl Group {
    fn new() -> Group {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Group {
            count: 0,
            rung: false,
            event: EventFd::from_flags(flags)
                .ok()
                .map(|event| File::from(std::os::fd::OwnedFd::from(event))),
        }
    }
}

impl Sleepers {
    /// No thread sleeps. The descriptors are made at the beginning, so that their number does not grow later.
    pub fn new() -> Sleepers {
        Sleepers {
            groups: [Group::new(), Group::new()],
            current: 0,
        }
    }

    /// One more thread is going to sleep on the descriptor and then calls [`Sleepers::leave`]. No descriptor: none could
    /// be made, and no other thread will wake it.
    pub fn enter(&mut self) -> (Bed, Option<RawFd>) {
        let other = 1 - self.current;
        if self.groups[self.current].rung && self.groups[other].count == 0 {
            self.current = other;
        }
        let group = &mut self.groups[self.current];
        group.count += 1;
        (
            Bed(self.current),
            group.event.as_ref().map(|event| event.as_raw_fd()),
        )
    }

    /// Whether a thread sleeps, or is about to.
    pub fn are_any(&self) -> bool {
        self.groups.iter().any(|group| group.count != 0)
    }

    /// The thread is awake.
    pub fn leave(&mut self, bed: Bed) {
        let group = &mut self.groups[bed.0];
        group.count -= 1;
        if group.count == 0 && std::mem::take(&mut group.rung) {
            // No other thread sleeps that might not have seen it yet. The read does not block, as the descriptor has been written to.
            let _ = group.event.as_ref().map(|mut event| event.read(&mut [0; 8]));
        }
    }

    /// Wakes the sleepers: something has happened.
    #[inline]
    pub fn wake(&mut self) {
        let group = &self.groups[self.current];
        if group.count != 0 && !group.rung {
            self.ring();
        }
    }

    #[cold]
    fn ring(&mut self) {
        let group = &mut self.groups[self.current];
        group.rung = true;
        // It is empty, so there is room.
        let _ = group
            .event
            .as_ref()
            .map(|mut event| event.write(&1u64.to_ne_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::memory::Memory;
    use crate::engine::matching::Envelope;
    use crate::engine::request::Outcome;
    use crate::engine::{Engine, Parts, Send};
    use crate::identity::{Context, JobId, PeerIndex, ProcessName};
    use crate::lane::loopback::Loopback;

    fn is_readable(descriptor: RawFd) -> bool {
        let mut polled = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        unsafe { libc::poll(&mut polled, 1, 0) == 1 }
    }

    #[test]
    fn all_who_sleep_are_woken_and_the_next_sleep_is_quiet() {
        let mut sleepers = Sleepers::new();
        sleepers.wake();
        assert!(!sleepers.are_any());
        let (bed, first) = sleepers.enter();
        assert!(sleepers.are_any());
        let first = first.expect("an eventfd can be had");
        assert_eq!(sleepers.enter(), (bed, Some(first)));
        assert!(!is_readable(first), "nothing has happened since");
        sleepers.wake();
        sleepers.wake();
        assert!(is_readable(first));
        sleepers.leave(bed);
        assert!(is_readable(first), "the other one may not have seen it yet");
        let (again, second) = sleepers.enter();
        let second = second.expect("an eventfd can be had");
        assert!(!is_readable(second), "it was woken for that already");
        sleepers.wake();
        assert!(is_readable(second));
        sleepers.leave(bed);
        assert!(!is_readable(first));
        assert!(sleepers.are_any());
        sleepers.leave(again);
        assert!(!sleepers.are_any());
        assert!(!is_readable(second));
        sleepers.wake();
        assert!(!is_readable(first) && !is_readable(second), "nobody sleeps");
        // One after the other, each while the one before has not left.
        let (mut bed, descriptor) = sleepers.enter();
        assert!(!is_readable(descriptor.expect("an eventfd can be had")));
        for _ in 0..5 {
            sleepers.wake();
            let (next, descriptor) = sleepers.enter();
            assert_ne!(next, bed);
            let descriptor = descriptor.expect("an eventfd can be had");
            assert!(!is_readable(descriptor));
            sleepers.leave(bed);
            sleepers.wake();
            assert!(is_readable(descriptor));
            bed = next;
        }
    }

    #[test]
    fn what_one_thread_does_wakes_the_others() {
        let mut engine = Engine::new(Parts {
            me: ProcessName {
                job: JobId(1),
                rank: 0,
            },
            size: 1,
            token: 1,
            agreed: 0,
            lanes: vec![Box::new(Loopback::default())],
            eager_max: None,
            rma: false,
            first_generation: 0,
            window: 2,
            unexpected_max: 1 << 20,
        });
        let request = engine.bare_request();
        let to_self = |engine: &mut Engine, sync| {
            let send = Send {
                peer: PeerIndex::new(0),
                envelope: Envelope {
                    context: Context::of_bits(2),
                    source: 0,
                    tag: 0,
                },
                memory: Memory::empty(),
                sync,
            };
            // SAFETY: it has no memory.
            unsafe { engine.send(&send, false) }.expect("it can always go");
        };
        let acts: [&dyn Fn(&mut Engine); 3] = [
            &|engine| engine.complete(request, Outcome::EMPTY),
            &|engine| to_self(engine, false),
            &|engine| to_self(engine, true),
        ];
        for act in acts {
            let mut descriptors = Vec::new();
            let armed = engine.arm(&mut descriptors).expect("nothing is to do");
            assert!(!armed.by_clock);
            let [descriptor] = descriptors[..] else {
                panic!("one descriptor, and not {descriptors:?}");
            };
            assert!(!is_readable(descriptor));
            act(&mut engine);
            assert!(is_readable(descriptor), "a thread may wait for that");
            engine.has_slept(armed);
            while engine.progress(false) {}
        }
    }
}
