//! Which ranks share a machine, as `PMI_process_mapping` describes it.
//!
//! The text is `(vector,PART,…)`: the parts describe ranks in order, and are repeated if there are more ranks. A part is
//!
//! - `(first node,nodes,ranks per node)`, the only form of Slurm and older Hydras;
//! - `NODE`: one rank on that node;
//! - `[(…),…]xTIMES`: the parts in the brackets, repeated TIMES times. (The latter two are from Hydra of MPICH 5.0.)
//!
//! It comes from the launcher and is checked.

use std::collections::HashMap;

use crate::base::error::Result;
use crate::err;

/// The nodes of ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    parts: Vec<Part>,
    /// Ranks placed by one pass over the parts, up to the end of each.
    ends: Vec<u64>,
}

/// The ranks of one machine, as one of them sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locals {
    /// How many there are, itself included.
    pub count: u32,
    /// How many of them are lower than itself.
    pub before: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    blocks: Vec<Block>,
    times: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    first_node: u32,
    nodes: u32,
    ranks_per_node: u32,
}

impl Part {
    fn of(block: Block) -> Part {
        Part {
            blocks: vec![block],
            times: 1,
        }
    }

    /// Ranks placed by one repetition.
    fn span_once(&self) -> Option<u64> {
        let mut spans = self.blocks.iter().map(|block| block.span());
        spans.try_fold(0u64, |sum, span| sum.checked_add(span))
    }

    fn span(&self) -> Option<u64> {
        self.span_once()?.checked_mul(self.times.into())
    }
}

impl Block {
    fn span(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }
}

impl Layout {
    /// All of `size` ranks on one node.
    pub fn one_node(size: u32) -> Layout {
        Layout::of(Block {
            first_node: 0,
            nodes: 1,
            ranks_per_node: size.max(1),
        })
    }

    /// By the names of the machines of the ranks; there is at least one rank. A rank without a name is alone on its node.
    pub fn of_machines(machines: &[Option<String>]) -> Layout {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let parts: Vec<Part> = (0..)
            .zip(machines)
            .map(|(rank, machine)| {
                // The first rank of a machine names the node.
                let first_node = match machine {
                    Some(machine) => *known.entry(machine).or_insert(rank),
                    None => rank,
                };
                Part::of(Block {
                    first_node,
                    nodes: 1,
                    ranks_per_node: 1,
                })
            })
            .collect();
        Layout::of_parts(parts).expect("one rank in each part, and one part at least")
    }

    fn of(block: Block) -> Layout {
        Layout::of_parts(vec![Part::of(block)]).expect("a block has ranks")
    }

    /// `None`: these are no ranks, or more than can be counted.
    fn of_parts(parts: Vec<Part>) -> Option<Layout> {
        let mut end = 0u64;
        let ends = parts.iter().map(|part| {
            end = end.checked_add(part.span()?)?;
            Some(end)
        });
        let ends: Vec<u64> = ends.collect::<Option<_>>()?;
        (end > 0).then_some(Layout { parts, ends })
    }

    /// Parses the value of `PMI_process_mapping`.
    pub fn parse(text: &str) -> Result<Layout> {
        parse_parts(text).and_then(Layout::of_parts).ok_or_else(|| {
            err!(
                Other,
                "the launcher's process mapping '{text}' is not (vector,(node,nodes,ranks),…)"
            )
        })
    }

    /// The node of `rank` where each machine counts as several nodes (`WEFT_FAKE_NODES`; 0 and 1: as one).
    pub fn pretended_node_of(&self, rank: u32, nodes: u64) -> u64 {
        u64::from(self.node_of(rank)) * nodes.max(1) + u64::from(pretended_node(rank, nodes))
    }

    /// The node of `rank`: a number that is the same for ranks of one machine.
    pub fn node_of(&self, rank: u32) -> u32 {
        let last = self.ends.len() - 1;
        let place = u64::from(rank) % self.ends[last];
        let at = self.ends.partition_point(|&end| end <= place);
        let part = &self.parts[at];
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        // A part that ranks are in has some in each repetition.
        let mut place = (place - begin) % part.span_once().unwrap_or(1).max(1);
        for block in &part.blocks {
            if place < block.span() {
                return block.first_node + (place / u64::from(block.ranks_per_node)) as u32;
            }
            place -= block.span();
        }
        0
    }

    /// Those of `size` ranks that share a machine with `rank`, which is one of them.
    pub fn locals_of(&self, rank: u32, size: u32) -> Locals {
        let node = self.node_of(rank);
        let locals = (0..size).filter(|&other| self.node_of(other) == node);
        Locals {
            count: locals.clone().count() as u32,
            before: locals.take_while(|&other| other < rank).count() as u32,
        }
    }
}

/// Which of the pretended nodes of its machine this rank is on.
pub fn pretended_node(rank: u32, nodes: u64) -> u32 {
    (u64::from(rank) % nodes.max(1)) as u32
}

/// The parts of `(vector,…)`; `None`: the text has another form.
fn parse_parts(text: &str) -> Option<Vec<Part>> {
    let mut rest = text.strip_prefix("(vector")?.strip_suffix(')')?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(',')?;
        let part = match rest.strip_prefix('[') {
            None => Part::of(take_block(&mut rest)?),
            Some(inside) => {
                let mut blocks = Vec::new();
                rest = inside;
                loop {
                    blocks.push(take_block(&mut rest)?);
                    if let Some(end) = rest.strip_prefix("]x") {
                        rest = end;
                        break;
                    }
                    rest = rest.strip_prefix(',')?;
                }
                Part {
                    blocks,
                    times: take_number(&mut rest)?,
                }
            }
        };
        parts.push(part);
    }
    Some(parts)
}

/// Parses `(first node,nodes,ranks per node)` or `NODE`.
fn take_block(rest: &mut &str) -> Option<Block> {
    let Some(inside) = rest.strip_prefix('(') else {
        let first_node = take_number(rest)?;
        first_node.checked_add(1)?;
        return Some(Block {
            first_node,
            nodes: 1,
            ranks_per_node: 1,
        });
    };
    let (triple, after) = inside.split_once(')')?;
    *rest = after;
    let mut numbers = triple.split(',').map(|number| number.parse::<u32>().ok());
    let block = Block {
        first_node: numbers.next()??,
        nodes: numbers.next()??,
        ranks_per_node: numbers.next()??,
    };
    block.first_node.checked_add(block.nodes)?;
    (block.span() > 0 && numbers.next().is_none()).then_some(block)
}

fn take_number(rest: &mut &str) -> Option<u32> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(text: &str, size: u32) -> Vec<u32> {
        let layout = Layout::parse(text).unwrap();
        (0..size).map(|rank| layout.node_of(rank)).collect()
    }

    #[test]
    fn blocks_follow_each_other_and_repeat() {
        assert_eq!(nodes("(vector,(0,1,4))", 4), [0, 0, 0, 0]);
        assert_eq!(nodes("(vector,(0,2,2),(2,1,1))", 5), [0, 0, 1, 1, 2]);
        assert_eq!(nodes("(vector,(0,3,1))", 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn ranks_of_one_machine_are_counted() {
        let layout = Layout::parse("(vector,(0,2,2),(0,1,1))").expect("a layout");
        let locals = |size| (0..size).map(move |rank| (size, rank));
        let counted: Vec<(u32, u32)> = (locals(5).chain(locals(3)))
            .map(|(size, rank)| layout.locals_of(rank, size))
            .map(|locals| (locals.count, locals.before))
            .collect();
        let of_five = [(3, 0), (3, 1), (2, 0), (2, 1), (3, 2)];
        assert_eq!(counted[..5], of_five);
        assert_eq!(counted[5..], [(2, 0), (2, 1), (1, 0)]);
    }

    /// From MPICH 5.0.2, for 1, 4, 6 and 7 ranks on 3 hosts, and for 5 on hosts of 2, 1 and 3 slots.
    #[test]
    fn hydra_says_single_ranks_and_repetitions_shorter() {
        assert_eq!(nodes("(vector,0)", 1), [0]);
        assert_eq!(nodes("(vector,(0,3,1),0)", 4), [0, 1, 2, 0]);
        assert_eq!(nodes("(vector,[(0,3,1)]x2)", 6), [0, 1, 2, 0, 1, 2]);
        assert_eq!(nodes("(vector,[(0,3,1)]x2,0)", 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(nodes("(vector,(0,1,2),1,(2,1,2))", 5), [0, 0, 1, 2, 2]);
        assert_eq!(nodes("(vector,[(0,1,2),1]x2,5)", 8), [0, 0, 1, 0, 0, 1, 5, 0]);
        assert_eq!(nodes("(vector,[(0,1,2),7]x2)", 6), [0, 0, 7, 0, 0, 7]);
    }

    #[test]
    fn ranks_of_one_machine_are_together_and_those_of_none_alone() {
        let machines = [Some("a"), None, Some("b"), Some("a"), None, Some("b")];
        let layout = Layout::of_machines(&machines.map(|name| name.map(str::to_string)));
        let nodes = [0, 1, 2, 3, 4, 5].map(|rank| layout.node_of(rank));
        assert_eq!(nodes, [0, 1, 2, 0, 4, 2]);
    }

    #[test]
    fn garbage_is_an_error() {
        for text in [
            "",
            "(vector,)",
            "(vector,(0,0,1))",
            "(vector,(0,1,1),(0,0,1))",
            "(vector,(0,1,0),(0,1,1))",
            "(vector,(0,1))",
            "(vector,(0,1,1,1))",
            "(vector,(a,1,1))",
            "(vector)",
            "(vector,(0,1,1)",
            "(vector,(0,1,1),)",
            "(vector,(0,1,1)0)",
            "(vector,-1)",
            "(vector,[(0,1,1)])",
            "(vector,[(0,1,1)]x0)",
            "(vector,[(0,1,1)x2)",
            "(vector,[]x2)",
        ] {
            Layout::parse(text).expect_err(text);
        }
        // Four times the most ranks of 64 bits.
        Layout::parse("(vector,[(0,4294967295,4294967295)]x4)").expect_err("ranks that can't be counted");
        Layout::parse("(vector,(4294967295,2,1))").expect_err("a node number that does not fit");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(\\(vector,)?[(),x0-9\\[\\]]{0,40}\\)?", rank in any::<u32>()) {
            if let Ok(layout) = Layout::parse(&text) {
                layout.node_of(rank);
            }
        }
    }
}
