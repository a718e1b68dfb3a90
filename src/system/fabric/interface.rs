//! Network interfaces: which address an IP provider should be bound to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::base::error::Result;
use crate::err;

/// Reads a `sockaddr_in` or `sockaddr_in6`.
pub(crate) fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    match i32::from(family) {
        libc::AF_INET if bytes.len() == size_of::<libc::sockaddr_in>() => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some((Ipv4Addr::from(octets), port).into())
        }
        libc::AF_INET6 if bytes.len() == size_of::<libc::sockaddr_in6>() => {
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            Some((Ipv6Addr::from(octets), port).into())
        }
        _ => None,
    }
}

/// How good an address is for reaching other machines; the highest wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reach {
    /// Only this machine.
    Loopback,
    /// A bridge of containers or virtual machines, or a tunnel: exists on every machine, and reaches no other machine, or slowly.
    Virtual,
    /// Only the same link, and it needs a scope that addresses do not carry.
    LinkLocal,
    /// IPv6, reachable where IPv6 is routed.
    V6,
    /// IPv4.
    V4,
}

/// Rates an interface by its name and its address.
pub(crate) fn reach(interface: &str, address: IpAddr) -> Reach {
    const VIRTUAL: &[&str] = &[
        "docker",
        "virbr",
        "veth",
        "tun",
        "tap",
        "br-",
        "lxc",
        "lxd",
        "cni",
        "flannel",
        "cali",
        "vnet",
        "vmnet",
        "vboxnet",
        "wg",
        "tailscale",
        "zt",
        "podman",
        "kube",
        "ppp",
        "utun",
        "awdl",
        "llw",
        "bridge",
    ];
    if address.is_loopback() {
        return Reach::Loopback;
    }
    if VIRTUAL.iter().any(|prefix| interface.starts_with(prefix)) {
        return Reach::Virtual;
    }
    match address {
        IpAddr::V4(v4) if v4.is_link_local() => Reach::LinkLocal,
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Reach::LinkLocal,
        IpAddr::V4(_) => Reach::V4,
        IpAddr::V6(_) => Reach::V6,
    }
}

/// What `WEFT_INTERFACE` lists, best first: names, addresses, and networks such as `10.0.0.0/8`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wishes(Vec<Wish>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Wish {
    Name(String),
    Address(IpAddr),
    Network(IpAddr, u32),
}

impl Wishes {
    /// Reads the setting.
    pub(crate) fn parse(text: &str) -> Result<Wishes> {
        let wish = |text: &str| {
            if let Ok(address) = text.parse() {
                return Ok(Wish::Address(address));
            }
            let Some((address, bits)) = text.split_once('/') else {
                return Ok(Wish::Name(text.into()));
            };
            let network = address.parse::<IpAddr>().ok().zip(bits.parse().ok());
            match network {
                Some((address, bits)) if bits <= width(address) => Ok(Wish::Network(address, bits)),
                _ => Err(err!(
                    Arg,
                    "the setting WEFT_INTERFACE names '{text}', which is no network; one is written as 10.0.0.0/8 or fd00::/64"
                )),
            }
        };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(wish).collect::<Result<_>>().map(Wishes)
    }

    /// The position in the list of the first that an interface with this address fulfils; `None`: it fulfils none.
    pub(crate) fn position(&self, interface: &str, address: Option<IpAddr>) -> Option<usize> {
        self.0.iter().position(|wish| match wish {
            Wish::Name(name) => name == interface,
            Wish::Address(wanted) => address == Some(*wanted),
            Wish::Network(wanted, bits) => {
                address.is_some_and(|address| network(address, *bits) == network(*wanted, *bits))
            }
        })
    }
}

/// The bits of an address of this kind.
fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The network of an address, whose first `bits` bits name it.
pub(crate) fn network(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

/// What is known of an interface or device besides its name and its address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Device {
    /// The network that it is on: hosts that have the same networks name them alike.
    pub network: String,
    /// Its speed in Mbit/s; 0: not known.
    pub speed: u32,
    /// Whether this process may run on a processor that is near it, or that is not known.
    pub near: bool,
}

/// The position of the one to use among interfaces that reach equally far, in the provider's order. All ranks should be on one
/// network, so that is chosen first, by its speed and then by its name, which is the same on all hosts; then the
/// interface on it that is nearest.
pub(crate) fn best_device(devices: &[Device]) -> Option<usize> {
    let speed_of = |network: &str| {
        let on_it = devices.iter().filter(|device| device.network == network);
        on_it.map(|device| device.speed).max().unwrap_or(0)
    };
    let networks = devices.iter().map(|device| device.network.as_str());
    let chosen = networks.min_by_key(|network| (std::cmp::Reverse(speed_of(network)), *network))?;
    let on_it = devices
        .iter()
        .enumerate()
        .filter(|(_, device)| device.network == chosen);
    // `max_by_key` takes the last of equals, and the provider's first is wanted.
    let best = on_it
        .rev()
        .max_by_key(|(_, device)| (device.near, device.speed))?;
    Some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(network: &str, speed: u32, near: bool) -> Device {
        Device {
            network: network.into(),
            speed,
            near,
        }
    }

    #[test]
    fn hosts_choose_one_network_whatever_the_order_of_their_interfaces() {
        let slow = device("192.0.2.0", 1000, true);
        let fast = device("198.51.100.0", 100_000, false);
        assert_eq!(best_device(&[slow.clone(), fast.clone()]), Some(1));
        assert_eq!(best_device(&[fast, slow]), Some(0));
        let (a, b) = (device("192.0.2.0", 0, false), device("198.51.100.0", 0, true));
        assert_eq!(best_device(&[a.clone(), b.clone()]), Some(0));
        assert_eq!(best_device(&[b, a]), Some(1));
        assert_eq!(best_device(&[]), None);
    }

    #[test]
    fn of_a_network_the_nearest_interface_is_taken_then_the_providers_first() {
        let (far, near) = (device("192.0.2.0", 1000, false), device("192.0.2.0", 1000, true));
        assert_eq!(best_device(&[far.clone(), near.clone(), near.clone()]), Some(1));
        assert_eq!(best_device(&[far.clone(), far.clone()]), Some(0));
        assert_eq!(best_device(&[near, far]), Some(0));
    }

    #[test]
    fn wishes_are_names_addresses_and_networks() {
        let position = |wishes: &str, interface: &str, address: &str| {
            let wishes = Wishes::parse(wishes).expect("a list");
            wishes.position(interface, address.parse().ok())
        };
        let list = "ib0, 192.0.2.7,10.0.0.0/8,fd00::/16";
        assert_eq!(position(list, "ib0", "172.16.0.1"), Some(0));
        assert_eq!(position(list, "eth0", "192.0.2.7"), Some(1));
        assert_eq!(position(list, "eth0", "10.84.0.1"), Some(2));
        assert_eq!(position(list, "eth0", "fd00:84::1"), Some(3));
        for other in ["11.0.0.1", "192.0.2.8", "fe80::1", "none"] {
            assert_eq!(position(list, "eth0", other), None, "{other}");
        }
        assert_eq!(position("0.0.0.0/0", "eth0", "10.0.0.1"), Some(0));
        assert_eq!(position("0.0.0.0/0", "eth0", "fd00::1"), None);
    }

    #[test]
    fn what_is_no_network_is_an_error() {
        for wrong in [
            "10.0.0.0/33",
            "fd00::/129",
            "10.0/8",
            "eth0/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
        ] {
            let error = Wishes::parse(wrong).expect_err(wrong);
            assert!(
                error.message.contains(wrong) && error.message.contains("10.0.0.0/8"),
                "{error}"
            );
        }
    }

    #[test]
    fn container_interfaces_come_after_real_ones() {
        let v4 = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(reach("docker0", v4("172.17.0.1")) < reach("eth0", v4("192.0.2.1")));
        assert!(reach("lo", v4("127.0.0.1")) < reach("docker0", v4("172.17.0.1")));
        assert!(reach("eth0", v4("fe80::1")) < reach("eth0", v4("2001:db8::1")));
        assert!(reach("eth0", v4("2001:db8::1")) < reach("eth0", v4("192.0.2.1")));
    }

    #[test]
    fn garbage_is_no_address() {
        assert_eq!(socket_address(&[]), None);
        assert_eq!(socket_address(&[2, 0, 1]), None);
        assert_eq!(socket_address(&[0xff; 16]), None);
    }
}
