//! Network interfaces: which address an IP provider should be bound to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

#[cfg(test)]
mod tests {
    use super::*;

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
