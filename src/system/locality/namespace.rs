//! Which processes this one can see, and whose network it has.

use std::io;
use std::os::unix::fs::MetadataExt;

/// Names the pid namespace that `/proc` tells of.
pub const PID_NAMESPACE: &str = "/proc/self/ns/pid";

/// The inode of [`PID_NAMESPACE`]: the same in processes that know each other by the same process ids, and in no others of the
/// machine.
///
/// # Errors
/// There is no `/proc`, or it does not tell.
pub fn pid_namespace() -> io::Result<u64> {
    Ok(std::fs::metadata(PID_NAMESPACE)?.ino())
}

/// Whether loopback reaches what this process's parent reaches by it: whether both are in one network namespace. `false` where
/// that can't be told, as in a container whose first process this is.
pub fn has_network_of_parent() -> bool {
    let parent = std::os::unix::process::parent_id();
    network_namespace().is_some_and(|own| network_namespace_of(&parent.to_string()) == Some(own))
}

/// The network namespace of this process, as its inode; `None`: the system does not tell.
pub fn network_namespace() -> Option<u64> {
    network_namespace_of("self")
}

fn network_namespace_of(process: &str) -> Option<u64> {
    let found = std::fs::metadata(format!("/proc/{process}/ns/net")).ok()?;
    Some(found.ino())
}

/// Whether this process is in the namespace of process ids with which the system began: in no container.
pub fn is_outside_containers() -> bool {
    /// `PROC_PID_INIT_INO` of `<linux/proc_ns.h>`.
    const FIRST: u64 = 0xEFFF_FFFC;
    pid_namespace().is_ok_and(|own| own == FIRST)
}
