//! Which cores the jobs of a machine have, so that one does not use another's.
//!
//! A job that binds its ranks holds an abstract Unix socket for each core that it has, named after the core. The kernel
//! gives a name to one process at a time and frees it when the last copy of the socket is gone, so there are no files,
//! and nothing to clean up after a crash. The watchdog has a copy: cores stay taken until all ranks are gone. Jobs see
//! each other where they share a network namespace; a process that takes names without a job can only cause ranks to be
//! unbound.

use std::ops::RangeInclusive;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use weft::tools::locality::Processors;

/// The cores that a job has.
pub struct Claims {
    name: String,
    held: Vec<UnixDatagram>,
}

impl Claims {
    /// None yet.
    pub fn new() -> Claims {
        Claims::named("weft")
    }

    /// The same, separate from those with other names.
    pub fn named(name: &str) -> Claims {
        Claims {
            name: name.to_string(),
            held: Vec::new(),
        }
    }

    /// Takes the first of `cores` that no other job has, as many as `wanted` allows; empty: there are too few.
    pub fn take(&mut self, cores: &[Processors], wanted: RangeInclusive<usize>) -> Vec<Processors> {
        let (least, most) = wanted.into_inner();
        let claimed: Vec<(&Processors, UnixDatagram)> = cores
            .iter()
            .filter_map(|core| Some((core, self.claim(core)?)))
            .take(most)
            .collect();
        if claimed.len() < least {
            return Vec::new();
        }
        let (cores, sockets): (Vec<&Processors>, Vec<UnixDatagram>) = claimed.into_iter().unzip();
        self.held.extend(sockets);
        cores.into_iter().cloned().collect()
    }

    /// Frees all of them.
    pub fn release(&mut self) {
        self.held.clear();
    }

    fn claim(&self, core: &Processors) -> Option<UnixDatagram> {
        // A core is known by its first hardware thread.
        let name = format!("{}-core-{}", self.name, core.iter().next()?);
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_belongs_to_one_job_at_a_time() {
        let name = format!("weft-test-{}-claims", std::process::id());
        let cores = |of: &[usize]| -> Vec<Processors> {
            of.iter().map(|&core| [core].into_iter().collect()).collect()
        };
        let (mut one, mut other) = (Claims::named(&name), Claims::named(&name));
        assert_eq!(one.take(&cores(&[0, 1]), 2..=2), cores(&[0, 1]));
        assert_eq!(other.take(&cores(&[1, 2, 3]), 2..=3), cores(&[2, 3]));
        assert!(one.take(&cores(&[0, 3]), 1..=2).is_empty());
        drop(other);
        assert_eq!(one.take(&cores(&[0, 3]), 1..=2), cores(&[3]));
        // A job that gets too few takes none, and no job takes more than it wants.
        let mut other = Claims::named(&name);
        assert!(other.take(&cores(&[2, 3]), 2..=2).is_empty());
        assert_eq!(one.take(&cores(&[2, 4, 5]), 1..=2), cores(&[2, 4]));
        assert_eq!(other.take(&cores(&[2, 3, 4, 5]), 1..=4), cores(&[5]));
        one.release();
        assert_eq!(
            other.take(&cores(&[0, 1, 2, 3, 4]), 5..=5),
            cores(&[0, 1, 2, 3, 4])
        );
    }
}
