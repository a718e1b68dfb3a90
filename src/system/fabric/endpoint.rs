//! Reliable datagram endpoints and the operations that are posted to them.
//!
//! - `one_sided`: writes of remote memory, and atomic operations on it
//! - `hooked`, `stand_in`: endpoints for tests, in place of a provider's
//!
//! What does not belong here: the other objects of libfabric (`objects`, `completion`), and when a message is sent (`lane::ofi`).

mod one_sided;

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use weft_libfabric_sys as sys;

use super::call::{CallError, Posted, check, posted};
use super::completion::CompletionQueue;
use super::info::Info;
use super::objects::{AddressVector, Domain, close};

pub use one_sided::{Asks, AtomicCall};

/// How many messages a receive buffer takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// One message. Its completion, or its failure, releases the buffer.
    One,
    /// Message after message, until a completion reports that the buffer is released.
    Many,
}

/// When a provider obeys the option for how much room a buffer for many messages must have (`FI_OPT_MIN_MULTI_RECV`).
/// Asking the provider does not show whether it obeys: some return a value that they ignore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before the endpoint is enabled. Later it is ignored.
    BeforeEnable,
    /// When the endpoint is enabled. Earlier it crashes.
    AfterEnable,
}

impl When {
    /// The right time for a provider of a version of libfabric.
    ///
    /// From 2.0 on `shm`, `efa` and `ofi_rxm` make their receive queue when the endpoint is enabled, with what was set by then;
    /// before 2.0 they write it into that queue at once, and follow a null pointer where there is none yet (libfabric's
    /// pull request 10618). `sm2` still does. The others take it at any time.
    pub fn of(provider: &str, version: (u32, u32)) -> When {
        if version < (2, 0) || provider == "sm2" {
            When::AfterEnable
        } else {
            When::BeforeEnable
        }
    }
}

/// An endpoint that is bound and enabled.
pub struct Endpoint {
    raw: *mut sys::fid_ep,
    _queue: Rc<CompletionQueue>,
    _addresses: Rc<AddressVector>,
    _domain: Rc<Domain>,
}

impl Endpoint {
    /// Opens an endpoint whose completions all go to `queue`, and enables it. A buffer for many messages is released
    /// when less than `min_multi_recv` bytes are left of it: the longest message that may come. The option is set `when` the provider
    /// obeys it.
    #[doc(alias = "fi_endpoint")]
    #[doc(alias = "fi_ep_bind")]
    #[doc(alias = "fi_enable")]
    #[doc(alias = "fi_setopt")]
    pub fn open(
        domain: &Rc<Domain>,
        info: &Info,
        queue: &Rc<CompletionQueue>,
        addresses: &Rc<AddressVector>,
        min_multi_recv: usize,
        when: When,
    ) -> Result<Rc<Endpoint>, CallError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open, `info` came from libfabric, `raw` outlives the call.
        let status = unsafe { sys::fi_endpoint(domain.as_ptr(), info.as_ptr(), &mut raw, ptr::null_mut()) };
        check("fi_endpoint", status as isize)?;
        let endpoint = Endpoint {
            raw,
            _queue: queue.clone(),
            _addresses: addresses.clone(),
            _domain: domain.clone(),
        };
        // SAFETY: all objects are open, and the endpoint's fields keep them open longer than itself.
        unsafe {
            check(
                "fi_ep_bind(av)",
                sys::fi_ep_bind(raw, addresses.fid(), 0) as isize,
            )?;
            let flags = sys::FI_TRANSMIT | sys::FI_RECV;
            check(
                "fi_ep_bind(cq)",
                sys::fi_ep_bind(raw, queue.fid(), flags) as isize,
            )?;
        }
        if when == When::BeforeEnable {
            endpoint.set_min_multi_recv(min_multi_recv)?;
        }
        // SAFETY: the endpoint is open, and bound to what it needs.
        check("fi_enable", unsafe { sys::fi_enable(raw) } as isize)?;
        if when == When::AfterEnable {
            endpoint.set_min_multi_recv(min_multi_recv)?;
        }
        Ok(Rc::new(endpoint))
    }

    fn set_min_multi_recv(&self, bytes: usize) -> Result<(), CallError> {
        // SAFETY: the endpoint is open; the option is a size_t, as fi_endpoint(3) says.
        let status = unsafe {
            sys::fi_setopt(
                self.raw,
                sys::FI_OPT_ENDPOINT as i32,
                sys::FI_OPT_MIN_MULTI_RECV as i32,
                ptr::from_ref(&bytes).cast(),
                size_of::<usize>(),
            )
        };
        check("fi_setopt(FI_OPT_MIN_MULTI_RECV)", status as isize).map(drop)
    }

    /// The address that peers put into their address vectors.
    #[doc(alias = "fi_getname")]
    pub fn name(&self) -> Result<Vec<u8>, CallError> {
        let mut bytes = vec![0u8; 512];
        let mut len = bytes.len();
        // SAFETY: the endpoint is open; `bytes` has `len` bytes.
        let status = unsafe { sys::fi_getname(self.raw, bytes.as_mut_ptr().cast(), &mut len) };
        check("fi_getname", status as isize)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Sends bytes that libfabric copies before it returns; there is no completion.
    ///
    /// # Safety
    /// `to` is an address of the vector that the endpoint was opened with: libfabric looks up others without a check.
    #[doc(alias = "fi_inject")]
    #[inline]
    pub unsafe fn inject(&self, bytes: &[u8], to: sys::fi_addr_t) -> Result<Posted, CallError> {
        // SAFETY: the endpoint is open, the caller vouches for the address, and the bytes are valid during the call, which is all that
        // fi_inject asks for.
        posted("fi_inject", unsafe {
            sys::fi_inject(self.raw, bytes.as_ptr().cast(), bytes.len(), to)
        })
    }

    /// Sends one buffer.
    ///
    /// # Safety
    /// The bytes stay valid and unchanged, `descriptor` belongs to them, and `context` stays valid (8 pointers), until
    /// the completion or until the endpoint is closed. `to`: as for [`Endpoint::inject`].
    #[doc(alias = "fi_send")]
    #[inline]
    pub unsafe fn send(
        &self,
        bytes: *const u8,
        len: usize,
        descriptor: *mut c_void,
        to: sys::fi_addr_t,
        context: *mut c_void,
    ) -> Result<Posted, CallError> {
        // SAFETY: the endpoint is open, and the caller's contract.
        posted("fi_send", unsafe {
            sys::fi_send(self.raw, bytes.cast(), len, descriptor, to, context)
        })
    }

    /// Sends two buffers as one message.
    ///
    /// # Safety
    /// As for [`Endpoint::send`], for both buffers.
    #[doc(alias = "fi_sendmsg")]
    #[inline]
    pub unsafe fn send_pair(
        &self,
        pair: [(*const u8, usize); 2],
        mut descriptors: [*mut c_void; 2],
        to: sys::fi_addr_t,
        context: *mut c_void,
    ) -> Result<Posted, CallError> {
        let segments = pair.map(|(base, len)| sys::iovec {
            iov_base: base.cast_mut().cast(),
            iov_len: len,
        });
        let message = sys::fi_msg {
            msg_iov: segments.as_ptr(),
            desc: descriptors.as_mut_ptr(),
            iov_count: segments.len(),
            addr: to,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is open; libfabric copies the message and its segment list during the call; the
        // caller's contract holds for what the segments point to.
        posted("fi_sendmsg", unsafe {
            sys::fi_sendmsg(self.raw, &message, sys::FI_COMPLETION)
        })
    }

    /// Posts a buffer for messages to come.
    ///
    /// # Safety
    /// The buffer stays valid and is not touched except to read messages that completed, `descriptor` belongs to it,
    /// and `context` stays valid (8 pointers), until libfabric releases it or the endpoint is closed.
    #[doc(alias = "fi_recvmsg")]
    pub unsafe fn receive(
        &self,
        takes: Takes,
        buffer: *mut u8,
        len: usize,
        mut descriptor: *mut c_void,
        context: *mut c_void,
    ) -> Result<Posted, CallError> {
        let segment = sys::iovec {
            iov_base: buffer.cast(),
            iov_len: len,
        };
        let message = sys::fi_msg {
            msg_iov: &segment,
            desc: &mut descriptor,
            iov_count: 1,
            addr: sys::FI_ADDR_UNSPEC,
            context,
            data: 0,
        };
        let flags = match takes {
            Takes::One => sys::FI_COMPLETION,
            Takes::Many => sys::FI_MULTI_RECV | sys::FI_COMPLETION,
        };
        // SAFETY: the endpoint is open; the message and its segment are copied during the call; the caller's contract.
        posted("fi_recvmsg", unsafe {
            sys::fi_recvmsg(self.raw, &message, flags)
        })
    }

    /// Reads remote memory.
    ///
    /// # Safety
    /// The target stays valid and untouched, `descriptor` belongs to it, and `context` stays valid (8 pointers), until
    /// the completion or until the endpoint is closed. `from`: as `to` for [`Endpoint::inject`].
    #[doc(alias = "fi_read")]
    pub unsafe fn read(
        &self,
        into: *mut u8,
        len: usize,
        descriptor: *mut c_void,
        from: sys::fi_addr_t,
        address: u64,
        key: u64,
        context: *mut c_void,
    ) -> Result<Posted, CallError> {
        // SAFETY: the endpoint is open, and the caller's contract.
        posted("fi_read", unsafe {
            sys::fi_read(
                self.raw,
                into.cast(),
                len,
                descriptor,
                from,
                address,
                key,
                context,
            )
        })
    }

    /// Reads remote memory into several targets, one after the other: (address, length) of each, no more than
    /// [`Facts::send_iov_limit`](super::info::Facts::send_iov_limit) and [`Endpoint::TARGETS`].
    ///
    /// # Safety
    /// As for [`Endpoint::read`], for each target and its descriptor.
    #[doc(alias = "fi_readmsg")]
    pub unsafe fn read_scattered(
        &self,
        into: impl IntoIterator<Item = ((*mut u8, usize), *mut c_void)>,
        from: sys::fi_addr_t,
        address: u64,
        key: u64,
        context: *mut c_void,
    ) -> Result<Posted, CallError> {
        let mut segments = [sys::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        }; Endpoint::TARGETS];
        let mut descriptors = [ptr::null_mut(); Endpoint::TARGETS];
        let (mut count, mut bytes) = (0, 0);
        for ((base, len), descriptor) in into {
            segments[count] = sys::iovec {
                iov_base: base.cast(),
                iov_len: len,
            };
            descriptors[count] = descriptor;
            (count, bytes) = (count + 1, bytes + len);
        }
        let remote = sys::fi_rma_iov {
            addr: address,
            len: bytes,
            key,
        };
        let message = sys::fi_msg_rma {
            msg_iov: segments.as_ptr(),
            desc: descriptors.as_mut_ptr(),
            iov_count: count,
            addr: from,
            rma_iov: &remote,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is open; libfabric copies the message and its lists during the call; the caller's contract.
        posted("fi_readmsg", unsafe {
            sys::fi_readmsg(self.raw, &message, sys::FI_COMPLETION)
        })
    }

    /// The most targets of [`Endpoint::read_scattered`].
    pub const TARGETS: usize = 8;

    pub(super) fn fid(&self) -> *mut sys::fid {
        // SAFETY: the object is open; only the field's address is taken.
        unsafe { ptr::addr_of_mut!((*self.raw).fid) }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: regions bound to the endpoint hold an `Rc` of it, so none is left; the fields close after it.
        unsafe { close(self.fid()) };
    }
}

#[cfg(test)]
pub(crate) mod hooked;
#[cfg(test)]
mod stand_in;
