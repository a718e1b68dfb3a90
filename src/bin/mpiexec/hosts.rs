//! Host names: so far only those of this machine.

use crate::outcome::Failure;

/// The slots that `hosts` (`name` or `name:slots`) have together; `None` where no name has any. A host that is not this
/// machine is a failure.
pub fn slots(hosts: &[String]) -> Result<Option<u32>, Failure> {
    let own = nix::unistd::gethostname().unwrap_or_default();
    slots_of(hosts, &own.to_string_lossy())
}

fn slots_of(hosts: &[String], own: &str) -> Result<Option<u32>, Failure> {
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
        if !is_this_machine(name, own) {
            return Err(Failure::usage(format!(
                "the host '{name}' is not this machine ({own}): running on other machines is not supported yet"
            )));
        }
        sum = slots.map_or(sum, |slots| Some(sum.unwrap_or(0).saturating_add(slots)));
    }
    Ok(sum)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn slots_for(hosts: &[&str]) -> Result<Option<u32>, Failure> {
        slots_of(
            &hosts.iter().map(|host| host.to_string()).collect::<Vec<_>>(),
            "node7.cluster",
        )
    }

    #[test]
    fn this_machine_has_many_names() {
        assert_eq!(
            slots_for(&["localhost", "127.0.0.1", "::1", "[::1]", "node7", "NODE7.cluster"]),
            Ok(None)
        );
        assert_eq!(slots_for(&["localhost:2", "[::1]:3", "node7"]), Ok(Some(5)));
    }

    #[test]
    fn others_are_refused_by_name() {
        for host in ["node8", "node7.elsewhere", "", "127.0.0.2", "fe80::1"] {
            let failure = slots_for(&[host]).expect_err(host);
            assert!(failure.message.contains("not supported yet") && failure.message.contains(host));
        }
        assert!(slots_for(&["localhost:0"]).unwrap_err().message.contains("slots"));
        assert!(slots_for(&["localhost:x"]).unwrap_err().message.contains("slots"));
    }
}
