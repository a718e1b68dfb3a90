//! Whether what operations have fetched that raced with each other can be explained by some order of them: element by element, since only
//! these are atomic.
//!
//! Each operation is a node; what it has fetched says which others were before it. The operations of one origin are in their order. The
//! result is possible only if that makes no circle.

use super::element::NO_OP;
use super::program::{Data, Kind, Program, RaceKind};

/// An operation at one element.
struct Node {
    number: usize,
    origin: u32,
    /// What it writes, if it does.
    writes: Option<u128>,
    /// What it has fetched.
    fetched: Option<u128>,
}

/// Looks at all races of a run.
///
/// # Errors
/// What is impossible, in words.
pub fn check(
    program: &Program,
    fetched: &[Option<Vec<u8>>],
    finals: &[Option<Vec<u8>>],
) -> Result<(), String> {
    let mut by_race: Vec<Vec<usize>> = vec![Vec::new(); program.races.len()];
    for (number, operation) in program.operations.iter().enumerate() {
        if let Some(race) = operation.race {
            by_race[race].push(number);
        }
    }
    for (race, numbers) in by_race.iter().enumerate() {
        let about = &program.races[race];
        let size = about.elem.size();
        let count = about.initial.len() / size;
        let mut nodes: Vec<Vec<Node>> = (0..count).map(|_| Vec::new()).collect();
        for &number in numbers {
            let operation = &program.operations[number];
            let start = (operation.at - about.at) / about.elem.extent;
            let Data::Bytes(data) = &operation.data else {
                unreachable!("races have data of their own")
            };
            for (at, place) in operation.there.places.iter().enumerate() {
                let part = |bytes: &[u8]| {
                    let bytes = &bytes[at * size..(at + 1) * size];
                    about
                        .elem
                        .as_number(bytes)
                        .ok_or_else(|| format!("operation {number} has fetched {bytes:?} of {about:?}"))
                };
                let fetched = fetched[number].as_deref().map(part).transpose()?;
                let writes = match operation.kind {
                    Kind::GetAccumulate(NO_OP) => None,
                    Kind::CompareAndSwap if fetched != Some(part(&operation.compare)?) => None,
                    _ => Some(part(data)?),
                };
                nodes[start + place].push(Node {
                    number,
                    origin: operation.origin,
                    writes,
                    fetched,
                });
            }
        }
        for (at, nodes) in nodes.iter().enumerate() {
            let element = |bytes: &Vec<u8>| about.elem.as_number(&bytes[at * size..(at + 1) * size]);
            let last = match &finals[race] {
                Some(bytes) => Some(
                    element(bytes)
                        .ok_or_else(|| format!("race {race}, element {at}: it ends as no number"))?,
                ),
                None => None,
            };
            let checked = match about.kind {
                RaceKind::Marks => marks(nodes, last),
                RaceKind::Swaps | RaceKind::Compares => values(nodes, last),
            };
            checked.map_err(|error| {
                let list: Vec<String> = nodes.iter().map(describe).collect();
                format!(
                    "race {race} ({:?}, window {}, rank {}, element {at} of {} from byte {} on), which ends as {last:?}: {error}\n{}",
                    about.kind,
                    about.window,
                    about.target,
                    about.elem.name(),
                    about.at,
                    list.join("\n")
                )
            })?;
        }
    }
    Ok(())
}

fn describe(node: &Node) -> String {
    format!(
        "  operation {} of rank {}: writes {:?}, has fetched {:?}",
        node.number, node.origin, node.writes, node.fetched
    )
}

/// Each adds a bit.
fn marks(nodes: &[Node], last: Option<u128>) -> Result<(), String> {
    let all: u128 = nodes.iter().filter_map(|node| node.writes).sum();
    if let Some(last) = last.filter(|&last| last != all) {
        return Err(format!("all marks together are {all}, not {last}"));
    }
    let mut before = program_order(nodes);
    for (at, node) in nodes.iter().enumerate() {
        let Some(fetched) = node.fetched else { continue };
        if fetched & !all != 0 {
            return Err(format!(
                "operation {} has fetched what nobody has written",
                node.number
            ));
        }
        for (other_at, other) in nodes.iter().enumerate() {
            let Some(mark) = other.writes else { continue };
            match (fetched & mark != 0, at == other_at) {
                (true, true) => return Err(format!("operation {} has fetched its own mark", node.number)),
                (true, false) => before.push((other_at, at)),
                (false, false) => before.push((at, other_at)),
                (false, true) => {}
            }
        }
    }
    no_circle(nodes, &before)
}

/// Each stores a number of its own; 1 is there at first.
fn values(nodes: &[Node], last: Option<u128>) -> Result<(), String> {
    let writer = |value: u128| match value {
        1 => Ok(None),
        _ => match nodes.iter().position(|node| node.writes == Some(value)) {
            Some(at) => Ok(Some(at)),
            None => Err(format!("nobody has written {value}")),
        },
    };
    let mut before = program_order(nodes);
    let mut next: Vec<(u128, usize)> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let Some(fetched) = node.fetched else { continue };
        if let Some(writer) = writer(fetched)? {
            if writer == at {
                return Err(format!("operation {} has fetched its own value", node.number));
            }
            before.push((writer, at));
        }
        if node.writes.is_some() {
            if let Some((_, other)) = next.iter().find(|(value, _)| *value == fetched) {
                return Err(format!(
                    "operations {} and {} have replaced the same value",
                    nodes[*other].number, node.number
                ));
            }
            next.push((fetched, at));
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        let Some(fetched) = node.fetched else { continue };
        // Whoever has seen a value was there before the one that replaced it.
        if let Some((_, replacer)) = next
            .iter()
            .find(|(value, replacer)| *value == fetched && *replacer != at)
        {
            before.push((at, *replacer));
        }
        // The initial value is there before any other.
        if fetched == 1 {
            let writers = nodes
                .iter()
                .enumerate()
                .filter(|(other, node)| *other != at && node.writes.is_some());
            before.extend(writers.map(|(other, _)| (at, other)));
        }
    }
    if let Some(last) = last {
        match writer(last)? {
            Some(writer) => {
                let others = nodes
                    .iter()
                    .enumerate()
                    .filter(|(at, node)| *at != writer && node.writes.is_some());
                before.extend(others.map(|(at, _)| (at, writer)));
            }
            None if nodes.iter().any(|node| node.writes.is_some()) => {
                return Err("what was written is not there".into());
            }
            None => {}
        }
    }
    no_circle(nodes, &before)
}

fn program_order(nodes: &[Node]) -> Vec<(usize, usize)> {
    let mut before = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        if let Some(next) = (at + 1..nodes.len()).find(|&next| nodes[next].origin == node.origin) {
            before.push((at, next));
        }
    }
    before
}

fn no_circle(nodes: &[Node], before: &[(usize, usize)]) -> Result<(), String> {
    let mut left: Vec<usize> = (0..nodes.len()).collect();
    let mut edges = before.to_vec();
    while !left.is_empty() {
        let free: Vec<usize> = left
            .iter()
            .copied()
            .filter(|&at| edges.iter().all(|&(_, to)| to != at))
            .collect();
        if free.is_empty() {
            let numbers: Vec<usize> = left.iter().map(|&at| nodes[at].number).collect();
            return Err(format!("no order explains what these have fetched: {numbers:?}"));
        }
        left.retain(|at| !free.contains(at));
        edges.retain(|(from, _)| !free.contains(from));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(list: &[(u32, Option<u128>, Option<u128>)]) -> Vec<Node> {
        let node = |(number, &(origin, writes, fetched))| Node {
            number,
            origin,
            writes,
            fetched,
        };
        list.iter().enumerate().map(node).collect()
    }

    #[test]
    fn impossible_marks_are_noticed() {
        let good = [
            (0, Some(1), Some(0)),
            (1, Some(2), Some(1)),
            (1, None, Some(3)),
            (2, Some(4), None),
        ];
        marks(&nodes(&good), Some(7)).expect("one after the other");
        let wrong: [(&[_], u128); 6] = [
            // A lost one; each before the other; its own; of nobody; too early; one of the same origin that is behind it.
            (&good, 3),
            (&[(0, Some(1), Some(2)), (1, Some(2), Some(1))], 3),
            (&[(0, Some(1), Some(1))], 1),
            (&[(0, Some(1), Some(8))], 1),
            (&[(0, Some(1), Some(0)), (0, None, Some(0))], 1),
            (&[(0, None, Some(1)), (0, Some(1), Some(0))], 1),
        ];
        for (list, last) in wrong {
            marks(&nodes(list), Some(last)).expect_err("impossible");
        }
    }

    #[test]
    fn impossible_values_are_noticed() {
        let good = [
            (0, Some(2), Some(1)),
            (1, Some(3), Some(2)),
            (1, None, Some(3)),
            (2, Some(4), None),
        ];
        values(&nodes(&good), Some(4)).expect("one after the other");
        let wrong: [(&[_], u128); 5] = [
            // Both have replaced the first; replaced by the same origin; what was replaced; of nobody; the first value, read too late.
            (&[(0, Some(2), Some(1)), (1, Some(3), Some(1))], 3),
            (&[(0, Some(2), None), (0, Some(3), None)], 2),
            (&good, 2),
            (&[(0, Some(2), Some(9))], 2),
            (&[(0, Some(2), Some(1)), (0, None, Some(1))], 2),
        ];
        for (list, last) in wrong {
            values(&nodes(list), Some(last)).expect_err("impossible");
        }
    }
}
