//! Names of endpoints of libfabric's `shm` provider, and so of the files that it keeps for them in `/dev/shm`.
//!
//! By default the provider names them after the process id alone. A process that was killed leaves its file; the next
//! process with the same id, also one in another container, finds that file, believes that its owner is alive (it checks
//! the id), and `fi_enable` fails with `EBUSY`. So Weft's names have a random part. The provider adds `:UID:NUMBER`.

use std::ffi::CString;

use crate::base::error::Result;
use crate::base::random;

const SCHEME: &str = "fi_shm://";
const PREFIX: &str = "weft-";

/// A name for a process's endpoints that no other process has or had.
pub(super) fn new(pid: u32) -> Result<CString> {
    let name = format!("{SCHEME}{PREFIX}{pid}-{:016x}", random::number()?);
    Ok(CString::new(name).unwrap_or_default())
}

/// Whether a file is that of an endpoint with such a name.
pub(super) fn is_ours(file: &str) -> bool {
    file.starts_with(PREFIX) && owner(file).is_some()
}

/// Process and user of a file of the provider's: one that Weft named (`weft-PID-RANDOM:UID:NUMBER`), or that the provider
/// named (`PID:UID:NUMBER`), as in programs of other MPIs.
pub fn owner(file: &str) -> Option<(i32, u32)> {
    let mut parts = file.split(':');
    let (name, uid, number) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !is_number(number) {
        return None;
    }
    let pid = match name.strip_prefix(PREFIX) {
        Some(ours) => ours.split_once('-')?.0,
        None => name,
    };
    Some((pid.parse().ok()?, uid.parse().ok()?))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_tell_their_owner() {
        let name = new(17).unwrap().into_string().unwrap();
        let file = format!("{}:1000:3", name.strip_prefix(SCHEME).unwrap());
        assert_eq!(owner(&file), Some((17, 1000)));
        assert_eq!(owner("17:1000:0"), Some((17, 1000)));
        assert!(is_ours(&file) && !is_ours("17:1000:0") && !is_ours("weft-17"));
        for other in [
            "17",
            "17:1000",
            "17:1000:0:1",
            "17:1000:x",
            "17:1000:",
            "mpich_shm_17_0",
            "weft-17:1000:0",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
        assert_ne!(new(17).unwrap(), new(17).unwrap());
    }
}
