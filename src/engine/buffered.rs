//! Buffered mode (MPI 5.0 section 3.6): the buffers that the user attaches, and the messages in them.
//!
//! A [`SendBuffer`] is memory of the user's, or `MPI_BUFFER_AUTOMATIC`, where each message allocates its own memory. A
//! message that can't leave at once is copied to a [`BufferSlot`] there and sent from it; the slot is freed when the send
//! has ended, whoever ends it. The records are kept outside of the user's memory, so a message takes no more of it than
//! its own bytes, rounded up to [`ALIGNMENT`].
//!
//! A flush waits for the messages that are there before it, not for those that other threads add meanwhile. So slots
//! belong to epochs: a flush closes the current one, and ends when that and all before it are empty.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::matching::Envelope;
use super::request::{Outcome, RequestId, Work};
use super::{Engine, EngineState};
use crate::base::error::{Error, Result};
use crate::data::memory::Memory;
use crate::err;
use crate::identity::{Context, PeerIndex};

/// Messages begin at multiples of this many bytes. Far below `MPI_BSEND_OVERHEAD`, which bounds what a message takes
/// beside its data.
pub const ALIGNMENT: usize = 16;

/// A buffer for messages in buffered mode.
pub struct SendBuffer {
    /// Address and bytes of the user's memory; `None`: `MPI_BUFFER_AUTOMATIC`.
    memory: Option<(*mut u8, usize)>,
    books: Mutex<Books>,
}

// SAFETY: the memory is the user's, who leaves it to the library until it is detached; slots in it do not overlap.
unsafe impl Send for SendBuffer {}
// SAFETY: as above; the books are behind their lock.
unsafe impl Sync for SendBuffer {}

/// What is in a buffer.
#[derive(Default)]
struct Books {
    ring: Ring,
    /// The last one is open. An empty one at the front goes, unless it is the last.
    epochs: VecDeque<Epoch>,
    /// The number of the first of `epochs`.
    first_epoch: u64,
    /// Why a message was lost whose request is freed: the next flush returns the error.
    failed: Option<Error>,
}

#[derive(Default)]
struct Epoch {
    /// Messages that have not left.
    messages: usize,
    /// To be ended when there are none.
    flushes: Vec<RequestId>,
}

/// Room for one message.
pub struct BufferSlot {
    buffer: Arc<SendBuffer>,
    start: usize,
    len: usize,
    epoch: u64,
    /// The memory, where it is not the user's.
    own: Option<Vec<u8>>,
}

impl SendBuffer {
    /// Memory of the user's.
    ///
    /// # Safety
    /// The memory is valid for writing, and left alone, until all slots in it are freed.
    pub unsafe fn of_user(address: *mut u8, len: usize) -> Arc<SendBuffer> {
        Arc::new(SendBuffer {
            memory: Some((address, len)),
            books: Mutex::new(Books::new(len)),
        })
    }

    /// A buffer that allocates as much memory as needed.
    pub fn automatic() -> Arc<SendBuffer> {
        Arc::new(SendBuffer {
            memory: None,
            books: Mutex::new(Books::new(0)),
        })
    }

    /// Address and bytes of the user's memory; `None`: `MPI_BUFFER_AUTOMATIC`.
    pub fn memory(&self) -> Option<(*mut u8, usize)> {
        self.memory
    }

    /// Whether a message of this many bytes fits into an empty buffer.
    pub fn holds(&self, bytes: u64) -> Result<()> {
        match self.memory {
            Some((_, capacity)) if bytes > capacity as u64 => Err(err!(
                Buffer,
                "the message has {bytes} bytes, but the attached buffer has only {capacity}"
            )),
            _ => Ok(()),
        }
    }

    /// Room for a message of this many bytes.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<BufferSlot> {
        self.holds(bytes)?;
        let len = usize::try_from(bytes).map_err(|_| {
            err!(
                NoMem,
                "a message of {bytes} bytes is more than the address space holds"
            )
        })?;
        let own = match self.memory {
            Some(_) => None,
            None => {
                let mut own = Vec::new();
                own.try_reserve_exact(len)
                    .map_err(|_| err!(NoMem, "there is no memory for a copy of a message of {len} bytes"))?;
                own.resize(len, 0);
                Some(own)
            }
        };
        let mut books = self.books.lock();
        let start = match &own {
            Some(_) => 0,
            None => books.ring.reserve(len).ok_or_else(|| {
                let free = books.ring.free_space();
                err!(
                    Buffer,
                    "the message has {len} bytes, but of the {} bytes of the attached buffer only {} are free, {} in \
                     one piece: {} messages have not left",
                    books.ring.capacity,
                    free.sum,
                    free.largest,
                    books.ring.live.len()
                )
            })?,
        };
        let epoch = books.enter();
        drop(books);
        Ok(BufferSlot {
            buffer: self.clone(),
            start,
            len,
            epoch,
            own,
        })
    }
}

impl BufferSlot {
    /// Where the message goes.
    pub fn memory(&mut self) -> Memory {
        match &mut self.own {
            Some(own) => Memory::of_mut(own),
            None => {
                let room = self
                    .buffer
                    .memory
                    .map(|(address, _)| address.wrapping_add(self.start));
                Memory::run(room.unwrap_or(std::ptr::null_mut()), self.len)
            }
        }
    }

    /// Packs a message into the slot.
    ///
    /// # Safety
    /// The message's memory is valid for reading, and has as many bytes as were reserved.
    pub unsafe fn fill(&mut self, from: &Memory) {
        let Some(room) = self.memory().contiguous() else {
            return;
        };
        if room.len != 0 {
            // SAFETY: the room was reserved for this slot alone, in memory that is valid while slots are in it; the
            // caller vouches for the message's.
            unsafe { from.pack(0, room.room()) };
        }
    }
}

impl Books {
    fn new(capacity: usize) -> Books {
        Books {
            ring: Ring::new(capacity),
            epochs: VecDeque::from([Epoch::default()]),
            ..Books::default()
        }
    }

    /// One message more.
    fn enter(&mut self) -> u64 {
        let last = self.epochs.len() - 1;
        self.epochs[last].messages += 1;
        self.first_epoch + last as u64
    }

    /// One message less; returns the flushes that have ended with it.
    fn leave(&mut self, slot: &BufferSlot) -> Vec<RequestId> {
        if slot.own.is_none() {
            self.ring.free(slot.start);
        }
        self.epochs[(slot.epoch - self.first_epoch) as usize].messages -= 1;
        let mut ended = Vec::new();
        while self.epochs.len() > 1 && self.epochs[0].messages == 0 {
            ended.extend(
                self.epochs
                    .pop_front()
                    .into_iter()
                    .flat_map(|epoch| epoch.flushes),
            );
            self.first_epoch += 1;
        }
        ended
    }
}

/// Where a buffer is attached: to a communicator, a session, or the process. One at a time.
#[derive(Default)]
pub struct Attachment(Mutex<Option<Arc<SendBuffer>>>);

impl Attachment {
    /// Attaches a buffer to `what`.
    pub fn attach(&self, buffer: Arc<SendBuffer>, what: &str) -> Result<()> {
        let mut attached = self.0.lock();
        if let Some(old) = &*attached {
            let old = match old.memory {
                Some((_, len)) => format!("a buffer of {len} bytes"),
                None => "MPI_BUFFER_AUTOMATIC".to_string(),
            };
            return Err(err!(
                Buffer,
                "{old} is attached to {what} already: it has to be detached first"
            ));
        }
        *attached = Some(buffer);
        Ok(())
    }

    /// What is attached.
    pub fn get(&self) -> Option<Arc<SendBuffer>> {
        self.0.lock().clone()
    }

    /// Detaches what is attached: no further message is put there. Those that are there still have to leave.
    pub fn take(&self) -> Option<Arc<SendBuffer>> {
        self.0.lock().take()
    }
}

impl Engine {
    /// Sends a message that was copied to a slot. The request has ended for the user from the start, but can be cancelled;
    /// `None` where none was asked for.
    pub fn send_from(
        &mut self,
        peer: PeerIndex,
        envelope: Envelope,
        mut slot: BufferSlot,
        request: bool,
    ) -> Result<Option<RequestId>> {
        let send = super::Send {
            peer,
            envelope,
            memory: slot.memory(),
            sync: false,
        };
        // SAFETY: the slot is kept until the send has ended, and nobody else writes to its memory.
        let id = match unsafe { self.send(&send, request) } {
            Ok(Some(id)) => id,
            Ok(None) => {
                self.state.give_back(slot, None);
                return Ok(None);
            }
            Err(error) => {
                self.state.give_back(slot, None);
                return Err(error);
            }
        };
        match self.state.requests.get_mut(id) {
            Some(found) if found.outcome.is_none() => {
                let Work::Send(work) = &mut found.work else {
                    unreachable!("a send's request is a send");
                };
                work.slot = Some(Box::new(slot));
                if request {
                    found.outcome = Some(Outcome::EMPTY);
                    found.early = true;
                } else {
                    found.released = true;
                }
            }
            _ => {
                self.state.give_back(slot, None);
                if !request {
                    self.release(id);
                }
            }
        }
        Ok(request.then_some(id))
    }

    /// A request that ends when the messages that are in the buffer now have left. Its error also reports a message that
    /// was lost.
    pub fn flush_buffer(&mut self, buffer: &SendBuffer, context: Context) -> RequestId {
        let mut books = buffer.books.lock();
        if books.epochs.iter().all(|epoch| epoch.messages == 0) {
            let outcome = books.failed.take().map_or(Outcome::EMPTY, Outcome::failed);
            return self.ended_request(outcome, context);
        }
        let id = self.state.requests.insert(Work::None, context);
        if let Some(open) = books.epochs.back_mut() {
            open.flushes.push(id);
        }
        books.epochs.push_back(Epoch::default());
        id
    }
}

impl EngineState {
    /// The message of a slot has left, or was lost with an error that no other call returns.
    pub(super) fn give_back(&mut self, slot: BufferSlot, lost: Option<Error>) {
        let mut books = slot.buffer.books.lock();
        if books.failed.is_none() {
            books.failed = lost;
        }
        for flush in books.leave(&slot) {
            let outcome = books.failed.take().map_or(Outcome::EMPTY, Outcome::failed);
            self.complete(flush, outcome);
        }
    }
}

/// Which bytes of a buffer are taken: next-fit. As long as messages leave in the order in which they came, this is the
/// circular allocation of section 3.6; where they do not, it finds gaps that the circular one does not see.
#[derive(Default)]
struct Ring {
    capacity: usize,
    /// The end of each message by its start.
    live: BTreeMap<usize, usize>,
    /// The end of the latest message.
    tail: usize,
}

struct FreeSpace {
    sum: usize,
    largest: usize,
}

impl Ring {
    fn new(capacity: usize) -> Ring {
        Ring {
            capacity,
            live: BTreeMap::new(),
            tail: 0,
        }
    }

    /// The free pieces from `from` on, the first one cut off there.
    fn gaps(&self, from: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut start = from;
        let ends = std::iter::once((self.capacity, self.capacity));
        let live = self.live.range(from..).map(|(&start, &end)| (start, end));
        live.chain(ends).map(move |(next, end)| {
            let gap = (start, next.saturating_sub(start));
            start = end;
            gap
        })
    }

    fn reserve(&mut self, len: usize) -> Option<usize> {
        // Each message has bytes of its own, so that each has a start of its own.
        let taken = len.max(1).next_multiple_of(ALIGNMENT);
        if self.live.is_empty() {
            self.tail = 0;
        }
        // The last piece of the buffer need not be a multiple.
        let fits = |&(start, size): &(usize, usize)| {
            size >= len.max(1) && (size >= taken || start + size == self.capacity)
        };
        let start = match self.gaps(self.tail).find(fits) {
            Some((start, _)) => start,
            None => self.gaps(0).find(fits)?.0,
        };
        self.tail = (start + taken).min(self.capacity);
        self.live.insert(start, self.tail);
        Some(start)
    }

    fn free(&mut self, start: usize) {
        self.live.remove(&start);
    }

    fn free_space(&self) -> FreeSpace {
        let sizes = || self.gaps(0).map(|(_, size)| size);
        FreeSpace {
            sum: sizes().sum(),
            largest: sizes().max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_buffer_says_what_it_never_holds() {
        let mut memory = [0u8; 100];
        // SAFETY: nothing is put there.
        let buffer = unsafe { SendBuffer::of_user(memory.as_mut_ptr(), memory.len()) };
        assert!(buffer.holds(0).is_ok() && buffer.holds(100).is_ok());
        for bytes in [101, u64::MAX] {
            let error = buffer.holds(bytes).unwrap_err();
            assert!(error.message.contains("only 100"), "{error}");
        }
        assert!(SendBuffer::automatic().holds(1 << 40).is_ok());
    }

    #[test]
    fn pieces_go_round() {
        let mut ring = Ring::new(100);
        let offsets: Vec<_> = [30, 30, 30].map(|len| ring.reserve(len)).into();
        assert_eq!(offsets, [Some(0), Some(32), Some(64)]);
        assert_eq!(ring.reserve(30), None);
        ring.free(0);
        assert_eq!(ring.reserve(33), None);
        assert_eq!(ring.reserve(30), Some(0));
        // Out of order: the gap is found.
        ring.free(64);
        assert_eq!(ring.free_space().largest, 36);
        assert_eq!(ring.reserve(36), Some(64));
    }

    #[test]
    fn a_message_takes_no_more_than_the_standard_allows() {
        let mut ring = Ring::new(10);
        assert_eq!(ring.reserve(10), Some(0));
        assert_eq!(ring.reserve(1), None);
        let mut ring = Ring::new(3 * 512 + 5);
        assert!([1, 2, 2].iter().all(|&len| ring.reserve(len).is_some()));
    }

    /// The circular policy of the standard's model, to the letter: the space after the queue's tail, or that at the start
    /// of the buffer; what has ended is freed from the head up to the first message that has not ended.
    #[derive(Default)]
    struct Model {
        queue: VecDeque<(usize, usize, bool)>,
        tail: usize,
    }

    impl Model {
        fn reserve(&mut self, capacity: usize, len: usize) -> Option<usize> {
            while self.queue.front().is_some_and(|entry| entry.2) {
                self.queue.pop_front();
            }
            // The end of the buffer cuts the last message's alignment off.
            let taken = len.max(1).next_multiple_of(ALIGNMENT);
            let fits_at_end = |start: usize| start + len.max(1) <= capacity;
            let start = match self.queue.front() {
                None => fits_at_end(0).then_some(0),
                Some(&(head, ..)) if head < self.tail => {
                    if fits_at_end(self.tail) {
                        Some(self.tail)
                    } else {
                        (taken <= head).then_some(0)
                    }
                }
                Some(&(head, ..)) => (self.tail + taken <= head).then_some(self.tail),
            }?;
            self.tail = (start + taken).min(capacity);
            self.queue.push_back((start, taken, false));
            Some(start)
        }
    }

    proptest! {
        /// At least as much room as in the standard's model, until the first message for which the model has no room; and
        /// no two messages ever overlap.
        #[test]
        fn as_much_room_as_the_standard_asks_for(
            capacity in 1usize..2000,
            steps in prop::collection::vec((0usize..400, 0usize..8, any::<bool>()), 1..200),
        ) {
            let mut ring = Ring::new(capacity);
            let mut model = Some(Model::default());
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (len, which, free) in steps {
                if free && !live.is_empty() {
                    let (start, _) = live.remove(which % live.len());
                    ring.free(start);
                    if let Some(model) = &mut model {
                        model.queue.iter_mut().filter(|entry| entry.0 == start).for_each(|entry| entry.2 = true);
                    }
                    continue;
                }
                let got = ring.reserve(len);
                if let Some(start) = got {
                    prop_assert!(start + len <= capacity && start % ALIGNMENT == 0);
                    for &(other, size) in &live {
                        prop_assert!(start + len <= other || other + size <= start);
                        prop_assert!(start != other);
                    }
                    live.push((start, len));
                }
                if let Some(now) = &mut model {
                    match now.reserve(capacity, len) {
                        Some(start) => prop_assert_eq!(got, Some(start)),
                        None => model = None,
                    }
                }
            }
        }
    }
}
