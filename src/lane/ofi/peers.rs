//! Peers of the lane: their addresses, and how long libfabric has taken nothing for them.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use weft_libfabric_sys as sys;

use super::secret::Secret;
use crate::base::error::Result;
use crate::err;
use crate::system::fabric::{Answer, Attempt, Facts};

/// A process that does not call MPI does not try: of a longer pause, only this much counts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long to wait for the answer to an [`Attempt`].
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// The next attempt after one that was answered by nobody.
const NEXT_ATTEMPT: Duration = Duration::from_secs(1);
/// So many attempts in a row have to be refused. A peer listens from before its address is published until it ends.
const REFUSALS: u32 = 2;
/// For so long there has to be no way to a peer: connections survive an interruption of the network.
const UNREACHABLE: Duration = Duration::from_secs(60);

/// How long it has been tried in vain.
struct Tried {
    /// When it was last tried.
    last: Instant,
    /// How long it has been tried.
    time: Duration,
    /// An attempt to connect to the peer's address, and after how long it was begun; or after how long the next one begins.
    attempt: (Option<Attempt>, Duration),
    /// Attempts in a row that were refused.
    refusals: u32,
    /// After how long there was no way to the peer.
    unreachable: Option<Duration>,
}

/// A connected peer.
pub(super) struct Peer {
    /// Its number in the address vector.
    pub address: sys::fi_addr_t,
    /// What messages to it begin with.
    pub secret: Secret,
    /// Whether its loss was reported.
    pub lost: bool,
    /// While libfabric returns only `FI_EAGAIN`: how long it has been tried.
    refused: Option<Tried>,
    /// Whether the user was told of that.
    told: bool,
    /// The address that it published.
    name: Box<[u8]>,
}

impl Peer {
    /// A peer that published `name`, by its number in the address vector.
    pub(super) fn new(address: sys::fi_addr_t, secret: Secret, name: &[u8]) -> Peer {
        Peer {
            address,
            secret,
            lost: false,
            refused: None,
            told: false,
            name: name.into(),
        }
    }

    /// Notes that libfabric has taken something for it.
    #[inline]
    pub(super) fn accepted(&mut self) {
        self.refused = None;
    }

    /// Notes that libfabric returned `FI_EAGAIN`.
    #[cold]
    pub(super) fn refused(&mut self) {
        self.refused.get_or_insert_with(|| Tried {
            last: Instant::now(),
            time: Duration::ZERO,
            attempt: (None, Duration::ZERO),
            refusals: 0,
            unreachable: None,
        });
    }

    /// To be called after each refusal, before the following two.
    pub(super) fn tried(&mut self, now: Instant) {
        if let Some(tried) = &mut self.refused {
            tried.time += now.duration_since(tried.last).min(PAUSE_MAX);
            tried.last = now;
        }
    }

    /// Whether libfabric has been tried for this long and has returned only `FI_EAGAIN`; `true` only once.
    pub(super) fn is_late(&mut self, limit: Duration) -> bool {
        let late = !self.told && self.refused.as_ref().is_some_and(|tried| tried.time >= limit);
        self.told |= late;
        late
    }

    /// Why the peer, whose address is one of TCP, can't be reached, if that is certain: once libfabric has been tried for this long, it is
    /// tried whether anything listens there.
    pub(super) fn unreachable(&mut self, after: Duration) -> Option<&'static str> {
        let tried = self.refused.as_mut().filter(|tried| tried.time >= after)?;
        let (attempt, time) = &tried.attempt;
        let Some(attempt) = attempt else {
            if tried.time >= *time {
                let address = crate::system::fabric::socket_address(&self.name)?;
                tried.attempt = (Some(Attempt::begin(address)), tried.time);
            }
            return None;
        };
        let answer = match attempt.answer() {
            Some(answer) => answer,
            // A process that has long accepted no connection has no room for more.
            None if tried.time >= *time + ANSWER_WAIT => Answer::Listens,
            None => return None,
        };
        let wait = match answer {
            Answer::Listens => UNREACHABLE,
            Answer::Refused | Answer::Unreachable => NEXT_ATTEMPT.min(after),
        };
        tried.attempt = (None, tried.time + wait);
        tried.refusals = match answer {
            Answer::Refused => tried.refusals + 1,
            _ => 0,
        };
        tried.unreachable = match answer {
            Answer::Unreachable => tried.unreachable.or(Some(tried.time)),
            _ => None,
        };
        if tried.refusals >= REFUSALS {
            return Some(
                "nothing listens there: the process has ended, or the address leads to another machine",
            );
        }
        let since = tried.unreachable?;
        (tried.time >= since + UNREACHABLE)
            .then_some("there is no way to that address, or its machine does not answer")
    }

    /// The same for a peer over libfabric's `shm`, whose address names its file in `/dev/shm`: it exists from before the address is
    /// published until the endpoint is closed.
    pub(super) fn has_no_file(&mut self, after: Duration) -> Option<&'static str> {
        let tried = self.refused.as_mut().filter(|tried| tried.time >= after)?;
        if tried.time < tried.attempt.1 {
            return None;
        }
        tried.attempt.1 = tried.time + NEXT_ATTEMPT;
        has_no_file(&self.name).then_some(
            "there is no such file in /dev/shm: the process has ended, or is in a container with another /dev/shm",
        )
    }

    /// The address that it published.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its address, for reports.
    pub(super) fn place(&self, facts: &Facts) -> String {
        words(facts, &self.name)
    }
}

/// Whether an address is one of libfabric's `shm`, and there is no such file in `/dev/shm`.
pub(super) fn has_no_file(name: &[u8]) -> bool {
    let Some(name) = name
        .strip_prefix(b"fi_shm://")
        .and_then(|name| name.strip_suffix(b"\0"))
    else {
        return false;
    };
    let path = Path::new("/dev/shm").join(OsStr::from_bytes(name));
    std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// An address as peers exchange it: its kind, the lane's secret, then libfabric's bytes.
///
/// | bytes | what |
/// | --- | --- |
/// | 0 | the layout's version, 2 |
/// | 1..5 | libfabric's address format, little-endian |
/// | 5 | the length of the provider's name |
/// | 6..14 | the secret that messages to it begin with |
/// | 14.. | the provider's name, then `fi_getname`'s bytes |
pub(super) fn encode(provider: &str, format: u32, secret: Secret, name: &[u8]) -> Vec<u8> {
    let provider = &provider.as_bytes()[..provider.len().min(255)];
    let mut bytes = vec![2];
    bytes.extend_from_slice(&format.to_le_bytes());
    bytes.push(provider.len() as u8);
    bytes.extend_from_slice(&secret.bytes());
    bytes.extend_from_slice(provider);
    bytes.extend_from_slice(name);
    bytes
}

/// The secret, and the bytes for `fi_av_insert`, checked: `own` is this process's name; the peer's must be of the same kind.
pub(super) fn decode<'a>(
    bytes: &'a [u8],
    provider: &str,
    format: u32,
    own: &[u8],
) -> Result<(Secret, &'a [u8])> {
    let malformed = || {
        err!(
            Other,
            "a peer's libfabric address of {} bytes makes no sense",
            bytes.len()
        )
    };
    let (&[2, f0, f1, f2, f3, len], rest) = bytes.split_first_chunk().ok_or_else(malformed)? else {
        return Err(malformed());
    };
    let (&secret, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
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
                && crate::system::fabric::socket_address(name).is_some_and(|address| {
                    address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
                })
        }
        // A C string; its scheme must be the same as ours.
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
    match sensible {
        true => Ok((Secret::from_bytes(secret), name)),
        false => Err(malformed()),
    }
}

/// The text for an address in errors and reports.
pub(super) fn words(facts: &Facts, name: &[u8]) -> String {
    match crate::system::fabric::socket_address(name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret::from_bytes(*b"a secret");

    #[test]
    fn only_time_in_which_it_was_tried_makes_a_peer_late() {
        let limit = Duration::from_secs(60);
        let mut peer = Peer::new(0, SECRET, &[]);
        let is_late = |peer: &mut Peer, now| {
            peer.tried(now);
            peer.is_late(limit)
        };
        assert!(!is_late(&mut peer, Instant::now()), "nothing was refused");
        peer.refused();
        // This process computes for an hour: that says nothing about the peer.
        let mut now = Instant::now() + Duration::from_secs(3600);
        assert!(!is_late(&mut peer, now));
        // Now it waits, and tries again all the time.
        let tries = (1..).find(|_| {
            now += Duration::from_millis(2);
            peer.refused();
            is_late(&mut peer, now)
        });
        assert!((29_000..=30_000).contains(&tries.unwrap()), "{tries:?}");
        assert!(!is_late(&mut peer, now + limit), "it is told once");
    }

    #[test]
    fn what_is_accepted_begins_anew() {
        let (limit, mut now) = (Duration::from_secs(2), Instant::now());
        let mut peer = Peer::new(0, SECRET, &[]);
        for _ in 0..10 {
            peer.refused();
            now += Duration::from_secs(1);
            peer.tried(now);
            assert!(!peer.is_late(limit));
            peer.accepted();
        }
    }

    /// A `sockaddr_in`.
    fn v4(port: u16, octets: [u8; 4]) -> Vec<u8> {
        let mut name = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        name.extend(port.to_be_bytes());
        name.extend(octets);
        name.resize(size_of::<libc::sockaddr_in>(), 0);
        name
    }

    #[test]
    fn an_address_of_a_peer_is_of_the_own_kind_and_leads_somewhere() {
        let own = v4(80, [10, 0, 0, 1]);
        for format in [sys::FI_SOCKADDR, sys::FI_SOCKADDR_IN, sys::FI_SOCKADDR_IN6] {
            let decoded = |name: &[u8]| {
                let bytes = encode("tcp", format, SECRET, name);
                decode(&bytes, "tcp", format, &own).map(|(secret, name)| {
                    assert_eq!(secret, SECRET);
                    name.to_vec()
                })
            };
            let good = v4(7, [10, 0, 0, 2]);
            assert_eq!(decoded(&good).as_ref(), Ok(&good));
            let mut longer = good.clone();
            longer.push(0);
            for wrong in [
                v4(0, [10, 0, 0, 2]),
                v4(7, [0; 4]),
                v4(7, [224, 0, 0, 1]),
                vec![0; own.len()],
                good[..15].to_vec(),
                longer,
                vec![],
            ] {
                let error = decoded(&wrong).unwrap_err();
                assert!(error.message.contains("makes no sense"), "{wrong:?}: {error}");
            }
        }
    }

    #[test]
    fn an_address_in_words_ends_where_its_text_does() {
        let own = b"fi_shm://1:2\0";
        let decoded = |name: &[u8]| {
            let bytes = encode("shm", sys::FI_ADDR_STR, SECRET, name);
            decode(&bytes, "shm", sys::FI_ADDR_STR, own).is_ok()
        };
        assert!(decoded(b"fi_shm://1:2\0") && decoded(b"fi_shm://1000000:3:4\0"));
        for wrong in [
            &b"fi_shm://1:2"[..],
            b"fi_shm://1:2\0\0",
            b"fi_shm://\x001:2\0",
            b"fi_sm2://1:2\0",
            b"fi_shm\0",
            b"\0",
            b"",
        ] {
            assert!(!decoded(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn of_other_addresses_the_length_is_known_and_the_format() {
        // That of efa, which has 32 bytes.
        let (format, own) = (sys::FI_ADDR_STR + 1, [7; 32]);
        let good = encode("efa", format, SECRET, &[9; 32]);
        assert_eq!(decode(&good, "efa", format, &own), Ok((SECRET, &[9; 32][..])));
        for len in [0, 31, 33] {
            assert!(decode(&encode("efa", format, SECRET, &vec![9; len]), "efa", format, &own).is_err());
        }
        let other = encode("efa", sys::FI_ADDR_STR, SECRET, &[9; 32]);
        let error = decode(&other, "efa", format, &own).unwrap_err();
        assert!(error.message.contains("another format"), "{error}");
        // Each byte that is missing, and another version.
        for len in 0..14 + 3 {
            assert!(decode(&good[..len], "efa", format, &own).is_err(), "{len}");
        }
        let mut newer = good.clone();
        newer[0] = 3;
        assert!(decode(&newer, "efa", format, &own).is_err());
    }
}
