//! Which lane carried whose messages (`WEFT_REPORT=transports`): each rank reports its own part at the beginning of
//! `MPI_Finalize`, when all of it has happened, and rank 0 makes a table of all.
//!
//! [`TransportUse`] is what one rank reports, [`table`] formats it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;

use crate::engine::Engine;
use crate::instance::Instance;

/// What one rank reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportUse {
    /// The machine's name.
    host: String,
    /// Its number in the job; pretended nodes (`WEFT_FAKE_NODES`) have numbers of their own.
    node: u64,
    /// The lanes that the rank opened.
    lanes: Vec<String>,
    /// Ranks that it sent messages to, each with the index of the lane in `lanes`.
    to: Vec<(RangeInclusive<u32>, usize)>,
}

impl TransportUse {
    /// What this process has used until now.
    pub fn of(instance: &Instance) -> TransportUse {
        let host = nix::unistd::gethostname().ok();
        let host = host.and_then(|name| name.into_string().ok()).unwrap_or_default();
        let engine = instance.engine();
        TransportUse {
            // Spaces separate the words of the encoded text.
            host: match host.replace(char::is_whitespace, "_") {
                host if host.is_empty() => "localhost".into(),
                host => host,
            },
            node: instance.node_of(instance.me()),
            lanes: engine.lane_names(),
            to: ranges(Engine::links(&engine).map(|(peer, lane)| (peer.number(), lane))),
        }
    }

    /// As a text: `HOST NODE LANE,… FIRST-LAST=LANE…`.
    pub fn encode(&self) -> String {
        let mut text = format!("{} {} {}", self.host, self.node, self.lanes.join(","));
        for (ranks, lane) in &self.to {
            // Writing to a String does not fail.
            let _ = write!(text, " {}-{}={lane}", ranks.start(), ranks.end());
        }
        text
    }

    /// Reads the text of a rank, in a job of `ranks` ranks; `None`: the text is not valid.
    pub fn decode(text: &str, ranks: usize) -> Option<TransportUse> {
        // Without lanes there are two spaces.
        let mut words = text.split(' ');
        let (host, node) = (words.next()?.to_string(), words.next()?.parse().ok()?);
        let lanes: Vec<String> = (words.next()?.split(',').filter(|name| !name.is_empty()))
            .map(str::to_string)
            .collect();
        let to: Option<Vec<_>> = words
            .map(|word| {
                let (range, lane) = word.split_once('=')?;
                let (first, last) = range.split_once('-')?;
                let lane = lane.parse().ok().filter(|&lane| lane < lanes.len())?;
                let last = last.parse().ok().filter(|&last: &u32| (last as usize) < ranks)?;
                Some((first.parse().ok()?..=last, lane))
            })
            .collect();
        Some(TransportUse {
            host,
            node,
            lanes,
            to: to?,
        })
    }

    /// Each rank that it sent messages to, with the lane.
    fn each(&self) -> impl Iterator<Item = (u32, &str)> {
        let each = |(ranks, lane): &(RangeInclusive<u32>, usize)| {
            let lane = self.lanes[*lane].as_str();
            ranks.clone().map(move |rank| (rank, lane))
        };
        self.to.iter().flat_map(each)
    }
}

/// Consecutive ranks with the same value, as ranges. Ranks ascend.
fn ranges<T: PartialEq>(each: impl IntoIterator<Item = (u32, T)>) -> Vec<(RangeInclusive<u32>, T)> {
    let mut ranges: Vec<(RangeInclusive<u32>, T)> = Vec::new();
    for (rank, what) in each {
        match ranges.last_mut() {
            Some((range, same)) if range.end() + 1 == rank && *same == what => *range = *range.start()..=rank,
            _ => ranges.push((rank..=rank, what)),
        }
    }
    ranges
}

/// `0-3,7`
fn list(ranks: impl IntoIterator<Item = u32>) -> String {
    let ranges = ranges(ranks.into_iter().map(|rank| (rank, ())));
    let words = ranges
        .iter()
        .map(|(range, ())| match range.start() == range.end() {
            true => range.start().to_string(),
            false => format!("{}-{}", range.start(), range.end()),
        });
    words.collect::<Vec<_>>().join(",")
}

/// The names of the nodes by their numbers. Where several nodes have the same name, as pretended ones do, the number is added.
fn names(all: &[Option<TransportUse>]) -> BTreeMap<u64, String> {
    let nodes: BTreeMap<u64, &str> = (all.iter().flatten())
        .map(|ways| (ways.node, ways.host.as_str()))
        .collect();
    let name = |(&node, &host): (&u64, &&str)| {
        let alike = nodes.values().filter(|other| **other == host).count();
        match alike {
            1 => (node, host.to_string()),
            _ => (node, format!("{host}#{node}")),
        }
    };
    nodes.iter().map(name).collect()
}

/// The table for people, from what each rank reports, in the order of ranks; `None`: it was not asked. `by_rank`: a line
/// for each rank, instead of one for each pair of hosts.
pub fn table(all: &[Option<TransportUse>], by_rank: bool) -> String {
    let names = names(all);
    let mut lines = match by_rank {
        true => rank_by_rank(all, &names),
        false => host_by_host(all, &names),
    };
    let silent = list(
        (0..)
            .zip(all)
            .filter(|(_, ways)| ways.is_none())
            .map(|(rank, _)| rank),
    );
    if !silent.is_empty() {
        lines.push(format!(
            "ranks that were not asked (WEFT_REPORT is not set there): {silent}"
        ));
    }
    lines.iter().map(|line| format!("[weft] {line}\n")).collect()
}

fn rank_by_rank(all: &[Option<TransportUse>], names: &BTreeMap<u64, String>) -> Vec<String> {
    let mut lines = vec!["transports, rank by rank: which lane carried whose messages to whom".to_string()];
    for (rank, ways) in all.iter().enumerate() {
        let Some(ways) = ways else { continue };
        let mut by_lane: Vec<String> = Vec::new();
        for lane in &ways.lanes {
            let to = list(ways.each().filter(|(_, used)| used == lane).map(|(rank, _)| rank));
            if !to.is_empty() {
                by_lane.push(format!("{lane} to {to}"));
            }
        }
        if by_lane.is_empty() {
            by_lane.push("no messages to others".into());
        }
        lines.push(format!(
            "  rank {rank} on {}: {}",
            names[&ways.node],
            by_lane.join("; ")
        ));
    }
    lines
}

fn host_by_host(all: &[Option<TransportUse>], names: &BTreeMap<u64, String>) -> Vec<String> {
    let mut hosts = vec![["host", "ranks", "lanes open"].map(String::from)];
    for (node, name) in names {
        let mine = || {
            (0..)
                .zip(all)
                .filter_map(|(rank, ways)| Some((rank, ways.as_ref()?)))
        };
        let mine = || mine().filter(|(_, ways)| ways.node == *node);
        let mut lanes: Vec<&str> = Vec::new();
        for lane in mine().flat_map(|(_, ways)| &ways.lanes) {
            if !lanes.contains(&lane.as_str()) {
                lanes.push(lane);
            }
        }
        let lanes = match lanes[..] {
            [] => "none".into(),
            _ => lanes.join(", "),
        };
        hosts.push([name.clone(), list(mine().map(|(rank, _)| rank)), lanes]);
    }

    // By sender's node, receiver's node, lane: pairs of ranks.
    let mut pairs: BTreeMap<(u64, u64, &str), usize> = BTreeMap::new();
    for ways in all.iter().flatten() {
        for (rank, lane) in ways.each() {
            if let Some(Some(peer)) = all.get(rank as usize) {
                *pairs.entry((ways.node, peer.node, lane)).or_default() += 1;
            }
        }
    }
    let mut carried = vec![["from", "to", "carried by", "pairs of ranks"].map(String::from)];
    for ((from, to, lane), count) in pairs {
        carried.push([
            names[&from].clone(),
            names[&to].clone(),
            lane.into(),
            count.to_string(),
        ]);
    }
    let mut lines = vec!["transports, host by host: which lane carried messages".to_string()];
    lines.extend(columns(&hosts));
    match carried.len() {
        1 => lines.push("  no rank sent a message to another".into()),
        _ => lines.extend(columns(&carried)),
    }
    lines
}

/// Columns as wide as their widest cell, two spaces apart.
pub fn columns<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths);
        let line: String = cells.map(|(cell, width)| format!("  {cell:width$}")).collect();
        line.trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(host: &str, node: u64, to: &[(u32, u32, usize)]) -> Option<TransportUse> {
        Some(TransportUse {
            host: host.into(),
            node,
            lanes: vec!["shm".into(), "ofi/tcp;ofi_rxm".into()],
            to: to
                .iter()
                .map(|&(first, last, lane)| (first..=last, lane))
                .collect(),
        })
    }

    #[test]
    fn a_text_comes_back() {
        let alone = TransportUse {
            host: "a".into(),
            node: 7,
            lanes: Vec::new(),
            to: Vec::new(),
        };
        for ways in [ways("alpha", 0, &[(1, 3, 0), (5, 5, 1)]).unwrap(), alone] {
            assert_eq!(TransportUse::decode(&ways.encode(), 6), Some(ways));
        }
        for bad in [
            "",
            "a",
            "a b c",
            "a 1",
            "a 1 shm 2-3",
            "a 1 shm 2-3=1",
            "a 1 shm 2=0",
            "a 1 shm 2-6=0",
            "a 1 shm  ",
        ] {
            assert_eq!(TransportUse::decode(bad, 6), None, "{bad}");
        }
    }

    #[test]
    fn neighbours_share_a_range() {
        let each = [(0, 'a'), (1, 'a'), (3, 'a'), (4, 'b'), (5, 'b')];
        assert_eq!(ranges(each), [(0..=1, 'a'), (3..=3, 'a'), (4..=5, 'b')]);
        assert_eq!(list([0, 1, 2, 7, 9, 10]), "0-2,7,9-10");
        assert_eq!(list([]), "");
    }

    #[test]
    fn hosts_are_told_with_their_pairs() {
        let all = [
            ways("alpha", 0, &[(1, 1, 0), (2, 3, 1)]),
            ways("alpha", 0, &[(0, 0, 0)]),
            ways("beta", 1, &[(0, 0, 1)]),
            ways("beta", 1, &[]),
        ];
        assert_eq!(
            table(&all, false),
            "[weft] transports, host by host: which lane carried messages\n\
             [weft]   host   ranks  lanes open\n\
             [weft]   alpha  0-1    shm, ofi/tcp;ofi_rxm\n\
             [weft]   beta   2-3    shm, ofi/tcp;ofi_rxm\n\
             [weft]   from   to     carried by       pairs of ranks\n\
             [weft]   alpha  alpha  shm              2\n\
             [weft]   alpha  beta   ofi/tcp;ofi_rxm  2\n\
             [weft]   beta   alpha  ofi/tcp;ofi_rxm  1\n"
        );
        assert_eq!(
            table(&all, true),
            "[weft] transports, rank by rank: which lane carried whose messages to whom\n\
             [weft]   rank 0 on alpha: shm to 1; ofi/tcp;ofi_rxm to 2-3\n\
             [weft]   rank 1 on alpha: shm to 0\n\
             [weft]   rank 2 on beta: ofi/tcp;ofi_rxm to 0\n\
             [weft]   rank 3 on beta: no messages to others\n"
        );
    }

    #[test]
    fn pretended_nodes_have_numbers_and_who_was_not_asked_is_named() {
        let text = table(
            &[ways("a", 0, &[(1, 1, 1)]), ways("a", 1, &[]), None, None],
            false,
        );
        for line in [
            "[weft]   a#0   0      shm, ofi/tcp;ofi_rxm\n",
            "[weft]   a#0   a#1  ofi/tcp;ofi_rxm  1\n",
            "were not asked (WEFT_REPORT is not set there): 2-3\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let quiet = table(&[ways("a", 0, &[])], false);
        assert!(quiet.contains("no rank sent a message to another"), "{quiet}");
    }
}
