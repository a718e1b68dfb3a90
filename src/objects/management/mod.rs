//! Communicator management (MPI 5.0, sections 7.4 and 7.6): what needs a collective operation to make or to end a
//! communicator.
//!
//! - `create`: making communicators from others
//! - `inter`: making intercommunicators, and merging them
//! - `split_type`: dividing communicators by where processes are
//! - `topology`: communicators with virtual topologies
//! - `dynamic`: intercommunicators with other jobs: spawn, accept, connect; `introduce`: how their processes become able to send to each other
//! - `farewell`: finalize waits for all connected jobs
//! - `ending`: disconnecting, and the barriers inside finalize
//!
//! What does not belong here: the algorithms that it uses (`collective`), and the messages themselves (`communicator`).

pub mod create;
pub mod dynamic;
mod ending;
mod farewell;
mod inter;
mod introduce;
pub mod split_type;
mod topology;

pub use inter::Bridge;
