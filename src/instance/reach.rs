//! By which lanes processes of several jobs reach each other. A job on one machine opens no libfabric, and a process without others no lane
//! at all: what a communicator with another job needs is opened when it is made.

use super::Instance;
use crate::base::error::Result;
use crate::base::random;
use crate::err;
use crate::lane::choose::{self, Wanted};
use crate::lane::ofi::MACHINE;
use crate::system::locality::{network_namespace, pretended_node};
use crate::system::shared_memory::Machine;

/// Where a process is and which lanes it wants, for processes of other jobs to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whereabouts {
    /// Its machine and namespace of process ids; `None`: not known, so that no memory is shared with it.
    machine: Option<Machine>,
    /// Its network namespace; 0: not known.
    network: u64,
    /// See `WEFT_FAKE_NODES`.
    node: u32,
    shm: bool,
    ofi: bool,
    /// libfabric is open at an address that is not of this machine alone.
    outward: bool,
}

/// The kinds of lanes that processes have to have open to reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needed {
    /// Shared memory.
    pub shm: bool,
    /// libfabric.
    pub ofi: bool,
    /// libfabric at an address that other machines reach.
    pub outward: bool,
}

impl Whereabouts {
    /// Bytes of one in messages.
    pub const BYTES: usize = 40;

    /// The bytes for a message.
    pub fn encode(&self) -> [u8; Whereabouts::BYTES] {
        let mut bytes = [0; Whereabouts::BYTES];
        if let Some(machine) = self.machine {
            bytes[..16].copy_from_slice(&machine.boot.to_le_bytes());
            bytes[16..24].copy_from_slice(&machine.pids.to_le_bytes());
        }
        bytes[24..32].copy_from_slice(&self.network.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.node.to_le_bytes());
        bytes[36] = u8::from(self.shm)
            | u8::from(self.ofi) << 1
            | u8::from(self.machine.is_some()) << 2
            | u8::from(self.outward) << 3;
        bytes
    }

    /// Reads them; `None`: they are not valid.
    pub fn decode(bytes: &[u8; Whereabouts::BYTES]) -> Option<Whereabouts> {
        let (boot, rest) = bytes.split_first_chunk()?;
        let (pids, rest) = rest.split_first_chunk()?;
        let (network, rest) = rest.split_first_chunk()?;
        let (node, rest) = rest.split_first_chunk()?;
        let &[flags @ 0..16, 0, 0, 0] = rest else {
            return None;
        };
        let machine = Machine {
            boot: u128::from_le_bytes(*boot),
            pids: u64::from_le_bytes(*pids),
        };
        let machine = (flags & 4 != 0).then_some(machine);
        let read = Whereabouts {
            machine,
            network: u64::from_le_bytes(*network),
            node: u32::from_le_bytes(*node),
            shm: flags & 1 != 0,
            ofi: flags & 2 != 0,
            outward: flags & 8 != 0,
        };
        (read.encode() == *bytes).then_some(read)
    }

    /// Whether the two can share memory, as far as the machine is concerned.
    fn is_beside(&self, other: &Whereabouts) -> bool {
        self.machine.is_some() && self.machine == other.machine && self.node == other.node
    }

    /// Whether the two reach each other by the loopback interface.
    fn shares_loopback(&self, other: &Whereabouts) -> bool {
        let boot = |one: &Whereabouts| one.machine.map(|machine| machine.boot);
        self.network != 0
            && self.network == other.network
            && boot(self).is_some()
            && boot(self) == boot(other)
    }
}

impl Needed {
    /// What all of these need so that each reaches each other.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: two of them have no way in common, since their settings differ.
    pub fn by(all: &[Whereabouts]) -> Result<Needed> {
        let Some(first) = all.first() else {
            return Ok(Needed {
                shm: false,
                ofi: false,
                outward: false,
            });
        };
        let together = all.iter().all(|one| one.is_beside(first));
        if together && all.iter().all(|one| one.shm) {
            return Ok(Needed {
                shm: true,
                ofi: false,
                outward: false,
            });
        }
        if all.iter().all(|one| one.ofi) {
            let mut sharing = all.iter().filter(|one| one.shm);
            let useful = sharing.clone().any(|one| {
                let beside = sharing.clone().filter(|other| one.is_beside(other));
                beside.count() > 1
            });
            return Ok(Needed {
                shm: sharing.next().is_some() && useful,
                ofi: true,
                // Who is at the loopback address reaches nobody who is at another.
                outward: all.iter().any(|one| one.outward || !one.shares_loopback(first)),
            });
        }
        let without_shm = all.iter().filter(|one| !one.shm).count();
        let without_ofi = all.iter().filter(|one| !one.ofi).count();
        let count = all.len();
        Err(match together {
            true => err!(
                Other,
                "the {count} processes have no way to each other in common: {without_shm} of them do not use shared memory (WEFT_LANES \
                 without shm, or a libfabric provider is named), and {without_ofi} do not use libfabric (WEFT_LANES=shm)"
            ),
            false => err!(
                Other,
                "the {count} processes do not all share memory (they are on several machines, in several pid namespaces, or on several \
                 nodes of WEFT_FAKE_NODES), and {without_ofi} of them do not use libfabric (WEFT_LANES without ofi)"
            ),
        })
    }
}

/// Whether a network is libfabric's, and not at the loopback address, which names the machine.
fn is_outward(network: &str) -> bool {
    network.starts_with(choose::OFI) && !network.contains(MACHINE)
}

impl Instance {
    /// Where this process is.
    pub fn whereabouts(&self) -> Whereabouts {
        let wanted = Wanted::of(&self.settings, std::env::var("FI_PROVIDER").ok());
        let machine = Machine::here().ok();
        // Where this job has others on the machine, the lane was opened at the beginning, if it could be.
        let failed =
            self.job.local_ranks > 1 && !self.engine().lane_names().iter().any(|name| name == choose::SHM);
        Whereabouts {
            machine,
            network: network_namespace().unwrap_or(0),
            node: pretended_node(self.job.rank, self.settings.fake_nodes),
            shm: wanted.shm && machine.is_some() && !failed,
            ofi: wanted.ofi,
            outward: self.engine().networks().iter().any(|name| is_outward(name)),
        }
    }

    /// Opens the lanes that are needed and not open yet. The card of this process has their addresses from then on.
    ///
    /// # Errors
    /// A lane can't be opened, in words.
    pub fn open_lanes(&self, needed: Needed) -> Result<()> {
        let mut engine = self.engine();
        let open = engine.lane_names();
        let is_ofi = |name: &String| name.starts_with(choose::OFI);
        let networks = engine.networks();
        let usable = networks.iter().filter(|name| match needed.outward {
            true => is_outward(name),
            false => is_ofi(name),
        });
        let usable: Vec<&String> = usable.collect();
        // The lane of a simulation reaches everybody.
        if open.iter().any(|name| name != choose::SHM && !is_ofi(name)) {
            return Ok(());
        }
        let wanted = Wanted::of(&self.settings, std::env::var("FI_PROVIDER").ok());
        let (settings, job) = (&self.settings, &self.job);
        if needed.shm && wanted.shm && !open.iter().any(|name| name == choose::SHM) {
            match choose::open_shm(settings, job, self.policy.spins(), random::number()?) {
                Ok(lane) => engine.add_lane(Box::new(lane)),
                // libfabric is used instead.
                Err(_) if needed.ofi => {}
                Err(error) => return Err(error),
            }
        }
        if needed.ofi && usable.iter().all(|name| choose::loses_first_messages(name)) {
            let spins = self.policy.spins();
            let lane =
                choose::open_ofi_between_jobs(settings, job, !needed.outward, spins, &self.ledger, &usable)?;
            if let Some(lane) = lane {
                engine.add_lane(Box::new(lane));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whereabouts(machine: u128, node: u32, shm: bool, ofi: bool) -> Whereabouts {
        Whereabouts {
            machine: Some(Machine {
                boot: machine,
                pids: 5,
            }),
            network: 7,
            node,
            shm,
            ofi,
            outward: false,
        }
    }

    const NONE: Needed = Needed {
        shm: false,
        ofi: false,
        outward: false,
    };

    #[test]
    fn on_one_machine_memory_is_enough() {
        let both = whereabouts(1, 0, true, true);
        let only_shm = whereabouts(1, 0, true, false);
        let shm = Needed { shm: true, ..NONE };
        assert_eq!(Needed::by(&[both, both, both]), Ok(shm));
        assert_eq!(Needed::by(&[both, only_shm]), Ok(shm));
        assert_eq!(Needed::by(&[]), Ok(NONE));
    }

    #[test]
    fn libfabric_is_for_all_and_memory_for_those_who_share_it() {
        let (here, there) = (whereabouts(1, 0, true, true), whereabouts(2, 0, true, true));
        let only_ofi = whereabouts(1, 0, false, true);
        let ofi = |shm, outward| {
            Ok(Needed {
                shm,
                ofi: true,
                outward,
            })
        };
        assert_eq!(Needed::by(&[here, there]), ofi(false, true));
        assert_eq!(Needed::by(&[here, there, here]), ofi(true, true));
        assert_eq!(Needed::by(&[here, only_ofi]), ofi(false, false));
        assert_eq!(Needed::by(&[here, here, only_ofi]), ofi(true, false));
        let open = Whereabouts {
            outward: true,
            ..only_ofi
        };
        assert_eq!(Needed::by(&[here, open]), ofi(false, true));
        assert_eq!(
            Needed::by(&[here, whereabouts(1, 1, true, true)]),
            ofi(false, false),
            "pretended nodes"
        );
        let mut unknown = here;
        (unknown.machine, unknown.network) = (None, 0);
        assert_eq!(Needed::by(&[unknown, unknown]), ofi(false, true));
        let elsewhere = Whereabouts { network: 8, ..here };
        assert_eq!(
            Needed::by(&[only_ofi, elsewhere]),
            ofi(false, true),
            "a container"
        );
    }

    #[test]
    fn settings_without_a_common_way_are_told() {
        let only = |machine, shm, ofi| whereabouts(machine, 0, shm, ofi);
        let error = Needed::by(&[only(1, true, false), only(1, false, true)]).unwrap_err();
        for words in [
            "1 of them do not use shared memory",
            "1 do not use libfabric",
            "WEFT_LANES=shm",
        ] {
            assert!(error.message.contains(words), "{error}");
        }
        let error = Needed::by(&[only(1, true, true), only(2, true, false)]).unwrap_err();
        for words in ["several machines", "1 of them do not use libfabric"] {
            assert!(error.message.contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn comes_back(machine in any::<Option<(u128, u64)>>(), network: u64, node: u32, shm: bool, ofi: bool, outward: bool) {
            let machine = machine.map(|(boot, pids)| Machine { boot, pids });
            let one = Whereabouts { machine, network, node, shm, ofi, outward };
            prop_assert_eq!(Whereabouts::decode(&one.encode()), Some(one));
        }

        #[test]
        fn garbage_is_refused_or_comes_back(bytes in prop::array::uniform32(any::<u8>()), tail in prop::array::uniform8(0u8..17)) {
            let all: [u8; Whereabouts::BYTES] = [&bytes[..], &tail].concat().try_into().expect("40 bytes");
            if let Some(read) = Whereabouts::decode(&all) {
                prop_assert_eq!(read.encode(), all);
            }
        }
    }
}
