//! Puts ranks on hosts.

use super::Known;

/// How many ranks a host takes before ranks go to the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// Its slots.
    Slots,
    /// This number.
    Each(u32),
    /// An even share of the ranks; the first hosts have one more.
    Even,
}

/// The rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// How many ranks a host takes.
    pub share: Share,
    /// Hosts take one rank each in turn.
    pub by_node: bool,
    /// When all hosts are full, ranks start again with the first one.
    pub wraps: bool,
}

/// Where ranks are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// The host of each rank.
    pub of_rank: Vec<usize>,
    /// The ranks of each host.
    pub used: Vec<u32>,
    /// The slots that each host has by the rule.
    pub slots: Vec<u32>,
}

/// Places the programs one after another: `counts` has the ranks of each, `parts` the hosts that it may use, `taken` how many ranks of other
/// jobs count on each host.
pub fn ranks(
    hosts: &[Known],
    taken: &[Vec<u32>],
    parts: &[Vec<usize>],
    counts: &[u32],
    rule: &Rule,
) -> Result<Mapped, String> {
    let mut mapped = Mapped {
        of_rank: Vec::new(),
        used: vec![0; hosts.len()],
        slots: vec![0; hosts.len()],
    };
    for ((part, &count), taken) in parts.iter().zip(counts).zip(taken) {
        // Programs with the same hosts share them.
        let together = parts.iter().zip(counts).filter(|(other, _)| *other == part);
        let ranks: u64 = together.map(|(_, &count)| u64::from(count)).sum();
        let ranks = ranks + part.iter().map(|&host| u64::from(taken[host])).sum::<u64>();
        let (each, more) = (ranks / part.len().max(1) as u64, ranks % part.len().max(1) as u64);
        let slots: Vec<u32> = (part.iter().zip(0u64..))
            .map(|(&host, place)| match rule.share {
                Share::Slots => hosts[host].entry.slots.unwrap_or(1),
                Share::Each(ranks) => ranks,
                Share::Even => (each + u64::from(place < more)) as u32,
            })
            .collect();
        for (&host, &slots) in part.iter().zip(&slots) {
            mapped.slots[host] = mapped.slots[host].max(slots);
        }
        place(hosts, taken, part, &slots, count, rule, &mut mapped)?;
    }
    Ok(mapped)
}

fn place(
    hosts: &[Known],
    taken: &[u32],
    part: &[usize],
    slots: &[u32],
    count: u32,
    rule: &Rule,
    mapped: &mut Mapped,
) -> Result<(), String> {
    let mut left = count;
    let mut round = 0u32;
    while left > 0 {
        round += 1;
        // Of other programs some hosts may be full already.
        let room = |host: usize, slots: u32, used: u32| {
            let limit = slots
                .saturating_mul(round)
                .min(hosts[host].entry.max.unwrap_or(u32::MAX));
            limit.saturating_sub(used).saturating_sub(taken[host])
        };
        let mut placed = 0;
        loop {
            let before = placed;
            for (&host, &slots) in part.iter().zip(slots) {
                let room = room(host, slots, mapped.used[host]);
                let ranks = room.min(left).min(if rule.by_node { 1 } else { u32::MAX });
                mapped.used[host] += ranks;
                mapped.of_rank.extend(std::iter::repeat_n(host, ranks as usize));
                (placed, left) = (placed + ranks, left - ranks);
            }
            if placed == before || left == 0 {
                break;
            }
        }
        let names = || {
            let names: Vec<&str> = part
                .iter()
                .take(4)
                .map(|&host| hosts[host].entry.name.as_str())
                .collect();
            names.join(", ") + if part.len() > 4 { ", …" } else { "" }
        };
        if left > 0 && !rule.wraps {
            return Err(format!(
                "{left} of {count} ranks have no slot on {} (--oversubscribe allows more ranks than slots)",
                names()
            ));
        }
        let may_grow = |&host: &usize| {
            let used = mapped.used[host].saturating_add(taken[host]);
            hosts[host].entry.max.is_none_or(|max| used < max)
        };
        if left > 0
            && !part
                .iter()
                .zip(slots)
                .any(|(host, &slots)| slots > 0 && may_grow(host))
        {
            return Err(format!(
                "{left} of {count} ranks don't fit: max_slots limits {}",
                names()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::host_list::Entry;

    fn hosts(slots: &[(Option<u32>, Option<u32>)]) -> Vec<Known> {
        let host = |(number, &(slots, max)): (usize, &(Option<u32>, Option<u32>))| Known {
            entry: Entry {
                name: format!("h{number}"),
                slots,
                max,
            },
            is_this: false,
        };
        slots.iter().enumerate().map(host).collect()
    }

    proptest! {
        #[test]
        fn every_rank_has_a_host_and_no_limit_is_passed(
            slots in proptest::collection::vec((proptest::option::of(1u32..5), proptest::option::of(5u32..9)), 1..6),
            counts in proptest::collection::vec(1u32..20, 1..4),
            share in prop_oneof![Just(Share::Slots), Just(Share::Even), (1u32..4).prop_map(Share::Each)],
            by_node: bool,
            wraps: bool,
            taken in proptest::collection::vec(0u32..7, 6),
        ) {
            let hosts = hosts(&slots);
            let parts = vec![(0..hosts.len()).collect::<Vec<_>>(); counts.len()];
            let rule = Rule { share, by_node, wraps };
            let all: u32 = counts.iter().sum();
            match ranks(&hosts, &vec![taken.clone(); counts.len()], &parts, &counts, &rule) {
                Ok(mapped) => {
                    prop_assert_eq!(mapped.of_rank.len(), all as usize);
                    for (number, host) in hosts.iter().enumerate() {
                        let used = mapped.of_rank.iter().filter(|&&of| of == number).count() as u32;
                        prop_assert_eq!(used, mapped.used[number]);
                        let all = used + taken[number];
                        prop_assert!(used == 0 || all <= host.entry.max.unwrap_or(u32::MAX));
                        prop_assert!(wraps || used == 0 || all <= mapped.slots[number]);
                    }
                }
                Err(why) => {
                    let limited = hosts.iter().all(|host| host.entry.max.is_some()) || !wraps || share == Share::Even;
                    prop_assert!(limited, "{}", why);
                }
            }
        }
    }
}
