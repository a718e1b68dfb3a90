//! What a process's business card contains about this lane: where its segment and its pipe are, and for which machine and
//! namespaces that is valid.

use crate::system::shared_memory::Machine;

/// What two processes must have in common to reach each other by this lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryDomain {
    /// The machine, and the namespace of process ids.
    pub machine: Machine,
    /// See `WEFT_FAKE_NODES`.
    pub node: u32,
}

impl MemoryDomain {
    /// That of this process. The error says what is missing.
    pub fn here(node: u32) -> Result<MemoryDomain, String> {
        Ok(MemoryDomain {
            machine: Machine::here()?,
            node,
        })
    }
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The machine and namespaces where the rest is valid.
    pub domain: MemoryDomain,
    /// The process.
    pub pid: u32,
    /// Its segment's descriptor.
    pub segment: u32,
    /// The number of senders for which the segment has room.
    pub rings: u32,
    /// The token in the segment.
    pub token: u64,
    /// The address of the token in the process's own memory.
    pub token_at: u64,
    /// Its pipe's descriptor.
    pub bell: u32,
    /// Its pipe's inode.
    pub bell_inode: u64,
}

impl Address {
    /// Bytes of an encoded address.
    pub const BYTES: usize = 68;

    /// The bytes for the card.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Address::BYTES);
        let MemoryDomain { machine, node } = self.domain;
        bytes.extend_from_slice(&machine.boot.to_le_bytes());
        bytes.extend_from_slice(&machine.pids.to_le_bytes());
        for number in [node, self.pid, self.segment, self.rings, self.bell] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.token, self.token_at, self.bell_inode] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads them; `None`: no address.
    pub fn decode(bytes: &[u8]) -> Option<Address> {
        let bytes: &[u8; Address::BYTES] = bytes.try_into().ok()?;
        let (boot, rest) = bytes.split_first_chunk()?;
        let (pids, mut rest) = rest.split_first_chunk()?;
        let mut small = [0; 5];
        for number in &mut small {
            let (head, tail) = rest.split_first_chunk()?;
            *number = u32::from_le_bytes(*head);
            rest = tail;
        }
        let mut large = [0; 3];
        for number in &mut large {
            let (head, tail) = rest.split_first_chunk()?;
            *number = u64::from_le_bytes(*head);
            rest = tail;
        }
        let [node, pid, segment, rings, bell] = small;
        let [token, token_at, bell_inode] = large;
        Some(Address {
            domain: MemoryDomain {
                machine: Machine {
                    boot: u128::from_le_bytes(*boot),
                    pids: u64::from_le_bytes(*pids),
                },
                node,
            },
            pid,
            segment,
            rings,
            token,
            token_at,
            bell,
            bell_inode,
        })
    }
}
