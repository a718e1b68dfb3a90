//! Host files, in the formats of MPICH (`host:4`) and of Open MPI (`host slots=4 max_slots=8`).

use std::path::Path;

use crate::host_list::{self, Entry};
use crate::system_words::system_words;

/// The longest host file (bytes).
const BYTES_MAX: u64 = 16 << 20;

/// The text of a file that lists hosts.
pub fn text(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        let why = system_words(&error);
        format!("the host file '{shown}' can't be read: {why}")
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("the host file '{shown}' has more than {BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| format!("the host file '{shown}' is not text"))
}

/// The hosts of each line that `parse` reads; blank lines, and what follows a `#`, don't count.
pub fn lines(
    path: &Path,
    text: &str,
    parse: impl Fn(&str) -> Result<Vec<Entry>, String>,
) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let entries = parse(line).map_err(|why| format!("{}, line {number}: {why}", path.display()))?;
        all.extend(entries);
    }
    Ok(all)
}

/// The hosts of a host file.
pub fn read(path: &Path) -> Result<Vec<Entry>, String> {
    lines(path, &text(path)?, line)
}

/// A line without its comment.
pub fn line(line: &str) -> Result<Vec<Entry>, String> {
    let mut words = line.split_whitespace();
    let mut entries = host_list::entries(&[words.next().unwrap_or_default().to_string()])?;
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("'{word}' is unknown: slots=N or max_slots=N is expected"));
        };
        for entry in &mut entries {
            let number = host_list::slots(&entry.name, value)?;
            match key {
                "slots" if entry.slots.is_some() => {
                    return Err(format!("the host '{}' has two numbers of slots", entry.name));
                }
                "slots" => entry.slots = Some(number),
                "max_slots" | "max-slots" => entry.max = Some(number),
                _ => return Err(format!("'{key}' is unknown: slots=N or max_slots=N is expected")),
            }
        }
    }
    for entry in &entries {
        if let (Some(slots), Some(max)) = (entry.slots, entry.max)
            && slots > max
        {
            return Err(format!(
                "the host '{}' has {slots} slots and at most {max}",
                entry.name
            ));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        let all = lines(Path::new("F"), text, line)?;
        let text = |one: &Entry| {
            let number = |number: Option<u32>| number.map_or("-".into(), |number| number.to_string());
            format!("{} {} {}", one.name, number(one.slots), number(one.max))
        };
        Ok(all.iter().map(text).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn both_formats() {
        assert_eq!(
            parsed("# mine\na:4\n\nb slots=2 max_slots=3 # two\n  c\t max-slots=9\r\n[::1]:2\nd[1-2]:5\n"),
            Ok("a 4 -, b 2 3, c - 9, ::1 2 -, d1 5 -, d2 5 -".into())
        );
    }

    #[test]
    fn a_bad_line_is_told_with_its_number() {
        for (text, words) in [
            ("a\nb:0", "F, line 2: the host 'b' has '0' slots"),
            ("a slots=0", "line 1"),
            ("a slots=99999999999999999999", "slots"),
            ("a:2 slots=2", "two numbers"),
            ("a slots=4 max_slots=3", "at most 3"),
            ("a cpus=3", "'cpus' is unknown"),
            ("a 3", "'3' is unknown"),
            ("\n\na[1-2", "line 3"),
            ("^a", "can't be the name"),
        ] {
            let why = parsed(text).expect_err(text);
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn a_file_that_can_not_be_read() {
        assert!(
            read(Path::new("/no/such/file"))
                .unwrap_err()
                .contains("'/no/such/file'")
        );
        assert!(read(Path::new("/")).unwrap_err().contains("can't be read"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-b0-9:=#,slot_max\\n \\[\\]\\-]{0,60}") {
            if let Ok(all) = lines(Path::new("F"), &text, line) {
                prop_assert!(all.iter().all(|one| one.slots != Some(0) && one.max != Some(0)));
            }
        }
    }
}
