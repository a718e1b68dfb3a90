//! Windows are made for all processes or for none, and shared memory is shared.

use std::sync::Arc;

use weft::err;
use weft::identity::Context;
use weft::objects::collective;
use weft::objects::window::{Attached, Exposed, Part, SharedPart, Window};
use weft::sim::{Options, Simulation, check};
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
