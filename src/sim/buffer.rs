//! Buffers that detect wrong accesses: guard bytes on both sides; when a program gives one up, its bytes are overwritten,
//! and the memory itself stays until the run has ended, so that a late reader finds wrong bytes and not undefined
//! behaviour.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::data::datatype::Datatype;
use crate::data::memory::Memory;
use crate::engine::buffered::SendBuffer;

const GUARD: usize = 16;
const GUARD_BYTE: u8 = 0xa5;
const SCRIBBLE: u8 = 0xdd;

/// The buffers that programs have given up. Freed with the last reference to it.
#[derive(Clone, Default)]
pub(super) struct Graveyard(Arc<Mutex<Graves>>);

#[derive(Default)]
struct Graves(Vec<(*mut u8, usize)>);

// SAFETY: only the drop below uses the pointers.
unsafe impl Send for Graves {}

impl Drop for Graves {
    fn drop(&mut self) {
        for (base, len) in self.0.drain(..) {
            // SAFETY: made by `Box::into_raw` of a slice of this length in `Buffer::new`.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(base, len)) });
        }
    }
}

/// Memory of a rank's program, for messages.
pub struct Buffer {
    base: *mut u8,
    len: usize,
    graveyard: Graveyard,
}

// SAFETY: owned memory behind a raw pointer, as others (the network) keep pointers to it too.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(super) fn new(graveyard: &Graveyard, bytes: &[u8]) -> Buffer {
        let mut whole = vec![GUARD_BYTE; bytes.len() + 2 * GUARD].into_boxed_slice();
        whole[GUARD..GUARD + bytes.len()].copy_from_slice(bytes);
        Buffer {
            base: Box::into_raw(whole).cast(),
            len: bytes.len(),
            graveyard: graveyard.clone(),
        }
    }

    /// As an argument of a send or receive.
    pub fn memory(&self) -> Memory {
        Memory::run(self.base.wrapping_add(GUARD), self.len)
    }

    /// As `count` elements of a datatype, which lie within it.
    pub fn typed(&self, count: u64, datatype: &Arc<Datatype>) -> Memory {
        assert!(datatype.true_lb() >= 0 && count as i64 * datatype.extent() <= self.len as i64);
        Memory::new(self.base.wrapping_add(GUARD), count, datatype)
    }

    /// As room for messages in buffered mode.
    pub fn room(&self) -> Arc<SendBuffer> {
        // SAFETY: the memory stays until the run has ended, whatever the program does; it is nothing but this room.
        unsafe { SendBuffer::of_user(self.base.wrapping_add(GUARD), self.len) }
    }

    /// What it holds, once nobody writes to it any more.
    pub fn bytes(&self) -> &[u8] {
        &self.whole()[GUARD..GUARD + self.len]
    }

    fn whole(&self) -> &[u8] {
        // SAFETY: owned and of this length; nobody writes while the program looks at it.
        unsafe { std::slice::from_raw_parts(self.base, self.len + 2 * GUARD) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let whole = self.whole();
        let guards = whole[..GUARD].iter().chain(&whole[GUARD + self.len..]);
        let intact = guards.copied().all(|byte| byte == GUARD_BYTE);
        // SAFETY: owned and of this length.
        unsafe { std::ptr::write_bytes(self.base.add(GUARD), SCRIBBLE, self.len) };
        self.graveyard.0.lock().0.push((self.base, self.len + 2 * GUARD));
        if !intact && !std::thread::panicking() {
            panic!(
                "somebody wrote beyond the bounds of a buffer of {} bytes",
                self.len
            );
        }
    }
}
