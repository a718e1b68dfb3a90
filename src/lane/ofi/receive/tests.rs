//! Tests against a provider that does on demand what real ones do rarely: it ends messages in any order, releases buffers with a
//! message or in a notification of its own, and loses incomplete messages.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::system::fabric::PostedReceive;
use crate::system::fabric::hooked_endpoint;

/// Bytes of a shared buffer, and of the longest message.
const SIZE: usize = 16 << 10;
const MESSAGE: usize = 4096;

/// A message that has a place and has not ended.
struct Half {
    buffer: PostedReceive,
    offset: usize,
    len: usize,
    /// Its buffer is released with it.
    last: bool,
}

/// The provider's side.
#[derive(Default)]
struct Provider {
    /// Buffers with room, and how much of each is used, in the order in which they were posted.
    posted: VecDeque<(PostedReceive, usize)>,
    /// How many were ever posted.
    postings: usize,
    halves: Vec<Half>,
    /// Buffers for which the notification of their release is still to come.
    owed: Vec<PostedReceive>,
    /// Buffers in which a message was lost, whose rest may still be written.
    haunted: Vec<PostedReceive>,
    /// What it returns for the next buffers; 0 when there is nothing here.
    answers: VecDeque<isize>,
    /// What may never be.
    wrong: Vec<String>,
}

impl Provider {
    fn post(&mut self, buffer: PostedReceive) -> isize {
        let answer = self.answers.pop_front().unwrap_or(0);
        if answer != 0 {
            return answer;
        }
        let same = |other: &PostedReceive| other.base == buffer.base;
        // Not a panic: this is a call from C.
        if self.posted.iter().any(|(other, _)| same(other)) {
            self.wrong.push(format!("posted twice: {buffer:?}"));
        }
        if self.halves.iter().any(|half| same(&half.buffer)) {
            self.wrong
                .push(format!("posted while a message arrives in it: {buffer:?}"));
        }
        if self.haunted.iter().any(same) {
            self.wrong.push(format!("posted after a loss: {buffer:?}"));
        }
        self.posted.push_back((buffer, 0));
        self.postings += 1;
        0
    }

    /// A message of `len` bytes comes: it has a place now. `false`: there is no buffer.
    fn begin(&mut self, len: usize) -> bool {
        let Some((buffer, used)) = self.posted.front_mut() else {
            return false;
        };
        let (buffer, offset) = (*buffer, *used);
        *used += len;
        assert!(*used <= buffer.len, "no room in {buffer:?}");
        let last = buffer.takes == Takes::One || *used + MESSAGE > buffer.len;
        if last {
            self.posted.pop_front();
        }
        self.halves.push(Half {
            buffer,
            offset,
            len,
            last,
        });
        true
    }
}

/// Both sides.
struct Pair {
    buffers: ReceiveBuffers,
    provider: Rc<RefCell<Provider>>,
    endpoint: Rc<Endpoint>,
    domain: Rc<Domain>,
    number: u8,
}

impl Pair {
    fn new(wanted: usize) -> Pair {
        let provider = Rc::new(RefCell::new(Provider::default()));
        let other = provider.clone();
        let (endpoint, domain) = hooked_endpoint(move |buffer| other.borrow_mut().post(buffer));
        let mut pair = Pair {
            buffers: ReceiveBuffers::new(SIZE, wanted, MESSAGE, 64).unwrap(),
            provider,
            endpoint,
            domain,
            number: 0,
        };
        pair.replenish().unwrap();
        pair
    }

    fn replenish(&mut self) -> Result<()> {
        let replenished = self.buffers.replenish(&mut Target {
            endpoint: &self.endpoint,
            domain: &self.domain,
            registered: None,
        });
        assert_eq!(self.provider.borrow().wrong, [""; 0]);
        replenished
    }

    fn begin(&mut self, len: usize) {
        assert!(self.provider.borrow_mut().begin(len), "there is no buffer");
    }

    /// How many buffers the provider has room in.
    fn posted(&self) -> usize {
        self.provider.borrow().posted.len()
    }

    fn states(&self) -> Vec<BufferState> {
        self.buffers.buffers.iter().map(|buffer| buffer.state).collect()
    }

    /// A message has arrived whole; the notification that its buffer is released comes with it, or later by itself.
    fn end(&mut self, at: usize, by_itself: bool) {
        let half = self.provider.borrow_mut().halves.remove(at);
        self.number = self.number.wrapping_add(1);
        let place = half.buffer.base.wrapping_add(half.offset);
        // SAFETY: the buffer is the provider's until this message is read.
        unsafe { place.write_bytes(self.number, half.len) };
        let context = half.buffer.context;
        let index = self.buffers.index(context).expect("a receive buffer's context");
        // Where a buffer has one message only, providers need not say where that is.
        let said = match half.buffer.takes {
            Takes::One if by_itself => std::ptr::null_mut(),
            _ => place,
        };
        let completion = Completion::of_receive(context, Some((said, half.len)), half.last && !by_itself);
        let read = self.buffers.message(index, &completion).expect("a message");
        assert!(read.len() == half.len && read.iter().all(|&byte| byte == self.number));
        self.settle(index, &completion);
        if half.last && by_itself && half.buffer.takes == Takes::Many {
            self.provider.borrow_mut().owed.push(half.buffer);
        }
        // The notification comes by itself when all messages of the buffer have ended.
        let of_it = |other: PostedReceive| other.base == half.buffer.base;
        let mut provider = self.provider.borrow_mut();
        if provider.halves.iter().any(|half| of_it(half.buffer))
            || !provider.owed.iter().any(|&one| of_it(one))
        {
            return;
        }
        provider.owed.retain(|&one| !of_it(one));
        // Then nothing is written there any more, whatever was lost.
        provider.haunted.retain(|&one| !of_it(one));
        drop(provider);
        self.settle(index, &Completion::of_receive(context, None, true));
    }

    fn settle(&mut self, index: usize, completion: &Completion) {
        let short = self.buffers.settle(index, completion);
        assert!(short || !self.buffers.is_short() || !completion.releases_buffer());
        if short {
            self.replenish().unwrap();
        }
    }

    /// A message is lost. `told`: with the notification that its buffer is released, where it was the last.
    fn lose(&mut self, at: usize, told: bool) {
        let half = self.provider.borrow_mut().halves.remove(at);
        let index = self.buffers.index(half.buffer.context).unwrap();
        if half.buffer.takes == Takes::Many {
            self.provider.borrow_mut().haunted.push(half.buffer);
        }
        self.buffers.failed(index, half.last && told);
        self.replenish().unwrap();
    }
}

#[test]
fn a_buffer_is_used_again_when_all_of_it_has_arrived() {
    let mut pair = Pair::new(1);
    // Four messages fill the first; the last ends before the others.
    for _ in 0..4 {
        pair.begin(MESSAGE);
    }
    assert_eq!(pair.posted(), 0);
    pair.end(3, false);
    assert_eq!(
        (pair.posted(), pair.states()),
        (1, vec![BufferState::Settling, BufferState::Shared])
    );
    pair.end(0, false);
    pair.end(1, false);
    assert_eq!(pair.states()[0], BufferState::Settling);
    pair.end(0, false);
    assert_eq!(pair.states(), [BufferState::Idle, BufferState::Shared]);
    // The one that was read last is used next: its memory is warm.
    for _ in 0..4 {
        pair.begin(MESSAGE);
    }
    for _ in 0..4 {
        pair.end(0, false);
    }
    assert_eq!(
        (pair.states(), pair.posted()),
        (vec![BufferState::Idle, BufferState::Shared], 1)
    );
}

#[test]
fn a_word_by_itself_gives_a_buffer_back_at_once() {
    let mut pair = Pair::new(2);
    for _ in 0..4 {
        pair.begin(MESSAGE);
    }
    for _ in 0..3 {
        pair.end(0, true);
    }
    assert_eq!(pair.states(), [BufferState::Shared, BufferState::Shared]);
    // Two are to be posted always; it is the only one that is free.
    pair.end(0, true);
    assert_eq!((pair.states(), pair.posted()), (vec![BufferState::Shared; 2], 2));
    assert_eq!(pair.provider.borrow().postings, 3);
}

#[test]
fn a_message_in_a_later_buffer_tells_that_those_before_are_full() {
    let mut pair = Pair::new(3);
    // Incomplete messages hold all of the first two buffers, and libfabric does not report it.
    for _ in 0..9 {
        pair.begin(MESSAGE);
    }
    assert_eq!(pair.posted(), 1);
    pair.end(8, false);
    assert_eq!(pair.posted(), 3);
    assert_eq!(pair.buffers.posted.len(), 3);
    // The first ones are given back as late as they may be.
    while !pair.provider.borrow().halves.is_empty() {
        pair.end(0, false);
    }
    assert_eq!(pair.buffers.idle.len(), 2);
}

#[test]
fn a_buffer_that_ends_out_of_turn_takes_none_of_the_others_along() {
    let mut pair = Pair::new(1);
    pair.buffers.share_no_more();
    pair.replenish().unwrap();
    // The shared one, and one message each in the next two, of which the second is lost.
    for _ in 0..6 {
        pair.begin(MESSAGE);
    }
    let lost = pair
        .buffers
        .index(pair.provider.borrow().halves[5].buffer.context);
    pair.lose(5, false);
    assert_eq!((pair.posted(), pair.buffers.posted.len()), (31, 32));
    // The first stays where it was, the lost one's buffer is posted again, as the last.
    assert_eq!(
        (pair.buffers.posted.front(), pair.buffers.posted.back()),
        (Some(&1), lost.as_ref())
    );
}

#[test]
fn where_a_message_was_lost_nothing_is_posted_any_more() {
    for told in [true, false] {
        let mut pair = Pair::new(1);
        for _ in 0..4 {
            pair.begin(MESSAGE);
        }
        pair.lose(3, told);
        // Of the kind that takes one message: the entries' half, 32.
        assert_eq!(pair.posted(), 32);
        for _ in 0..3 {
            pair.end(0, true);
        }
        let left = if told {
            BufferState::Settling
        } else {
            BufferState::Shared
        };
        assert_eq!(pair.states()[0], left, "told: {told}");
        for _ in 0..100 {
            pair.begin(100);
            pair.end(0, false);
            pair.begin(MESSAGE);
            pair.lose(0, false);
        }
        assert_eq!((pair.posted(), pair.buffers.count()), (32, 33));
        assert_eq!(pair.states()[0], left, "told: {told}");
    }
}

#[test]
fn a_loss_in_the_middle_of_a_buffer_leaves_it_posted() {
    let mut pair = Pair::new(1);
    for _ in 0..2 {
        pair.begin(100);
    }
    pair.lose(0, true);
    assert_eq!(pair.states()[0], BufferState::Shared);
    // It is still the first that libfabric fills.
    pair.begin(100);
    pair.end(0, false);
    pair.end(0, false);
    assert_eq!(pair.states()[0], BufferState::Shared);
}

#[test]
fn the_last_message_of_a_buffer_in_which_one_was_lost_does_not_free_it() {
    let mut pair = Pair::new(1);
    for _ in 0..4 {
        pair.begin(MESSAGE);
    }
    pair.lose(0, false);
    // It is not known whether the rest of the lost message still comes: the buffer is short of its bytes.
    pair.end(2, false);
    pair.end(0, false);
    pair.end(0, false);
    assert_eq!(pair.states()[0], BufferState::Settling);
}

#[test]
fn a_provider_that_has_no_room_is_asked_again_later() {
    for (answers, wanted) in [
        // One at least is there: it goes on with that.
        (vec![0, -(libc::ENOMEM as isize)], Ok(1)),
        (vec![0, -(libc::EAGAIN as isize)], Ok(1)),
        (vec![-(libc::EAGAIN as isize)], Ok(0)),
        (vec![-(libc::ENOMEM as isize)], Err(())),
        (vec![0, -(libc::EBADF as isize)], Err(())),
        (vec![-(libc::EBADF as isize)], Err(())),
    ] {
        let mut pair = Pair::new(2);
        pair.buffers = ReceiveBuffers::new(SIZE, 2, MESSAGE, 64).unwrap();
        *pair.provider.borrow_mut() = Provider {
            answers: answers.clone().into(),
            ..Provider::default()
        };
        let came = pair.replenish().map_err(drop);
        assert_eq!(came.map(|()| pair.posted()), wanted, "{answers:?}");
        // What could not be posted is there when there is room again, and none twice.
        pair.replenish().unwrap();
        assert_eq!((pair.posted(), pair.buffers.count()), (2, 2), "{answers:?}");
    }
}

#[test]
fn without_memory_for_more_what_is_posted_has_to_do() {
    let mut pair = Pair::new(2);
    // No machine has that much.
    pair.buffers.size = usize::MAX / 2;
    for _ in 0..4 {
        pair.begin(MESSAGE);
    }
    pair.end(3, false);
    assert_eq!((pair.posted(), pair.buffers.count()), (1, 2));
    for _ in 0..4 {
        pair.begin(MESSAGE);
    }
    let last = pair.provider.borrow_mut().halves.pop().unwrap();
    let index = pair.buffers.index(last.buffer.context).unwrap();
    let place = Some((last.buffer.base.wrapping_add(last.offset), last.len));
    let completion = Completion::of_receive(last.buffer.context, place, true);
    pair.buffers.message(index, &completion).unwrap();
    assert!(pair.buffers.settle(index, &completion));
    assert!(pair.replenish().unwrap_err().to_string().contains("can't map"));
}

#[test]
fn where_all_are_distrusted_as_many_more_are_posted_as_halves_can_hold() {
    let mut pair = Pair::new(1);
    let connections = 5;
    // The shared one and then 32 for a message each, all held; so on up to one for each connection and what is always posted.
    let mut counts = Vec::new();
    for _ in 0..8 {
        pair.buffers.distrust(connections);
        pair.replenish().unwrap();
        counts.push(pair.buffers.count());
    }
    assert_eq!(counts[..4], [33, 65, 97, 129]);
    // 5 + 64 + 32 = 101 are used at most when it is distrusted once more.
    assert_eq!(counts[4..], [129; 4]);
    // Only those that are used count: 100 of them are free again.
    for _ in 0..4 + 100 {
        pair.begin(MESSAGE);
        pair.end(0, false);
    }
    let before = pair.provider.borrow().postings;
    pair.buffers.distrust(connections);
    pair.replenish().unwrap();
    assert_eq!(
        (pair.provider.borrow().postings, pair.buffers.count()),
        (before + SINGLES, 129)
    );
}

#[test]
fn a_message_outside_its_buffer_is_none() {
    let mut pair = Pair::new(1);
    assert_eq!(pair.buffers.index(pair.buffers.context_of(0)), Some(0));
    assert_eq!(
        pair.buffers.index(pair.buffers.context_of(1)),
        None,
        "there is no such buffer yet"
    );
    let buffer = pair.provider.borrow().posted[0].0;
    let index = pair.buffers.index(buffer.context).unwrap();
    let message = |pair: &mut Pair, offset: isize, len| {
        let at = buffer.base.wrapping_offset(offset);
        let completion = Completion::of_receive(buffer.context, Some((at, len)), false);
        pair.buffers.message(index, &completion).map(<[u8]>::len)
    };
    assert_eq!(message(&mut pair, 0, SIZE), Some(SIZE));
    assert_eq!(message(&mut pair, SIZE as isize, 0), Some(0));
    for (offset, len) in [
        (0, SIZE + 1),
        (1, SIZE),
        (-1, 1),
        (SIZE as isize, 1),
        (-1, usize::MAX),
    ] {
        assert_eq!(message(&mut pair, offset, len), None, "{offset} {len}");
    }
}

#[test]
fn whatever_the_order_nothing_is_written_into_a_buffer_that_is_read() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::new(1 + seed as usize % 4);
        let (peers, losses) = (random.usize(1..=40), seed >= 20);
        for _ in 0..3000 {
            let open = pair.provider.borrow().halves.len();
            let what = random.u8(0..100);
            if open < peers && what < 60 {
                let len = if random.bool() {
                    random.usize(1..64)
                } else {
                    random.usize(1..=MESSAGE)
                };
                // Where there is no buffer the message stays where it is: that is what `distrust` is for.
                if !pair.provider.borrow_mut().begin(len) {
                    pair.buffers.distrust(peers);
                    pair.replenish().unwrap();
                    assert!(pair.provider.borrow_mut().begin(len), "seed {seed}: no buffer");
                }
            } else if open > 0 && losses && what == 99 {
                pair.lose(random.usize(..open), random.bool());
            } else if open > 0 {
                pair.end(random.usize(..open), random.bool());
            }
            // What is thought to be posted is, and once; or a message arrives there.
            let provider = pair.provider.borrow();
            let mut known: Vec<_> = pair.buffers.posted.iter().collect();
            known.sort();
            known.dedup();
            assert_eq!(known.len(), pair.buffers.posted.len(), "seed {seed}");
            for index in &pair.buffers.posted {
                let base = pair.buffers.buffers[*index].pages.base();
                let there = provider.posted.iter().any(|(buffer, _)| buffer.base == base)
                    || provider.halves.iter().any(|half| half.buffer.base == base);
                assert!(there, "seed {seed}: {index} is not posted");
            }
        }
        while !pair.provider.borrow().halves.is_empty() {
            pair.end(0, false);
        }
        let count = pair.buffers.count();
        assert!(count <= peers + SHARED_MOST + 2 * SINGLES, "seed {seed}: {count}");
        if !losses && !pair.buffers.singles {
            let settling = pair
                .states()
                .iter()
                .filter(|&&state| state == BufferState::Settling)
                .count();
            assert_eq!(settling, 0, "seed {seed}");
        }
    }
}

#[test]
fn where_many_shared_buffers_are_held_by_halves_the_next_take_one_message_each() {
    let mut pair = Pair::new(1);
    for number in 0..SHARED_MOST {
        assert!(pair.buffers.are_shared(), "{number}");
        for _ in 0..4 {
            pair.begin(MESSAGE);
        }
        // The first of each is never whole.
        for _ in 0..3 {
            pair.end(number + 1, false);
        }
    }
    assert!(!pair.buffers.are_shared());
    assert_eq!(
        (pair.buffers.count(), pair.posted()),
        (SHARED_MOST + SINGLES, SINGLES)
    );
    assert_eq!(pair.provider.borrow().posted[0].0.takes, Takes::One);
}
