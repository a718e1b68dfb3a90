//! Which ranks share a machine, as `PMI_process_mapping` tells it.
//!
//! The text is `(vector,(first node,nodes,ranks per node),…)`: block after block of ranks, and from the start again
//! if there are more ranks. It comes from the launcher and is checked.

use crate::err;
use crate::error::Result;

/// Places ranks on nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    blocks: Vec<Block>,
    /// Ranks placed by one pass over the blocks.
    span: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    first_node: u32,
    nodes: u32,
    ranks_per_node: u32,
}

impl Block {
    fn span(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }
}

impl Layout {
    /// All of `size` ranks on one node.
    pub fn one_node(size: u32) -> Layout {
        let block = Block {
            first_node: 0,
            nodes: 1,
            ranks_per_node: size.max(1),
        };
        Layout {
            blocks: vec![block],
            span: block.span(),
        }
    }

    /// Parses the value of `PMI_process_mapping`.
    pub fn parse(text: &str) -> Result<Layout> {
        let parsed = Self::parse_blocks(text).filter(|blocks| {
            blocks.iter().all(|block| {
                block.nodes > 0
                    && block.ranks_per_node > 0
                    && block.first_node.checked_add(block.nodes).is_some()
            })
        });
        let span = parsed.as_ref().and_then(|blocks| {
            blocks
                .iter()
                .try_fold(0u64, |sum, block| sum.checked_add(block.span()))
                .filter(|&span| span > 0)
        });
        match (parsed, span) {
            (Some(blocks), Some(span)) => Ok(Layout { blocks, span }),
            _ => Err(err!(
                Other,
                "the launcher's process mapping '{text}' is not (vector,(node,nodes,ranks),…)"
            )),
        }
    }

    fn parse_blocks(text: &str) -> Option<Vec<Block>> {
        let inner = text.strip_prefix("(vector,")?.strip_suffix(")")?;
        let mut blocks = Vec::new();
        for triple in inner.strip_prefix('(')?.strip_suffix(')')?.split("),(") {
            let mut numbers = triple.split(',').map(|number| number.parse::<u32>().ok());
            let block = Block {
                first_node: numbers.next()??,
                nodes: numbers.next()??,
                ranks_per_node: numbers.next()??,
            };
            if numbers.next().is_some() {
                return None;
            }
            blocks.push(block);
        }
        Some(blocks)
    }

    /// The node of `rank`: a number that is the same for ranks of one machine.
    pub fn node_of(&self, rank: u32) -> u32 {
        let mut place = u64::from(rank) % self.span;
        for block in &self.blocks {
            if place < block.span() {
                return block.first_node + (place / u64::from(block.ranks_per_node)) as u32;
            }
            place -= block.span();
        }
        0
    }
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
    fn garbage_is_an_error() {
        for text in [
            "",
            "(vector,)",
            "(vector,(0,0,1))",
            "(vector,(0,1))",
            "(vector,(0,1,1,1))",
            "(vector,(a,1,1))",
        ] {
            Layout::parse(text).expect_err(text);
        }
        Layout::parse("(vector,(4294967295,2,1))").expect_err("a node number that does not fit");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(\\(vector,)?[(),0-9]{0,40}\\)?", rank in any::<u32>()) {
            if let Ok(layout) = Layout::parse(&text) {
                layout.node_of(rank);
            }
        }
    }
}
