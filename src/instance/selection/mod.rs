//! Which algorithm a collective operation uses: a table of lines with conditions, of which the first one that fits counts.
//!
//! `table.txt` is what Weft comes with, and the lines of a file (the setting `collectives`) come before it. All processes of a job have to
//! choose alike, so cards have a digest of the table, and a peer with another one is lost ([`hosts`](super::hosts) has the same for
//! hosts). A table is read once; a look-up compares a few numbers.
//!
//! What does not belong here: the algorithms, and where they can be used (`objects::collective`).

mod parse;

use std::sync::OnceLock;

use crate::base::error::Result;
use crate::err;
use crate::identity::fnv;

macro_rules! names {
    ($(#[doc = $what:literal])+ $name:ident { $($(#[doc = $help:literal])+ $variant:ident = $text:literal,)+ }) => {
        $(#[doc = $what])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $($(#[doc = $help])+ $variant,)+
        }

        impl $name {
            /// As tables write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}

names! {
    /// An operation with a choice.
    Operation {
        /// `MPI_Barrier`.
        Barrier = "barrier",
        /// `MPI_Bcast`.
        Bcast = "bcast",
        /// `MPI_Gather`.
        Gather = "gather",
        /// `MPI_Scatter`.
        Scatter = "scatter",
        /// `MPI_Allgather`, `MPI_Allgatherv`.
        Allgather = "allgather",
        /// `MPI_Alltoall`.
        Alltoall = "alltoall",
        /// `MPI_Reduce`.
        Reduce = "reduce",
        /// `MPI_Allreduce`.
        Allreduce = "allreduce",
        /// `MPI_Reduce_scatter`, `MPI_Reduce_scatter_block`.
        ReduceScatter = "reduce_scatter",
    }
}

impl Operation {
    /// All of them.
    pub const ALL: &[Operation] = &[
        Operation::Barrier,
        Operation::Bcast,
        Operation::Gather,
        Operation::Scatter,
        Operation::Allgather,
        Operation::Alltoall,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::ReduceScatter,
    ];
}

names! {
    /// What an operation can use. The `async fn`s of `objects::collective` say what each is.
    Algorithm {
        /// In two levels: inside each host, and between hosts.
        Levels = "levels",
        /// From host to host, piece after piece.
        ChainOfHosts = "chain-of-hosts",
        /// Directly to one process, and directly from it.
        Flat = "flat",
        /// Dissemination.
        Dissemination = "dissemination",
        /// Whole, along a k-nomial tree.
        Tree = "tree",
        /// Piece after piece along a chain, or a k-ary tree.
        Chain = "chain",
        /// Pieces down a binomial tree, then an allgather by recursive doubling.
        ScatterDoubling = "scatter-doubling",
        /// Pieces down a binomial tree, then round a ring.
        ScatterRing = "scatter-ring",
        /// Each block directly from its sender to its receiver.
        Direct = "direct",
        /// Recursive doubling, or multiplying.
        Doubling = "doubling",
        /// Bruck's.
        Bruck = "bruck",
        /// Round a ring.
        Ring = "ring",
        /// Neighbour exchange.
        Neighbours = "neighbours",
        /// Recursive halving.
        Halving = "halving",
        /// To one process, which scatters or broadcasts, each as the table says.
        Root = "root",
    }
}

/// An algorithm with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// See there.
    pub algorithm: Algorithm,
    /// Of a tree, of dissemination, of recursive multiplying and of Bruck's algorithm: 2 or more. Of a chain: how many each process passes
    /// the pieces on to, 1 or more.
    pub radix: u32,
    /// How many exchanges are under way at once.
    pub window: u32,
    /// In how many pieces a message is cut; 0: by their length.
    pub pieces: u32,
    /// How long a piece is, in bytes.
    pub piece: u64,
}

impl Choice {
    /// With the parameters that it has where a line names none.
    pub const fn of(algorithm: Algorithm) -> Choice {
        Choice {
            algorithm,
            radix: match algorithm {
                Algorithm::Chain => 1,
                _ => 2,
            },
            window: 32,
            pieces: 0,
            piece: 64 << 10,
        }
    }
}

impl std::fmt::Display for Choice {
    /// As in a table, with the parameters that are not those that it would have anyway.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.algorithm.name())?;
        let plain = Choice::of(self.algorithm);
        for (name, value, usual) in [
            ("radix", u64::from(self.radix), plain.radix.into()),
            ("window", self.window.into(), plain.window.into()),
            ("pieces", self.pieces.into(), plain.pieces.into()),
            ("piece", self.piece, plain.piece),
        ] {
            if value != usual && value >= 1024 && value.is_multiple_of(1024) {
                write!(f, " {name}={}K", value / 1024)?;
            } else if value != usual {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

/// What a call is like, in bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traits(u8);

impl Traits {
    /// The operands may change places.
    pub const COMMUTES: Traits = Traits(1);
    /// Processes share processors.
    pub const CROWDED: Traits = Traits(2);
    /// The number of ranks is a power of two.
    pub const POWER2: Traits = Traits(4);
    /// The ranks of each host are consecutive.
    pub const CONSECUTIVE: Traits = Traits(8);

    const NAMES: [(&'static str, Traits); 4] = [
        ("commutes", Traits::COMMUTES),
        ("crowded", Traits::CROWDED),
        ("power2", Traits::POWER2),
        ("consecutive", Traits::CONSECUTIVE),
    ];

    /// This one if it is so, else none.
    #[inline]
    pub const fn when(self, so: bool) -> Traits {
        Traits(if so { self.0 } else { 0 })
    }

    /// Those of both.
    #[inline]
    pub const fn and(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }
}

/// What a look-up is for.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Number of processes.
    pub ranks: u32,
    /// On how many hosts; 1 where no difference is made.
    pub hosts: u32,
    /// What the table says that they are, for each operation.
    pub bytes: u64,
    /// Whatever else is so.
    pub traits: Traits,
}

/// From the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bounds<T>(T, T);

impl<T: PartialOrd> Bounds<T> {
    #[inline]
    fn contain(&self, value: T) -> bool {
        self.0 <= value && value <= self.1
    }
}

/// No condition.
const ANY: Bounds<u64> = Bounds(0, u64::MAX);

/// A line of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    bytes: Bounds<u64>,
    ranks: Bounds<u32>,
    block: Bounds<u64>,
    hosts: Bounds<u32>,
    /// Traits that decide, and which of them have to be there.
    looks_at: u8,
    wants: u8,
    choice: Choice,
}

impl Line {
    #[inline]
    fn fits(&self, question: &Question) -> bool {
        self.bytes.contain(question.bytes)
            && self.ranks.contain(question.ranks)
            && question.traits.0 & self.looks_at == self.wants
            && self.hosts.contain(question.hosts)
            && (self.block == ANY
                || self
                    .block
                    .contain(question.bytes / u64::from(question.ranks.max(1))))
    }
}

/// A table. See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The lines of each operation, by its number.
    lines: [Vec<Line>; Operation::ALL.len()],
}

/// The table that Weft comes with.
pub const BUILT_IN: &str = include_str!("table.txt");

impl Selection {
    /// The table that Weft comes with.
    pub fn built_in() -> &'static Selection {
        static TABLE: OnceLock<Selection> = OnceLock::new();
        TABLE.get_or_init(|| Selection::parse("", "").expect("Weft's own table"))
    }

    /// The table that Weft comes with, behind these lines; `name` is where they come from.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: a line is not one, and why.
    pub fn parse(name: &str, text: &str) -> Result<Selection> {
        let mut selection = Selection {
            lines: Default::default(),
        };
        selection.add(name, text)?;
        selection.add("Weft's table of collective algorithms", BUILT_IN)?;
        Ok(selection)
    }

    /// The table that Weft comes with, behind the lines of a file, if one is named.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: the file can't be read, or a line of it.
    pub fn of_file(file: Option<&str>) -> Result<Selection> {
        let Some(file) = file else {
            return Selection::parse("", "");
        };
        let text = std::fs::read_to_string(file).map_err(|error| {
            err!(
                Arg,
                "the setting WEFT_COLLECTIVES names the file '{file}', which can't be read: {error}"
            )
        })?;
        Selection::parse(file, &text)
    }

    fn add(&mut self, name: &str, text: &str) -> Result<()> {
        for (number, line) in (1..).zip(text.lines()) {
            match parse::line(line) {
                Ok(Some((operation, line))) => self.lines[operation as usize].push(line),
                Ok(None) => {}
                Err(why) => return Err(err!(Arg, "{name}, line {number}: {why}")),
            }
        }
        Ok(())
    }

    /// What all processes of a job have to have alike.
    pub fn digest(&self) -> u32 {
        fnv(format!("{:?}", self.lines).bytes()) as u32
    }

    /// The choice for a call: that of the first line that fits and is usable. (The table that Weft comes with has one for everything.)
    #[inline]
    pub fn choose(
        &self,
        operation: Operation,
        question: &Question,
        usable: impl Fn(Choice) -> bool,
    ) -> Choice {
        let lines = &self.lines[operation as usize];
        for line in lines {
            if line.fits(question) && usable(line.choice) {
                return line.choice;
            }
        }
        lines[lines.len() - 1].choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(ranks: u32, bytes: u64, traits: Traits) -> Question {
        Question {
            ranks,
            hosts: 1,
            bytes,
            traits: traits.and(Traits::POWER2.when(ranks.is_power_of_two())),
        }
    }

    fn chosen(selection: &Selection, operation: Operation, ranks: u32, bytes: u64) -> String {
        let question = question(ranks, bytes, Traits::COMMUTES);
        selection.choose(operation, &question, |_| true).to_string()
    }

    #[test]
    fn every_operation_has_a_line_without_conditions() {
        let selection = Selection::parse("", "").expect("a good table");
        for lines in &selection.lines {
            let line = lines.last().expect("a line");
            assert!(line.fits(&question(1, 0, Traits::default())));
            assert!(line.fits(&Question {
                ranks: u32::MAX,
                hosts: u32::MAX,
                bytes: u64::MAX,
                traits: Traits(0xff),
            }));
        }
    }

    #[test]
    fn the_first_line_that_fits_and_can_be_used_counts() {
        let own = "allreduce ranks=3..5 bytes=..1K -> ring\nallreduce ranks=4 -> doubling radix=4\n";
        let selection = Selection::parse("own", own).expect("good lines");
        let chosen = |ranks, bytes| chosen(&selection, Operation::Allreduce, ranks, bytes);
        assert_eq!(chosen(4, 1024), "ring");
        assert_eq!(chosen(4, 1025), "doubling radix=4");
        assert_eq!(chosen(5, 1025), "doubling", "Weft's own line");
        assert_eq!(chosen(6, 1 << 20), "ring", "Weft's own line");
        let usable = |choice: Choice| choice.algorithm != Algorithm::Ring;
        let question = question(4, 8, Traits::COMMUTES);
        let choice = selection.choose(Operation::Allreduce, &question, usable);
        assert_eq!(choice.to_string(), "doubling radix=4");
    }

    #[test]
    fn traits_are_wanted_or_not_wanted_or_do_not_matter() {
        let own = "reduce commutes !crowded -> chain\n";
        let selection = Selection::parse("own", own).expect("good lines");
        for (traits, fits) in [
            (Traits::COMMUTES, true),
            (Traits::COMMUTES.and(Traits::CONSECUTIVE), true),
            (Traits::COMMUTES.and(Traits::CROWDED), false),
            (Traits::default(), false),
        ] {
            let choice = selection.choose(Operation::Reduce, &question(3, 8, traits), |_| true);
            assert_eq!(choice.algorithm == Algorithm::Chain, fits, "{traits:?}");
        }
    }

    #[test]
    fn another_table_has_another_digest() {
        let digest = |text: &str| Selection::parse("own", text).expect("good lines").digest();
        assert_eq!(digest(""), digest("# nothing\n\n"));
        assert_eq!(
            digest("bcast bytes=..1K -> tree"),
            digest("bcast  bytes=..1024 -> tree radix=2 # the same")
        );
        assert_ne!(digest(""), digest("bcast -> tree"));
        assert_ne!(digest("bcast -> tree"), digest("bcast -> tree radix=3"));
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_with_its_name() {
        let error = Selection::of_file(Some("/nonexistent/table")).expect_err("no such file");
        assert!(
            error.message.contains("WEFT_COLLECTIVES") && error.message.contains("/nonexistent/table"),
            "{error}"
        );
    }
}
