//! Windows are made for all processes or for none, shared memory is shared, and all know what the others expose.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use weft::base::settings::Access;
use weft::data::datatype::Datatype;
use weft::err;
use weft::identity::Context;
use weft::objects::allocation::Allocation;
use weft::objects::collective;
use weft::objects::window::members::Member;
use weft::objects::window::{Attached, Exposed, Part, SharedPart, Target, Users, Way, Window};
use weft::sim::{Options, Simulation, check};
use weft::system::locality::Layout;
use weft::{Class, Result};

/// Somebody's arguments may be wrong; then that process says why, the others say where, and the next window is made.
#[test]
fn for_all_or_none() {
    check("for_all_or_none", 75, |seed| {
        let size = 1 + seed as u32 % 6;
        let wrong = (seed % 4 != 0).then_some(seed as u32 / 6 % size);
        let shared = seed / 36 % 2 == 0;
        let results = Simulation::new(seed, size, Options::random(seed)).run(|rank| async move {
            let me = rank.me().number();
            let create = |good: bool| {
                let world = rank.world().clone();
                let ready = match good {
                    true => Ok(()),
                    false => Err(err!(Size, "size is -1, but must not be negative")),
                };
                async move {
                    match shared {
                        true => Window::allocate_shared(world, ready.map(|()| shared_part(64))).await,
                        false => Window::create(world, ready.map(|()| dynamic_part())).await,
                    }
                }
            };
            let first = create(wrong != Some(me)).await;
            let second = create(true).await;
            (
                first.map(|window| window.communicator().context()),
                second.map(|window| window.communicator().context()),
            )
        });
        let mut contexts = Vec::new();
        for (rank, result) in results.into_iter().enumerate() {
            let (first, second): (Result<Context>, Result<Context>) = result.expect("it lived");
            match (first, wrong) {
                (Ok(context), None) => contexts.push(context),
                (Err(error), Some(wrong)) if wrong as usize == rank => {
                    assert_eq!(error.class, Class::Size, "{error}");
                }
                (Err(error), Some(wrong)) => {
                    assert_eq!(error.class, Class::Other);
                    assert!(error.message.contains(&format!("rank {wrong}")), "{error}");
                }
                (first, _) => panic!("rank {rank} of {size}, wrong {wrong:?}: {first:?}"),
            }
            contexts.push(second.expect("all are ready"));
        }
        contexts.sort_unstable();
        contexts.dedup();
        // The same for all processes, and another one for each window.
        assert_eq!(contexts.len(), if wrong.is_none() { 2 } else { 1 });
    });
}

fn dynamic_part() -> Part {
    Part {
        exposed: Exposed::Attached(Attached::default()),
        disp_unit: 1,
        asked: None,
    }
}

fn shared_part(size: usize) -> SharedPart {
    SharedPart {
        size,
        disp_unit: 1,
        asked: None,
    }
}

/// What a process writes is there for all others, and the segments lie one behind the other.
#[test]
fn shared_memory_is_shared() {
    check("shared_memory_is_shared", 40, |seed| {
        let size = 1 + seed as u32 % 6;
        let bytes = |rank: u32| (seed as u32 / 6 * 7 + rank * 5) % 40;
        let results = Simulation::new(seed, size, Options::random(seed)).run(|rank| async move {
            let me = rank.me().number();
            let part = Ok(shared_part(bytes(me) as usize));
            let window: Arc<Window> = Window::allocate_shared(rank.world().clone(), part)
                .await
                .expect("memory");
            let own = window.query(Some(me)).expect("its own");
            assert_eq!(own.address, window.exposed().base());
            // SAFETY: the window's memory, of which each process writes its own part.
            unsafe { own.address.write_bytes(me as u8 + 1, own.size) };
            collective::barrier(&rank.world().collective())
                .await
                .expect("all live");
            let mut end = window.query(Some(0)).expect("the first").address;
            for other in 0..size {
                let theirs = window.query(Some(other)).expect("a rank");
                assert_eq!((theirs.size, theirs.address), (bytes(other) as usize, end));
                for at in 0..theirs.size {
                    // SAFETY: within the window's memory, which nobody writes any more.
                    assert_eq!(unsafe { theirs.address.add(at).read() }, other as u8 + 1);
                }
                end = theirs.address.wrapping_add(theirs.size);
            }
            collective::barrier(&rank.world().collective())
                .await
                .expect("all live");
        });
        assert!(results.iter().all(Option::is_some));
    });
}

/// A part with memory of the user's, of another size and unit on each rank or on few, or of the window's own.
fn part_of(own: bool, memory: &mut [u8], disp_unit: i64) -> Part {
    let size = memory.len();
    Part {
        exposed: match own {
            true => Exposed::Own(Allocation::new(size, None).expect("memory"), size),
            // SAFETY: the caller keeps it as long as the window.
            false => Exposed::Users(unsafe { Users::new(memory.as_mut_ptr(), size) }),
        },
        disp_unit,
        asked: None,
    }
}

/// By messages alone, unless it is asked for more; a process sees its own memory.
#[test]
fn all_know_what_the_others_expose() {
    check("all_know_what_the_others_expose", 60, |seed| {
        let size = 1 + seed as u32 % 6;
        let (own, uniform) = (seed % 2 == 0, seed % 5 == 0);
        let about = |rank: u32| match uniform {
            true => (16, 8),
            false => (u64::from(rank % 4) * 24, i64::from(rank % 3) + 1),
        };
        let windows = match seed % 7 {
            0 => Access::Messages,
            _ => Access::Auto,
        };
        let options = Options {
            windows,
            ..Options::random(seed)
        };
        let results = Simulation::new(seed, size, options).run(|rank| async move {
            let me = rank.me().number();
            let (bytes, unit) = about(me);
            let mut memory = vec![0u8; bytes as usize];
            let part = part_of(own, &mut memory, unit);
            let window = Window::create(rank.world().clone(), Ok(part))
                .await
                .expect("all live");
            let members = window.members();
            assert_eq!((members.size(), members.mine()), (size, me));
            for other in 0..size {
                let Member { size, disp_unit, .. } = members.member(other);
                assert_eq!((size, disp_unit), about(other));
                if other != me || windows == Access::Messages {
                    assert_eq!(members.way(other), Way::Messages);
                } else {
                    assert_eq!(members.way(other), Way::Mapped(window.exposed().base()));
                }
                assert!(members.control(other).is_none());
            }
            assert_eq!(members.first(), (0..size).find(|&rank| about(rank).0 > 0));
            assert!(!members.all_here());
            collective::barrier(&rank.world().collective())
                .await
                .expect("all live");
            let base = window.exposed().base().addr() as u64;
            assert_eq!(members.member(me).base, base);
            base
        });
        assert!(results.iter().all(Option::is_some));
    });
}

/// By lanes, where these access memory: all that others expose, until the window is freed.
#[test]
fn lanes_access_what_is_exposed() {
    check("lanes_access_what_is_exposed", 60, |seed| {
        let size = 2 + seed as u32 % 5;
        let own = seed % 2 == 0;
        let mut options = Options {
            windows: Access::Rdma,
            rma: true,
            ..Options::random(seed)
        };
        options.conditions.failed_reads_permille = 0;
        let limits = &mut options.conditions.limits;
        (limits.rma, limits.write, limits.needs_target) = (true, true, seed % 3 == 0);
        let bytes = |rank: u32| rank as usize % 3 * 40;
        let results = Simulation::new(seed, size, options).run(|rank| async move {
            let me = rank.me().number();
            let barrier = || {
                let collective = rank.world().collective();
                async move { collective::barrier(&collective).await.expect("all live") }
            };
            let mut memory = vec![0u8; bytes(me)];
            let part = part_of(own, &mut memory, 1);
            let window = Window::create(rank.world().clone(), Ok(part))
                .await
                .expect("all live");
            for other in 0..size {
                let expected = match bytes(other) {
                    _ if other == me => Way::Mapped(window.exposed().base()),
                    0 => Way::Messages,
                    _ => Way::Remote,
                };
                assert_eq!(window.members().way(other), expected, "{other}");
            }
            // SAFETY: its own part, which nobody else uses before the barrier.
            unsafe { window.exposed().base().write_bytes(me as u8 + 1, bytes(me)) };
            barrier().await;
            window.lock_all(false).await.expect("no epoch");
            let room: Vec<_> = (0..size).map(|other| rank.blank(bytes(other))).collect();
            let get = |other: u32| {
                let target = Target {
                    rank: other,
                    disp: 0,
                    count: bytes(other) as u64,
                    datatype: Datatype::byte().clone(),
                };
                // SAFETY: the buffer lives until the operation is complete.
                unsafe { window.get(room[other as usize].memory(), &target) }
            };
            for other in 0..size {
                get(other).expect("an epoch");
            }
            window.flush(None).await.expect("all live");
            for other in 0..size {
                assert_eq!(room[other as usize].bytes(), vec![other as u8 + 1; bytes(other)]);
            }
            window.unlock_all().await.expect("an epoch");
            barrier().await;
            window.retire(true);
            barrier().await;
            window.lock_all(true).await.expect("no epoch");
            for other in (0..size).filter(|&other| other != me && bytes(other) > 0) {
                get(other).expect("an epoch");
                let flushed = window.flush(Some(other)).await;
                assert!(flushed.is_err(), "it is no longer exposed");
            }
            window.unlock_all().await.expect("an epoch");
            barrier().await;
        });
        assert!(results.iter().all(Option::is_some));
    });
}

/// As the processes of a machine do it: those of a host see each other's memory, or can read and write it.
#[test]
fn processes_of_a_host_share_memory() {
    check("processes_of_a_host_share_memory", 60, |seed| {
        let size = 2 + seed as u32 % 6;
        let own = seed % 2 == 0;
        let options = Options {
            windows: if seed % 3 == 2 {
                Access::Attach
            } else {
                Access::Direct
            },
            cma: seed % 5 != 4,
            ..Options::random(seed)
        };
        let (windows, cma) = (options.windows, options.cma);
        let bytes = |rank: u32| rank as usize % 3 * 5000;
        let results = Simulation::new(seed, size, options).run(|rank| async move {
            let me = rank.me().number();
            let world = rank.world();
            let mut memory = vec![0u8; bytes(me)];
            let part = part_of(own, &mut memory, 1);
            let window = Window::create(world.clone(), Ok(part)).await.expect("all live");
            let (members, base) = (window.members(), window.exposed().base());
            // SAFETY: its own part, which nobody else uses before the barrier.
            unsafe { base.write_bytes(me as u8 + 1, bytes(me)) };
            collective::barrier(&world.collective()).await.expect("all live");
            let instance = rank.instance();
            let node = |other: u32| instance.node_of(world.group().member(other));
            let here = (0..size).filter(|&other| node(other) == node(me)).count() as u32;
            let maps = own && windows == Access::Direct && here > 1;
            for other in 0..size {
                let is_here = node(other) == node(me) && here > 1;
                // Where there is no second level, it is known only that all are on one host.
                let is_here = is_here && (here == size || world_has_hosts(instance, size));
                assert_eq!(members.control(other).is_some(), is_here, "{other}");
                let reach = window.query(Some(other)).expect("a rank");
                match members.way(other) {
                    Way::Mapped(address) => {
                        assert!(other == me || maps && is_here);
                        assert_eq!((reach.address, reach.size), (address, bytes(other)));
                        for at in 0..bytes(other) {
                            // SAFETY: within the window's memory, which nobody writes any more.
                            assert_eq!(unsafe { address.add(at).read() }, other as u8 + 1);
                        }
                    }
                    Way::Attach { pid, address } => {
                        assert!(is_here && !maps && cma && other != me);
                        assert_eq!((pid, address), (std::process::id(), members.member(other).base));
                        assert!(reach.address.is_null());
                    }
                    Way::Messages => assert!(other != me && (!is_here || !maps && !cma), "{other}"),
                    Way::Remote => {
                        panic!("lanes of a simulation don't access memory unless they are asked to")
                    }
                }
            }
            collective::barrier(&world.collective()).await.expect("all live");
            (members.all_here(), here)
        });
        for result in results {
            let (all_here, here) = result.expect("it lived");
            assert_eq!(all_here, here == size);
        }
    });
}

/// Whether the processes of the world distinguish hosts.
fn world_has_hosts(instance: &weft::instance::Instance, size: u32) -> bool {
    let distinguished = weft::instance::hosts::distinguished(instance.job(), instance.settings());
    distinguished && instance.job().size == size
}

/// Each lock has one holder, or several that share it, and all get their turn.
#[test]
fn locks_in_shared_memory_exclude() {
    check("locks_in_shared_memory_exclude", 60, |seed| {
        let size = 2 + seed as u32 % 5;
        let options = Options {
            windows: Access::Direct,
            layout: Layout::parse(&format!("(vector,(0,1,{size}))")).expect("a layout"),
            ..Options::random(seed)
        };
        // Of each lock: how many share it; −1: one has it alone.
        let users: Vec<AtomicI64> = (0..size).map(|_| AtomicI64::new(0)).collect();
        let users = &users;
        let results = Simulation::new(seed, size, options).run(|rank| async move {
            let me = rank.me().number();
            let mut rng = fastrand::Rng::with_seed(seed << 8 | u64::from(me));
            let part = Ok(shared_part(8));
            let window = Window::allocate_shared(rank.world().clone(), part)
                .await
                .expect("memory");
            let members = window.members();
            assert!(members.all_here());
            for _ in 0..8 {
                let (whose, exclusive) = (rng.u32(..size), rng.bool());
                members.lock(whose, exclusive, 0).await.expect("all live");
                let count = &users[whose as usize];
                let before = count.load(Ordering::Relaxed);
                assert!(before == 0 || before > 0 && !exclusive, "{before} are inside");
                count.fetch_add(if exclusive { -1 } else { 1 }, Ordering::Relaxed);
                for _ in 0..rng.u32(..4) {
                    rank.turn().await;
                }
                count.fetch_sub(if exclusive { -1 } else { 1 }, Ordering::Relaxed);
                members.unlock(whose, exclusive);
            }
            collective::barrier(&rank.world().collective())
                .await
                .expect("all live");
        });
        assert!(results.iter().all(Option::is_some));
        assert!(users.iter().all(|users| users.load(Ordering::Relaxed) == 0));
    });
}

/// Who waits for a lock learns that the process that has it is lost.
#[test]
fn a_lost_holder_ends_the_wait() {
    check("a_lost_holder_ends_the_wait", 40, |seed| {
        let options = Options {
            windows: Access::Direct,
            layout: Layout::parse("(vector,(0,1,3))").expect("a layout"),
            ..Options::random(seed)
        };
        let (ready, held) = (&AtomicI64::new(0), &AtomicI64::new(0));
        let (exclusive, whose) = (seed % 2 == 0, 1 + seed as u32 / 2 % 2);
        let results = Simulation::new(seed, 3, options).run(|rank| async move {
            let part = Ok(shared_part(8));
            let window = Window::allocate_shared(rank.world().clone(), part)
                .await
                .expect("memory");
            if rank.me().number() == 0 {
                rank.until(|| ready.load(Ordering::Relaxed) == 2).await;
                window.members().lock(whose, true, 0).await.expect("it is free");
                held.store(1, Ordering::Relaxed);
                rank.pause(skew(seed)).await;
                rank.die().await;
            }
            ready.fetch_add(1, Ordering::Relaxed);
            rank.until(|| held.load(Ordering::Relaxed) != 0).await;
            window.members().lock(whose, exclusive, 0).await
        });
        for (rank, result) in results.into_iter().enumerate() {
            assert_eq!(result.is_some(), rank != 0);
            assert!(result.is_none_or(|locked| locked.is_err()));
        }
    });
}

/// A time in virtual nanoseconds.
fn skew(seed: u64) -> u64 {
    1 + seed * 7919 % 100_000
}
