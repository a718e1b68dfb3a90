//! The secret of a lane, in front of each message to it: anybody on the network can send to an endpoint.
//!
//! With the engine's token behind it, which the engine checks, a sender has to know 128 random bits. Both are in the business card.

use std::ops::Deref;

use crate::base::error::Result;
use crate::base::random;
use crate::lane::HEADER_BYTES;

/// What a lane's peers have to know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret([u8; Secret::BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a secret")
    }
}

impl Secret {
    /// Its bytes in front of each message.
    pub const BYTES: usize = 8;

    /// A new one.
    pub fn random() -> Result<Secret> {
        Ok(Secret(random::number()?.to_le_bytes()))
    }

    /// That of a peer, from its address.
    pub const fn from_bytes(bytes: [u8; Secret::BYTES]) -> Secret {
        Secret(bytes)
    }

    /// Its bytes in an address.
    pub fn bytes(self) -> [u8; Secret::BYTES] {
        self.0
    }

    /// A message's first bytes: the secret, then the header.
    ///
    /// # Panics
    /// If the header is longer than headers are.
    #[inline]
    pub fn before(self, header: &[u8]) -> Head {
        let mut bytes = [0; Secret::BYTES + HEADER_BYTES];
        bytes[..Secret::BYTES].copy_from_slice(&self.0);
        bytes[Secret::BYTES..][..header.len()].copy_from_slice(header);
        Head {
            bytes,
            len: Secret::BYTES + header.len(),
        }
    }

    /// The message behind it; `None`: the sender did not know it.
    #[inline]
    pub fn strip(self, bytes: &[u8]) -> Option<&[u8]> {
        let (first, message) = bytes.split_first_chunk()?;
        (u64::from_le_bytes(*first) == u64::from_le_bytes(self.0)).then_some(message)
    }
}

/// Secret and header.
pub(super) struct Head {
    bytes: [u8; Secret::BYTES + HEADER_BYTES],
    len: usize,
}

impl Deref for Head {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_it_is_heard() {
        let secret = Secret::random().expect("random numbers");
        let message = secret.before(&[7; HEADER_BYTES]);
        assert_eq!(secret.strip(&message), Some(&[7; HEADER_BYTES][..]));
        for bit in 0..8 * Secret::BYTES {
            let mut wrong = message.to_vec();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(secret.strip(&wrong), None);
        }
        for len in 0..Secret::BYTES {
            assert_eq!(secret.strip(&message[..len]), None);
        }
        assert_eq!(
            secret.strip(&secret.bytes()),
            Some(&[][..]),
            "the engine refuses that"
        );
    }
}
