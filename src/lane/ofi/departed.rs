//! Addresses of processes that the lane sends nothing to any more ([`Lane::disconnect`](crate::lane::Lane::disconnect)), until libfabric
//! has forgotten them.
//!
//! One that comes again before has the same number: several providers would make another connection for the same address.
//!
//! - The TCP providers may forget an address at once: what was given to them for it still leaves. They close its connection when the other
//!   process ends, and use it again if that comes back.
//! - `shm` (1.17) looks the sender of a long message up among its addresses, without a check, also in a message that was sent a moment
//!   before a process came again. So it forgets only processes that have ended: their files in `/dev/shm` are gone then. It has room for 256.
//! - Of the others nothing is known: they forget nothing.

use weft_libfabric_sys as sys;

use rustc_hash::FxHashMap;

use super::peers;
use crate::identity::PeerIndex;

/// When a provider can forget an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forgets {
    /// When no operation of the lane concerns it.
    AtOnce,
    /// When the process has ended.
    Ended,
    /// Never.
    Never,
}

impl Forgets {
    /// That of a provider.
    pub(super) fn of(provider: &str) -> Forgets {
        match provider {
            "tcp;ofi_rxm" | "tcp" | "net" => Forgets::AtOnce,
            "shm" => Forgets::Ended,
            _ => Forgets::Never,
        }
    }
}

/// See the module.
pub(super) struct Departed {
    forgets: Forgets,
    /// By the name that the process has published.
    all: FxHashMap<Box<[u8]>, (PeerIndex, sys::fi_addr_t)>,
}

impl Departed {
    /// Nobody yet.
    pub(super) fn new(forgets: Forgets) -> Departed {
        Departed {
            forgets,
            all: FxHashMap::default(),
        }
    }

    /// Nothing more is sent to the process of this name.
    pub(super) fn add(&mut self, name: Box<[u8]>, peer: PeerIndex, address: sys::fi_addr_t) {
        self.all.insert(name, (peer, address));
    }

    /// The process comes again: the number of its address, if that has not been forgotten.
    pub(super) fn take(&mut self, name: &[u8]) -> Option<sys::fi_addr_t> {
        self.all.remove(name).map(|(_, address)| address)
    }

    /// Takes out an address that is to be forgotten now. `is_busy`: whether an operation concerns a process.
    pub(super) fn next(&mut self, is_busy: impl Fn(PeerIndex) -> bool) -> Option<sys::fi_addr_t> {
        let found = self.all.iter().find(|(name, (peer, _))| {
            let has_left = match self.forgets {
                Forgets::AtOnce => true,
                Forgets::Ended => peers::has_no_file(name),
                Forgets::Never => false,
            };
            has_left && !is_busy(*peer)
        });
        let name = found?.0.clone();
        self.take(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(of: &str) -> Box<[u8]> {
        format!("fi_shm://{of}\0").into_bytes().into()
    }

    #[test]
    fn an_address_is_forgotten_once_and_not_while_it_is_used() {
        let mut departed = Departed::new(Forgets::AtOnce);
        let [one, other] = [PeerIndex::new(1), PeerIndex::new(2)];
        departed.add(name("one"), one, 10);
        departed.add(name("other"), other, 20);
        assert_eq!(departed.next(|peer| peer == one), Some(20));
        assert_eq!(departed.next(|peer| peer == one), None);
        assert_eq!(departed.next(|_| false), Some(10));
        assert_eq!(departed.next(|_| false), None);
        departed.add(name("one"), one, 10);
        assert_eq!(departed.take(b"fi_shm://one\0"), Some(10), "it comes again");
        assert_eq!(departed.next(|_| false), None);
    }

    #[test]
    fn who_has_not_ended_is_kept_where_that_matters() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        let mut departed = Departed::new(Forgets::Ended);
        departed.add(
            name(file.path().file_name().unwrap().to_str().unwrap()),
            PeerIndex::new(1),
            10,
        );
        assert_eq!(departed.next(|_| false), None);
        drop(file);
        assert_eq!(departed.next(|_| false), Some(10));
        let mut departed = Departed::new(Forgets::Never);
        departed.add(name("weft test of none"), PeerIndex::new(1), 10);
        assert_eq!(departed.next(|_| false), None);
        assert_eq!(departed.take(&name("weft test of none")), Some(10));
    }
}
