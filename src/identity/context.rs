//! Communication contexts.
//!
//! ```text
//!   63       62       61      60           59..1        0
//!   partial  meeting  inside  partitioned  identifier   collective
//! ```
//!
//! The identifier is a communicator's; the marks say what a message of it is for. Identifiers are made by one process and
//! sent to the others, so there is nothing to agree on. No two are the same:
//!
//! - within a job by construction: the maker's rank and its counter, mixed by a function that maps no two numbers to the same;
//! - between jobs by chance: the function's key is the job's. A communicator of processes of two jobs has an identifier
//!   of one of them; it is equal to an identifier of the other job with a probability of 2^-59 for each one in use.

use std::sync::atomic::{AtomicU64, Ordering};

use super::process::ProcessName;

/// To which communicator a message belongs, and for what purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Context(u64);

/// Messages of collective operations.
const COLLECTIVE: u64 = 1;
/// Messages of operations of some of the members.
const PARTIAL: u64 = 1 << 63;
/// Communicators that are only used to make others.
const MEETING: u64 = 1 << 62;
/// On an intercommunicator: messages inside a group, where sources are ranks of the sender's own group.
const INSIDE: u64 = 1 << 61;
/// Partitioned communication: alone for the offers by which a send finds its receive, with `COLLECTIVE` for the data.
const PARTITIONED: u64 = 1 << 60;

const MARKS: u64 = PARTIAL | MEETING | INSIDE | PARTITIONED | COLLECTIVE;
const IDENTIFIER_BITS: u32 = 59;
const IDENTIFIERS: u64 = (1 << IDENTIFIER_BITS) - 1;
/// Identifiers below this are fixed. Only processes of one job ever use them together.
const FIRST_MADE: u64 = 16;

impl Context {
    /// None: for what belongs to no communicator.
    pub const NONE: Context = Context(0);
    /// `MPI_COMM_WORLD`
    pub const WORLD: Context = Context::of_identifier(1);
    /// `MPI_COMM_SELF`
    pub const SELF: Context = Context::of_identifier(2);
    /// The operations inside `MPI_Finalize`.
    pub const FINALIZE: Context = Context::of_identifier(3);

    const fn of_identifier(identifier: u64) -> Context {
        Context(identifier << 1)
    }

    /// The context of a communicator for processes that meet to make another one; all of them know this number.
    pub fn meeting(number: u64) -> Context {
        Context(MEETING | (number << 1) & !MARKS)
    }

    /// Whether it is one of those that each job has, of its own processes: `MPI_COMM_WORLD`'s and kin.
    #[inline]
    pub const fn is_of_one_job(self) -> bool {
        self.0 & MEETING == 0 && (self.0 & !MARKS) >> 1 < FIRST_MADE
    }

    /// Bytes of a context in messages.
    pub const BYTES: usize = 8;

    /// The bytes for a message.
    pub const fn encode(self) -> [u8; Context::BYTES] {
        self.0.to_le_bytes()
    }

    /// The context in these bytes.
    pub const fn decode(bytes: [u8; Context::BYTES]) -> Context {
        Context(u64::from_le_bytes(bytes))
    }

    /// As it stands in a header.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// From the bits in a header. Any number is valid.
    #[inline(always)]
    pub const fn of_bits(bits: u64) -> Context {
        Context(bits)
    }

    /// Whether it is that of no communicator.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Context::NONE
    }

    /// The communicator's context, for its point-to-point messages. (That of a meeting is a number of its own, of which
    /// this makes another one that is no communicator's either.)
    #[inline]
    pub const fn communicator(self) -> Context {
        Context(self.0 & !(MARKS & !MEETING))
    }

    /// For messages of collective operations.
    #[inline(always)]
    pub const fn collective(self) -> Context {
        Context(self.0 | COLLECTIVE)
    }

    /// For messages of operations of some of the members.
    pub const fn partial(self) -> Context {
        Context(self.0 | PARTIAL)
    }

    /// For messages inside a group of an intercommunicator.
    pub const fn inside(self) -> Context {
        Context(self.0 | INSIDE)
    }

    /// For the messages by which the leaders of two groups make an intercommunicator.
    pub const fn bridge(self) -> Context {
        Context(self.0 | PARTIAL | INSIDE)
    }

    /// For the offers of partitioned sends.
    pub const fn partitioned_offers(self) -> Context {
        Context(self.0 | PARTITIONED)
    }

    /// For the data of partitioned sends.
    pub const fn partitioned_data(self) -> Context {
        Context(self.0 | PARTITIONED | COLLECTIVE)
    }

    /// Whether it is one of processes that meet.
    pub const fn is_meeting(self) -> bool {
        self.0 & MEETING != 0
    }

    /// Whether it is one of partitioned communication.
    pub const fn is_partitioned(self) -> bool {
        self.0 & PARTITIONED != 0
    }

    /// Whether it belongs to the operations inside `MPI_Finalize`.
    pub const fn is_finalizing(self) -> bool {
        self.0 & !COLLECTIVE == Context::FINALIZE.0
    }

    /// Whether it is one of collective operations of all members (or, of an intercommunicator, of all of a group).
    pub const fn is_collective(self) -> bool {
        self.0 & COLLECTIVE != 0 && self.0 & (PARTIAL | PARTITIONED | MEETING) == 0
    }
}

/// Makes contexts of communicators.
#[derive(Debug)]
pub struct Contexts {
    key: u64,
    /// The maker's rank, at its place in an identifier before mixing.
    rank: u64,
    counter_bits: u32,
    counter: AtomicU64,
}

impl Contexts {
    /// Those that a process of a job of `size` processes makes.
    pub fn new(maker: ProcessName, size: u32) -> Contexts {
        let rank_bits = u32::BITS - size.saturating_sub(1).leading_zeros();
        let counter_bits = IDENTIFIER_BITS - rank_bits;
        Contexts {
            key: maker.job.0 & IDENTIFIERS,
            rank: u64::from(maker.rank) << counter_bits,
            counter_bits,
            counter: AtomicU64::new(0),
        }
    }

    /// One that no process of the job has made, without marks. A process comes back to its first after 2^49 in a job of a
    /// thousand processes, and after 2^27 in one of four thousand million.
    pub fn make(&self) -> Context {
        loop {
            let counter = self.counter.fetch_add(1, Ordering::Relaxed) & ((1 << self.counter_bits) - 1);
            let identifier = mix(self.rank | counter, self.key);
            if identifier >= FIRST_MADE {
                return Context::of_identifier(identifier);
            }
        }
    }
}

/// Factors of the steps of [`mix`], and whether the key is added before the step. The steps before that have spread
/// consecutive numbers of one maker over the whole range, so jobs whose keys are close to each other have no more in
/// common than others.
const STEPS: [(u64, bool); 4] = [
    (0xbf58_476d_1ce4_e5b9, false),
    (0x94d0_49bb_1331_11eb, false),
    (0x9e37_79b9_7f4a_7c15, true),
    (0xd6e8_feb8_6659_fd93, false),
];

/// Maps numbers below 2^59 one to one to such numbers: each step can be undone.
fn mix(number: u64, key: u64) -> u64 {
    STEPS.into_iter().fold(number, |mut mixed, (factor, keyed)| {
        if keyed {
            mixed ^= key;
        }
        mixed = mixed.wrapping_mul(factor) & IDENTIFIERS;
        mixed ^ mixed >> 31
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::JobId;
    use std::collections::HashSet;

    #[test]
    fn a_context_tells_its_communicator_whatever_the_message_is() {
        let own = Context::of_identifier(0x13b);
        let collective = [own.collective(), own.collective().inside()];
        let others = [
            own,
            own.partial(),
            own.bridge(),
            own.inside(),
            own.partitioned_offers(),
            own.partitioned_data(),
        ];
        for (all, is_collective) in [(&collective[..], true), (&others[..], false)] {
            for context in all {
                assert_eq!(context.communicator(), own, "{context:?}");
                assert_eq!(context.is_collective(), is_collective, "{context:?}");
                assert!(!context.is_meeting() && !context.is_finalizing(), "{context:?}");
                assert_eq!(Context::of_bits(context.bits()), *context);
            }
        }
        let all: HashSet<Context> = collective.into_iter().chain(others).collect();
        assert_eq!(all.len(), 8, "no two are the same");
        assert!(own.partitioned_data().is_partitioned() && !own.partial().is_partitioned());
        assert!(Context::FINALIZE.collective().is_finalizing() && !Context::WORLD.is_finalizing());
    }

    #[test]
    fn fixed_ones_are_of_one_job() {
        let fixed = [Context::NONE, Context::WORLD, Context::SELF, Context::FINALIZE];
        for context in fixed {
            assert!(context.is_of_one_job() && context.collective().partial().is_of_one_job());
        }
        let made = Context::of_identifier(FIRST_MADE);
        assert!(!made.is_of_one_job() && !made.collective().is_of_one_job());
        assert!(!Context::meeting(1).is_of_one_job());
        assert_eq!(Context::decode(made.collective().encode()), made.collective());
    }

    #[test]
    fn a_meeting_is_no_communicator_whatever_its_number_is() {
        for number in [0, 1, 5, u64::MAX] {
            let meeting = Context::meeting(number);
            assert!(meeting.is_meeting() && meeting.communicator().is_meeting());
            assert!(!meeting.collective().is_collective() && !meeting.is_partitioned());
            assert_ne!(
                meeting.communicator(),
                Context::of_identifier(number & IDENTIFIERS)
            );
        }
    }

    fn makers(job: u64, size: u32) -> Vec<Contexts> {
        let maker = |rank| ProcessName {
            job: JobId(job),
            rank,
        };
        (0..size).map(|rank| Contexts::new(maker(rank), size)).collect()
    }

    #[test]
    fn no_two_processes_make_the_same() {
        let mut all = HashSet::new();
        for job in [0, 7, u64::MAX] {
            for maker in makers(job, 5) {
                for _ in 0..20_000 {
                    let made = maker.make();
                    assert_eq!(made.communicator(), made);
                    assert!(
                        made > Context::FINALIZE && all.insert(made),
                        "{made:?} came twice"
                    );
                }
            }
        }
    }

    /// Undoes a step of `mix` up to the key.
    fn undo(mixed: u64, factor: u64) -> u64 {
        // Newton's method for the inverse of the factor: each step doubles the bits that are right.
        let inverse = (0..6).fold(factor, |inverse, _| {
            inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)))
        });
        (mixed ^ mixed >> 31).wrapping_mul(inverse) & IDENTIFIERS
    }

    fn unmix(mixed: u64, key: u64) -> u64 {
        STEPS.into_iter().rev().fold(mixed, |mixed, (factor, keyed)| {
            undo(mixed, factor) ^ if keyed { key } else { 0 }
        })
    }

    #[test]
    fn mixing_can_be_undone() {
        for number in [0, 1, 15, 0x1234_5678_9abc, IDENTIFIERS] {
            assert_eq!(unmix(mix(number, 99), 99), number);
        }
    }

    #[test]
    fn the_fixed_ones_are_never_made() {
        // The first number of this job's only process would become 2: it is 0, and stays 0 until the key is added.
        let behind = STEPS.into_iter().rev().take(2);
        let key = behind.fold(2, |mixed, (factor, _)| undo(mixed, factor));
        assert_eq!(mix(0, key), 2);
        let made = makers(key, 1)[0].make();
        assert_eq!(made.bits() >> 1, mix(1, key));
    }

    #[test]
    fn one_who_has_made_all_begins_again_with_its_own() {
        let name = |rank| ProcessName { job: JobId(3), rank };
        let (maker, next) = (Contexts::new(name(2), u32::MAX), Contexts::new(name(3), u32::MAX));
        let first = maker.make();
        maker.counter.store(1 << 27, Ordering::Relaxed);
        assert_eq!(maker.make(), first);
        assert_ne!(maker.make(), next.make());
    }
}
