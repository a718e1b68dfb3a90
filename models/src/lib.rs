//! The parts of Weft whose atomics are written by hand, under loom, which tries every order in which accesses can take effect.
//!
//! The code itself is Weft's own, by its path: it takes its memory as a parameter, so that a model can bring loom's. In a crate of
//! its own it is compiled in seconds, without all that the library depends on. `ci/soak.d/loom` runs the models:
//! `RUSTFLAGS="--cfg loom" cargo test --package weft-models`. Without `--cfg loom` there is nothing in here.
#![cfg(all(test, loom))]

/// What the modules below take from the library.
mod lane {
    pub const HEADER_BYTES: usize = 40;
}

#[path = "../../src/base/bytes.rs"]
#[allow(dead_code, reason = "the library uses more of it")]
mod bytes;
mod base {
    pub(crate) use super::bytes;
}

#[path = "../../src/lane/shm/flag.rs"]
mod flag;
#[path = "../../src/lane/shm/ring.rs"]
#[allow(dead_code, reason = "the lane uses more of it")]
mod ring;

#[path = "../../src/lane/shm/stores.rs"]
#[allow(dead_code, reason = "no payload of a model is long")]
mod stores;

#[path = "../../src/system/lock/terms.rs"]
mod terms;

#[path = "../../src/system/rcu/protocol.rs"]
mod protocol;

#[path = "../../src/objects/window/ticket.rs"]
#[allow(dead_code, reason = "the library also looks at it")]
mod tickets;

#[path = "../../src/objects/window/holder.rs"]
#[allow(dead_code, reason = "the library also looks at it")]
mod holder;
#[path = "../../src/objects/window/updates.rs"]
#[allow(dead_code, reason = "the library has more words")]
mod updates_of_elements;

mod lock;
mod rcu;
mod shm;
mod ticket;
mod updates;
