//! Messages between machines as bytes. Each side first sends a line with its version, after a mark that no shell prints by
//! chance; then come frames: a length in 4 bytes (little endian), and a message in that many bytes (`postcard`).

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::PROTOCOL;

/// The longest message (bytes). The longest ones that occur are a start, which holds an environment, and output.
pub const FRAME_MAX: usize = 16 << 20;
/// How much a shell at the other machine may print before the agent speaks (bytes).
const BANNER_MAX: usize = 64 << 10;
/// The longest line with a version and what follows it (bytes).
const VERSION_MAX: usize = 512;
/// What comes before the version.
const MARK: &[u8] = b"\0\x01weft-mpiexec ";

/// The mark and the version of this `mpiexec`, and `more`: what a connection begins with.
pub fn greeting(more: &str) -> Vec<u8> {
    let space = if more.is_empty() { "" } else { " " };
    [MARK, format!("{}{space}{more}\n", version()).as_bytes()].concat()
}

/// Release and protocol.
pub fn version() -> String {
    format!("{} (protocol {PROTOCOL})", env!("CARGO_PKG_VERSION"))
}

/// The frame of a message; `None`: it is too long.
pub fn frame(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).ok()?;
    let length = bytes.len() - 4;
    if length > FRAME_MAX {
        return None;
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Some(bytes)
}

/// What is wrong with bytes that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// There was no mark among the first bytes.
    NoGreeting,
    /// Another version: this text.
    Version(String),
    /// A message that can't be read.
    Message(&'static str),
}

/// Bytes that came from the other side, and the messages in them.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// How much of `bytes` is used up.
    start: usize,
    greeted: bool,
}

impl Frames {
    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether the greeting has come.
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Reads the greeting, skipping what a shell may have printed before; `None`: it has not come yet. What follows the
    /// version in its line is returned.
    pub fn greeting(&mut self) -> Result<Option<String>, Wrong> {
        let rest = &self.bytes[self.start..];
        let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) else {
            return match rest.len() > BANNER_MAX {
                true => Err(Wrong::NoGreeting),
                false => Ok(None),
            };
        };
        let line = &rest[at + MARK.len()..];
        let Some(length) = line.iter().take(VERSION_MAX).position(|&byte| byte == b'\n') else {
            return match line.len() >= VERSION_MAX {
                true => Err(Wrong::NoGreeting),
                false => Ok(None),
            };
        };
        let text = String::from_utf8_lossy(&line[..length]).replace(char::is_control, " ");
        self.start += at + MARK.len() + length + 1;
        match text.strip_prefix(&version()) {
            Some(more) if more.is_empty() || more.starts_with(' ') => {
                self.greeted = true;
                Ok(Some(more.trim_start().to_string()))
            }
            _ => Err(Wrong::Version(text)),
        }
    }

    /// The next message; `None`: it has not come whole yet.
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Wrong> {
        let rest = &self.bytes[self.start..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_MAX {
            return Err(Wrong::Message("a message is too long"));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let (message, left) =
            postcard::take_from_bytes(body).map_err(|_| Wrong::Message("a message can't be read"))?;
        if !left.is_empty() {
            return Err(Wrong::Message("a message is longer than what it holds"));
        }
        self.start += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FromAgent, ToAgent};
    use proptest::prelude::*;

    #[test]
    fn messages_arrive_in_any_pieces_after_a_banner() {
        let messages = [
            FromAgent::Hello { pid: 7 },
            FromAgent::Output {
                rank: 3,
                stream: 1,
                bytes: vec![b'x'; 300],
            },
            FromAgent::Gone,
        ];
        let mut bytes = b"Welcome to h2!\n\0\x01weft-m no\n".to_vec();
        bytes.extend(greeting("secret"));
        bytes.extend(messages.iter().flat_map(|message| frame(message).unwrap()));
        for piece in [1, 2, 7, 1000] {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            let mut more = None;
            for chunk in bytes.chunks(piece) {
                frames.push(chunk);
                if !frames.is_greeted() {
                    more = frames.greeting().unwrap().or(more);
                }
                while frames.is_greeted()
                    && let Some(message) = frames.next::<FromAgent>().unwrap()
                {
                    found.push(message);
                }
            }
            assert_eq!(more.as_deref(), Some("secret"));
            assert_eq!(found, messages, "{piece}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut frames = Frames::default();
        frames.push(MARK);
        assert_eq!(frames.greeting(), Ok(None));
        frames.push(b"9.9.9 (protocol 77)\n");
        assert_eq!(
            frames.greeting(),
            Err(Wrong::Version("9.9.9 (protocol 77)".into()))
        );
        let longer = format!("{}0\n", version());
        let mut frames = Frames::default();
        frames.push(&[MARK, longer.as_bytes()].concat());
        assert!(matches!(frames.greeting(), Err(Wrong::Version(_))));
    }

    #[test]
    fn a_flood_without_greeting_is_refused() {
        let mut frames = Frames::default();
        frames.push(&vec![b'x'; BANNER_MAX + 1]);
        assert_eq!(frames.greeting(), Err(Wrong::NoGreeting));
        let mut frames = Frames::default();
        frames.push(&[MARK, &[b'1'; VERSION_MAX]].concat());
        assert_eq!(frames.greeting(), Err(Wrong::NoGreeting));
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let next = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.next::<ToAgent>()
        };
        assert!(matches!(next(&[0xff; 8]), Err(Wrong::Message(_))));
        let mut longer = frame(&ToAgent::Ping).unwrap();
        longer[0] += 1;
        assert_eq!(next(&longer), Ok(None));
        longer.push(0);
        assert!(matches!(next(&longer), Err(Wrong::Message(_))));
        // A list that claims more than there is.
        let mut shorter = frame(&ToAgent::Input(vec![1; 100])).unwrap();
        shorter.truncate(50);
        shorter[0] = 46;
        assert!(matches!(next(&shorter), Err(Wrong::Message(_))));
        assert!(frame(&ToAgent::Input(vec![0; FRAME_MAX])).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), body in any::<bool>()) {
            let mut frames = Frames::default();
            if body {
                frames.push(&(bytes.len() as u32).to_le_bytes());
            }
            frames.push(&bytes);
            for _ in 0..100 {
                if !matches!(frames.next::<ToAgent>(), Ok(Some(_))) {
                    break;
                }
            }
            let mut frames = Frames::default();
            frames.push(&bytes);
            let _ = frames.greeting();
        }
    }
}
