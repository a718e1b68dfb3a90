//! Communicator management (MPI 5.0, sections 7.4 and 7.6): what needs a collective operation to make or to end a
//! communicator.
//!
//! - `create`: making communicators from others
//! - `inter`: making intercommunicators, and merging them
//! - `split_type`: dividing communicators by where processes are
//! - `topology`: communicators with virtual topologies
//! - `dynamic`: intercommunicators with other jobs: spawn, accept, connect; `introduce`: how their processes become able to send to each other
//! - `links`: jobs that meet through a third one get a socket to each other
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
mod links;
pub mod split_type;
mod topology;

pub use inter::Bridge;

use crate::base::error::Result;
use crate::objects::communicator::Collective;

/// Exchanges bytes of any number with another rank of an operation.
async fn exchange_texts(operation: &Collective, with: u32, mine: Vec<u8>) -> Result<Vec<u8>> {
    let len = (mine.len() as u64).to_le_bytes().to_vec();
    let len = operation.exchange_bytes(with, len, with, 8).await?;
    let len = u64::from_le_bytes(*len.first_chunk().expect("8 bytes"));
    operation.exchange_bytes(with, mine, with, len as usize).await
}
