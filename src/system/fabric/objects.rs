//! Fabric, domain, address vector and memory region.
//!
//! None of them is `Send` or `Sync`: each call relies on no other thread being in a call of the same domain. Code that moves all
//! of a domain's objects to another thread together states that (`lane::ofi`).

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use weft_libfabric_sys as sys;

use super::call::{CallError, check};
use super::endpoint::Endpoint;
use super::info::Info;

/// Closes an object. A failure can't be returned; in debug builds it panics, since it means a wrong order.
///
/// # Safety
/// `fid` is open, nothing uses it after, and what depends on it is closed.
#[doc(alias = "fi_close")]
pub(super) unsafe fn close(fid: *mut sys::fid) {
    // SAFETY: the caller's promise: the object is open, and nothing stands on it.
    let status = unsafe { sys::fi_close(fid) };
    debug_assert_eq!(status, 0, "fi_close: {}", super::call::error_text(status));
}

/// A fabric: one provider's view of a network.
pub struct Fabric {
    raw: *mut sys::fid_fabric,
}

impl Fabric {
    /// Opens the fabric of `info`.
    #[doc(alias = "fi_fabric")]
    pub fn open(info: &Info) -> Result<Rc<Fabric>, CallError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the attributes belong to `info`, and `raw` outlives the call.
        let status = unsafe {
            info.library()
                .fi_fabric((*info.as_ptr()).fabric_attr, &mut raw, ptr::null_mut())
        };
        check("fi_fabric", status as isize)?;
        Ok(Rc::new(Fabric { raw }))
    }

    /// Whether the caller may sleep on the descriptors of `fids` without missing anything.
    #[doc(alias = "fi_trywait")]
    pub(super) fn may_wait(&self, fid: *mut sys::fid) -> bool {
        let mut fids = [fid];
        // SAFETY: both objects are open, and the array outlives the call.
        unsafe { sys::fi_trywait(self.raw, fids.as_mut_ptr(), 1) == 0 }
    }

    pub(super) fn as_ptr(&self) -> *mut sys::fid_fabric {
        self.raw
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // SAFETY: domains hold an `Rc` of this, so none is left.
        unsafe { close(ptr::addr_of_mut!((*self.raw).fid)) };
    }
}

/// A domain: a device or interface with its resources.
pub struct Domain {
    raw: *mut sys::fid_domain,
    fabric: Rc<Fabric>,
    binds_regions: bool,
}

impl Domain {
    /// Opens the domain of `info`.
    #[doc(alias = "fi_domain")]
    pub fn open(fabric: &Rc<Fabric>, info: &Info) -> Result<Rc<Domain>, CallError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the fabric is open, `info` came from libfabric, `raw` outlives the call.
        let status = unsafe { sys::fi_domain(fabric.as_ptr(), info.as_ptr(), &mut raw, ptr::null_mut()) };
        check("fi_domain", status as isize)?;
        Ok(Rc::new(Domain {
            raw,
            fabric: fabric.clone(),
            binds_regions: info.binds_regions(),
        }))
    }

    pub(super) fn as_ptr(&self) -> *mut sys::fid_domain {
        self.raw
    }

    pub(super) fn fabric(&self) -> &Fabric {
        &self.fabric
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: all that stands on the domain holds an `Rc` of it, so nothing is left.
        unsafe { close(ptr::addr_of_mut!((*self.raw).fid)) };
    }
}

/// Peers' addresses, by small numbers.
pub struct AddressVector {
    raw: *mut sys::fid_av,
    _domain: Rc<Domain>,
}

impl AddressVector {
    /// An empty one.
    #[doc(alias = "fi_av_open")]
    pub fn open(domain: &Rc<Domain>, info: &Info) -> Result<Rc<AddressVector>, CallError> {
        let mut attr = sys::fi_av_attr {
            type_: info.av_type(),
            ..Default::default()
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open; `attr` and `raw` outlive the call.
        let status = unsafe { sys::fi_av_open(domain.as_ptr(), &mut attr, &mut raw, ptr::null_mut()) };
        check("fi_av_open", status as isize)?;
        Ok(Rc::new(AddressVector {
            raw,
            _domain: domain.clone(),
        }))
    }

    /// Adds an address.
    ///
    /// # Safety
    /// `address` has the domain's address format: libfabric reads as many bytes as the format has.
    #[doc(alias = "fi_av_insert")]
    pub unsafe fn insert(&self, address: &[u8]) -> Result<sys::fi_addr_t, CallError> {
        let mut number = sys::FI_ADDR_UNSPEC;
        // SAFETY: the vector is open; the caller vouches for the format; both pointers outlive the call.
        let status = unsafe {
            sys::fi_av_insert(
                self.raw,
                address.as_ptr().cast(),
                1,
                &mut number,
                0,
                ptr::null_mut(),
            )
        };
        if check("fi_av_insert", status as isize)? == 1 && number != sys::FI_ADDR_UNSPEC {
            return Ok(number);
        }
        Err(CallError {
            call: "fi_av_insert",
            code: libc::EINVAL,
            detail: "the address was not taken".into(),
        })
    }

    /// Forgets an address. Should the provider refuse that, it stays.
    ///
    /// # Safety
    /// It is the number of an address of this vector, which [`AddressVector::insert`] has returned, and nothing uses it any more.
    #[doc(alias = "fi_av_remove")]
    pub unsafe fn remove(&self, mut number: sys::fi_addr_t) {
        // SAFETY: the vector is open; the caller vouches for the number; the pointer outlives the call.
        let _ = unsafe { sys::fi_av_remove(self.raw, &mut number, 1, 0) };
    }

    pub(super) fn fid(&self) -> *mut sys::fid {
        // SAFETY: the object is open; only the field's address is taken.
        unsafe { ptr::addr_of_mut!((*self.raw).fid) }
    }
}

impl Drop for AddressVector {
    fn drop(&mut self) {
        // SAFETY: endpoints hold an `Rc` of this, so none is left.
        unsafe { close(self.fid()) };
    }
}

/// What a memory region is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The source of sends.
    Send,
    /// The target of receives.
    Receive,
    /// The target of remote reads by this process.
    ReadInto,
    /// The source of sends and of writes to remote memory, and the target of what atomic operations return.
    Any,
    /// The source of writes to remote memory.
    WriteFrom,
    /// The source of reads by peers.
    RemoteRead,
    /// The source of reads by peers, and the target of their writes and atomic operations.
    RemoteAny,
}

impl Access {
    fn bits(self) -> u64 {
        match self {
            Access::Send => sys::FI_SEND,
            Access::Receive => sys::FI_RECV,
            Access::ReadInto => sys::FI_READ,
            Access::Any => sys::FI_SEND | sys::FI_READ | sys::FI_WRITE,
            Access::WriteFrom => sys::FI_WRITE,
            Access::RemoteRead => sys::FI_REMOTE_READ,
            Access::RemoteAny => sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE,
        }
    }
}

/// Registered memory.
pub struct MemoryRegion {
    raw: *mut sys::fid_mr,
    _domain: Rc<Domain>,
    /// With `FI_MR_ENDPOINT`, what the region is bound to: it closes after the region.
    _endpoint: Option<Rc<Endpoint>>,
}

impl MemoryRegion {
    /// Registers `len` bytes at `address`. `requested_key` is used only where the provider does not choose keys itself.
    ///
    /// # Safety
    /// The memory stays mapped until the region is dropped.
    #[doc(alias = "fi_mr_reg")]
    pub unsafe fn register(
        domain: &Rc<Domain>,
        endpoint: &Rc<Endpoint>,
        address: *const u8,
        len: usize,
        access: Access,
        requested_key: u64,
    ) -> Result<MemoryRegion, CallError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open, the caller vouches for the memory, `raw` outlives the call.
        let status = unsafe {
            sys::fi_mr_reg(
                domain.as_ptr(),
                address.cast(),
                len,
                access.bits(),
                0,
                requested_key,
                0,
                &mut raw,
                ptr::null_mut::<c_void>(),
            )
        };
        check("fi_mr_reg", status as isize)?;
        let mut region = MemoryRegion {
            raw,
            _domain: domain.clone(),
            _endpoint: None,
        };
        if domain.binds_regions {
            region._endpoint = Some(endpoint.clone());
            // SAFETY: both objects are open.
            let status = unsafe { sys::fi_mr_bind(raw, endpoint.fid(), 0) };
            check("fi_mr_bind", status as isize)?;
            // SAFETY: the region is open and bound.
            check("fi_mr_enable", unsafe { sys::fi_mr_enable(raw) } as isize)?;
        }
        Ok(region)
    }

    /// What local operations on this memory pass to libfabric.
    #[doc(alias = "fi_mr_desc")]
    pub fn descriptor(&self) -> *mut c_void {
        // SAFETY: the region is open.
        unsafe { sys::fi_mr_desc(self.raw) }
    }

    /// What peers need to read this memory.
    #[doc(alias = "fi_mr_key")]
    pub fn key(&self) -> u64 {
        // SAFETY: the region is open, and enabled where that is asked for.
        unsafe { sys::fi_mr_key(self.raw) }
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: the region is open; operations on it have ended or their endpoint is closed (the lane's order).
        unsafe { close(ptr::addr_of_mut!((*self.raw).fid)) };
    }
}
