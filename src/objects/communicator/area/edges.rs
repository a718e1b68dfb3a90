//! How the neighbours of a process in a topology are reached, for operations among neighbours in an area.

/// Where a block comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// From nobody.
    Nobody,
    /// It is this one of the process's own blocks.
    Own(u32),
    /// It is this one of the blocks of a process of the area.
    Here {
        /// The process.
        member: u32,
        /// Among its blocks.
        block: u32,
    },
    /// From a process outside the area.
    Away,
}

/// Where a block goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To nobody, or to the process itself.
    Nobody,
    /// To this process of the area.
    Here(u32),
    /// To a process outside the area.
    Away,
}

/// See the module.
#[derive(PartialEq, Eq, Debug)]
pub struct Edges {
    /// By block that is received.
    pub sources: Box<[Source]>,
    /// By block that is sent.
    pub destinations: Box<[Destination]>,
    /// Whether no neighbour is outside the area.
    pub all_here: bool,
}

impl Edges {
    /// Of these.
    pub fn new(sources: Box<[Source]>, destinations: Box<[Destination]>) -> Edges {
        let away = sources.contains(&Source::Away) || destinations.contains(&Destination::Away);
        Edges {
            sources,
            destinations,
            all_here: !away,
        }
    }
}
