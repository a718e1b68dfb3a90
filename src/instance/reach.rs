//! By which lanes processes of several jobs reach each other. A job on one machine opens no libfabric, and a process without others no lane
//! at all: what a communicator with another job needs is opened when it is made.

use crate::base::error::Result;
use crate::err;

use super::Instance;

/// Where a process is and which lanes it wants, for processes of other jobs to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whereabouts {}

/// The kinds of lanes that processes have to have open to reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needed {
    /// Shared memory.
    pub shm: bool,
    /// libfabric.
    pub ofi: bool,
}

impl Whereabouts {
    /// Bytes of one in messages.
    pub const BYTES: usize = 32;

    /// The bytes for a message.
    pub fn encode(&self) -> [u8; Whereabouts::BYTES] {
        [0; Whereabouts::BYTES]
    }

    /// Reads them; `None`: they are not valid.
    pub fn decode(bytes: &[u8; Whereabouts::BYTES]) -> Option<Whereabouts> {
        let _ = bytes;
        None
    }
}

impl Needed {
    /// What all of these need so that each reaches each other.
    ///
    /// # Errors
    /// Two of them have no way in common: the settings differ.
    pub fn by(all: &[Whereabouts]) -> Result<Needed> {
        let _ = all;
        Err(err!(UnsupportedOperation, "not built yet"))
    }
}

impl Instance {
    /// Where this process is.
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts {}
    }

    /// Opens the lanes that are needed and not open yet. The card of this process has their addresses from then on.
    pub fn open_lanes(&self, needed: Needed) -> Result<()> {
        let _ = needed;
        Err(err!(UnsupportedOperation, "not built yet"))
    }
}
