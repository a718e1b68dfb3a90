//! What the operating system, libfabric and the launcher offer, wrapped so that it can be used safely. Nothing here knows
//! about messages.
//!
//! - [`fabric`] wraps libfabric
//! - [`bootstrap`]: the launcher: who belongs to the job
//! - [`locality`]: where processes are, and what hardware there is
//! - [`lock`]: locks that cost nothing while one thread uses them; [`rcu`]: objects that threads read without a lock;
//!   [`membarrier`] is what both are built on
//! - [`shared_memory`]: memory files that several processes map
//! - [`process`]: whether another process of the machine has ended
//! - [`port`]: where processes of other jobs find this one
//! - [`output`]: makes sure that what the program has printed arrives
//!
//! What does not belong here: datatypes and the user's memory (`data`), what a lane makes of libfabric (`lane::ofi`), the launcher itself
//! (`bin/mpiexec`), and declarations of C libraries (`sys/`).

pub mod bootstrap;
pub mod fabric;
pub mod locality;
pub mod lock;
pub mod membarrier;
pub mod output;
pub mod port;
pub mod process;
pub mod rcu;
pub mod shared_memory;
