//! A member of a window sends rubbish to it: its target writes nowhere but into the window, and windows of which the sender is no member
//! are not concerned.

use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use weft::engine::dispatch::Behind;
use weft::identity::{Context, PeerIndex};
use weft::objects::window::{Exposed, Part, Target, Users, Window};
use weft::sim::{Buffer, Rank, Simulation, check};

use super::options;

const VICTIM: u32 = 0;
const ATTACKER: u32 = 1;
const BYTES: usize = 600;

/// What the attacker knows.
#[derive(Clone, Default)]
struct Knowledge {
    /// Contexts of both windows.
    contexts: Arc<Mutex<Vec<Context>>>,
    /// Where the victim's memory begins.
    address: Arc<Mutex<u64>>,
}

/// Operations that are right, nearly so, or not at all.
fn forge(rng: &mut Rng, address: u64, most: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..rng.u32(..4) {
        operation(rng, address, &mut payload);
    }
    payload.truncate(most);
    match rng.u32(..20) {
        0 => payload.truncate(rng.usize(..=payload.len())),
        1 if !payload.is_empty() => {
            for _ in 0..rng.u32(1..5) {
                let at = rng.usize(..payload.len());
                payload[at] ^= 1 << rng.u32(..8);
            }
        }
        _ => {}
    }
    payload
}

fn operation(rng: &mut Rng, address: u64, into: &mut Vec<u8>) {
    let some = |rng: &mut Rng| match rng.u32(..6) {
        0 => rng.u64(..),
        1 => u64::MAX - rng.u64(..700),
        2 => address + rng.u64(..700),
        3 => 1 << rng.u32(..64),
        _ => rng.u64(..700),
    };
    let mut groups = Vec::new();
    let number = rng.u8(..4);
    for _ in 0..number {
        groups.extend(some(rng).to_le_bytes());
        let several = rng.bool();
        let len = if rng.u32(..3) == 0 {
            some(rng)
        } else {
            rng.u64(1..40)
        };
        groups.extend((len & !(1 << 63) | u64::from(several) << 63).to_le_bytes());
        if several {
            let count = if rng.u32(..3) == 0 {
                some(rng)
            } else {
                rng.u64(1..4)
            };
            groups.extend(count.to_le_bytes());
            groups.extend(some(rng).to_le_bytes());
        }
    }
    let data = if rng.u32(..3) == 0 {
        rng.u32(..200)
    } else {
        8 * rng.u32(..6)
    };
    let code = [rng.u8(..13), [1, 3, 4, 5, 6][rng.usize(..5)]][rng.usize(..2)];
    let op = [33, 60, 61, rng.u8(..)][rng.usize(..4)];
    let datatype: u16 = [601, 583, 592, rng.u16(..)][rng.usize(..4)];
    into.extend([code, rng.u8(..4), op, number]);
    into.extend(datatype.to_le_bytes());
    into.extend((groups.len() as u16).to_le_bytes());
    into.extend((rng.u32(..40) << rng.u32(..2)).to_le_bytes());
    into.extend(data.to_le_bytes());
    into.extend(groups);
    into.extend((0..data).map(|_| 0x99));
    into.resize(into.len().next_multiple_of(8), 0);
}

async fn window(
    rank: &Rank,
    parent: &Arc<weft::objects::communicator::Communicator>,
) -> (Arc<Window>, Buffer) {
    let memory = rank.buffer(&[0x11; BYTES]);
    let address = memory.memory().contiguous().expect("one run").address;
    let part = Part {
        // SAFETY: the memory is dropped after the window.
        exposed: Exposed::Users(unsafe { Users::new(address, BYTES) }),
        disp_unit: 1,
        asked: None,
    };
    (
        Window::create(parent.clone(), Ok(part)).await.expect("a window"),
        memory,
    )
}

#[test]
fn only_the_window_is_written() {
    check("only_the_window_is_written", 200, |seed| {
        let simulation = Simulation::new(seed, 3, options(seed));
        let known = Knowledge::default();
        simulation.run(|rank| {
            let known = known.clone();
            let mut rng = Rng::with_seed(seed ^ u64::from(rank.me().number() + 1) << 40);
            async move {
                let me = rank.me().number();
                let world = rank.world().clone();
                let honest = world
                    .clone()
                    .split((me == ATTACKER).into(), 0)
                    .await
                    .expect("all live");
                let honest = honest.expect("it has a color");
                let (attacked, memory) = window(&rank, &world).await;
                let (own, own_memory) = window(&rank, &honest).await;
                if me == VICTIM {
                    *known.address.lock() = memory.memory().contiguous().expect("one run").address as u64;
                    known
                        .contexts
                        .lock()
                        .extend([&attacked, &own].map(|window| window.communicator().context()));
                }
                if me == ATTACKER {
                    rank.until(|| known.contexts.lock().len() == 2).await;
                    let (victim, contexts) = (PeerIndex::new(VICTIM), known.contexts.lock().clone());
                    for _ in 0..100 {
                        let most = rank.instance().engine().post_max();
                        let mut payload = forge(&mut rng, *known.address.lock(), most);
                        let arg = match rng.u32(..30) {
                            0 => rng.u64(..),
                            1 => rng.u64(..4),
                            2 => u64::from(ATTACKER) | 1 << 32,
                            _ => ATTACKER.into(),
                        };
                        let context = contexts[usize::from(rng.u32(..40) == 0)];
                        // A valid one would only be a message that nobody receives.
                        let behind = (rng.u32(..40) == 0).then(|| Behind {
                            tag: -1,
                            collective: rng.bool(),
                        });
                        let posted =
                            rank.instance()
                                .engine()
                                .post(victim, context, arg, &mut payload, behind);
                        // The victim may have had enough.
                        if posted.is_err() {
                            break;
                        }
                        rank.pause(rng.u64(1..2000)).await;
                    }
                    rank.die().await
                }
                // The two honest ones go on by their own window.
                let other = if me == VICTIM { 1 } else { 0 };
                for round in 0..10u8 {
                    own.lock(true, other, false).await.expect("both live");
                    let data = rank.buffer(&[round; 100]);
                    let at = |disp| Target {
                        rank: other,
                        disp,
                        count: 100,
                        datatype: weft::data::datatype::Datatype::byte().clone(),
                    };
                    let result = rank.blank(100);
                    // SAFETY: the buffers are kept until the unlock.
                    unsafe {
                        own.put(data.memory(), &at(100)).expect("an epoch");
                        own.flush(Some(other)).await.expect("both live");
                        own.get(result.memory(), &at(100)).expect("an epoch");
                    }
                    own.unlock(other).await.expect("both live");
                    assert_eq!(result.bytes(), &[round; 100]);
                    rank.pause(rng.u64(1..4000)).await;
                }
                weft::objects::collective::barrier(&honest.collective())
                    .await
                    .expect("both live");
                assert!(own_memory.bytes()[..100].iter().all(|&byte| byte == 0x11));
                drop((attacked, own));
                drop((memory, own_memory));
            }
        });
    });
}
