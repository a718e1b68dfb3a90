//! Where processes are, and what hardware they have.
//!
//! - [`Layout`]: which ranks share a machine, as the launcher says
//! - [`pid_namespace`]: which of those of a machine know each other by their process ids
//! - [`Topology`]: the hardware of this machine, as hwloc reports it
//! - [`Location`]: in which package, memory and cache of its host a process runs, as the kernel says
//! - [`Processors`]: a set of processors; [`Processors::of_this_process`] are those that this process may use
//! - `hwloc`: asking hwloc, which is loaded only when it is needed
//!
//! What does not belong here: dividing communicators by hardware and reordering processes (`objects::management`), and binding ranks (`bin/mpiexec`).

mod hardware;
mod hwloc;
mod layout;
mod location;
mod namespace;
mod processors;

pub use hardware::{HardwareKind, Topology};
pub use layout::{Layout, Locals, pretended_node};
pub use location::Location;
pub use namespace::{
    PID_NAMESPACE, has_network_of_parent, is_outside_containers, network_namespace, pid_namespace,
};
pub use processors::Processors;
