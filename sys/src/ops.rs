//! The calls that libfabric's headers define as `static inline` jumps through an object's table of operations,
//! written in Rust so that they inline here as they do in C.
//!
//! Each function has the name, the parameters and the return value of the C one. What all of them rely on, and what
//! no function here can check: the object is open, of the class that the parameter's type says, and every pointer is
//! valid as the man page of that call demands. An operation that a provider's table lacks gives `-FI_ENOSYS`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::bindings::*;
use crate::library::Library;

/// fabric.h: no address, or any address. (A cast that bindgen does not evaluate.)
pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;

/// fabric.h: the region's key does not fit in 64 bits.
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;

/// Calls `$table.$op(args)` or gives `-FI_ENOSYS` where the provider left the entry out.
macro_rules! table_call {
    ($table:expr, $op:ident, $($arg:expr),* $(,)?) => {
        // SAFETY: the caller's contract: the object is open, so its table is there and stays (libfabric keeps tables
        // in the object or static), and the arguments are what the operation's man page demands.
        unsafe {
            match (*$table).$op {
                Some(call) => call($($arg),*),
                None => -(FI_ENOSYS as isize) as _,
            }
        }
    };
}

/// Declares one `static inline` of libfabric: its man page, and the table entry behind it.
macro_rules! inline_call {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($object:ident: $class:ty $(, $arg:ident: $type:ty)*) -> $ret:ty
            = [$($table:tt)+] . $op:ident ($($pass:expr),*);
    )+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The object is open, and the arguments are valid as the call's man page demands.
        #[inline]
        pub unsafe fn $name($object: $class $(, $arg: $type)*) -> $ret {
            // SAFETY: the caller's contract: the object is open, so that its fields can be read.
            let table = unsafe { $($table)+ };
            table_call!(table, $op, $($pass),*)
        }
    )+};
}

inline_call! {
    /// `fi_close`, fi_endpoint(3) and others: closes any object.
    fn fi_close(fid: *mut fid) -> c_int = [(*fid).ops].close(fid);
    /// `fi_control`, fi_control(3).
    fn fi_control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int
        = [(*fid).ops].control(fid, command, arg);
    /// `fi_open_ops`, fi_open_ops(3): provider-specific operations by name.
    fn fi_open_ops(
        fid: *mut fid, name: *const c_char, flags: u64, ops: *mut *mut c_void, context: *mut c_void
    ) -> c_int = [(*fid).ops].ops_open(fid, name, flags, ops, context);

    /// `fi_domain`, fi_domain(3).
    fn fi_domain(
        fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain, context: *mut c_void
    ) -> c_int = [(*fabric).ops].domain(fabric, info, domain, context);
    /// `fi_trywait`, fi_cq(3): 0 when it is safe to block on the wait objects, `-FI_EAGAIN` when there is work.
    fn fi_trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int
        = [(*fabric).ops].trywait(fabric, fids, count);

    /// `fi_endpoint`, fi_endpoint(3).
    fn fi_endpoint(
        domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void
    ) -> c_int = [(*domain).ops].endpoint(domain, info, ep, context);
    /// `fi_cq_open`, fi_cq(3).
    fn fi_cq_open(
        domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq, context: *mut c_void
    ) -> c_int = [(*domain).ops].cq_open(domain, attr, cq, context);
    /// `fi_av_open`, fi_av(3).
    fn fi_av_open(
        domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av, context: *mut c_void
    ) -> c_int = [(*domain).ops].av_open(domain, attr, av, context);

    /// `fi_mr_reg`, fi_mr(3).
    fn fi_mr_reg(
        domain: *mut fid_domain, buf: *const c_void, len: usize, access: u64, offset: u64, requested_key: u64,
        flags: u64, mr: *mut *mut fid_mr, context: *mut c_void
    ) -> c_int = [(*domain).mr].reg(
        ptr::addr_of_mut!((*domain).fid), buf, len, access, offset, requested_key, flags, mr, context
    );
    /// `fi_mr_regattr`, fi_mr(3).
    fn fi_mr_regattr(
        domain: *mut fid_domain, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr
    ) -> c_int = [(*domain).mr].regattr(ptr::addr_of_mut!((*domain).fid), attr, flags, mr);
    /// `fi_mr_bind`, fi_mr(3).
    fn fi_mr_bind(mr: *mut fid_mr, bfid: *mut fid, flags: u64) -> c_int
        = [(*mr).fid.ops].bind(ptr::addr_of_mut!((*mr).fid), bfid, flags);
    /// `fi_mr_enable`, fi_mr(3).
    fn fi_mr_enable(mr: *mut fid_mr) -> c_int
        = [(*mr).fid.ops].control(ptr::addr_of_mut!((*mr).fid), FI_ENABLE as c_int, ptr::null_mut());

    /// `fi_av_insert`, fi_av(3): the number of addresses inserted, or a negative error.
    fn fi_av_insert(
        av: *mut fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void
    ) -> c_int = [(*av).ops].insert(av, addr, count, fi_addr, flags, context);
    /// `fi_av_remove`, fi_av(3).
    fn fi_av_remove(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int
        = [(*av).ops].remove(av, fi_addr, count, flags);
    /// `fi_av_lookup`, fi_av(3).
    fn fi_av_lookup(av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void, addrlen: *mut usize) -> c_int
        = [(*av).ops].lookup(av, fi_addr, addr, addrlen);

    /// `fi_ep_bind`, fi_endpoint(3).
    fn fi_ep_bind(ep: *mut fid_ep, bfid: *mut fid, flags: u64) -> c_int
        = [(*ep).fid.ops].bind(ptr::addr_of_mut!((*ep).fid), bfid, flags);
    /// `fi_enable`, fi_endpoint(3).
    fn fi_enable(ep: *mut fid_ep) -> c_int
        = [(*ep).fid.ops].control(ptr::addr_of_mut!((*ep).fid), FI_ENABLE as c_int, ptr::null_mut());
    /// `fi_cancel`, fi_endpoint(3). The C call takes the endpoint's `fid`.
    fn fi_cancel(ep: *mut fid_ep, context: *mut c_void) -> isize
        = [(*ep).ops].cancel(ptr::addr_of_mut!((*ep).fid), context);
    /// `fi_setopt`, fi_endpoint(3). The C call takes the endpoint's `fid`.
    fn fi_setopt(
        ep: *mut fid_ep, level: c_int, optname: c_int, optval: *const c_void, optlen: usize
    ) -> c_int = [(*ep).ops].setopt(ptr::addr_of_mut!((*ep).fid), level, optname, optval, optlen);
    /// `fi_getopt`, fi_endpoint(3). The C call takes the endpoint's `fid`.
    fn fi_getopt(
        ep: *mut fid_ep, level: c_int, optname: c_int, optval: *mut c_void, optlen: *mut usize
    ) -> c_int = [(*ep).ops].getopt(ptr::addr_of_mut!((*ep).fid), level, optname, optval, optlen);
    /// `fi_getname`, fi_cm(3). The C call takes the endpoint's `fid`.
    fn fi_getname(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int
        = [(*ep).cm].getname(ptr::addr_of_mut!((*ep).fid), addr, addrlen);

    /// `fi_recv`, fi_msg(3).
    fn fi_recv(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, context: *mut c_void
    ) -> isize = [(*ep).msg].recv(ep, buf, len, desc, src_addr, context);
    /// `fi_recvmsg`, fi_msg(3); the flag `FI_MULTI_RECV` posts a buffer for many messages.
    fn fi_recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize
        = [(*ep).msg].recvmsg(ep, msg, flags);
    /// `fi_send`, fi_msg(3).
    fn fi_send(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        context: *mut c_void
    ) -> isize = [(*ep).msg].send(ep, buf, len, desc, dest_addr, context);
    /// `fi_sendv`, fi_msg(3).
    fn fi_sendv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t,
        context: *mut c_void
    ) -> isize = [(*ep).msg].sendv(ep, iov, desc, count, dest_addr, context);
    /// `fi_sendmsg`, fi_msg(3).
    fn fi_sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize
        = [(*ep).msg].sendmsg(ep, msg, flags);
    /// `fi_inject`, fi_msg(3): the buffer may be used again at once, and there is no completion.
    fn fi_inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t) -> isize
        = [(*ep).msg].inject(ep, buf, len, dest_addr);

    /// `fi_read`, fi_rma(3).
    fn fi_read(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, addr: u64, key: u64,
        context: *mut c_void
    ) -> isize = [(*ep).rma].read(ep, buf, len, desc, src_addr, addr, key, context);
    /// `fi_readmsg`, fi_rma(3).
    fn fi_readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize
        = [(*ep).rma].readmsg(ep, msg, flags);
    /// `fi_writemsg`, fi_rma(3); the flag `FI_DELIVERY_COMPLETE` asks for a completion once the data is in the target's memory.
    fn fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize
        = [(*ep).rma].writemsg(ep, msg, flags);

    /// `fi_atomicmsg`, fi_atomic(3).
    fn fi_atomicmsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize
        = [(*ep).atomic].writemsg(ep, msg, flags);
    /// `fi_fetch_atomicmsg`, fi_atomic(3).
    fn fi_fetch_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, resultv: *mut fi_ioc, result_desc: *mut *mut c_void,
        result_count: usize, flags: u64
    ) -> isize = [(*ep).atomic].readwritemsg(ep, msg, resultv, result_desc, result_count, flags);
    /// `fi_compare_atomicmsg`, fi_atomic(3).
    fn fi_compare_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc, compare_desc: *mut *mut c_void,
        compare_count: usize, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, flags: u64
    ) -> isize = [(*ep).atomic].compwritemsg(
        ep, msg, comparev, compare_desc, compare_count, resultv, result_desc, result_count, flags
    );
    /// `fi_atomicvalid`, fi_atomic(3): 0 if there is that operation, and how many elements one call takes.
    fn fi_atomicvalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int
        = [(*ep).atomic].writevalid(ep, datatype, op, count);
    /// `fi_fetch_atomicvalid`, fi_atomic(3).
    fn fi_fetch_atomicvalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int
        = [(*ep).atomic].readwritevalid(ep, datatype, op, count);
    /// `fi_compare_atomicvalid`, fi_atomic(3).
    fn fi_compare_atomicvalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int
        = [(*ep).atomic].compwritevalid(ep, datatype, op, count);

    /// `fi_cq_read`, fi_cq(3): the number of completions, `-FI_EAGAIN`, or `-FI_EAVAIL` for [`fi_cq_readerr`].
    fn fi_cq_read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize
        = [(*cq).ops].read(cq, buf, count);
    /// `fi_cq_readerr`, fi_cq(3).
    fn fi_cq_readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize
        = [(*cq).ops].readerr(cq, buf, flags);
    /// `fi_cq_sread`, fi_cq(3); the timeout is in milliseconds, negative for none.
    fn fi_cq_sread(cq: *mut fid_cq, buf: *mut c_void, count: usize, cond: *const c_void, timeout: c_int) -> isize
        = [(*cq).ops].sread(cq, buf, count, cond, timeout);
}

/// `fi_allocinfo`, fi_getinfo(3): an empty `fi_info` with all attribute structs, for hints. Null when out of memory.
#[inline]
pub fn fi_allocinfo(library: &Library) -> *mut fi_info {
    // SAFETY: fi_dupinfo(NULL) is the documented way to allocate.
    unsafe { library.fi_dupinfo(ptr::null()) }
}

/// `fi_mr_desc`, fi_mr(3): what local operations on the region pass as `desc`.
///
/// # Safety
/// The region is open.
#[inline]
pub unsafe fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: the region is open, as the caller says, so there is its struct.
    unsafe { (*mr).mem_desc }
}

/// `fi_mr_key`, fi_mr(3): what peers need for remote access; `FI_KEY_NOTAVAIL` where only a raw key exists.
///
/// # Safety
/// The region is open (and enabled, where `FI_MR_ENDPOINT` is asked for).
#[inline]
pub unsafe fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: the region is open, as the caller says, so there is its struct.
    unsafe { (*mr).key }
}

/// `fi_cq_strerror`, fi_cq(3): the provider's words for an error entry; null where it has none.
///
/// # Safety
/// The queue is open; `err_data` comes from its last error entry; `buf` has `len` bytes.
#[inline]
pub unsafe fn fi_cq_strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the caller's contract; an entry that is missing gives null.
    unsafe {
        match (*(*cq).ops).strerror {
            Some(call) => call(cq, prov_errno, err_data, buf, len),
            None => ptr::null(),
        }
    }
}
