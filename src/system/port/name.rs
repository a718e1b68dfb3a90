//! A port's name as text: `weft1/SECRET/SOCKET/ADDRESS@PORT,…`. Secret and socket are 32 hexadecimal digits; the socket is a unix socket's
//! name. It has no character that a shell treats specially, as users pass it on by hand.

use std::net::{IpAddr, SocketAddr};

use crate::base::error::Result;
use crate::err;

/// The longest name of a port, in bytes, without a zero byte at the end: `MPI_MAX_PORT_NAME` - 1.
pub const NAME_MAX: usize = 1023;

/// The most addresses that a name has.
pub(super) const ADDRESSES_MAX: usize = 8;

/// What a name begins with; the number is the version of all that follows from it.
const MARK: &str = "weft1";
/// Digits of a secret.
pub(super) const SECRET_BYTES: usize = 32;

/// The parts of a name.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PortName {
    /// Who knows it may connect.
    pub secret: String,
    /// Names the unix socket.
    pub socket: String,
    /// Where the port is found from elsewhere, the best first.
    pub addresses: Vec<SocketAddr>,
}

impl PortName {
    /// As text.
    pub fn encode(&self) -> String {
        let place = |address: &SocketAddr| format!("{}@{}", address.ip(), address.port());
        let places: Vec<String> = self.addresses.iter().map(place).collect();
        format!("{MARK}/{}/{}/{}", self.secret, self.socket, places.join(","))
    }

    /// Reads a name. The text of an error does not contain what may be a secret.
    pub fn parse(text: &str) -> Result<PortName> {
        let parts: Vec<&str> = text.splitn(5, '/').collect();
        let [MARK, secret, socket, places] = parts[..] else {
            return Err(err!(
                Port,
                "the text of {} bytes is no name of a port: one begins with '{MARK}/' and has four parts",
                text.len()
            ));
        };
        let wrong = |what: &str| err!(Port, "the name of the port was changed: {what}");
        if text.len() > NAME_MAX {
            return Err(wrong("it is too long"));
        }
        let is_number = |text: &str| {
            text.len() == SECRET_BYTES
                && (text.bytes()).all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !is_number(secret) || !is_number(socket) {
            return Err(wrong("its second and third part are not 32 hexadecimal digits"));
        }
        let addresses = match places {
            "" => Vec::new(),
            places => places
                .split(',')
                .map(|place| {
                    address(place)
                        .ok_or_else(|| wrong(&format!("'{}' is no ADDRESS@PORT", place.escape_debug())))
                })
                .collect::<Result<_>>()?,
        };
        if addresses.len() > ADDRESSES_MAX {
            return Err(wrong("it has too many addresses"));
        }
        Ok(PortName {
            secret: secret.into(),
            socket: socket.into(),
            addresses,
        })
    }

    /// The name of the unix socket, which is of no file.
    pub fn abstract_name(&self) -> Vec<u8> {
        format!("weft-port-{}", self.socket).into_bytes()
    }
}

/// Reads `ADDRESS@PORT`.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once('@')?;
    let ip: IpAddr = ip.parse().ok()?;
    // `parse` takes a sign and leading zeros.
    let port = port
        .parse()
        .ok()
        .filter(|number: &u16| number.to_string() == port)?;
    (port != 0 && !ip.is_unspecified() && !ip.is_multicast()).then_some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;
    use proptest::prelude::*;

    fn name(addresses: Vec<SocketAddr>) -> PortName {
        PortName {
            secret: "0123456789abcdef".repeat(2),
            socket: "fedcba9876543210".repeat(2),
            addresses,
        }
    }

    fn refused(text: &str) -> String {
        let error = PortName::parse(text).err().expect(text);
        assert_eq!(error.class, Class::Port, "{error}");
        assert!(!error.message.contains("0123456789abcdef"), "{error}");
        error.message.into_owned()
    }

    #[test]
    fn a_name_comes_back_and_the_longest_fits() {
        let longest = SocketAddr::new([0xffff; 8].into(), u16::MAX);
        for address in ["192.0.2.2:4711", "[fd00::2]:1"] {
            let name = name(vec![address.parse().unwrap()]);
            assert!(PortName::parse(&name.encode()).unwrap() == name);
        }
        let longest = SocketAddr::new(
            "2001:db80:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap(),
            longest.port(),
        );
        let full = name(vec![longest; ADDRESSES_MAX]);
        assert!(PortName::parse(&full.encode()).unwrap() == full);
        assert!(full.encode().len() <= NAME_MAX);
        refused(&name(vec![longest; ADDRESSES_MAX + 1]).encode());
        assert!(
            PortName::parse(&name(Vec::new()).encode())
                .unwrap()
                .addresses
                .is_empty()
        );
        assert_eq!(
            name(vec!["192.0.2.2:4711".parse().unwrap()]).encode(),
            "weft1/0123456789abcdef0123456789abcdef/fedcba9876543210fedcba9876543210/192.0.2.2@4711"
        );
    }

    #[test]
    fn what_is_no_name_is_refused_in_words() {
        for (text, why) in [
            ("", "begins with 'weft1/'"),
            ("tag#0$connentry#x$", "begins with 'weft1/'"),
            ("weft2/a/b/", "begins with 'weft1/'"),
            ("weft1/a", "four parts"),
            ("weft1/a/b/", "32 hexadecimal digits"),
        ] {
            assert!(refused(text).contains(why), "{text}");
        }
        let base = name(Vec::new()).encode();
        for (places, why) in [
            ("192.0.2.2", "no ADDRESS@PORT"),
            ("192.0.2.2@", "no ADDRESS@PORT"),
            ("192.0.2.2@0", "no ADDRESS@PORT"),
            ("192.0.2.2@+1", "no ADDRESS@PORT"),
            ("192.0.2.2@65536", "no ADDRESS@PORT"),
            ("0.0.0.0@1", "no ADDRESS@PORT"),
            ("::@1", "no ADDRESS@PORT"),
            ("224.0.0.1@1", "no ADDRESS@PORT"),
            ("fe80::1%eth0@1", "no ADDRESS@PORT"),
            ("192.0.2.2@1,", "no ADDRESS@PORT"),
            ("\u{1b}[2J", "no ADDRESS@PORT"),
            ("192.0.2.2@1/", "four parts"),
        ] {
            let why_not = refused(&format!("{base}{places}"));
            assert!(
                why_not.contains(why) && !why_not.contains('\u{1b}'),
                "{places}: {why_not}"
            );
        }
        assert!(refused(&format!("{base}{}", "1".repeat(NAME_MAX))).contains("too long"));
    }

    proptest! {
        #[test]
        fn garbage_is_refused(text in any::<String>()) {
            refused(&text);
        }

        #[test]
        fn a_changed_name_is_refused_or_another_name(at in 0usize..100, byte in any::<char>(), insert: bool) {
            let text = name(vec!["192.0.2.2:4711".parse().unwrap()]).encode();
            let mut changed: Vec<char> = text.chars().collect();
            let at = at % changed.len();
            if insert {
                changed.insert(at, byte);
            } else {
                changed[at] = byte;
            }
            let changed: String = changed.into_iter().collect();
            match PortName::parse(&changed) {
                // What is read stands in the text as it is: no two texts are one name.
                Ok(name) => prop_assert_eq!(name.encode().len(), changed.len()),
                Err(error) => prop_assert_eq!(error.class, Class::Port),
            }
        }

        #[test]
        fn every_beginning_is_refused_or_shorter(end in 0usize..200) {
            let whole = name(vec!["192.0.2.2:4711".parse().unwrap(), "[fd00::2]:80".parse().unwrap()]);
            let text = whole.encode();
            let cut = &text[..end % text.len()];
            if let Ok(name) = PortName::parse(cut) {
                prop_assert!(name != whole);
            }
        }
    }
}
