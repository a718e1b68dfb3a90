//! Names of processes.

use std::fmt;

use super::hash::fnv;

/// Identifies a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct JobId(pub u64);

impl JobId {
    /// The job named by a text that is the same in all of its processes, and different in those of any other job.
    pub fn of(text: &str) -> JobId {
        JobId(fnv(text.bytes()))
    }
}

/// A process, as all processes of all jobs name it. In a later version it may also name one of its engines: today a process has one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProcessName {
    /// Its job.
    pub job: JobId,
    /// Its rank there.
    pub rank: u32,
}

impl ProcessName {
    /// Bytes of a name in messages.
    pub const BYTES: usize = 12;

    /// The bytes for a message: job (8), rank (4), little-endian.
    pub fn encode(self) -> [u8; ProcessName::BYTES] {
        let mut bytes = [0; ProcessName::BYTES];
        bytes[..8].copy_from_slice(&self.job.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.rank.to_le_bytes());
        bytes
    }

    /// The name in these bytes.
    pub fn decode(bytes: &[u8; ProcessName::BYTES]) -> ProcessName {
        let [a, b, c, d, e, f, g, h, rank @ ..] = *bytes;
        ProcessName {
            job: JobId(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
            rank: u32::from_le_bytes(rank),
        }
    }
}

/// A process that this one knows of, by its index in this one's [`Directory`](super::Directory). The processes of this job
/// come first, in the order of their ranks; processes of other jobs follow as they become known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PeerIndex(u32);

impl PeerIndex {
    /// The process of this index in a table that was made by index.
    #[inline(always)]
    pub const fn new(index: u32) -> PeerIndex {
        PeerIndex(index)
    }

    /// The process of a rank of this job.
    #[inline(always)]
    pub const fn of_rank(rank: u32) -> PeerIndex {
        PeerIndex(rank)
    }

    /// Its rank, if it is a process of this one's job, which has so many.
    #[inline(always)]
    pub fn rank_in(self, size: u32) -> Option<u32> {
        (self.0 < size).then_some(self.0)
    }

    /// The index, for tables.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The index as a number.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// For messages to the user: "process 3". For a process of this job, the number is the rank.
impl fmt::Display for PeerIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_messages() {
        let name = ProcessName {
            job: JobId::of("job 7"),
            rank: 0x0102_0304,
        };
        let bytes = name.encode();
        assert_eq!(ProcessName::decode(&bytes), name);
        assert_eq!(bytes[8..], [4, 3, 2, 1]);
    }

    #[test]
    fn jobs_have_the_same_id_everywhere() {
        assert_eq!(JobId::of(""), JobId(0xcbf2_9ce4_8422_2325));
        assert_eq!(JobId::of("a"), JobId(0xaf63_dc4c_8601_ec8c));
        assert_ne!(JobId::of("job 1"), JobId::of("job 2"));
    }
}
