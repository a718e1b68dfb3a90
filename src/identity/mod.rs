//! Who is who: names of processes and of communication contexts. All layers use it; it uses none of them, and contains all that
//! there is to know of the bits of such names.
//!
//! - [`ProcessName`]: a process, by its job and its rank there: the same for everybody
//! - [`PeerIndex`]: a process as this one counts those that it knows of: local, and what lanes and groups use
//! - [`Directory`]: from one to the other; it grows as other jobs become known
//! - [`fnv`]: the hash of such names
//! - [`Context`]: to which communicator a message belongs, and for what purpose
//!
//! What does not belong here: how a process is reached (`engine::business_card`, `lane`), on which machine it is (`system::locality`), and
//! ranks in groups (`objects::group`).

mod context;
mod directory;
mod hash;
mod process;

pub use context::{Context, Contexts};
pub use directory::Directory;
pub use hash::fnv;
pub use process::{JobId, PeerIndex, ProcessName};
