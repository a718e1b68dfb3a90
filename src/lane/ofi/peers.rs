//! Peers of the lane: their addresses, and whether they answer.

use std::time::{Duration, Instant};

use weft_libfabric_sys as sys;

use crate::err;
use crate::error::Result;
use crate::fabric::Facts;

/// A connected peer.
pub(super) struct Peer {
    /// Its number in the address vector.
    pub address: sys::fi_addr_t,
    /// Whether something was handed to libfabric for it already, which then has a connection.
    pub reached: bool,
    /// Whether its loss was reported.
    pub lost: bool,
    /// Since when it can't be reached for the first time.
    waiting_since: Option<Instant>,
}

impl Peer {
    pub(super) fn new(address: sys::fi_addr_t) -> Peer {
        Peer {
            address,
            reached: false,
            lost: false,
            waiting_since: None,
        }
    }

    /// Notes that libfabric said again. `true`: the first contact has been tried for longer than `limit`.
    #[cold]
    pub(super) fn refused(&mut self, limit: Duration) -> bool {
        if self.reached {
            return false;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        since.elapsed() > limit
    }
}

/// An address as peers exchange it: what kind it is, then libfabric's bytes.
///
/// | bytes | what |
/// | --- | --- |
/// | 0 | the layout's version, 1 |
/// | 1..5 | libfabric's address format, little-endian |
/// | 5 | the length of the provider's name |
/// | 6.. | the provider's name, then `fi_getname`'s bytes |
pub(super) fn encode(provider: &str, format: u32, name: &[u8]) -> Vec<u8> {
    let provider = &provider.as_bytes()[..provider.len().min(255)];
    let mut bytes = vec![1];
    bytes.extend_from_slice(&format.to_le_bytes());
    bytes.push(provider.len() as u8);
    bytes.extend_from_slice(provider);
    bytes.extend_from_slice(name);
    bytes
}

/// The bytes for `fi_av_insert`, checked: `own` is this process's name, which the peer's must resemble.
pub(super) fn decode<'a>(bytes: &'a [u8], provider: &str, format: u32, own: &[u8]) -> Result<&'a [u8]> {
    let malformed = || {
        err!(
            Other,
            "a peer's libfabric address of {} bytes makes no sense",
            bytes.len()
        )
    };
    let (&[1, f0, f1, f2, f3, len], rest) = bytes.split_first_chunk().ok_or_else(malformed)? else {
        return Err(malformed());
    };
    let (theirs, name) = rest.split_at_checked(usize::from(len)).ok_or_else(malformed)?;
    if theirs != provider.as_bytes() {
        return Err(err!(
            Other,
            "a peer uses the libfabric provider '{}' and this process '{provider}': set WEFT_PROVIDER to one that all \
             processes can use",
            String::from_utf8_lossy(theirs)
        ));
    }
    if u32::from_le_bytes([f0, f1, f2, f3]) != format {
        return Err(err!(
            Other,
            "a peer's libfabric addresses have another format than this process's ({format})"
        ));
    }
    let sensible = match format {
        sys::FI_SOCKADDR | sys::FI_SOCKADDR_IN | sys::FI_SOCKADDR_IN6 => {
            name.len() == own.len()
                && crate::fabric::socket_address(name).is_some_and(|address| {
                    address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
                })
        }
        // A C string; its scheme must be ours.
        sys::FI_ADDR_STR => {
            let scheme = |text: &[u8]| {
                text.iter()
                    .position(|byte| *byte == b':')
                    .map(|at| text[..at].to_vec())
            };
            name.iter().position(|byte| *byte == 0) == name.len().checked_sub(1)
                && scheme(name) == scheme(own)
        }
        _ => name.len() == own.len(),
    };
    if sensible { Ok(name) } else { Err(malformed()) }
}

/// Words for an address in errors.
pub(super) fn words(facts: &Facts, name: &[u8]) -> String {
    match crate::fabric::socket_address(name) {
        Some(address) => format!("{} over {}", address, facts.provider()),
        None => {
            let printable = name.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte == 0);
            let text = String::from_utf8_lossy(name);
            let text = if printable {
                text.trim_end_matches('\0').to_string()
            } else {
                format!("{name:02x?}")
            };
            format!("{text} over {}", facts.provider())
        }
    }
}
