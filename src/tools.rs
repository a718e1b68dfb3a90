//! What Weft's own programs, `mpiexec` and `weft-info`, share with the library. It is not an interface for others.

pub use crate::abi::common::constants::{MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_SUBVERSION, MPI_VERSION};
pub use crate::base::{random, settings};
pub use crate::identity::{JobId, ProcessName};
pub use crate::instance::transports::columns;
pub use crate::lane::choose::Wanted;
pub use crate::lane::ofi::shm_name;
pub use crate::lane::shm::{self, ShmLane};
pub use crate::system::bootstrap::singleton::UNIVERSE_MIN;
pub use crate::system::bootstrap::{
    Command as SpawnCommand, Hints, NoProgram, ProcessSet, Spawn, Spawned, find_program, links, own_head,
    pmi1,
};
pub use crate::system::fabric::{self, select};
pub use crate::system::locality;
pub use crate::system::port;
pub use crate::system::shared_memory::Machine;
