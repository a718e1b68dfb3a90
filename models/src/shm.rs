//! Ring and doorbell under loom: every order in which the accesses of a sender and a receiver can take effect.
//!
//! `ci/soak.d/loom` runs this. A ring of a few cells and eight lines stands for the real one, whose sizes are parameters of the
//! same code. Models without one of the fences are expected to fail, which shows that these would find its absence.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;

use crate::bytes::{RawBytes, RawRoom};
use crate::flag::{self, Flag};
use crate::lane::HEADER_BYTES;
use crate::ring::{INLINE, LINE, Memory, Popped, Receiver, Sender};
use crate::stores::Allowed;

/// The bulk at first, and where it has grown.
const FIRST: usize = 8 * LINE;
const BULK: usize = 2 * FIRST;

type Contents = ([u8; HEADER_BYTES], [u8; INLINE]);

/// A ring whose plain bytes loom watches for races.
struct Model<const CELLS: usize> {
    words: [AtomicU64; CELLS],
    cells: [UnsafeCell<Contents>; CELLS],
    bulk: [UnsafeCell<[u8; LINE]>; BULK / LINE],
    back: [AtomicU64; 2],
    wants_room: AtomicBool,
    grows: bool,
}

impl<const CELLS: usize> Model<CELLS> {
    fn new(grows: bool) -> Arc<Self> {
        Arc::new(Model {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            cells: std::array::from_fn(|_| UnsafeCell::new(([0; HEADER_BYTES], [0; INLINE]))),
            bulk: std::array::from_fn(|_| UnsafeCell::new([0; LINE])),
            back: std::array::from_fn(|_| AtomicU64::new(0)),
            wants_room: AtomicBool::new(false),
            grows,
        })
    }
}

impl<const CELLS: usize> Memory for Arc<Model<CELLS>> {
    const CELLS: u64 = CELLS as u64;
    const BULK: u64 = BULK as u64;
    const FIRST: u64 = FIRST as u64;
    const LONG: usize = LONG;

    fn word(&self, cell: u64) -> u64 {
        self.words[cell as usize].load(Ordering::Acquire)
    }
    fn publish(&self, cell: u64, word: u64) {
        self.words[cell as usize].store(word, Ordering::Release);
    }
    fn fill(&self, cell: u64, header: &[u8; HEADER_BYTES], payload: RawBytes) {
        self.cells[cell as usize].with_mut(|contents| {
            // SAFETY: loom has checked that nobody else accesses it now.
            let contents = unsafe { &mut *contents };
            contents.0 = *header;
            RawRoom::from(&mut contents.1[..payload.len()]).fill_from(payload);
        });
    }
    fn contents(&self, cell: u64) -> Contents {
        // SAFETY: loom has checked that nobody writes it now.
        self.cells[cell as usize].with(|contents| unsafe { *contents })
    }
    fn write(&self, at: u64, len: usize, fill: impl FnOnce(RawRoom)) {
        let mut payload = vec![0; len];
        fill(RawRoom::from(&mut payload[..]));
        for (line, bytes) in payload.chunks(LINE).enumerate() {
            self.bulk[at as usize / LINE + line].with_mut(|to| {
                // SAFETY: loom has checked that nobody else accesses it now.
                unsafe { (&mut *to)[..bytes.len()].copy_from_slice(bytes) };
            });
        }
    }
    fn grow(&mut self, from: u64) -> bool {
        assert_eq!(from, FIRST as u64);
        self.grows
    }
    fn read(&self, at: u64, len: usize, see: impl FnOnce(RawBytes)) {
        let mut bytes = Vec::new();
        for line in 0..len.div_ceil(LINE) {
            // SAFETY: loom has checked that nobody writes it now.
            self.bulk[at as usize / LINE + line].with(|from| bytes.extend_from_slice(unsafe { &*from }));
        }
        see(RawBytes::from(&bytes[..len]));
    }
    fn given_back(&self) -> (u64, u64) {
        (
            self.back[0].load(Ordering::Acquire),
            self.back[1].load(Ordering::Acquire),
        )
    }
    fn give_back(&self, cells: u64, bulk: u64) {
        self.back[0].store(cells, Ordering::Release);
        self.back[1].store(bulk, Ordering::Release);
    }
    // No payload is long here, so there is nothing to say.
    fn times(&self) -> u64 {
        0
    }
    fn tell_times(&self, _: u64) {}
    fn wants_room(&self) -> impl Flag {
        Fenced::new(&self.wants_room)
    }
}

/// Two cells fill up soonest; of eight, the receiver keeps two before it gives them back, and the bulk fills up before them.
const FEW: usize = 2;
const MANY: usize = 8;

/// A flag whose two sides each go through a fence, unless the model leaves it out.
struct Fenced<'a> {
    word: &'a AtomicBool,
    sender: bool,
    sleeper: bool,
}

impl Fenced<'_> {
    fn new(word: &AtomicBool) -> Fenced<'_> {
        Fenced {
            word,
            sender: true,
            sleeper: true,
        }
    }
}

impl Flag for Fenced<'_> {
    fn is_set(&self) -> bool {
        self.word.load(Ordering::Relaxed)
    }
    fn set(&self, on: bool) {
        self.word.store(on, Ordering::Relaxed);
    }
    fn take(&self) -> bool {
        self.word.swap(false, Ordering::Relaxed)
    }
    fn fence_of_sender(&self) {
        if self.sender {
            fence(Ordering::SeqCst);
        }
    }
    fn fence_of_sleeper(&self) {
        if self.sleeper {
            fence(Ordering::SeqCst);
        }
    }
}

/// Loom tries every order in which at most so many times a thread is stopped for another while it could go on.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A message: its header says its number, and its payload too.
#[derive(Clone, Copy)]
struct Sample {
    number: u8,
    len: usize,
}

impl Sample {
    fn payload(self) -> Vec<u8> {
        vec![self.number + 1; self.len]
    }

    fn push(self, sender: &mut Sender<impl Memory>) -> bool {
        let header = [self.number; HEADER_BYTES];
        sender
            .push(&header, RawBytes::from(&self.payload()[..]))
            .expect("the receiver is sane")
    }

    /// `false`: there is no message. The flag: the sender has to be rung.
    fn pop(self, receiver: &mut Receiver<impl Memory>) -> (bool, bool) {
        let popped = receiver.pop(|header, bytes| {
            assert_eq!(header, &[self.number; HEADER_BYTES]);
            assert_eq!(bytes.to_vec(), self.payload());
        });
        match popped {
            Popped::Nothing => (false, false),
            Popped::Message => (true, false),
            Popped::MessageAndBell => (true, true),
            Popped::Nonsense => panic!("the sender is sane"),
        }
    }
}

fn samples(lengths: &[usize]) -> Vec<Sample> {
    let numbered = lengths.iter().enumerate();
    numbered
        .map(|(number, &len)| Sample {
            number: number as u8,
            len,
        })
        .collect()
}

type Ends<const CELLS: usize> = (Sender<Arc<Model<CELLS>>>, Receiver<Arc<Model<CELLS>>>);

/// A ring that has carried so many of these messages, and what is left of them.
fn used<const CELLS: usize>(before: usize, lengths: &[usize]) -> (Ends<CELLS>, Vec<Sample>) {
    used_of(Model::new(false), before, lengths)
}

fn used_of<const CELLS: usize>(
    model: Arc<Model<CELLS>>,
    before: usize,
    lengths: &[usize],
) -> (Ends<CELLS>, Vec<Sample>) {
    let (mut sender, mut receiver) = (Sender::new(model.clone(), Allowed::Both), Receiver::new(model));
    let mut messages = samples(lengths);
    for message in messages.drain(..before) {
        assert!(message.push(&mut sender));
        assert_eq!(message.pop(&mut receiver), (true, false));
    }
    ((sender, receiver), messages)
}

/// All messages after the first `before` are sent and received at the same time.
fn crosses<const CELLS: usize>(preemptions: usize, before: usize, lengths: &'static [usize]) {
    crosses_in(|| Model::<CELLS>::new(false), preemptions, before, lengths);
}

fn crosses_in<const CELLS: usize>(
    model: fn() -> Arc<Model<CELLS>>,
    preemptions: usize,
    before: usize,
    lengths: &'static [usize],
) {
    check(preemptions, move || {
        let ((mut sender, mut receiver), messages) = used_of(model(), before, lengths);
        let to_send = messages.clone();
        let sending = thread::spawn(move || {
            for message in to_send {
                while !message.push(&mut sender) {
                    thread::yield_now();
                }
            }
        });
        for message in messages {
            while !message.pop(&mut receiver).0 {
                thread::yield_now();
            }
        }
        assert!(receiver.is_empty());
        sending.join().expect("the sender ends");
    });
}

const LONG: usize = 2 * LINE;

#[test]
fn short_messages_come_whole_and_in_order() {
    crosses::<FEW>(3, 0, &[5, 0, INLINE, 5]);
}

/// Each cell is used again, from a place other than the first on.
#[test]
fn cells_are_used_again() {
    crosses::<FEW>(3, 3, &[5, 0, 5, INLINE, 5, 0]);
}

#[test]
fn long_and_short_messages_come_whole_and_in_order() {
    crosses::<FEW>(2, 0, &[5, LINE, LONG, 5]);
}

/// One line is left at the end of the bulk, so the first message goes to its beginning; there is room for three more only once the
/// receiver has done with what lies there.
#[test]
fn the_bulk_is_used_again_and_its_end_left_out() {
    crosses::<MANY>(2, 4, &[LINE, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG]);
}

/// The last message before ends exactly at the end of the bulk.
#[test]
fn the_bulk_is_used_to_its_end() {
    crosses::<MANY>(2, 3, &[LONG, LONG, LONG, LONG, LONG, LONG]);
}

/// The bulk grows while the receiver is in what it was before, and is used again from its beginning then.
#[test]
fn the_bulk_grows_and_is_used_again() {
    let grows = || Model::<MANY>::new(true);
    crosses_in(grows, 2, 3, &[LONG, LONG, LONG, LONG, LONG, LONG, LONG]);
    crosses_in(
        grows,
        2,
        6,
        &[LONG, LONG, LONG, LONG, LONG, LONG, LINE, LONG, LONG, LONG],
    );
}

fn message_or_sleep(sender: bool, sleeper: bool) {
    check(3, move || {
        let ((mut sending_end, receiver), messages) = used::<FEW>(1, &[LINE, 0]);
        let word = Arc::new(AtomicBool::new(false));
        let sending = {
            let word = word.clone();
            thread::spawn(move || {
                assert!(messages[0].push(&mut sending_end));
                let word = &word;
                flag::must_ring(&Fenced {
                    word,
                    sender,
                    sleeper,
                })
            })
        };
        let flag = Fenced {
            word: &word,
            sender,
            sleeper,
        };
        let sleeps = flag::go_to_sleep(&flag, || receiver.is_empty());
        let rung = sending.join().expect("the sender ends");
        assert!(!sleeps || rung, "asleep with a message, and nobody rings");
    });
}

#[test]
fn a_message_is_seen_before_the_sleep_or_ends_it() {
    message_or_sleep(true, true);
}

#[test]
#[should_panic(expected = "nobody rings")]
fn the_sender_of_a_message_needs_its_fence() {
    message_or_sleep(false, true);
}

#[test]
#[should_panic(expected = "nobody rings")]
fn the_sleeper_needs_its_fence() {
    message_or_sleep(true, false);
}

/// `membarrier`: the sleeper's call ends once the sender's processor has gone through a fence, wherever in its instructions that
/// was. So it is an interrupt, which the sender takes at any of the places where its order of accesses matters.
struct Interrupted {
    word: AtomicBool,
    asked: AtomicBool,
    answered: AtomicBool,
}

impl Interrupted {
    /// Takes the interrupt if it is there.
    fn open_to_interrupt(&self) {
        if self.asked.load(Ordering::Acquire) {
            self.answer();
        }
    }

    /// A processor that runs another process has gone through a fence.
    fn answer(&self) {
        fence(Ordering::SeqCst);
        self.answered.store(true, Ordering::Release);
    }
}

impl Flag for Interrupted {
    fn is_set(&self) -> bool {
        self.word.load(Ordering::Relaxed)
    }
    fn set(&self, on: bool) {
        self.word.store(on, Ordering::Relaxed);
    }
    fn take(&self) -> bool {
        self.open_to_interrupt();
        self.word.swap(false, Ordering::Relaxed)
    }
    fn fence_of_sender(&self) {
        self.open_to_interrupt();
    }
    fn fence_of_sleeper(&self) {
        fence(Ordering::SeqCst);
        self.asked.store(true, Ordering::Release);
        while !self.answered.load(Ordering::Acquire) {
            thread::yield_now();
        }
        fence(Ordering::SeqCst);
    }
}

#[test]
fn the_sleepers_membarrier_does_for_the_senders_fence() {
    check(4, || {
        let ((mut sender, receiver), messages) = used::<FEW>(1, &[LINE, 0]);
        let flag = Arc::new(Interrupted {
            word: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            answered: AtomicBool::new(false),
        });
        let sending = {
            let flag = flag.clone();
            thread::spawn(move || {
                flag.open_to_interrupt();
                assert!(messages[0].push(&mut sender));
                let rung = flag::must_ring(&*flag);
                flag.answer();
                rung
            })
        };
        let sleeps = flag::go_to_sleep(&*flag, || receiver.is_empty());
        let rung = sending.join().expect("the sender ends");
        assert!(!sleeps || rung, "asleep with a message, and nobody rings");
    });
}

#[test]
fn one_of_two_senders_rings() {
    check(3, || {
        let word = Arc::new(AtomicBool::new(true));
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let word = word.clone();
                thread::spawn(move || flag::must_ring(&Fenced::new(&word)))
            })
            .collect();
        let rings = senders
            .into_iter()
            .map(|sender| u32::from(sender.join().expect("the sender ends")));
        assert_eq!(rings.sum::<u32>(), 1);
    });
}

/// The sender of a full ring goes to sleep while the receiver takes all there is. `fenced`: the sender goes through its fence.
fn room_or_sleep<const CELLS: usize>(before: usize, lengths: &'static [usize], fenced: bool) {
    check(3, move || {
        let ((mut sender, mut receiver), mut messages) = used::<CELLS>(before, lengths);
        let last = messages.pop().expect("some");
        for message in &messages {
            assert!(message.push(&mut sender), "there is room");
        }
        let receiving = thread::spawn(move || {
            let mut rung = false;
            for message in messages {
                let (any, bell) = message.pop(&mut receiver);
                assert!(any, "it was sent before");
                rung |= bell;
            }
            (rung, receiver)
        });
        let went = last.push(&mut sender);
        let sleeps = !went && {
            sender.ask_for_room();
            if fenced {
                fence(Ordering::SeqCst);
            }
            !sender.has_room()
        };
        let (rung, mut receiver) = receiving.join().expect("the receiver ends");
        assert!(!sleeps || rung, "asleep without room, and nobody rings");
        // Whoever is rung finds room.
        assert!(went || last.push(&mut sender), "there is room now");
        assert!(last.pop(&mut receiver).0);
    });
}

#[test]
fn who_waits_for_a_cell_sees_it_or_is_rung() {
    room_or_sleep::<FEW>(0, &[5, 0, 5], true);
}

#[test]
fn who_waits_for_the_bulk_sees_it_or_is_rung() {
    room_or_sleep::<MANY>(0, &[LONG, LONG, LONG, LONG, LONG], true);
}

/// The last message has to go to the beginning, and the receiver has not given back what was there before.
#[test]
fn who_waits_for_the_bulks_beginning_sees_it_or_is_rung() {
    room_or_sleep::<MANY>(1, &[LINE, LONG, LONG, LONG, LONG], true);
}

#[test]
#[should_panic(expected = "nobody rings")]
fn who_waits_for_room_needs_a_fence() {
    room_or_sleep::<FEW>(0, &[5, 0, 5], false);
}
