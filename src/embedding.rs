//! Weft in a Rust program: what a program needs that has the library inside, without the C bindings. `examples/embedding.rs` is one.
//!
//! A [`Lifetime`] makes the process's [`Instance`] for its first user and keeps it for later ones. The [`WorldModel`] is such a user,
//! with a communicator of all processes; a [`Session`] is another. An operation that takes several messages is a future, which
//! [`Instance::block_on`] runs.

pub use crate::data::datatype::Datatype;
pub use crate::data::op::Op;
pub use crate::engine::request::Outcome;
pub use crate::instance::{Completion, Host, Instance, Lifetime, User};
pub use crate::objects::collective;
pub use crate::objects::communicator::{Collective, Communicator};
pub use crate::objects::group::Group;
pub use crate::objects::session::{ProcessSet, Session};
pub use crate::objects::world::{self, World, WorldModel};
