//! An endpoint whose posted receives go to a test, and not to libfabric: for cases that no provider produces on demand.

use std::cell::RefCell;

use super::*;
use crate::system::fabric::info::{Query, query};
use crate::system::fabric::{AddressVector, CompletionQueue, Domain, Fabric};

/// A buffer that is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostedReceive {
    pub takes: Takes,
    pub base: *mut u8,
    pub len: usize,
    pub context: *mut c_void,
}

/// What a test returns for a posted buffer: 0, or a negative error number, as libfabric does.
type Hook = Box<dyn FnMut(PostedReceive) -> isize>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

unsafe extern "C" fn receive(_: *mut sys::fid_ep, message: *const sys::fi_msg, flags: u64) -> isize {
    // SAFETY: `Endpoint::receive` hands out a message of one segment.
    let (message, segment) = unsafe { (*message, *(*message).msg_iov) };
    let posted = PostedReceive {
        takes: if flags & sys::FI_MULTI_RECV != 0 {
            Takes::Many
        } else {
            Takes::One
        },
        base: segment.iov_base.cast(),
        len: segment.iov_len,
        context: message.context,
    };
    HOOK.with_borrow_mut(|hook| hook.as_mut().expect("a hook on this thread")(posted))
}

/// An endpoint of a real provider. Receive buffers that this thread posts to it go to `hook`.
pub(crate) fn endpoint(hook: impl FnMut(PostedReceive) -> isize + 'static) -> (Rc<Endpoint>, Rc<Domain>) {
    let asked = Query {
        provider: Some("sockets"),
        ..Query::default()
    };
    let list = query(&asked).unwrap();
    let info = list.iter().next().expect("sockets is there").to_owned().unwrap();
    let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
    let queue = CompletionQueue::open(&domain, 0, false).unwrap();
    let addresses = AddressVector::open(&domain, &info).unwrap();
    let endpoint = Endpoint::open(&domain, &info, &queue, &addresses, 4096, When::AfterEnable).unwrap();
    // SAFETY: the endpoint is open and nobody else's; the provider's own calls are by its other tables.
    unsafe {
        let mut table = *(*endpoint.raw).msg;
        table.recvmsg = Some(receive);
        (*endpoint.raw).msg = Box::leak(Box::new(table));
    }
    HOOK.set(Some(Box::new(hook)));
    (endpoint, domain)
}
