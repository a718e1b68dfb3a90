//! Kinds of memory.

/// Where bytes of the user are, and so who can read and write them. There is one kind so far, and it takes no room in what carries it;
/// the next one makes each place that touches bytes say what it does with that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// Memory of the operating system: the processor's loads and stores reach it.
    System,
}

impl MemoryKind {
    /// That of a user's buffer argument.
    #[inline(always)]
    pub fn of(_address: *const u8) -> MemoryKind {
        MemoryKind::System
    }
}
