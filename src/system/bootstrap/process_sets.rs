//! The process sets that the launcher names (MPI 5.0 section 11.3.2), and how it passes them on: one text for the whole
//! job, in the environment of each rank.
//!
//! ```text
//!   app://ocean=0-3 app://ice=4-7,12-15
//! ```

use std::ops::RangeInclusive;

use crate::base::error::Result;
use crate::err;

/// The longest name (bytes): `MPI_MAX_PSET_NAME_LEN` has room for a zero byte, too.
pub const NAME_MAX: usize = 1023;

/// A set of processes with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSet {
    /// A URI, and not one of the `mpi://` names that the standard reserves.
    pub name: String,
    /// Its ranks in the job, ascending.
    pub ranks: Vec<RangeInclusive<u32>>,
}

impl ProcessSet {
    /// The name of a set that the user names `given`: a URI as it is, a single word as `weft://WORD`.
    pub fn name_of(given: &str) -> Result<String> {
        let name = match given.contains("://") {
            true => given.to_string(),
            false => format!("weft://{given}"),
        };
        let (scheme, rest) = name.split_once("://").unwrap_or_default();
        let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
        if !is_scheme || rest.is_empty() || !name.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(err!(
                Arg,
                "'{given}' can't be the name of a process set: a word or a URI such as app://ocean is expected, without \
                 blanks"
            ));
        }
        if scheme.eq_ignore_ascii_case("mpi") {
            return Err(err!(
                Arg,
                "'{given}' can't be the name of a process set: the names mpi://… are the MPI standard's own"
            ));
        }
        if name.len() > NAME_MAX {
            return Err(err!(
                Arg,
                "the name of a process set has {} bytes: at most {NAME_MAX} are possible",
                name.len()
            ));
        }
        Ok(name)
    }

    /// The text that describes some sets.
    pub fn encode(sets: &[ProcessSet]) -> String {
        let encoded = sets.iter().map(|set| {
            let ranks = set
                .ranks
                .iter()
                .map(|range| format!("{}-{}", range.start(), range.end()));
            format!("{}={}", set.name, ranks.collect::<Vec<_>>().join(","))
        });
        encoded.collect::<Vec<_>>().join(" ")
    }

    /// The sets of a text, in a job of `size` processes.
    pub fn decode(text: &str, size: u32) -> Result<Vec<ProcessSet>> {
        let sets: Option<Vec<ProcessSet>> = text
            .split_ascii_whitespace()
            .map(|word| Self::decode_one(word, size))
            .collect();
        sets.ok_or_else(|| {
            err!(
                Other,
                "the launcher's process sets '{text}' are not NAME=FIRST-LAST,… with ranks below {size}"
            )
        })
    }

    fn decode_one(word: &str, size: u32) -> Option<ProcessSet> {
        // A name may have the sign, too.
        let (name, list) = word.rsplit_once('=')?;
        let mut ranks: Vec<RangeInclusive<u32>> = Vec::new();
        for range in list.split(',') {
            let (first, last) = range.split_once('-')?;
            let range = first.parse().ok()?..=last.parse().ok()?;
            let ascends = ranks.last().is_none_or(|before| before.end() < range.start());
            if range.is_empty() || !ascends || *range.end() >= size {
                return None;
            }
            ranks.push(range);
        }
        (ProcessSet::name_of(name).ok()? == name).then(|| ProcessSet {
            name: name.to_string(),
            ranks,
        })
    }

    /// Of these ranks, in any order; `None`: there are none, or the name is none.
    pub fn of(name: &str, mut ranks: Vec<u32>) -> Option<ProcessSet> {
        ranks.sort_unstable();
        ranks.dedup();
        let ranges = ranks.chunk_by(|one, next| one + 1 == *next);
        let ranges: Vec<_> = ranges.map(|range| range[0]..=range[range.len() - 1]).collect();
        let name = ProcessSet::name_of(name).ok()?;
        (!ranges.is_empty()).then_some(ProcessSet { name, ranks: ranges })
    }

    /// Whether a rank belongs to it.
    pub fn contains(&self, rank: u32) -> bool {
        self.ranks.iter().any(|range| range.contains(&rank))
    }

    /// Its ranks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.ranks.iter().cloned().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_make_ranges() {
        let set = ProcessSet::of("ocean", vec![4, 0, 1, 7, 3, 3]).expect("a set");
        assert_eq!(
            (&*set.name, &*set.ranks),
            ("weft://ocean", &[0..=1, 3..=4, 7..=7][..])
        );
        assert_eq!(ProcessSet::of("ocean", vec![]), None);
        assert_eq!(ProcessSet::of("mpi://mine", vec![1]), None);
    }

    #[test]
    fn names_are_uris() {
        assert_eq!(ProcessSet::name_of("ocean").unwrap(), "weft://ocean");
        assert_eq!(ProcessSet::name_of("app://a=b").unwrap(), "app://a=b");
        let longest = format!("app://{}", "x".repeat(NAME_MAX - 6));
        assert_eq!(ProcessSet::name_of(&longest).unwrap(), longest);
        let long = "x".repeat(NAME_MAX);
        for bad in [
            "",
            "a b",
            "://x",
            "app://",
            "1app://x",
            "mpi://WORLD",
            "MPI://mine",
            "a\nb",
            &long,
        ] {
            ProcessSet::name_of(bad).expect_err(bad);
        }
    }

    #[test]
    fn malformed_texts_are_errors() {
        for bad in [
            "weft://a",
            "weft://a=",
            "weft://a=1",
            "weft://a=2-1",
            "weft://a=0-4",
            "weft://a=0-1,1-2",
            "a=0-1",
            "mpi://WORLD=0-1",
        ] {
            ProcessSet::decode(bad, 4).expect_err(bad);
        }
        assert_eq!(ProcessSet::decode("", 4).unwrap(), []);
    }

    proptest! {
        #[test]
        fn a_text_comes_back(names in proptest::collection::vec("[a-z]{1,3}(://[!-~]{1,6})?", 0..4), gaps in
            proptest::collection::vec((1u32..4, 1u32..4), 1..4)) {
            let mut next = 0;
            let mut ranks = Vec::new();
            for (gap, len) in gaps {
                ranks.push(next + gap..=next + gap + len - 1);
                next += gap + len;
            }
            let sets: Vec<ProcessSet> = names
                .iter()
                .filter_map(|name| ProcessSet::name_of(name).ok())
                .map(|name| ProcessSet { name, ranks: ranks.clone() })
                .collect();
            let text = ProcessSet::encode(&sets);
            prop_assert_eq!(ProcessSet::decode(&text, next + 1).unwrap(), sets);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "(weft://a|=|[0-9-]{0,3}|,| ){0,12}") {
            if let Ok(sets) = ProcessSet::decode(&text, 10) {
                prop_assert!(sets.iter().all(|set| set.iter().count() > 0 && !set.contains(10)));
            }
        }
    }
}
