//! Lines of PMI-1: `cmd=NAME key=value …`, ended by a line feed. Client and server share this.
//!
//! A line comes from another process and is untrusted input: a line that is too long, not text, or without `=` is an
//! error and never a panic. Values contain no spaces; those that may contain them are sent in hexadecimal ([`to_hex`]).

use crate::base::error::{Error, Result};
use crate::err;

/// The longest line that either side accepts, in bytes and without its line feed.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// One parsed line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    fields: Vec<(String, String)>,
}

impl Message {
    /// Parses a line without its line feed. Its first field is `cmd` (or `mcmd`, of several lines).
    pub fn parse(line: &[u8]) -> Result<Message> {
        if line.len() > LINE_BYTES_MAX {
            return Err(err!(
                Other,
                "a PMI line has {} bytes: at most {LINE_BYTES_MAX} are expected",
                line.len()
            ));
        }
        let text = std::str::from_utf8(line)
            .ok()
            .filter(|text| !text.chars().any(char::is_control))
            .ok_or_else(|| err!(Other, "a PMI line is not text: '{}'", begin(line)))?;
        let fields = text
            .split_ascii_whitespace()
            .map(|word| {
                word.split_once('=')
                    .filter(|(key, _)| !key.is_empty())
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .ok_or_else(|| {
                        err!(
                            Other,
                            "'{}' in the PMI line '{}' is not key=value",
                            begin(word.as_bytes()),
                            begin(line)
                        )
                    })
            })
            .collect::<Result<Vec<_>>>()?;
        match fields.first() {
            Some((key, _)) if key == "cmd" || key == "mcmd" => Ok(Message { fields }),
            _ => Err(err!(
                Other,
                "the PMI line '{}' does not start with cmd=",
                begin(line)
            )),
        }
    }

    /// The command that the line requests or answers.
    pub fn command(&self) -> &str {
        self.fields.first().map_or("", |(_, value)| value.as_str())
    }

    /// Whether the line begins a command of several lines (`mcmd=`).
    pub fn is_multiline(&self) -> bool {
        self.fields.first().is_some_and(|(key, _)| key == "mcmd")
    }

    /// The value of `key`, if the line has it.
    pub fn find(&self, key: &str) -> Option<&str> {
        self.fields
            .iter()
            .skip(1)
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// The value of `key`; an error that names it if the line does not have it.
    pub fn get(&self, key: &str) -> Result<&str> {
        self.find(key)
            .ok_or_else(|| err!(Other, "the PMI command '{}' lacks {key}=", self.command()))
    }

    /// The code of an answer's `rc=`; zero where it has none, as most answers of success do.
    pub fn code(&self) -> Result<i32> {
        self.find("rc").map_or(Ok(0), |_| self.number("rc"))
    }

    /// The value of `key` as a number; an error that names it if it is missing or not such a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T> {
        let text = self.get(key)?;
        text.parse().map_err(|_| {
            err!(
                Other,
                "the PMI command '{}' has {key}={text}: a number is expected",
                self.command()
            )
        })
    }
}

/// The beginning of a line, for an error: the rest may be a business card, which contains secrets.
fn begin(line: &[u8]) -> String {
    const SHOWN: usize = 24;
    let dots = if line.len() > SHOWN { "…" } else { "" };
    format!("{}{dots}", line[..line.len().min(SHOWN)].escape_ascii())
}

/// Whether `text` can be a key or a value in a line.
pub fn is_word(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || c.is_ascii_whitespace())
}

/// Cuts a stream of bytes into lines.
#[derive(Default, Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    /// How far `bytes` was searched for a line feed.
    searched: usize,
}

impl Lines {
    /// Adds what was received.
    pub fn push(&mut self, received: &[u8]) {
        self.bytes.extend_from_slice(received);
    }

    /// Takes the next whole line, without its line feed. An error if it grows beyond [`LINE_BYTES_MAX`].
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        match self.bytes[self.searched..].iter().position(|&byte| byte == b'\n') {
            Some(position) => {
                let rest = self.bytes.split_off(self.searched + position + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                self.searched = 0;
                line.pop();
                match line.len() > LINE_BYTES_MAX {
                    true => Err(too_long()),
                    false => Ok(Some(line)),
                }
            }
            None if self.bytes.len() > LINE_BYTES_MAX => Err(too_long()),
            None => {
                self.searched = self.bytes.len();
                Ok(None)
            }
        }
    }
}

fn too_long() -> Error {
    err!(Other, "a PMI line has more than {LINE_BYTES_MAX} bytes")
}

/// Two lower-case hexadecimal digits per byte.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The inverse of [`to_hex`].
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digits = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<Vec<u8>>>()
        .filter(|digits| digits.len() % 2 == 0)
        .ok_or_else(|| {
            err!(
                Other,
                "a value of {} bytes is not an even number of hexadecimal digits",
                text.len()
            )
        })?;
    Ok(digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_end_a_field_is_in_no_word() {
        assert!(is_word("mpi://WORLD-1:\u{e9}") && is_word(""));
        for text in ["a b", "a\tb", "a\nb", "\u{7f}"] {
            assert!(!is_word(text), "{text:?}");
        }
    }

    #[test]
    fn a_line_gives_its_fields() {
        let message = Message::parse(b"cmd=put kvsname=k key=a value=b=c").unwrap();
        assert_eq!(message.command(), "put");
        assert_eq!(message.get("value").unwrap(), "b=c");
        assert_eq!(message.find("cmd"), None);
        assert!(message.get("rc").unwrap_err().message.contains("rc="));
        assert!(
            message
                .number::<u32>("key")
                .unwrap_err()
                .message
                .contains("key=a")
        );
    }

    #[test]
    fn what_is_no_command_is_an_error() {
        for line in [
            &b""[..],
            b"get",
            b"key=a",
            b"cmd=get key",
            b"cmd=get =x",
            b"cmd=\xff",
            b"cmd=a\x00b",
        ] {
            Message::parse(line).expect_err("garbage");
        }
    }

    /// A command of that many bytes, good but for that.
    fn command_of(bytes: usize) -> Vec<u8> {
        let mut line = b"cmd=".to_vec();
        line.resize(bytes, b'x');
        line
    }

    #[test]
    fn the_longest_line_is_parsed_and_a_longer_one_is_not() {
        let message = Message::parse(&command_of(LINE_BYTES_MAX)).unwrap();
        assert_eq!(message.command().len(), LINE_BYTES_MAX - 4);
        let error = Message::parse(&command_of(LINE_BYTES_MAX + 1)).unwrap_err();
        assert!(error.message.contains("16385 bytes: at most 16384"), "{error}");
    }

    #[test]
    fn the_longest_line_is_cut_and_a_longer_one_is_not() {
        // In pieces of any size, among others.
        for piece in [1, 4096, 1 << 20] {
            let push = |bytes: usize| {
                let stream = [&b"cmd=a\n"[..], &command_of(bytes), b"\ncmd=b\n"].concat();
                let mut lines = Lines::default();
                let mut found = Vec::new();
                for part in stream.chunks(piece) {
                    lines.push(part);
                    while let Some(line) = lines.next_line()? {
                        found.push(line.len());
                    }
                }
                Ok::<_, Error>(found)
            };
            assert_eq!(push(LINE_BYTES_MAX).unwrap(), [5, LINE_BYTES_MAX, 5]);
            let error = push(LINE_BYTES_MAX + 1).unwrap_err();
            assert!(error.message.contains("more than 16384 bytes"), "{error}");
        }
    }

    #[test]
    fn lines_are_cut_wherever_the_bytes_are() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for byte in b"cmd=a\ncmd=b\n\ncmd=c" {
            lines.push(&[*byte]);
            found.extend(lines.next_line().unwrap());
        }
        assert_eq!(found, [&b"cmd=a"[..], b"cmd=b", b""]);
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; LINE_BYTES_MAX]);
        assert_eq!(lines.next_line().unwrap(), None);
        lines.push(b"xx");
        lines.next_line().unwrap_err();
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lines = Lines::default();
            lines.push(&bytes);
            while let Ok(Some(line)) = lines.next_line() {
                if let Ok(message) = Message::parse(&line) {
                    prop_assert!(is_word(message.command()));
                }
            }
        }

        #[test]
        fn hex_returns_the_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(from_hex(&to_hex(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn from_hex_refuses_what_is_not(text in "\\PC*") {
            let valid = text.len() % 2 == 0 && text.chars().all(|c| c.is_ascii_hexdigit());
            prop_assert_eq!(from_hex(&text).is_ok(), valid);
        }
    }
}
