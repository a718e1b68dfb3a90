//! An endpoint that simulates those of providers whose hardware or library is not here, as far as `FI_OPT_MIN_MULTI_RECV`
//! is concerned. It behaves as their sources do: prov/util/src/util_srx.c (`util_adjust_multi_recv`),
//! prov/shm/src/smr_ep.c, prov/efa/src/rdm/efa_rdm_ep_fiops.c, prov/sm2/src/sm2_ep.c, before and after libfabric's pull
//! request 10618.

use std::cell::Cell;
use std::collections::VecDeque;

use super::*;
use crate::system::fabric::info::{Query, query};
use crate::system::fabric::{AddressVector, CompletionQueue, Domain, Fabric};

/// What a provider does with the option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Provider {
    /// Stores it where it is read for each message.
    AnyTime,
    /// Writes it into the receive queue, which exists only once the endpoint is enabled.
    IntoQueue,
    /// Keeps it for making the receive queue, when the endpoint is enabled.
    ForQueue,
}

#[repr(C)]
struct StandIn {
    /// The part that libfabric's calls use. It comes first, so that its address is that of the whole.
    ep: sys::fid_ep,
    fid_ops: sys::fi_ops,
    ep_ops: sys::fi_ops_ep,
    msg_ops: sys::fi_ops_msg,
    provider: Provider,
    /// The value that was set.
    told: usize,
    /// The value that the receive queue uses, once there is one.
    in_force: Option<usize>,
    /// Whether a null pointer was followed.
    crashed: bool,
    /// Bytes left in each posted buffer.
    posted: VecDeque<usize>,
}

impl StandIn {
    /// A message of `len` bytes comes. `false`: it is written past the end of its buffer.
    fn deliver(&mut self, len: usize) -> bool {
        let left = self.posted.front_mut().expect("a buffer is posted");
        if *left < len {
            return false;
        }
        *left -= len;
        if *left < self.in_force.expect("the endpoint is enabled") {
            self.posted.pop_front();
        }
        true
    }
}

/// # Safety
/// `fid` is a stand-in's.
unsafe fn stand_in<'a>(fid: *mut sys::fid) -> &'a mut StandIn {
    // SAFETY: the caller's contract; the fid is the first field of the first field.
    unsafe { &mut *fid.cast() }
}

unsafe extern "C" fn close(fid: *mut sys::fid) -> i32 {
    // SAFETY: made by `Box::into_raw` in `endpoint`, and closed once.
    drop(unsafe { Box::from_raw(fid.cast::<StandIn>()) });
    0
}

unsafe extern "C" fn bind(_: *mut sys::fid, _: *mut sys::fid, _: u64) -> i32 {
    0
}

unsafe extern "C" fn control(fid: *mut sys::fid, command: i32, _: *mut c_void) -> i32 {
    assert_eq!(command, sys::FI_ENABLE as i32);
    // SAFETY: libfabric's contract.
    let this = unsafe { stand_in(fid) };
    this.in_force = Some(match this.provider {
        Provider::IntoQueue => DEFAULT,
        Provider::AnyTime | Provider::ForQueue => this.told,
    });
    0
}

unsafe extern "C" fn setopt(
    fid: *mut sys::fid,
    _: i32,
    option: i32,
    value: *const c_void,
    len: usize,
) -> i32 {
    assert_eq!(
        (option, len),
        (sys::FI_OPT_MIN_MULTI_RECV as i32, size_of::<usize>())
    );
    // SAFETY: libfabric's contract; the option is a size_t.
    let (this, value) = unsafe { (stand_in(fid), *value.cast::<usize>()) };
    match (this.provider, &mut this.in_force) {
        (Provider::AnyTime, in_force) => {
            this.told = value;
            *in_force = in_force.map(|_| value);
        }
        (Provider::IntoQueue, Some(in_force)) => *in_force = value,
        (Provider::IntoQueue, None) => this.crashed = true,
        (Provider::ForQueue, _) => this.told = value,
    }
    0
}

unsafe extern "C" fn receive(ep: *mut sys::fid_ep, message: *const sys::fi_msg, flags: u64) -> isize {
    assert!(flags & sys::FI_MULTI_RECV != 0);
    // SAFETY: libfabric's contract.
    let (this, segment) = unsafe { (stand_in(ep.cast()), *(*message).msg_iov) };
    this.posted.push_back(segment.iov_len);
    0
}

/// What these providers use where nothing is set: `shm` 4 KiB, `efa` 8.8 KB or so.
const DEFAULT: usize = 4096;

thread_local! {
    /// What the next endpoint of this thread does.
    static NEXT: Cell<Provider> = const { Cell::new(Provider::AnyTime) };
}

unsafe extern "C" fn endpoint(
    _: *mut sys::fid_domain,
    _: *mut sys::fi_info,
    ep: *mut *mut sys::fid_ep,
    _: *mut c_void,
) -> i32 {
    let made = Box::into_raw(Box::new(StandIn {
        ep: sys::fid_ep::default(),
        fid_ops: sys::fi_ops {
            close: Some(close),
            bind: Some(bind),
            control: Some(control),
            ..Default::default()
        },
        ep_ops: sys::fi_ops_ep {
            setopt: Some(setopt),
            ..Default::default()
        },
        msg_ops: sys::fi_ops_msg {
            recvmsg: Some(receive),
            ..Default::default()
        },
        provider: NEXT.get(),
        told: DEFAULT,
        in_force: None,
        crashed: false,
        posted: VecDeque::new(),
    }));
    // SAFETY: just made; `ep` is where the caller wants it.
    unsafe {
        (*made).ep.fid.ops = &raw mut (*made).fid_ops;
        (*made).ep.ops = &raw mut (*made).ep_ops;
        (*made).ep.msg = &raw mut (*made).msg_ops;
        *ep = made.cast();
    }
    0
}

/// Whether all messages of mixed lengths find room in their buffers, if the option is set at `when`; `None`: the provider crashed.
fn all_find_room(provider: Provider, when: When, message: usize) -> Option<bool> {
    NEXT.set(provider);
    // Fabric, domain, queue and addresses are real ones.
    let list = query(&Query {
        provider: Some("sockets"),
        ..Query::default()
    })
    .unwrap();
    let info = list.iter().next().expect("sockets is there").to_owned().unwrap();
    let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
    // SAFETY: the domain is open and nobody else's; it gets its own table back below.
    let (table, mut changed) = unsafe { ((*domain.as_ptr()).ops, *(*domain.as_ptr()).ops) };
    changed.endpoint = Some(endpoint);
    // SAFETY: as above.
    unsafe { (*domain.as_ptr()).ops = &mut changed };
    let queue = CompletionQueue::open(&domain, 0, false).unwrap();
    let addresses = AddressVector::open(&domain, &info).unwrap();
    let made = Endpoint::open(&domain, &info, &queue, &addresses, message, when).unwrap();
    // SAFETY: as above; `changed` is still there.
    unsafe { (*domain.as_ptr()).ops = table };

    // SAFETY: `endpoint` made it; no other reference to it is held across its calls.
    let this = || unsafe { stand_in(made.fid()) };
    if this().crashed {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..1000 {
        if this().posted.is_empty() {
            // SAFETY: a stand-in looks at the length alone.
            let posted = unsafe {
                made.receive(
                    Takes::Many,
                    ptr::null_mut(),
                    1 << 20,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            assert_eq!(posted, Ok(Posted::Accepted));
        }
        let len = if random.bool() {
            message
        } else {
            random.usize(40..=message)
        };
        if !this().deliver(len) {
            return Some(false);
        }
    }
    Some(true)
}

#[test]
fn each_version_of_each_provider_is_told_of_the_longest_message_when_it_heeds_it() {
    use Provider::{AnyTime, ForQueue, IntoQueue};
    let cases = [
        ("shm", (1, 17), IntoQueue, 16 << 10),
        ("shm", (1, 22), IntoQueue, 16 << 10),
        ("shm", (2, 0), ForQueue, 16 << 10),
        ("shm", (2, 5), ForQueue, 16 << 10),
        ("efa", (1, 17), AnyTime, 64 << 10),
        ("efa", (1, 22), IntoQueue, 64 << 10),
        ("efa", (2, 0), ForQueue, 64 << 10),
        ("efa", (2, 5), ForQueue, 64 << 10),
        ("verbs;ofi_rxm", (1, 17), AnyTime, 16 << 10),
        ("verbs;ofi_rxm", (1, 22), IntoQueue, 16 << 10),
        ("verbs;ofi_rxm", (2, 1), ForQueue, 16 << 10),
        ("sm2", (1, 22), IntoQueue, 16 << 10),
        ("sm2", (2, 1), IntoQueue, 16 << 10),
        ("net", (1, 17), AnyTime, 64 << 10),
        ("tcp", (2, 5), AnyTime, 64 << 10),
    ];
    for (name, version, provider, message) in cases {
        let when = When::of(name, version);
        assert_eq!(
            all_find_room(provider, when, message),
            Some(true),
            "{name} of libfabric {version:?}, told {when:?}"
        );
    }
}

#[test]
fn a_stand_in_notices_who_tells_it_at_the_wrong_time() {
    let wrong = |provider, when| all_find_room(provider, when, 16 << 10);
    assert_eq!(wrong(Provider::IntoQueue, When::BeforeEnable), None);
    assert_eq!(wrong(Provider::ForQueue, When::AfterEnable), Some(false));
}
