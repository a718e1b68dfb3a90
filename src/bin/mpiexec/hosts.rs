//! Host names: so far only those of this machine.

use crate::outcome::Failure;
use crate::placement::{Host, Placement};

/// Places `ranks` ranks on `hosts` (`name` or `name:slots`) in blocks.
pub fn place(hosts: &[String], ranks: u32) -> Result<Placement, Failure> {
    let own = nix::unistd::gethostname().unwrap_or_default();
    let own = own.to_string_lossy();
    let mut found: Vec<Host> = Vec::new();
    let mut sum: Option<u32> = None;
    for host in hosts {
        let (name, slots) = split_slots(host);
        let slots = slots
            .map(|text| {
                text.parse::<u32>()
                    .ok()
                    .filter(|&slots| slots > 0)
                    .ok_or_else(|| {
                        Failure::usage(format!(
                            "the host '{host}' has '{text}' slots: a number above 0 is expected"
                        ))
                    })
            })
            .transpose()?;
        sum = slots.map_or(sum, |slots| Some(sum.unwrap_or(0).saturating_add(slots)));
        let is_this = is_this_machine(name, &own);
        found.push(Host {
            name: name.to_string(),
            slots: slots.unwrap_or(0),
            is_this,
        });
    }
    if found.is_empty() || found.iter().all(|host| host.is_this) {
        found = vec![Host {
            name: own.to_string(),
            slots: ranks,
            is_this: true,
        }];
    }
    let count = found.len() as u32;
    let of_rank: Vec<usize> = (0..ranks)
        .map(|rank| (rank as u64 * count.min(ranks) as u64 / ranks as u64) as usize)
        .collect();
    found.truncate(of_rank.last().map_or(0, |last| last + 1));
    Ok(Placement {
        hosts: found,
        of_rank,
        universe_size: sum.unwrap_or(0).max(ranks),
    })
}

/// An IPv6 address has colons of its own: it has slots only after brackets.
fn split_slots(host: &str) -> (&str, Option<&str>) {
    if let Some((name, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (name, rest.strip_prefix(':'));
    }
    match host.split_once(':') {
        Some((name, slots)) if !slots.contains(':') => (name, Some(slots)),
        _ => (host, None),
    }
}

fn is_this_machine(name: &str, own: &str) -> bool {
    if ["localhost", "127.0.0.1", "::1"].contains(&name) {
        return true;
    }
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let both_full = name.contains('.') && own.contains('.');
    !name.is_empty()
        && if both_full {
            name.eq_ignore_ascii_case(own)
        } else {
            short(name) == short(own)
        }
}
