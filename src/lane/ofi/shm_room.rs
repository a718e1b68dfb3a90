//! Room in `/dev/shm` for libfabric's `shm` provider, checked before a page of it is touched.
//!
//! The provider makes a file there for each endpoint and does not allocate it: where the file system is full, the first process
//! to write into its own dies of SIGBUS. libfabric's own check does not know how many processes there are, and reports only
//! that it has no such provider.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::shm_name;
use crate::base::error::Result;
use crate::err;

/// How large a process's file may become, rounded up: it has 16.0 MiB in 1.17, with the queue that Weft asks for, and 12.8 in 2.5.
const PROCESS_MIB: u64 = 16;
const MIB: u64 = 1 << 20;

/// Whether there is room for this many processes of this machine.
///
/// # Errors
/// How much is needed, how much there is, and what to do.
pub fn check(processes: u32) -> Result<()> {
    let room = room(Path::new("/dev/shm")).map_err(|error| {
        err!(
            Other,
            "libfabric's shm provider keeps its memory in /dev/shm, which can't be used here: {error}. Leave WEFT_PROVIDER \
             out: Weft's own shared memory needs no /dev/shm"
        )
    })?;
    compare(processes, room)
}

fn compare(processes: u32, room: u64) -> Result<()> {
    let needed = u64::from(processes) * PROCESS_MIB;
    if room / MIB >= needed {
        return Ok(());
    }
    Err(err!(
        Other,
        "libfabric's shm provider needs {needed} MiB in /dev/shm for the {processes} processes of this machine, and {} MiB are \
         free there. Give it more (docker run --shm-size), or leave WEFT_PROVIDER out: Weft's own shared memory needs no \
         /dev/shm",
        room / MIB
    ))
}

/// The bytes that are free in a folder's file system. What endpoints of Weft's have there already counts as free: most likely
/// they are the job's own, of processes that were faster.
fn room(folder: &Path) -> std::io::Result<u64> {
    let system = statvfs(folder)?;
    Ok(system.blocks_available() * system.fragment_size() + taken(folder)?)
}

fn taken(folder: &Path) -> std::io::Result<u64> {
    let files = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok());
    let endpoints = files.filter(|entry| entry.file_name().to_str().is_some_and(shm_name::is_ours));
    Ok(endpoints
        .filter_map(|entry| Some(entry.metadata().ok()?.blocks() * 512))
        .sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_says_how_much_is_needed() {
        assert!(compare(4, 64 * MIB).is_ok());
        let error = compare(4, 64 * MIB - 1).unwrap_err();
        for words in ["64 MiB", "63 MiB", "4 processes", "/dev/shm", "WEFT_PROVIDER"] {
            assert!(error.message.contains(words), "{error}");
        }
    }

    #[test]
    fn what_endpoints_have_is_counted_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let name = shm_name::new(1).unwrap().into_string().unwrap();
        let name = format!("{}:0:0", name.rsplit('/').next().unwrap());
        for (name, bytes) in [(&*name, 3 << 20), ("other", 1 << 20)] {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            nix::fcntl::posix_fallocate(&file, 0, bytes).unwrap();
        }
        let taken = taken(folder.path()).unwrap();
        assert!((3 * MIB..4 * MIB).contains(&taken), "{taken}");
        // What is free changes all the time, but not by as much as this file has, each time.
        let name = shm_name::new(2).unwrap().into_string().unwrap();
        let name = format!("{}:0:0", name.rsplit('/').next().unwrap());
        let file = std::fs::File::create(folder.path().join(name)).unwrap();
        nix::fcntl::posix_fallocate(&file, 0, 64 << 20).unwrap();
        let counts = (0..20).any(|_| {
            let system = statvfs(folder.path()).unwrap();
            let free = system.blocks_available() * system.fragment_size();
            let more = room(folder.path()).unwrap().saturating_sub(free);
            (32 * MIB..96 * MIB).contains(&more)
        });
        assert!(counts);
        assert!(room(&folder.path().join("none")).is_err());
    }
}
