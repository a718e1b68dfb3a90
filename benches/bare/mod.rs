//! One endpoint straight on the FFI, as little around it as libfabric allows.

use std::ffi::c_void;
use std::ptr;

use weft::system::fabric::When;
use weft_libfabric_sys as sys;

use super::Side;

/// Bytes of a multi-receive buffer.
const BUFFER: usize = 1 << 20;

/// Everything open; the process ends it, but for the endpoint, which would leave a file in /dev/shm over `shm`.
pub struct Bare {
    domain: *mut sys::fid_domain,
    ep: *mut sys::fid_ep,
    cq: *mut sys::fid_cq,
    av: *mut sys::fid_av,
    peer: sys::fi_addr_t,
    virtual_addresses: bool,
    inject_size: usize,
    buffers: Vec<(Vec<u8>, Box<sys::fi_context2>)>,
    context: Box<sys::fi_context2>,
    arrived: usize,
    completed: usize,
}

#[track_caller]
fn ok(status: impl Into<i64>) {
    let status = status.into();
    assert!(status >= 0, "libfabric says {status}");
}

impl Bare {
    /// As the lane opens its own; `min_multi_recv` is the longest message in bytes.
    pub fn open(info: &weft::system::fabric::Info, min_multi_recv: usize, descriptor: bool) -> Bare {
        // SAFETY: the objects are opened in libfabric's order from one fi_info, and stay open; all pointers are valid
        // during the calls.
        unsafe {
            let library = sys::library().expect("libfabric is there");
            let raw = library.fi_dupinfo(info.as_raw());
            let (mut fabric, mut domain) = (ptr::null_mut(), ptr::null_mut());
            ok(library.fi_fabric((*raw).fabric_attr, &mut fabric, ptr::null_mut()));
            ok(sys::fi_domain(fabric, raw, &mut domain, ptr::null_mut()));
            let mut attr = sys::fi_cq_attr {
                format: sys::FI_CQ_FORMAT_DATA,
                wait_obj: if descriptor {
                    sys::FI_WAIT_FD
                } else {
                    sys::FI_WAIT_NONE
                },
                ..Default::default()
            };
            let (mut cq, mut av, mut ep) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            ok(sys::fi_cq_open(domain, &mut attr, &mut cq, ptr::null_mut()));
            let mut attr = sys::fi_av_attr {
                type_: (*(*raw).domain_attr).av_type,
                ..Default::default()
            };
            ok(sys::fi_av_open(domain, &mut attr, &mut av, ptr::null_mut()));
            ok(sys::fi_endpoint(domain, raw, &mut ep, ptr::null_mut()));
            ok(sys::fi_ep_bind(ep, ptr::addr_of_mut!((*av).fid), 0));
            ok(sys::fi_ep_bind(
                ep,
                ptr::addr_of_mut!((*cq).fid),
                sys::FI_TRANSMIT | sys::FI_RECV,
            ));
            let when = When::of(
                &info.provider(),
                weft::system::fabric::version().expect("libfabric is there"),
            );
            let limit_remainder = || {
                ok(sys::fi_setopt(
                    ep,
                    sys::FI_OPT_ENDPOINT as i32,
                    sys::FI_OPT_MIN_MULTI_RECV as i32,
                    ptr::from_ref(&min_multi_recv).cast(),
                    size_of::<usize>(),
                ));
            };
            if when == When::BeforeEnable {
                limit_remainder();
            }
            ok(sys::fi_enable(ep));
            if when == When::AfterEnable {
                limit_remainder();
            }
            let mut bare = Bare {
                domain,
                ep,
                cq,
                av,
                peer: 0,
                virtual_addresses: info.addresses_virtual(),
                inject_size: info.inject_size(),
                buffers: (0..4).map(|_| (vec![0; BUFFER], Box::default())).collect(),
                context: Box::default(),
                arrived: 0,
                completed: 0,
            };
            for index in 0..bare.buffers.len() {
                bare.post(index);
            }
            bare
        }
    }

    fn post(&mut self, index: usize) {
        let (buffer, context) = &mut self.buffers[index];
        let segment = sys::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let message = sys::fi_msg {
            msg_iov: &segment,
            desc: ptr::null_mut(),
            iov_count: 1,
            addr: sys::FI_ADDR_UNSPEC,
            context: ptr::from_mut(&mut **context).cast(),
            data: 0,
        };
        // SAFETY: the endpoint is open; buffer and context live as long as the process.
        ok(unsafe { sys::fi_recvmsg(self.ep, &message, sys::FI_MULTI_RECV) } as i64);
    }

    pub fn name(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; 512];
        let mut len = bytes.len();
        // SAFETY: the endpoint is open, and `bytes` has `len` bytes.
        ok(unsafe { sys::fi_getname(self.ep, bytes.as_mut_ptr().cast(), &mut len) });
        bytes.truncate(len);
        bytes
    }

    pub fn connect(&mut self, address: &[u8]) {
        // SAFETY: the address comes from the same provider's fi_getname.
        ok(unsafe {
            sys::fi_av_insert(
                self.av,
                address.as_ptr().cast(),
                1,
                &mut self.peer,
                0,
                ptr::null_mut(),
            )
        });
    }

    pub fn register(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut region = ptr::null_mut();
        // SAFETY: the domain is open; the bytes live until the process ends.
        let key = unsafe {
            let base: *const c_void = bytes.as_ptr().cast();
            let access = sys::FI_REMOTE_READ;
            ok(sys::fi_mr_reg(
                self.domain,
                base,
                bytes.len(),
                access,
                0,
                77,
                0,
                &mut region,
                ptr::null_mut(),
            ));
            sys::fi_mr_key(region)
        };
        let base = if self.virtual_addresses {
            bytes.as_ptr() as u64
        } else {
            0
        };
        [key.to_le_bytes(), base.to_le_bytes()].concat()
    }

    #[inline]
    fn poll(&mut self) {
        let mut entries = [sys::fi_cq_data_entry::default(); 16];
        // SAFETY: the queue is open, and there is room for 16 entries of its format.
        let count = unsafe { sys::fi_cq_read(self.cq, entries.as_mut_ptr().cast(), entries.len()) };
        if count == -(sys::FI_EAGAIN as isize) {
            return;
        }
        ok(count as i64);
        for entry in &entries[..count as usize] {
            if entry.flags & sys::FI_RECV != 0 {
                self.arrived += 1;
            } else if entry.flags & (sys::FI_SEND | sys::FI_READ) != 0 {
                self.completed += 1;
            }
            if entry.flags & sys::FI_MULTI_RECV != 0 {
                let of = |(_, context): &(_, Box<sys::fi_context2>)| {
                    ptr::from_ref(&**context).cast_mut().cast() == entry.op_context
                };
                let index = self.buffers.iter().position(of).expect("one of the buffers");
                self.post(index);
            }
        }
    }

    fn until_accepted(&mut self, mut call: impl FnMut(&mut Bare) -> isize) {
        loop {
            let status = call(self);
            if status != -(sys::FI_EAGAIN as isize) {
                return ok(status as i64);
            }
            self.poll();
        }
    }

    fn until_completed(&mut self) {
        while self.completed == 0 {
            self.poll();
        }
        self.completed -= 1;
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // SAFETY: the endpoint is open, and nothing uses it after.
        ok(unsafe { sys::fi_close(ptr::addr_of_mut!((*self.ep).fid)) });
    }
}

impl Side for Bare {
    fn send(&mut self, bytes: &[u8]) {
        if bytes.len() <= self.inject_size {
            // SAFETY: the endpoint is open, and fi_inject copies.
            return self.until_accepted(|bare| unsafe {
                sys::fi_inject(bare.ep, bytes.as_ptr().cast(), bytes.len(), bare.peer)
            });
        }
        self.until_accepted(|bare| {
            let context = ptr::from_mut(&mut *bare.context).cast();
            // SAFETY: the completion is waited for below, while the bytes live.
            unsafe {
                sys::fi_send(
                    bare.ep,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    ptr::null_mut(),
                    bare.peer,
                    context,
                )
            }
        });
        self.until_completed();
    }

    fn receive(&mut self) {
        while self.arrived == 0 {
            self.poll();
        }
        self.arrived -= 1;
    }

    fn read(&mut self, key: &[u8], into: &mut [u8]) {
        let number = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("8 bytes"));
        let (key, address) = (number(0), number(8));
        self.until_accepted(|bare| {
            let context = ptr::from_mut(&mut *bare.context).cast();
            let (base, len) = (into.as_mut_ptr().cast(), into.len());
            // SAFETY: the completion is waited for below, while `into` lives.
            unsafe {
                sys::fi_read(
                    bare.ep,
                    base,
                    len,
                    ptr::null_mut(),
                    bare.peer,
                    address,
                    key,
                    context,
                )
            }
        });
        self.until_completed();
    }

    fn progress(&mut self) -> bool {
        self.poll();
        self.arrived > 0
    }
}
