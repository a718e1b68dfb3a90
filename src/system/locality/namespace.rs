//! Which processes this one can see.

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
