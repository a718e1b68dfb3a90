//! Names of hosts as lists have them: those of the command line, of host files, and of Slurm.

/// The most ranks of a job, and so the most slots of a host.
pub const RANKS_MAX: u32 = 65_536;
/// The most hosts that a list may name.
const NAMES_MAX: usize = 65_536;

/// A host as a list names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// How many ranks it takes, if that is said.
    pub slots: Option<u32>,
    /// More ranks than this may not be there.
    pub max: Option<u32>,
}

impl Entry {
    /// A host of which only the name is known.
    pub fn new(name: &str) -> Result<Entry, String> {
        match is_safe_name(name) {
            true => Ok(Entry {
                name: name.to_string(),
                slots: None,
                max: None,
            }),
            false => Err(format!("'{name}' can't be the name of a host")),
        }
    }
}

/// The number of slots in `text`.
pub fn slots(name: &str, text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|slots| (1..=RANKS_MAX).contains(slots));
    number.ok_or_else(|| {
        format!("the host '{name}' has '{text}' slots: a number from 1 to {RANKS_MAX} is expected")
    })
}

/// The hosts of `-hosts` and `-host`: each word is `a,b:4,c[1-3]:2`, and IPv6 addresses with slots are in brackets.
pub fn entries(words: &[String]) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    for word in words {
        for part in split(word)? {
            all.extend(entry(part)?);
            at_most(all.len())?;
        }
    }
    Ok(all)
}

/// `name`, `name:slots`, `name[1-3]:slots`.
pub fn entry(part: &str) -> Result<Vec<Entry>, String> {
    let (name, number) = split_slots(part)?;
    let slots = number.map(|number| slots(name, number)).transpose()?;
    let names = match name.contains('[') {
        true => expand(name)?,
        false => vec![name.to_string()],
    };
    let with_slots = |name: &String| {
        Ok(Entry {
            slots,
            ..Entry::new(name)?
        })
    };
    names.iter().map(with_slots).collect()
}

/// An IPv6 address has colons of its own: it has slots only after brackets.
fn split_slots(host: &str) -> Result<(&str, Option<&str>), String> {
    if let Some((name, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && name.contains(':')
    {
        return match rest.strip_prefix(':') {
            None if !rest.is_empty() => Err(format!(
                "'{rest}' in '{host}': ':' and a number of slots are expected"
            )),
            slots => Ok((name, slots)),
        };
    }
    Ok(match host.split_once(':') {
        Some((name, slots)) if !slots.contains(':') => (name, Some(slots)),
        _ => (host, None),
    })
}

fn at_most(count: usize) -> Result<(), String> {
    match count > NAMES_MAX {
        true => Err(format!("more than {NAMES_MAX} hosts")),
        false => Ok(()),
    }
}

/// The parts of a list between commas that are not in brackets.
fn split(list: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return Err(format!("a second '[' before the ']' in '{list}'")),
            '[' => inside = true,
            ']' if !inside => return Err(format!("a ']' without '[' in '{list}'")),
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(format!("a '[' without ']' in '{list}'"));
    }
    parts.push(&list[start..]);
    match parts.iter().any(|part| part.is_empty()) {
        true => Err(format!("an empty name in the list '{list}'")),
        false => Ok(parts),
    }
}

/// The names of Slurm's lists: `h[1-3,5],x[01-10]y,r[1-2]n[1-4]`.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for part in split(list)? {
        let mut names = vec![String::new()];
        let mut rest = part;
        while let Some((plain, after)) = rest.split_once('[') {
            // `split` has seen to it.
            let (ranges, after) = after.split_once(']').unwrap_or((after, ""));
            let numbers = numbers(ranges).map_err(|why| format!("{why} in '{part}'"))?;
            at_most(names.len().saturating_mul(numbers.len()))?;
            let with = |name: &String| -> Vec<String> {
                numbers
                    .iter()
                    .map(|number| format!("{name}{plain}{number}"))
                    .collect()
            };
            names = names.iter().flat_map(with).collect();
            rest = after;
        }
        all.extend(names.into_iter().map(|name| name + rest));
        at_most(all.len())?;
    }
    Ok(all)
}

/// The numbers of `1-3,08-12`, as wide as the first of a range.
fn numbers(ranges: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u64>().ok()).flatten()
        };
        let (Some(low), Some(high)) = (number(first), number(last)) else {
            return Err(format!("'{range}' is no range of numbers"));
        };
        if high < low {
            return Err(format!("the range '{range}' ends before it begins"));
        }
        at_most((high - low).saturating_add(numbers.len() as u64 + 1) as usize)?;
        let width = first.len();
        numbers.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

/// Whether a name can be a host's. It may pass through a shell, and must not be an option.
pub fn is_safe_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:@[]%".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_hosts_are_no_options_and_no_shell_code() {
        for name in ["h1", "me@node-7.cluster", "fe80::1%eth0", "[::1]"] {
            assert!(is_safe_name(name), "{name}");
        }
        for name in ["", "-oProxyCommand=x", "a;b", "a b", "$(x)", "a,b"] {
            assert!(!is_safe_name(name), "{name}");
        }
    }

    #[test]
    fn lists_of_slurm() {
        let of = |list: &str| expand(list).map(|names| names.join(" "));
        assert_eq!(of("h[1-3,5],x[08-10]y"), Ok("h1 h2 h3 h5 x08y x09y x10y".into()));
        assert_eq!(of("r[1-2]n[0-1]"), Ok("r1n0 r1n1 r2n0 r2n1".into()));
        assert_eq!(of("one"), Ok("one".into()));
        for (list, words) in [
            ("h[1-999999999]", "more than"),
            ("h[0-18446744073709551615]", "no range"),
            ("h[0-999999999999999999]", "more than"),
            ("h[1-300]x[1-300]", "more than"),
            ("h[1-3", "without ']'"),
            ("h1-3]", "without '['"),
            ("h[[1]]", "second '['"),
            ("h[3-1]", "'3-1' ends"),
            ("h[]", "''"),
            ("h[1-]", "'1-'"),
            ("h[-1]", "'-1'"),
            ("h[a-b]", "'a-b'"),
            ("a,,b", "empty"),
            ("", "empty"),
        ] {
            let why = expand(list).expect_err(list);
            assert!(why.contains(words), "{list}: {why}");
        }
    }

    #[test]
    fn words_of_the_command_line() {
        let of = |word: &str| {
            entries(&[word.to_string()]).map(|all| {
                let text = |one: &Entry| format!("{}:{}", one.name, one.slots.unwrap_or(0));
                all.iter().map(text).collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(of("a,b:4"), Ok("a:0 b:4".into()));
        assert_eq!(
            of("n[1-2]:3,[fe80::1]:2,::1"),
            Ok("n1:3 n2:3 fe80::1:2 ::1:0".into())
        );
        for (word, words) in [
            ("a:0", "'0' slots"),
            ("a:x", "'x' slots"),
            ("a:", "'' slots"),
            ("a:99999999999", "slots"),
            ("a:65537", "slots"),
            ("[::1]3", "'3'"),
            ("", "empty"),
            ("a,", "empty"),
            ("-oProxy", "can't be the name"),
            ("a b", "can't be the name"),
            ("+n0", "can't be the name"),
        ] {
            let why = of(word).expect_err(word);
            assert!(why.contains(words), "{word}: {why}");
        }
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(list in "[a-c0-9:,\\-\\[\\]]{0,24}") {
            if let Ok(names) = expand(&list) {
                prop_assert!(!names.is_empty() && names.len() <= NAMES_MAX);
            }
            if let Ok(all) = entries(&[list]) {
                prop_assert!(all.iter().all(|one| one.slots != Some(0) && is_safe_name(&one.name)));
            }
        }

        #[test]
        fn a_range_has_all_its_numbers(first in 0u32..2000, count in 1u32..50) {
            let names = expand(&format!("n[{first}-{}]", first + count - 1)).unwrap();
            let expected: Vec<String> = (first..first + count).map(|number| format!("n{number}")).collect();
            prop_assert_eq!(names, expected);
        }
    }
}
