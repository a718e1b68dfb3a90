//! A hash that is the same in all processes, whatever they were built with, as that of the standard library need not be.

/// FNV-1a of these bytes. Not for input of an adversary.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, hash)
}
