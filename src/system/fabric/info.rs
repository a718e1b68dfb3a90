//! What libfabric offers: `fi_getinfo` and the `fi_info` structs that it returns.

use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

use weft_libfabric_sys as sys;

use super::call::{CallError, check};
use super::select::has_fast_network;
use crate::base::error::Result;

/// The version of the interface that Weft is written to. libfabric 2.x behaves as 1.17 did for callers that pass this.
const API_VERSION: u32 = (1 << 16) | 17;

/// The `mr_mode` bits that Weft supports; a provider that needs others (`FI_MR_RAW`, …) is not offered.
const MR_MODES: i32 = sys::FI_MR_LOCAL
    | sys::FI_MR_VIRT_ADDR
    | sys::FI_MR_ALLOCATED
    | sys::FI_MR_PROV_KEY
    | sys::FI_MR_ENDPOINT;

/// What to ask for.
#[derive(Clone, Debug, Default)]
pub struct Query<'a> {
    /// Only this provider, such as `tcp;ofi_rxm`; libfabric may answer with layered relatives too.
    pub provider: Option<&'a str>,
    /// Only providers that can read remote memory.
    pub rma: bool,
    /// Of these, only those that can write it, too.
    pub write: bool,
    /// Only providers with atomic operations on remote memory.
    pub atomics: bool,
    /// Only providers that can report a write once the data is in the target's memory (`FI_DELIVERY_COMPLETE`). To be asked only to know
    /// that: endpoints that are opened with such an entry would report all of their messages so.
    pub delivers: bool,
    /// Only providers that deliver messages of one peer in order.
    pub ordered: bool,
    /// Only endpoints bound to this address.
    pub source: Option<IpAddr>,
}

/// Asks libfabric for reliable datagram endpoints with messages and multi-receive buffers. No match is an empty list.
///
/// The first call of a process initializes all of libfabric; on 1.17 that would read the kernel's symbol table twice (its
/// verbs provider does), about 0.1 s, whatever is asked for, and is kept from it where there is no fast network; on 2.x it does
/// so only when verbs is asked for, or all providers are. Later calls take 0.02 to 1 ms.
#[doc(alias = "fi_getinfo")]
pub fn query(query: &Query<'_>) -> Result<InfoList> {
    let library = super::library()?;
    let no_memory = CallError {
        call: "fi_allocinfo",
        code: libc::ENOMEM,
        detail: String::new(),
    };
    let hints = Info {
        raw: NonNull::new(sys::fi_allocinfo(library)).ok_or(no_memory)?,
        library,
    };
    let wanted = |name: &str| CString::new(name).unwrap_or_default();
    let node = query.source.map(|source| wanted(&source.to_string()));
    let mut order = 0;
    if query.ordered {
        order |= sys::FI_ORDER_SAS;
    }
    // SAFETY: fi_allocinfo fills in every attribute pointer used here. The provider's name is allocated with strdup,
    // as fi_freeinfo frees it. `list` and `node` outlive the call.
    unsafe {
        let raw = hints.raw.as_ptr();
        (*raw).caps = sys::FI_MSG | sys::FI_MULTI_RECV;
        if query.rma {
            (*raw).caps |= sys::FI_RMA | sys::FI_READ | sys::FI_REMOTE_READ;
        }
        if query.write {
            (*raw).caps |= sys::FI_WRITE | sys::FI_REMOTE_WRITE;
        }
        if query.atomics {
            (*raw).caps |= sys::FI_ATOMIC;
        }
        if query.delivers {
            (*(*raw).tx_attr).op_flags = sys::FI_DELIVERY_COMPLETE;
        }
        (*raw).caps |= sys::FI_SEND | sys::FI_RECV;
        (*raw).mode = sys::FI_CONTEXT | sys::FI_CONTEXT2;
        (*(*raw).ep_attr).type_ = sys::FI_EP_RDM;
        (*(*raw).tx_attr).msg_order = order;
        (*(*raw).rx_attr).msg_order = order;
        (*(*raw).domain_attr).mr_mode = MR_MODES;
        // The engine calls from one thread at a time, so the provider need not lock.
        (*(*raw).domain_attr).threading = sys::FI_THREAD_DOMAIN;
        // The engine polls, so threads of the provider would only use up cores.
        (*(*raw).domain_attr).data_progress = sys::FI_PROGRESS_MANUAL;
        (*(*raw).domain_attr).resource_mgmt = sys::FI_RM_ENABLED;
        if let Some(provider) = query.provider {
            (*(*raw).fabric_attr).prov_name = libc::strdup(wanted(provider).as_ptr());
        }
        let mut list = ptr::null_mut();
        let source = node.as_ref().map_or(ptr::null(), |node| node.as_ptr());
        let flags = if source.is_null() {
            0
        } else {
            sys::FI_SOURCE | sys::FI_NUMERICHOST
        };
        let mut ask = || library.fi_getinfo(API_VERSION, source, ptr::null(), flags, raw, &mut list);
        let status = if STARTED.swap(true, Ordering::Relaxed) || has_fast_network() {
            ask()
        } else {
            sys::without_kernel_symbols(library, ask)
        };
        match status {
            status if status == -sys::FI_ENODATA => Ok(InfoList { first: None, library }),
            _ => {
                check("fi_getinfo", status as isize)?;
                Ok(InfoList {
                    first: NonNull::new(list),
                    library,
                })
            }
        }
    }
}

/// Whether this process has asked libfabric before.
static STARTED: AtomicBool = AtomicBool::new(false);

/// What `fi_getinfo` returned; freed as a whole.
pub struct InfoList {
    first: Option<NonNull<sys::fi_info>>,
    library: &'static sys::Library,
}

impl InfoList {
    /// Every entry, in libfabric's order of preference.
    pub fn iter(&self) -> impl Iterator<Item = InfoRef<'_>> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let raw = next?;
            // SAFETY: the list is libfabric's, whole, and not changed while borrowed.
            next = NonNull::new(unsafe { raw.as_ref() }.next);
            Some(InfoRef { raw, list: self })
        })
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        if let Some(raw) = self.first {
            // SAFETY: this owns the list, and entries borrowed from it are gone.
            unsafe { self.library.fi_freeinfo(raw.as_ptr()) };
        }
    }
}

/// One entry of an [`InfoList`].
#[derive(Clone, Copy)]
pub struct InfoRef<'a> {
    raw: NonNull<sys::fi_info>,
    list: &'a InfoList,
}

impl InfoRef<'_> {
    /// An independent copy.
    #[doc(alias = "fi_dupinfo")]
    pub fn to_owned(self) -> std::result::Result<Info, CallError> {
        let no_memory = CallError {
            call: "fi_dupinfo",
            code: libc::ENOMEM,
            detail: String::new(),
        };
        let library = self.list.library;
        // SAFETY: the entry is alive; fi_dupinfo copies it and all that it points to.
        NonNull::new(unsafe { library.fi_dupinfo(self.raw.as_ptr()) })
            .map(|raw| Info { raw, library })
            .ok_or(no_memory)
    }
}

/// An independent entry.
pub struct Info {
    raw: NonNull<sys::fi_info>,
    library: &'static sys::Library,
}

// SAFETY: the struct and all that it points to belong to this value; libfabric has no thread-bound state in it.
unsafe impl Send for Info {}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: this value owns the struct.
        unsafe { self.library.fi_freeinfo(self.raw.as_ptr()) };
    }
}

impl Deref for Info {
    type Target = Facts;
    fn deref(&self) -> &Facts {
        // SAFETY: `Facts` is a transparent view of a struct that lives as long as `self`.
        unsafe { &*self.raw.as_ptr().cast::<Facts>() }
    }
}

impl Deref for InfoRef<'_> {
    type Target = Facts;
    fn deref(&self) -> &Facts {
        // SAFETY: `Facts` is a transparent view of a struct that lives as long as the list.
        unsafe { &*self.raw.as_ptr().cast::<Facts>() }
    }
}

impl Info {
    /// Asks for shorter queues of arrived messages than the provider would make.
    pub fn limit_receive_queue(&mut self, entries: usize) {
        // SAFETY: the attribute pointer is filled in, and this value owns what it points to.
        let size = unsafe { &mut (*(*self.raw.as_ptr()).rx_attr).size };
        *size = entries.min(*size);
    }

    /// Asks for a thread of the provider's own that makes progress.
    pub fn progress_by_thread(&mut self) {
        // SAFETY: the attribute pointer is filled in, and this value owns what it points to.
        unsafe { (*(*self.raw.as_ptr()).domain_attr).data_progress = sys::FI_PROGRESS_AUTO };
    }

    /// Names the endpoint that will be opened, in place of the provider's own name for it. For providers whose addresses are
    /// text (`FI_ADDR_STR`).
    ///
    /// # Errors
    /// `EINVAL`: they are not, and libfabric would take the text for an address of the provider's format, whose length it knows.
    pub fn name_source(&mut self, name: &CStr) -> std::result::Result<(), CallError> {
        if self.address_format() != sys::FI_ADDR_STR {
            return Err(CallError {
                call: "name_source",
                code: libc::EINVAL,
                detail: format!("addresses of {} are no text", self.provider()),
            });
        }
        // SAFETY: the argument is a C string.
        let copy = unsafe { libc::strdup(name.as_ptr()) };
        if copy.is_null() {
            return Err(CallError {
                call: "strdup",
                code: libc::ENOMEM,
                detail: String::new(),
            });
        }
        // SAFETY: this value owns the struct and its address, which fi_freeinfo gives to `free`, as for what strdup returns.
        unsafe {
            let raw = self.raw.as_ptr();
            libc::free((*raw).src_addr);
            (*raw).src_addr = copy.cast();
            (*raw).src_addrlen = name.to_bytes_with_nul().len();
        }
        Ok(())
    }

    /// The C struct, for code without these wrappers; it belongs to this value.
    pub fn as_raw(&self) -> *const sys::fi_info {
        self.raw.as_ptr()
    }

    /// libfabric, which made this.
    pub(super) fn library(&self) -> &'static sys::Library {
        self.library
    }

    pub(super) fn as_ptr(&self) -> *mut sys::fi_info {
        self.raw.as_ptr()
    }
}

/// The contents of an entry, read-only. Only [`Info`] and [`InfoRef`] make one.
#[repr(transparent)]
pub struct Facts(sys::fi_info);

macro_rules! attribute {
    ($(#[doc = $doc:literal] $name:ident: $type:ty = $attr:ident . $field:ident;)+) => {$(
        #[doc = $doc]
        pub fn $name(&self) -> $type {
            // SAFETY: fi_getinfo and fi_dupinfo fill in every attribute pointer.
            unsafe { (*self.0.$attr).$field }
        }
    )+};
}

impl Facts {
    attribute! {
        /// Up to this many bytes can be sent by `fi_inject`.
        inject_size: usize = tx_attr.inject_size;
        /// Most segments of this process's memory in one send or remote read.
        send_iov_limit: usize = tx_attr.iov_limit;
        /// Most operations under way.
        send_queue_size: usize = tx_attr.size;
        /// Most receive buffers posted.
        receive_queue_size: usize = rx_attr.size;
        /// The longest message or remote read in bytes.
        max_msg_size: usize = ep_attr.max_msg_size;
        /// Bytes of a memory region's key.
        mr_key_size: usize = domain_attr.mr_key_size;
    }

    fn text(&self, text: *const std::ffi::c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: libfabric's strings end with a null and live as long as the entry.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The provider's full name, such as `tcp;ofi_rxm`.
    pub fn provider(&self) -> String {
        // SAFETY: the attribute pointer is filled in (see `attribute`).
        self.text(unsafe { (*self.0.fabric_attr).prov_name })
    }

    /// The domain: for IP providers the network interface, for others the device.
    pub fn domain_name(&self) -> String {
        // SAFETY: the attribute pointer is filled in (see `attribute`).
        self.text(unsafe { (*self.0.domain_attr).name })
    }

    /// The fabric: for IP providers the network.
    pub fn fabric_name(&self) -> String {
        // SAFETY: the attribute pointer is filled in (see `attribute`).
        self.text(unsafe { (*self.0.fabric_attr).name })
    }

    /// The provider's version, such as (117, 0).
    pub fn provider_version(&self) -> (u32, u32) {
        // SAFETY: the attribute pointer is filled in (see `attribute`).
        let version = unsafe { (*self.0.fabric_attr).prov_version };
        (version >> 16, version & 0xffff)
    }

    /// libfabric's number for the format of addresses (`FI_SOCKADDR_IN`, `FI_ADDR_STR`, …).
    pub fn address_format(&self) -> u32 {
        self.0.addr_format
    }

    /// Whether remote memory can be read.
    pub fn has_rma(&self) -> bool {
        self.0.caps & (sys::FI_RMA | sys::FI_READ) == sys::FI_RMA | sys::FI_READ
    }

    /// Whether remote memory can be written.
    pub fn has_writes(&self) -> bool {
        let needed = sys::FI_RMA | sys::FI_WRITE | sys::FI_REMOTE_WRITE;
        self.0.caps & needed == needed
    }

    /// Whether there may be atomic operations on remote memory.
    pub fn has_atomics(&self) -> bool {
        self.0.caps & sys::FI_ATOMIC != 0
    }

    /// Whether messages of one peer arrive in order (`FI_ORDER_SAS` granted on both sides).
    pub fn is_ordered(&self) -> bool {
        // SAFETY: the attribute pointers are filled in (see `attribute`).
        let (tx, rx) = unsafe { ((*self.0.tx_attr).msg_order, (*self.0.rx_attr).msg_order) };
        tx & rx & sys::FI_ORDER_SAS != 0
    }

    /// Whether messages of one peer also complete in the order in which they arrive.
    pub fn completes_in_order(&self) -> bool {
        // SAFETY: the attribute pointer is filled in (see `attribute`).
        unsafe { (*self.0.rx_attr).comp_order & sys::FI_ORDER_STRICT == sys::FI_ORDER_STRICT }
    }

    /// Whether the provider requires the `mr_mode` bit.
    fn mr_mode(&self, bit: i32) -> bool {
        // SAFETY: the attribute pointer is filled in (see `attribute`).
        unsafe { (*self.0.domain_attr).mr_mode & bit != 0 }
    }

    /// `FI_MR_LOCAL`: buffers of local operations must be registered.
    pub fn registers_local(&self) -> bool {
        self.mr_mode(sys::FI_MR_LOCAL)
    }

    /// `FI_MR_VIRT_ADDR`: remote memory is addressed by the peer's virtual addresses, not by offsets.
    pub fn addresses_virtual(&self) -> bool {
        self.mr_mode(sys::FI_MR_VIRT_ADDR)
    }

    /// `FI_MR_PROV_KEY`: the provider chooses keys.
    pub fn chooses_keys(&self) -> bool {
        self.mr_mode(sys::FI_MR_PROV_KEY)
    }

    /// `FI_MR_ENDPOINT`: regions are bound to endpoints and enabled.
    pub fn binds_regions(&self) -> bool {
        self.mr_mode(sys::FI_MR_ENDPOINT)
    }

    /// The local address that an endpoint would be bound to, where it is an IP address.
    pub fn source_ip(&self) -> Option<IpAddr> {
        if self.0.src_addr.is_null() {
            return None;
        }
        // SAFETY: `src_addr` has `src_addrlen` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.src_addr.cast::<u8>(), self.0.src_addrlen) };
        super::interface::socket_address(bytes).map(|address| address.ip())
    }

    pub(super) fn av_type(&self) -> sys::fi_av_type {
        // SAFETY: the attribute pointer is filled in (see `attribute`).
        match unsafe { (*self.0.domain_attr).av_type } {
            sys::FI_AV_UNSPEC => sys::FI_AV_TABLE,
            given => given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_not_named() {
        let asked = Query {
            provider: Some("sockets"),
            ..Query::default()
        };
        let list = query(&asked).unwrap();
        let mut info = list.iter().next().expect("sockets is there").to_owned().unwrap();
        let before = info.source_ip();
        assert!(before.is_some());
        assert_eq!(info.name_source(c"a").unwrap_err().code, libc::EINVAL);
        assert_eq!(info.source_ip(), before);
    }
}
