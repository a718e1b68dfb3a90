//! Registrations of memory that is not the lane's: payloads of sends, what remote memory is read into and written from, and what peers may
//! access.

use std::rc::Rc;

use super::keys::Keys;
use crate::base::error::Result;
use crate::data::kind::MemoryKind;
use crate::data::pieces::Piece;
use crate::err;
use crate::lane::RemoteKey;
use crate::system::fabric::{Access, Domain, Endpoint, MemoryRegion};

/// A region, and the key to free when it ends.
pub(super) struct Registered {
    pub region: MemoryRegion,
    key: Option<u64>,
}

/// Registers memory as the provider needs it.
pub(super) struct Registrar {
    keys: Keys,
    provider_chooses: bool,
    /// For tests: simulates a limit of locked memory. Of this many payloads of sends one is registered, and the others
    /// fail as `ibv_reg_mr` does.
    #[cfg(test)]
    pub registers_one_in: Option<u32>,
    #[cfg(test)]
    asked: u32,
}

impl Registrar {
    /// For a provider whose keys have `key_bytes` bytes, and which chooses them itself or not.
    pub(super) fn new(key_bytes: usize, provider_chooses: bool) -> Registrar {
        Registrar {
            keys: Keys::new(key_bytes),
            provider_chooses,
            #[cfg(test)]
            registers_one_in: None,
            #[cfg(test)]
            asked: 0,
        }
    }

    #[cfg(test)]
    fn refuses(&mut self, access: Access) -> bool {
        let Some(one_in) = self.registers_one_in.filter(|_| matches!(access, Access::Send)) else {
            return false;
        };
        self.asked += 1;
        !self.asked.is_multiple_of(one_in)
    }

    /// # Safety
    /// The memory stays mapped until the region is dropped.
    pub(super) unsafe fn register(
        &mut self,
        domain: &Rc<Domain>,
        endpoint: &Rc<Endpoint>,
        memory: Piece,
        access: Access,
    ) -> Result<Registered> {
        #[cfg(test)]
        if self.refuses(access) {
            return Err(crate::system::fabric::CallError {
                call: "fi_mr_reg",
                code: libc::ENOMEM,
                detail: String::new(),
            }
            .into());
        }
        let key = if self.provider_chooses {
            None
        } else {
            Some(self.keys.take()?)
        };
        let MemoryKind::System = memory.kind;
        let (address, len) = (memory.address.cast_const(), memory.len);
        // SAFETY: the caller keeps the memory valid until the registration ends.
        let region =
            unsafe { MemoryRegion::register(domain, endpoint, address, len, access, key.unwrap_or(0)) };
        match region {
            Ok(region) => Ok(Registered { region, key }),
            Err(error) => {
                if let Some(key) = key {
                    self.keys.free(key);
                }
                Err(error.into())
            }
        }
    }

    /// How many keys are in use, where this side chooses them.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.keys.held()
    }

    /// Ends a registration.
    pub(super) fn end(&mut self, registered: Registered) {
        drop(registered.region);
        if let Some(key) = registered.key {
            self.keys.free(key);
        }
    }
}

/// What a peer needs to access registered memory, as it is in a message: three little-endian numbers of 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RemoteMemory {
    /// libfabric's key.
    pub key: u64,
    /// libfabric's address of the first byte: its virtual address, or 0.
    pub base: u64,
    /// Bytes registered.
    pub len: u64,
}

impl RemoteMemory {
    pub(super) fn encode(&self) -> RemoteKey {
        RemoteKey(
            [self.key, self.base, self.len]
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect(),
        )
    }

    /// Checks a key from a message.
    pub(super) fn decode(key: &RemoteKey) -> Result<RemoteMemory> {
        let bytes: &[u8; 24] = key.0.as_slice().try_into().map_err(|_| {
            err!(
                Other,
                "a peer's memory key has {} bytes instead of 24",
                key.0.len()
            )
        })?;
        let number = |at: usize| {
            let mut part = [0; 8];
            part.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(part)
        };
        let memory = RemoteMemory {
            key: number(0),
            base: number(8),
            len: number(16),
        };
        match memory.base.checked_add(memory.len) {
            Some(_) => Ok(memory),
            None => Err(err!(
                Other,
                "a peer's memory key names memory beyond the end of addresses"
            )),
        }
    }

    /// libfabric's address of `len` bytes at `offset`.
    pub(super) fn range(&self, offset: u64, len: usize) -> Result<u64> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len => Ok(self.base + offset),
            _ => Err(err!(
                Other,
                "an access to {len} bytes at {offset} is outside the {} bytes that the peer registered",
                self.len
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_wire() {
        let memory = RemoteMemory {
            key: 7,
            base: 0x7fff_0000_1000,
            len: 1 << 20,
        };
        assert_eq!(RemoteMemory::decode(&memory.encode()).unwrap(), memory);
        assert_eq!(memory.range(16, 16).unwrap(), 0x7fff_0000_1010);
    }

    #[test]
    fn bad_keys_are_errors() {
        for len in [0, 1, 23, 25, 64] {
            assert!(RemoteMemory::decode(&RemoteKey(vec![0; len])).is_err());
        }
        assert!(RemoteMemory::decode(&RemoteKey(vec![0xff; 24])).is_err());
        let memory = RemoteMemory {
            key: 0,
            base: 0,
            len: 10,
        };
        assert!(memory.range(u64::MAX, 1).is_err());
        assert!(memory.range(10, 1).is_err());
    }
}
