//! What reductions have in common: combining in the order of ranks, folding to a power of two, recursive halving.

use std::ops::Range;
use std::sync::Arc;

use super::buffer::{Address, Chunk};
use super::pieces::Pieces;
use super::run::Run;
use super::scratch::{apply, copy};
use crate::data::datatype::Datatype;
use crate::data::op::Op;

/// How to combine elements.
#[derive(Clone)]
pub(super) struct Reducer {
    pub datatype: Arc<Datatype>,
    pub operation: Arc<Op>,
}

impl Reducer {
    /// Some of the elements of a buffer.
    pub fn chunk(&self, address: Address, range: Range<u64>) -> Chunk {
        let first = address.element(range.start, &self.datatype);
        Chunk::elements(first, range.end - range.start, &self.datatype)
    }

    /// `inout = input op inout`: `input` comes from the lower ranks.
    pub fn combine(&self, input: Address, inout: Address, range: Range<u64>) {
        let count = range.end - range.start;
        if count == 0 {
            return;
        }
        let (input, inout) = (
            input.element(range.start, &self.datatype),
            inout.element(range.start, &self.datatype),
        );
        apply(&self.operation, input, inout, count, &self.datatype);
    }

    /// Copies elements from buffer to buffer.
    pub fn copy(&self, from: Address, to: Address, range: Range<u64>) {
        let (from, to) = (self.chunk(from, range.clone()), self.chunk(to, range));
        copy(&from, &to).expect("as many elements");
    }

    /// Whether the operation commutes.
    pub fn commutes(&self) -> bool {
        self.operation.commutes()
    }
}

/// The partial result of one process, and where the next operand may go. Buffers exchange their roles so that nothing is
/// copied unnecessarily.
pub(super) struct Accumulator<'a> {
    pub reducer: &'a Reducer,
    /// The partial result.
    pub sum: Address,
    /// The user's send buffer must not be written to; then there is a second free buffer.
    reserve: Option<Address>,
    /// Where an operand is received.
    pub free: Address,
}

impl<'a> Accumulator<'a> {
    /// Starts from a buffer that must not be written to, with two free ones.
    pub fn reading(reducer: &'a Reducer, sum: Address, free: [Address; 2]) -> Accumulator<'a> {
        Accumulator {
            reducer,
            sum,
            reserve: Some(free[1]),
            free: free[0],
        }
    }

    /// Starts from a buffer that may be written to, with one free one.
    pub fn owning(reducer: &'a Reducer, sum: Address, free: Address) -> Accumulator<'a> {
        Accumulator {
            reducer,
            sum,
            reserve: None,
            free,
        }
    }

    /// Combines with the operand that was received into `free`: from ranks below all that are in the sum, or from ranks above all
    /// of them. Where the order does not matter (`ordered` is false), in the cheaper order. Only this range of
    /// the sum is valid from then on.
    pub fn absorb(&mut self, from_below: bool, ordered: bool, range: Range<u64>) {
        let (sum, free) = (self.sum, self.free);
        match (self.reserve, from_below || !ordered) {
            (Some(reserve), true) if ordered => {
                self.reducer.copy(sum, reserve, range.clone());
                self.reducer.combine(free, reserve, range);
                (self.sum, self.reserve) = (reserve, None);
            }
            (Some(reserve), _) => {
                self.reducer.combine(sum, free, range);
                (self.sum, self.free, self.reserve) = (free, reserve, None);
            }
            (None, true) => self.reducer.combine(free, sum, range),
            (None, false) => {
                self.reducer.combine(sum, free, range);
                (self.sum, self.free) = (free, sum);
            }
        }
    }

    /// Exchanges the whole partial result with another process, and combines in the order of ranks.
    pub async fn exchange(&mut self, run: &mut Run<'_>, partner: u32, range: Range<u64>) {
        let (out, into) = (
            self.reducer.chunk(self.sum, range.clone()),
            self.reducer.chunk(self.free, range.clone()),
        );
        run.exchange(partner, out, partner, into).await;
        self.absorb(partner < run.rank, true, range);
    }

    /// Receives the partial result of the next lower process, and combines.
    pub async fn receive_below(&mut self, run: &mut Run<'_>, from: u32, range: Range<u64>) {
        run.receive_now(from, self.reducer.chunk(self.free, range.clone()))
            .await;
        self.absorb(true, !self.reducer.commutes(), range);
    }

    /// Puts the result where it belongs.
    pub fn settle(&self, into: Address, range: Range<u64>) {
        if self.sum != into && !range.is_empty() {
            self.reducer.copy(self.sum, into, range);
        }
    }
}

/// A power of two of processes among `size`: of the first ones, pairs of neighbours count as one, for which the higher
/// rank acts. So the order of the folded ranks is that of the ranks.
#[derive(Clone, Copy)]
pub(super) struct Folding {
    /// Number of folded ranks.
    pub number: u32,
    /// How many of them are pairs.
    pub pairs: u32,
}

impl Folding {
    pub fn of(size: u32) -> Folding {
        let number = 1 << size.ilog2();
        Folding {
            number,
            pairs: size - number,
        }
    }

    /// The rank that acts for a folded one.
    pub fn rank(self, folded: u32) -> u32 {
        if folded < self.pairs {
            2 * folded + 1
        } else {
            folded + self.pairs
        }
    }

    /// The folded rank for which `rank` acts; `None` for the lower one of a pair.
    pub fn folded(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.pairs {
            Some(rank - self.pairs)
        } else {
            (rank % 2 == 1).then_some(rank / 2)
        }
    }

    /// The first of the ranks that `folded` stands for; for `number`, the number of ranks.
    pub fn first_rank(self, folded: u32) -> u32 {
        if folded < self.pairs {
            2 * folded
        } else {
            folded + self.pairs
        }
    }

    /// Number of halvings.
    pub fn rounds(self) -> u32 {
        self.number.ilog2()
    }

    /// The lower one of a pair sends its elements to the higher one, which has a folded rank.
    pub async fn fold(self, run: &mut Run<'_>, sum: &mut Accumulator<'_>, all: Range<u64>) -> Option<u32> {
        let folded = self.folded(run.rank);
        if folded.is_none() {
            let sending = run.send(run.rank + 1, sum.reducer.chunk(sum.sum, all));
            run.end(sending).await;
        } else if run.rank < 2 * self.pairs {
            sum.receive_below(run, run.rank - 1, all).await;
        }
        folded
    }
}

/// The order in which halving takes its partners.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Neighbours first: keeps the order of ranks, but piece `p` ends at the folded rank whose bits are those of `p`
    /// reversed.
    NearFirst,
    /// Those farthest away first: piece `p` ends at the folded rank `p`, but the order of operands changes.
    FarFirst,
}

/// Recursive halving among folded ranks: in each round a process sends half of its pieces to a partner, and combines
/// the other half with the partner's.
pub(super) struct Halving<'a, S: Fn(u32) -> u64 + Send + Sync> {
    pub folding: Folding,
    pub order: Order,
    /// Where a piece begins, in elements; for the number of pieces, where the last one ends.
    pub start: &'a S,
}

impl<S: Fn(u32) -> u64 + Send + Sync> Halving<'_, S> {
    fn mask(&self, round: u32) -> u32 {
        match self.order {
            Order::NearFirst => 1 << round,
            Order::FarFirst => self.folding.number >> (round + 1),
        }
    }

    /// The pieces that a folded rank has after some rounds: first and end.
    pub fn pieces(&self, folded: u32, rounds: u32) -> (u32, u32) {
        let (mut first, mut end) = (0, self.folding.number);
        for round in 0..rounds {
            let middle = (first + end) / 2;
            if folded & self.mask(round) == 0 {
                end = middle;
            } else {
                first = middle;
            }
        }
        (first, end)
    }

    /// The elements of these pieces.
    pub fn range(&self, (first, end): (u32, u32)) -> Range<u64> {
        (self.start)(first)..(self.start)(end)
    }

    /// Reduces, and leaves each folded rank its piece of the result in the sum. Returns the piece's elements.
    pub async fn reduce_scatter(
        &self,
        run: &mut Run<'_>,
        sum: &mut Accumulator<'_>,
        folded: u32,
    ) -> Range<u64> {
        for round in 0..self.folding.rounds() {
            let partner = folded ^ self.mask(round);
            let rank = self.folding.rank(partner);
            let kept = self.range(self.pieces(folded, round + 1));
            let given = self.range(self.pieces(partner, round + 1));
            run.exchange(
                rank,
                sum.reducer.chunk(sum.sum, given),
                rank,
                sum.reducer.chunk(sum.free, kept.clone()),
            )
            .await;
            sum.absorb(partner < folded, !sum.reducer.commutes(), kept);
        }
        self.range(self.pieces(folded, self.folding.rounds()))
    }

    /// The reverse: each sends its piece to all folded ranks. All is in `buffer`.
    pub async fn allgather(&self, run: &mut Run<'_>, reducer: &Reducer, buffer: Address, folded: u32) {
        for round in (0..self.folding.rounds()).rev() {
            let partner = folded ^ self.mask(round);
            let rank = self.folding.rank(partner);
            let mine = self.range(self.pieces(folded, round + 1));
            let theirs = self.range(self.pieces(partner, round + 1));
            run.exchange(
                rank,
                reducer.chunk(buffer, mine),
                rank,
                reducer.chunk(buffer, theirs),
            )
            .await;
        }
    }
}

/// `count` elements in a piece for each folded rank.
pub(super) fn even_pieces(count: u64, folding: Folding) -> impl Fn(u32) -> u64 + Send + Sync {
    let pieces = Pieces {
        total: count,
        number: folding.number,
    };
    move |piece| pieces.start(piece)
}
