//! The words on a link, each a line: `abort CODE TEXT` and `bye`. The other end is another job, of another version perhaps: what can't be
//! read is an error, and never a panic.

use crate::base::error::{Error, Result};
use crate::err;

/// The longest text of an abort, in bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// The longest line, without its line feed.
const LINE_BYTES_MAX: usize = TEXT_BYTES_MAX + 32;

/// What one job tells another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// It was aborted, and so are those that are still connected with it.
    Abort {
        /// The code of its `MPI_Abort`.
        code: i32,
        /// The reason.
        why: String,
    },
    /// It is not connected any more. Nothing follows.
    Bye,
}

impl Word {
    /// Its line. Of a reason with several lines one is made, and of one that is too long its beginning is taken.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Word::Abort { code, why } => {
                let why = why.replace(char::is_control, " ");
                let why = &why[..why.floor_char_boundary(TEXT_BYTES_MAX)];
                format!("abort {code} {why}\n").into_bytes()
            }
            Word::Bye => b"bye\n".to_vec(),
        }
    }

    /// Reads a line without its line feed.
    fn parse(line: &[u8]) -> Result<Word> {
        let text = std::str::from_utf8(line)
            .ok()
            .filter(|text| line.len() <= LINE_BYTES_MAX && !text.contains(char::is_control))
            .ok_or_else(|| garbage(line))?;
        if text == "bye" {
            return Ok(Word::Bye);
        }
        let abort = text.strip_prefix("abort ").and_then(|rest| {
            let (code, why) = rest.split_once(' ')?;
            Some(Word::Abort {
                code: code.parse().ok()?,
                why: why.to_string(),
            })
        });
        abort.ok_or_else(|| garbage(line))
    }
}

/// The bytes that came over a link, cut into words.
#[derive(Default, Debug)]
pub struct Words {
    bytes: Vec<u8>,
}

impl Words {
    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next word, if it has come whole.
    ///
    /// # Errors
    /// What came is no word; nothing that follows can be read then.
    pub fn next_word(&mut self) -> Result<Option<Word>> {
        match self.bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                let word = Word::parse(&self.bytes[..end])?;
                self.bytes.drain(..=end);
                Ok(Some(word))
            }
            None if self.bytes.len() > LINE_BYTES_MAX => Err(garbage(&self.bytes)),
            None => Ok(None),
        }
    }
}

fn garbage(line: &[u8]) -> Error {
    const SHOWN: usize = 24;
    let dots = if line.len() > SHOWN { "…" } else { "" };
    err!(
        Other,
        "the other job sent '{}{dots}': abort or bye is expected",
        line[..line.len().min(SHOWN)].escape_ascii()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Vec<Word>> {
        let mut words = Words::default();
        words.push(bytes);
        let mut all = Vec::new();
        while let Some(word) = words.next_word()? {
            all.push(word);
        }
        Ok(all)
    }

    #[test]
    fn a_reason_becomes_one_line_of_limited_length() {
        let abort = |why: &str| Word::Abort {
            code: -3,
            why: why.into(),
        };
        assert_eq!(abort("two\nlines").encode(), b"abort -3 two lines\n");
        assert_eq!(read(b"abort -3 two lines\n").unwrap(), [abort("two lines")]);
        assert_eq!(read(b"abort -3 \nbye\n").unwrap(), [abort(""), Word::Bye]);
        let long = abort(&"ä".repeat(TEXT_BYTES_MAX));
        let Word::Abort { why, .. } = &read(&long.encode()).unwrap()[0] else {
            panic!("it is an abort");
        };
        assert_eq!(*why, "ä".repeat(TEXT_BYTES_MAX / 2));
    }

    #[test]
    fn all_else_is_an_error() {
        for wrong in [
            &b"\n"[..],
            b"bye \n",
            b"Bye\n",
            b"abort\n",
            b"abort 1\n",
            b"abort one why\n",
            b"abort 4294967296 why\n",
            b"abort 1 \x1b[2J\n",
            b"abort 1 \xff\n",
            &[b'a'; LINE_BYTES_MAX + 1],
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.message.contains("abort or bye is expected"), "{error}");
        }
        assert_eq!(read(&[b'a'; LINE_BYTES_MAX]).unwrap(), []);
    }

    proptest! {
        #[test]
        fn words_come_through_however_they_are_cut(code: i32, why in "[^\\p{Cc}]{0,40}", cuts in prop::collection::vec(1usize..9, 0..40)) {
            let sent = [Word::Abort { code, why }, Word::Bye];
            let bytes = sent.each_ref().map(Word::encode).concat();
            let (mut words, mut got, mut rest) = (Words::default(), Vec::new(), &bytes[..]);
            for cut in cuts.into_iter().chain([bytes.len()]) {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                words.push(now);
                got.extend(std::iter::from_fn(|| words.next_word().unwrap()));
                rest = later;
            }
            prop_assert_eq!(&got[..], &sent[..]);
        }

        #[test]
        fn garbage_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
