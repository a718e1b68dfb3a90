//! Which names of hosts are the same machine.

use super::Known;
use crate::host_list::Entry;

/// Decides which names mean one machine.
pub struct Names<'a> {
    /// The name of this machine.
    pub own: &'a str,
}

impl Names<'_> {
    /// Whether a name means this machine.
    fn is_this(&self, name: &str) -> bool {
        ["localhost", "127.0.0.1", "::1"].contains(&name) || is_same_name(name, self.own)
    }

    fn are_same(&self, one: &str, other: &str) -> bool {
        is_same_name(one, other) || self.is_this(one) && self.is_this(other)
    }

    /// The hosts in the order in which they come first. Those of a name that comes again add up.
    pub fn merge(&self, entries: Vec<Entry>) -> Vec<Known> {
        let mut all: Vec<Known> = Vec::new();
        let mut known_as = std::collections::HashMap::new();
        for entry in entries {
            // Most lists of many lines repeat names as they are.
            let same = known_as.get(&entry.name).copied();
            let same = same.or_else(|| {
                all.iter()
                    .position(|known| self.are_same(&known.entry.name, &entry.name))
            });
            known_as.insert(entry.name.clone(), same.unwrap_or(all.len()));
            let Some(known) = same.map(|number| &mut all[number].entry) else {
                all.push(Known {
                    is_this: self.is_this(&entry.name),
                    entry,
                });
                continue;
            };
            let both = known.slots.unwrap_or(1).saturating_add(entry.slots.unwrap_or(1));
            known.slots = Some(both);
            known.max = match (known.max, entry.max) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            };
        }
        all
    }

    /// The hosts of lists that may name the same ones: each as the list that gives it most has it.
    pub fn union(&self, lists: Vec<Vec<Entry>>) -> Vec<Entry> {
        let mut all: Vec<Known> = Vec::new();
        for known in lists.into_iter().flat_map(|list| self.merge(list)) {
            match all
                .iter_mut()
                .find(|other| self.are_same(&other.entry.name, &known.entry.name))
            {
                Some(other) => other.entry.slots = other.entry.slots.max(known.entry.slots),
                None => all.push(known),
            }
        }
        all.into_iter().map(|known| known.entry).collect()
    }

    /// Those of `all` that `wanted` names, in its order. A number of slots that it has goes before the other.
    pub fn filter(&self, all: &[Known], wanted: Vec<Entry>, source: &str) -> Result<Vec<Known>, String> {
        let mut chosen: Vec<Known> = Vec::new();
        for wanted in self.merge(wanted) {
            let is_it = |known: &&Known| self.are_same(&known.entry.name, &wanted.entry.name);
            let Some(found) = all.iter().find(is_it) else {
                return Err(format!("the host '{}' is not in the {source}", wanted.entry.name));
            };
            let mut found = found.clone();
            found.entry.slots = wanted.entry.slots.or(found.entry.slots);
            if let (Some(slots), Some(max)) = (found.entry.slots, found.entry.max)
                && slots > max
            {
                return Err(format!(
                    "the host '{}' has at most {max} slots in the {source}, not {slots}",
                    wanted.entry.name
                ));
            }
            chosen.push(found);
        }
        Ok(chosen)
    }
}

/// A short name is that of a full one that begins with it. Addresses have no short names.
fn is_same_name(one: &str, other: &str) -> bool {
    if one.eq_ignore_ascii_case(other) {
        return !one.is_empty();
    }
    let is_address = |name: &str| name.parse::<std::net::IpAddr>().is_ok();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let both_full = one.contains('.') && other.contains('.');
    !both_full
        && !is_address(one)
        && !is_address(other)
        && !short(one).is_empty()
        && short(one) == short(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_machine() {
        let names = Names { own: "node7.cluster" };
        for name in ["localhost", "127.0.0.1", "::1", "node7", "NODE7.cluster"] {
            assert!(names.is_this(name), "{name}");
        }
        for name in ["node8", "node7.elsewhere", "", "127.0.0.2", "fe80::1", "me@node7"] {
            assert!(!names.is_this(name), "{name}");
        }
        assert!(names.are_same("h1", "h1.site") && !names.are_same("h1.a", "h1.b"));
        assert!(!names.are_same("10.0.0.1", "10.0.0.2") && !names.are_same("10", "10.0.0.2"));
    }
}
