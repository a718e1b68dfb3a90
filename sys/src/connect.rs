//! A call before each connection that libfabric makes, for socket options that it has no setting for and that come too late afterwards.
//!
//! While a [`BeforeConnect`] exists, the entry of `connect` in libfabric's table of imported functions (`imports`) leads to a
//! function that makes that call first. A provider in a library of its own connects as before.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::Library;
use crate::imports::{Entry, imported};

/// What is called.
type Prepare = fn(BorrowedFd<'_>, SocketAddr);

static PREPARE: OnceLock<Prepare> = OnceLock::new();

/// How many [`BeforeConnect`] there are, and the entries that lead to [`connect`], each with what was there before.
static REPLACED: Mutex<(usize, Vec<(Entry, usize)>)> = Mutex::new((0, Vec::new()));

/// While it exists, a function is called before libfabric connects a socket.
pub struct BeforeConnect(());

impl BeforeConnect {
    /// Has `prepare` called, or what the process's first one has named, with the socket and the address that it is about to be connected
    /// to. If the library's table of functions is not as expected, nothing is called.
    pub fn new(library: &Library, prepare: Prepare) -> BeforeConnect {
        PREPARE.get_or_init(|| prepare);
        let mut replaced = REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
        if replaced.0 == 0 {
            let entries = imported(library.fi_getinfo as usize, &[c"connect"]).into_iter();
            let replace = |entry: Entry| {
                let before = entry.value();
                entry.replace(before, ours()).then_some((entry, before))
            };
            replaced.1 = entries.filter_map(replace).collect();
        }
        replaced.0 += 1;
        BeforeConnect(())
    }
}

impl Drop for BeforeConnect {
    fn drop(&mut self) {
        let mut replaced = REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
        replaced.0 -= 1;
        if replaced.0 == 0 {
            for (entry, before) in std::mem::take(&mut replaced.1) {
                // Not what another has put there meanwhile.
                entry.replace(ours(), before);
            }
        }
    }
}

fn ours() -> usize {
    connect as *const () as usize
}

/// `connect`, after the call.
unsafe extern "C" fn connect(
    socket: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: the caller takes this for `connect`, and gives it an address of that length.
    let to = unsafe { socket_address(address, length) };
    if let (Some(prepare), Some(to)) = (PREPARE.get(), to)
        && socket >= 0
    {
        // SAFETY: it is about to be connected by the caller, who keeps it open during this call.
        prepare(unsafe { BorrowedFd::borrow_raw(socket) }, to);
    }
    // SAFETY: all are what the caller gives to `connect`.
    unsafe { libc::connect(socket, address, length) }
}

/// An IP address; `None`: of another kind.
///
/// # Safety
///
/// `address` is null, or readable for `length` bytes.
unsafe fn socket_address(address: *const libc::sockaddr, length: libc::socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    if address.is_null() || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: each kind of address begins with its family, and is read only where there are bytes enough.
    unsafe {
        match c_int::from(address.cast::<libc::sa_family_t>().read_unaligned()) {
            libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
                let found = address.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(found.sin_addr.s_addr.to_ne_bytes());
                Some((ip, u16::from_be(found.sin_port)).into())
            }
            libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
                let found = address.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(found.sin6_addr.s6_addr);
                Some((ip, u16::from_be(found.sin6_port)).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfabrics_connect_is_as_before_once_nobody_wants_the_call() {
        let library = crate::library().unwrap();
        let values = || {
            let entries = imported(library.fi_getinfo as usize, &[c"connect"]);
            entries.into_iter().map(Entry::value).collect::<Vec<_>>()
        };
        let before = values();
        assert!(!before.is_empty(), "libfabric connects in some other way now");
        let [first, second] = [(); 2].map(|()| BeforeConnect::new(library, |_, _| {}));
        assert!(values().iter().all(|&value| value == ours()));
        drop(first);
        assert!(values().iter().all(|&value| value == ours()));
        drop(second);
        assert_eq!(values(), before);
    }

    #[test]
    fn addresses_of_both_families_are_read_and_no_other_bytes() {
        // SAFETY: numbers only, for which zeros are values.
        let mut four: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        four.sin_family = libc::AF_INET as libc::sa_family_t;
        four.sin_port = 7u16.to_be();
        four.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        // SAFETY: as above.
        let mut six: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        six.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        six.sin6_port = 9u16.to_be();
        six.sin6_addr.s6_addr[15] = 1;
        // SAFETY: the addresses live during the calls, and have at least that many bytes.
        unsafe {
            let four = (&raw const four).cast();
            assert_eq!(socket_address(four, 16), Some(([127, 0, 0, 1], 7).into()));
            assert_eq!(socket_address(four, 15), None);
            assert_eq!(socket_address(four, 1), None);
            assert_eq!(socket_address(std::ptr::null(), 16), None);
            let six = (&raw const six).cast();
            assert_eq!(socket_address(six, 28), Some((Ipv6Addr::LOCALHOST, 9).into()));
            assert_eq!(socket_address(six, 27), None);
        }
    }
}
