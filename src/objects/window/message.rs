//! The operations of a batch, as they are in messages to a window's targets. `docs/wire.md` draws them.
//!
//! ```text
//!   0 code   1 flags   2 operation   3 number of groups   4 datatype   6 bytes of the groups   8 tag   12 bytes of data
//!  16 the groups of runs (`runs`), then the data, filled up to a multiple of 8 bytes if anything follows
//! ```
//!
//! All numbers are little-endian. Bytes from other processes are input: [`parse`] checks the form of an operation, and the target whether
//! its contents make sense.

use super::runs;
use crate::base::bytes::{RawBytes, RawRoom};
use crate::data::datatype::Runs;
use crate::data::memory::Memory;

/// What an operation does at the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Code {
    /// Stores the data.
    Put = 1,
    /// Stores the data of the message with the tag + 1, which comes next.
    PutLong = 2,
    /// Sends what is there as the message with the tag.
    Get = 3,
    /// Combines the data with what is there.
    Accumulate = 4,
    /// The same, and what was there before is sent as the message with the tag.
    GetAccumulate = 5,
    /// Replaces what is there by the first half of the data if it is equal to the second; what was there before is sent.
    CompareAndSwap = 6,
    /// Asks for the lock. The operations behind it wait until it is granted; with a tag, other than 0, that is told.
    Lock = 7,
    /// Gives it back.
    Unlock = 8,
    /// Is acknowledged when all operations before it are complete.
    Flush = 9,
    /// Combines the data of the message with the tag + 1, which comes next, with what is there.
    AccumulateLong = 10,
    /// Says how many operations its origin has sent before its fence: the data, 8 bytes.
    Count = 11,
}

/// Of [`Code::Lock`]: an exclusive lock.
pub const EXCLUSIVE: u8 = 1;
/// Of [`Code::Lock`]: who asks is locking all targets and holds the lock of another one, so it waits for those only who hold this one.
pub const HOLDS_OTHERS: u8 = 2;
/// Of [`Code::Put`], [`Code::PutLong`], [`Code::Accumulate`] and [`Code::AccumulateLong`]: it is acknowledged by a message with the tag.
pub const ACKNOWLEDGE: u8 = 1;
/// Of [`Code::Flush`]: all operations before are complete when it is acknowledged, and others may know that.
pub const FLUSHED: u8 = 1;
/// The same, but only what operations have fetched is sure to be there for others to know of.
pub const FETCHED: u8 = 2;

/// The fixed part of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// What it does.
    pub code: Code,
    /// See [`EXCLUSIVE`], [`HOLDS_OTHERS`] and [`ACKNOWLEDGE`].
    pub flags: u8,
    /// The ABI's number of the reduction; 0: none.
    pub op: u8,
    /// How many groups of runs say where it is.
    pub groups: u8,
    /// The ABI's number of the predefined datatype of its elements; 0: it moves bytes.
    pub datatype: u16,
    /// Bytes of the groups.
    pub group_bytes: u16,
    /// The tag of the message that answers it.
    pub tag: u32,
    /// Bytes of data with it.
    pub data: u32,
}

impl Head {
    /// Its bytes.
    pub const BYTES: usize = 16;

    /// One without contents.
    pub fn of(code: Code, tag: i32) -> Head {
        Head {
            code,
            flags: 0,
            op: 0,
            groups: 0,
            datatype: 0,
            group_bytes: 0,
            tag: tag as u32,
            data: 0,
        }
    }

    /// Bytes of an operation with these groups, and its data.
    pub fn len_with(&self, groups: &[Runs]) -> usize {
        let group_bytes: usize = groups.iter().map(runs::len_in_message).sum();
        (Head::BYTES + group_bytes + self.data as usize).next_multiple_of(ALIGN)
    }

    /// Appends it, with these groups. The data follows, and [`fill`].
    pub fn append_with(mut self, groups: &[Runs], list: &mut Vec<u8>) {
        let group_bytes: usize = groups.iter().map(runs::len_in_message).sum();
        (self.groups, self.group_bytes) = (groups.len() as u8, group_bytes as u16);
        self.append_to(list);
        for group in groups {
            runs::encode(group, list);
        }
    }

    /// Appends it.
    pub fn append_to(&self, list: &mut Vec<u8>) {
        let mut bytes = [0; Head::BYTES];
        bytes[0] = self.code as u8;
        bytes[1] = self.flags;
        bytes[2] = self.op;
        bytes[3] = self.groups;
        bytes[4..6].copy_from_slice(&self.datatype.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.group_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.tag.to_le_bytes());
        bytes[12..].copy_from_slice(&self.data.to_le_bytes());
        list.extend_from_slice(&bytes);
    }

    fn of_bytes(bytes: &[u8; Head::BYTES]) -> Option<Head> {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let code = match bytes[0] {
            1 => Code::Put,
            2 => Code::PutLong,
            3 => Code::Get,
            4 => Code::Accumulate,
            5 => Code::GetAccumulate,
            6 => Code::CompareAndSwap,
            7 => Code::Lock,
            8 => Code::Unlock,
            9 => Code::Flush,
            10 => Code::AccumulateLong,
            11 => Code::Count,
            _ => return None,
        };
        // Tags are those of messages.
        let tag = long(8);
        (tag <= i32::MAX as u32).then_some(Head {
            code,
            flags: bytes[1],
            op: bytes[2],
            groups: bytes[3],
            datatype: short(4),
            group_bytes: short(6),
            tag,
            data: long(12),
        })
    }
}

/// An operation in a batch.
#[derive(Clone, Copy)]
pub struct Parsed<'a> {
    /// Its fixed part.
    pub head: Head,
    /// Its groups of runs.
    pub groups: RawBytes<'a>,
    /// Its data.
    pub data: RawBytes<'a>,
}

/// Data is filled up to a multiple of so many bytes.
pub const ALIGN: usize = 8;

/// The first operation of these bytes, and the rest. `None`: they are not a batch.
pub fn parse(bytes: RawBytes<'_>) -> Option<(Parsed<'_>, RawBytes<'_>)> {
    let (head, rest) = bytes.split_first()?;
    let head = Head::of_bytes(&head)?;
    let groups = usize::from(head.group_bytes);
    let data = head.data as usize;
    let len = groups.checked_add(data)?;
    if rest.len() < len {
        return None;
    }
    // The last one need not be filled up.
    let len = len.checked_next_multiple_of(ALIGN)?.min(rest.len());
    let parsed = Parsed {
        head,
        groups: rest.first(groups),
        data: rest.skip(groups).first(data),
    };
    Some((parsed, rest.skip(len)))
}

/// Appends the packed bytes of memory.
///
/// # Safety
/// It is readable.
pub unsafe fn pack(memory: &Memory, list: &mut Vec<u8>) {
    let (before, len) = (list.len(), memory.len() as usize);
    list.reserve(len);
    // SAFETY: the list has room for so many bytes there, which nobody else uses. The memory is readable, says the caller; as many bytes as
    // it returns have been written.
    unsafe {
        let room = RawRoom::new(list.as_mut_ptr().add(before), len);
        let packed = memory.pack(0, room);
        list.set_len(before + packed);
    }
}

/// Fills a batch up after an operation.
pub fn fill(list: &mut Vec<u8>) {
    list.resize(list.len().next_multiple_of(ALIGN), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_appended_is_parsed() {
        let mut list = Vec::new();
        let heads = [
            Head {
                datatype: 0x20f,
                op: 0x21,
                groups: 2,
                group_bytes: 48,
                data: 5,
                flags: ACKNOWLEDGE,
                ..Head::of(Code::Accumulate, 77)
            },
            Head::of(Code::Flush, i32::MAX),
        ];
        for head in &heads {
            head.append_to(&mut list);
            let len = usize::from(head.group_bytes) + head.data as usize;
            list.extend(std::iter::repeat_n(7, len));
            fill(&mut list);
        }
        let mut rest = RawBytes::from(&list[..]);
        for head in heads {
            let (parsed, after) = parse(rest).expect("an operation");
            assert_eq!(parsed.head, head);
            assert_eq!(parsed.groups.len(), usize::from(head.group_bytes));
            assert_eq!(parsed.data.to_vec(), vec![7; head.data as usize]);
            rest = after;
        }
        assert!(rest.is_empty());
        // Only the first operation is whole without the second, also if it is not filled up.
        let whole = |len: usize| {
            let mut rest = RawBytes::from(&list[..len]);
            while let Some((_, after)) = parse(rest) {
                rest = after;
            }
            rest.is_empty()
        };
        let found: Vec<usize> = (1..=list.len()).filter(|&len| whole(len)).collect();
        let first = list.len() - Head::BYTES;
        assert_eq!(found, [first - 3, first - 2, first - 1, first, list.len()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = RawBytes::from(&bytes[..]);
            while let Some((parsed, after)) = parse(rest) {
                prop_assert!(after.len() + Head::BYTES <= rest.len());
                prop_assert!(parsed.groups.len() + parsed.data.len() <= rest.len());
                rest = after;
            }
        }
    }
}
