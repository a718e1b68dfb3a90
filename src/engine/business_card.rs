//! The business card that each process publishes: the token that messages to it must contain, and its address on each
//! of its lanes. `docs/wire.md` has its layout.

use crate::base::error::{Error, Result};
use crate::err;

/// The version of all that processes send each other: a change of any message increases it.
const VERSION: u8 = 7;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BusinessCard {
    /// Messages to the process carry it.
    pub token: u64,
    /// A digest of what all processes of a job have to see alike: see [`Parts::agreed`](super::Parts::agreed).
    pub agreed: u64,
    /// Its lanes.
    pub lanes: Vec<LaneEntry>,
}

/// What a card says of a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneEntry {
    /// The network that it is at: [`Lane::network`](crate::lane::Lane::network).
    pub network: String,
    /// How many messages of one process of another job may be on their way to this process: at least 1.
    pub window: u16,
    /// The process's address there.
    pub address: Vec<u8>,
}

impl BusinessCard {
    /// The bytes to publish.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.token.to_le_bytes());
        bytes.extend_from_slice(&self.agreed.to_le_bytes());
        bytes.push(self.lanes.len() as u8);
        for LaneEntry {
            network,
            window,
            address,
        } in &self.lanes
        {
            bytes.push(network.len() as u8);
            bytes.extend_from_slice(network.as_bytes());
            bytes.extend_from_slice(&window.to_le_bytes());
            bytes.extend_from_slice(&(address.len() as u16).to_le_bytes());
            bytes.extend_from_slice(address);
        }
        bytes
    }

    /// Reads a card; any bytes that `encode` does not make are an error.
    pub fn decode(bytes: &[u8]) -> Result<BusinessCard> {
        Self::parse(bytes).ok_or_else(|| malformed(bytes))
    }

    fn parse(bytes: &[u8]) -> Option<BusinessCard> {
        let (&[version], rest) = bytes.split_first_chunk::<1>()?;
        if version != VERSION {
            return None;
        }
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let (agreed, rest) = rest.split_first_chunk::<8>()?;
        let (&[count], mut rest) = rest.split_first_chunk::<1>()?;
        let mut lanes = Vec::new();
        for _ in 0..count {
            let (&[len], after) = rest.split_first_chunk::<1>()?;
            let (network, after) = after.split_at_checked(len.into())?;
            let (window, after) = after.split_first_chunk::<2>()?;
            let (len, after) = after.split_first_chunk::<2>()?;
            let (address, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
            lanes.push(LaneEntry {
                network: std::str::from_utf8(network).ok()?.to_string(),
                window: Some(u16::from_le_bytes(*window)).filter(|&window| window > 0)?,
                address: address.to_vec(),
            });
            rest = after;
        }
        rest.is_empty().then(|| BusinessCard {
            token: u64::from_le_bytes(*token),
            agreed: u64::from_le_bytes(*agreed),
            lanes,
        })
    }
}

#[cold]
fn malformed(bytes: &[u8]) -> Error {
    err!(
        Other,
        "a process has a business card that this version of Weft does not understand \
         ({} bytes, version {}); do all processes use the same version?",
        bytes.len(),
        bytes
            .first()
            .map_or("none".to_string(), |version| version.to_string())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back(token: u64, agreed: u64, lanes in prop::collection::vec(("[a-z;_]{0,20}", 1u16.., prop::collection::vec(any::<u8>(), 0..99)), 0..4)) {
            let lanes = lanes.into_iter().map(|(network, window, address)| LaneEntry { network, window, address }).collect();
            let card = BusinessCard { token, agreed, lanes };
            let bytes = card.encode();
            prop_assert_eq!(BusinessCard::decode(&bytes), Ok(card));
            for cut in 0..bytes.len() {
                prop_assert!(BusinessCard::decode(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn garbage_is_an_error_or_a_card(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(card) = BusinessCard::decode(&bytes) {
                prop_assert_eq!(card.encode(), bytes);
            }
        }
    }
}
