//! Writes of remote memory, and atomic operations on it.
//!
//! Each asks for a completion that comes once the result is in the target's memory (`FI_DELIVERY_COMPLETE`). There is no injecting
//! (`fi_inject_write`): it would have no completion.

use super::*;

/// Elements of remote memory, and what an atomic operation does with them, in libfabric's numbers.
#[derive(Clone, Copy, Debug)]
pub struct AtomicCall {
    /// `FI_SUM`, …
    pub op: sys::fi_op,
    /// `FI_INT32`, …
    pub datatype: sys::fi_datatype,
    /// How many elements.
    pub count: usize,
    /// As many operands.
    pub operand: *mut u8,
    /// As many elements to compare with, for the operations that do.
    pub compare: Option<*mut u8>,
    /// Where the former elements go. Always there if something is compared.
    pub result: Option<*mut u8>,
    /// What all three belong to, where they have to be registered.
    pub descriptor: *mut c_void,
    /// The target, by its number in the address vector.
    pub to: sys::fi_addr_t,
    /// libfabric's address of the first element.
    pub address: u64,
    /// The key of the target's memory.
    pub key: u64,
}

const FLAGS: u64 = sys::FI_COMPLETION | sys::FI_DELIVERY_COMPLETE;

impl Endpoint {
    /// Writes remote memory from several sources, one after the other: (address, length) of each, no more than
    /// [`Facts::send_iov_limit`](super::super::info::Facts::send_iov_limit) and [`Endpoint::TARGETS`].
    ///
    /// # Safety
    /// The sources stay valid and unchanged, the descriptors belong to them, and `context` stays valid (8 pointers), until the completion
    /// or until the endpoint is closed. `to`: as for [`Endpoint::inject`].
    #[doc(alias = "fi_writemsg")]
    pub unsafe fn write(
        &self,
        from: impl IntoIterator<Item = ((*const u8, usize), *mut c_void)>,
        to: sys::fi_addr_t,
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
        for ((base, len), descriptor) in from {
            segments[count] = sys::iovec {
                iov_base: base.cast_mut().cast(),
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
            addr: to,
            rma_iov: &remote,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is open; libfabric copies the message and its lists during the call; the caller's contract.
        posted("fi_writemsg", unsafe {
            sys::fi_writemsg(self.raw, &message, FLAGS)
        })
    }

    /// Performs an atomic operation on remote memory.
    ///
    /// # Safety
    /// The endpoint was opened with atomic operations, and has this one for so many elements ([`Endpoint::atomic_count`]). Its memories
    /// stay valid, operand and comparand unchanged and the result untouched, `descriptor` belongs to them, and `context` stays valid
    /// (8 pointers), until the completion or until the endpoint is closed. `to`: as for [`Endpoint::inject`].
    #[doc(alias = "fi_atomicmsg")]
    #[doc(alias = "fi_fetch_atomicmsg")]
    #[doc(alias = "fi_compare_atomicmsg")]
    pub unsafe fn atomic(&self, call: &AtomicCall, context: *mut c_void) -> Result<Posted, CallError> {
        let elements = |address: *mut u8| sys::fi_ioc {
            addr: address.cast(),
            count: call.count,
        };
        let operand = elements(call.operand);
        let compare = elements(call.compare.unwrap_or(ptr::null_mut()));
        let mut result = elements(call.result.unwrap_or(ptr::null_mut()));
        let remote = sys::fi_rma_ioc {
            addr: call.address,
            count: call.count,
            key: call.key,
        };
        let mut descriptors = [call.descriptor; 3];
        let [own, compares, results] = &mut descriptors;
        let message = sys::fi_msg_atomic {
            msg_iov: &operand,
            desc: own,
            iov_count: 1,
            addr: call.to,
            rma_iov: &remote,
            rma_iov_count: 1,
            datatype: call.datatype,
            op: call.op,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is open, and its table of atomic operations there, as the caller says; libfabric copies the message and its
        // lists during the call; the caller's contract.
        unsafe {
            match (call.compare, call.result) {
                (Some(_), _) => posted(
                    "fi_compare_atomicmsg",
                    sys::fi_compare_atomicmsg(
                        self.raw,
                        &message,
                        &compare,
                        compares,
                        1,
                        &mut result,
                        results,
                        1,
                        FLAGS,
                    ),
                ),
                (None, Some(_)) => posted(
                    "fi_fetch_atomicmsg",
                    sys::fi_fetch_atomicmsg(self.raw, &message, &mut result, results, 1, FLAGS),
                ),
                (None, None) => posted("fi_atomicmsg", sys::fi_atomicmsg(self.raw, &message, FLAGS)),
            }
        }
    }

    /// How many elements one call takes of an atomic operation that returns the former ones, or does not, or compares; 0: there is no such
    /// operation.
    #[doc(alias = "fi_atomicvalid")]
    #[doc(alias = "fi_fetch_atomicvalid")]
    #[doc(alias = "fi_compare_atomicvalid")]
    pub fn atomic_count(&self, asks: Asks, op: sys::fi_op, datatype: sys::fi_datatype) -> usize {
        let mut count = 0;
        // SAFETY: the endpoint is open; its table is looked at only if it is there; `count` outlives the call.
        let status = unsafe {
            if (*self.raw).atomic.is_null() {
                return 0;
            }
            match asks {
                Asks::Nothing => sys::fi_atomicvalid(self.raw, datatype, op, &mut count),
                Asks::Former => sys::fi_fetch_atomicvalid(self.raw, datatype, op, &mut count),
                Asks::Comparison => sys::fi_compare_atomicvalid(self.raw, datatype, op, &mut count),
            }
        };
        if status == 0 { count } else { 0 }
    }
}

/// What an atomic operation returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// Nothing.
    Nothing,
    /// The former elements.
    Former,
    /// The same, after a comparison.
    Comparison,
}
