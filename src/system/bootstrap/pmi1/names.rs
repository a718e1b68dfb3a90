//! Names of services, which the launcher keeps: the lines `publish_name`, `unpublish_name` and `lookup_name`. Weft's launcher takes
//! service and port in hexadecimal (`hex=1`), as a service may have any name; others take words, and what is none is [`encode`]d as one.

use super::wire::{self, Message};
use super::{FOREIGN_LINE_BYTES_MAX, Pmi1};
use crate::base::error::{Class, Error, Result};
use crate::err;

/// The longest name of a service (bytes).
pub const SERVICE_MAX: usize = 4096;
/// What Weft's launcher answers if there is no such name.
pub const NOT_PUBLISHED: &str = "it_is_not_published";
/// What a text begins with that other launchers could not keep as it is; its bytes follow in hexadecimal. Another MPI's programs find no
/// such service, but those whose names are words.
const ENCODED: &str = "weft-hex-";

impl Pmi1 {
    pub(super) fn publish_service(&mut self, service: &str, port: &str) -> Result<()> {
        // Intel's Hydra replaces it.
        if !self.weft && self.look_up_service(service)?.is_some() {
            return Err(err!(
                Service,
                "the service '{service}' can't be published: it is published already"
            ));
        }
        let answer = self.ask_about("publish_name", service, Some(port), "publish_result")?;
        match is_done(&answer)? {
            true => Ok(()),
            false => Err(err!(
                Service,
                "the service '{service}' can't be published: {}",
                reason(&answer)
            )),
        }
    }

    pub(super) fn unpublish_service(&mut self, service: &str) -> Result<()> {
        // Hydra's name server says of any that it has been unpublished.
        if !self.weft && self.look_up_service(service)?.is_none() {
            return Err(err!(
                Service,
                "the service '{service}' can't be unpublished: it is not published"
            ));
        }
        let answer = self.ask_about("unpublish_name", service, None, "unpublish_result")?;
        match is_done(&answer)? {
            true => Ok(()),
            false => Err(err!(
                Service,
                "the service '{service}' can't be unpublished: {}",
                reason(&answer)
            )),
        }
    }

    pub(super) fn look_up_service(&mut self, service: &str) -> Result<Option<String>> {
        let asked = self.ask_about("lookup_name", service, None, "lookup_result");
        let answer = asked.map_err(|error| match error.class {
            Class::Service => Error::new(Class::Name, error.message),
            _ => error,
        })?;
        if !is_done(&answer)? {
            // Others do not say why not.
            return match self.weft && answer.find("msg") != Some(NOT_PUBLISHED) {
                true => Err(err!(
                    Name,
                    "the service '{service}' can't be looked up: {}",
                    reason(&answer)
                )),
                false => Ok(None),
            };
        }
        let port = answer.get("port")?;
        let port = match self.weft {
            true => text(port),
            // So Hydra's name server says that there is none.
            false if port.is_empty() => return Ok(None),
            false => decode(port),
        };
        port.map(Some).ok_or_else(|| {
            err!(
                Other,
                "the launcher's port of the service '{service}' is not text"
            )
        })
    }

    fn ask_about(
        &mut self,
        command: &str,
        service: &str,
        port: Option<&str>,
        answer: &str,
    ) -> Result<Message> {
        if self.over {
            return Err(err!(
                Service,
                "the launcher of this job takes no requests after the end of the first session"
            ));
        }
        let too_long = |most: &str| {
            let len = service.len();
            err!(
                Service,
                "the name of a service has {len} bytes: {most} are possible"
            )
        };
        if service.len() > SERVICE_MAX {
            return Err(too_long(&format!("at most {SERVICE_MAX}")));
        }
        let written = |word: &str| match self.weft {
            true => wire::to_hex(word.as_bytes()),
            false => encode(word),
        };
        let mut line = format!("cmd={command} service={}", written(service));
        if let Some(port) = port {
            line += &format!(" port={}", written(port));
        }
        line += if self.weft { " hex=1\n" } else { "\n" };
        if !self.weft && line.len() > FOREIGN_LINE_BYTES_MAX {
            return Err(too_long("with the launcher of this job, fewer"));
        }
        self.send(&line)?;
        self.next_answer(answer)
    }
}

/// A text as a word that launchers keep as it is.
fn encode(text: &str) -> String {
    let is_plain = !text.is_empty()
        && !text.starts_with(ENCODED)
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    match is_plain {
        true => text.to_string(),
        false => format!("{ENCODED}{}", wire::to_hex(text.as_bytes())),
    }
}

/// The text of such a word; `None`: it is none.
fn decode(word: &str) -> Option<String> {
    word.strip_prefix(ENCODED)
        .map_or_else(|| Some(word.to_string()), text)
}

/// A text in hexadecimal.
fn text(hex: &str) -> Option<String> {
    String::from_utf8(wire::from_hex(hex).ok()?).ok()
}

/// Whether an answer tells of success: by its code, or in Slurm's way.
fn is_done(answer: &Message) -> Result<bool> {
    Ok(answer.code()? == 0 && answer.find("info") != Some("fail"))
}

/// Why not; a word has no blanks.
fn reason(answer: &Message) -> String {
    answer
        .find("msg")
        .unwrap_or("the launcher refuses it without a reason")
        .replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_stay_as_they_are() {
        for word in ["weft1/0a/x@1,y", "tag#0$connentry#20A[2]", "a=b"] {
            assert_eq!(encode(word), word);
            assert_eq!(decode(word).as_deref(), Some(word));
        }
        assert_eq!(encode("a b"), "weft-hex-612062");
        assert_eq!(decode("weft-hex-6x"), None);
        assert_eq!(decode("weft-hex-ff"), None);
    }

    proptest! {
        #[test]
        fn any_text_comes_back_from_a_word(text in "\\PC{0,20}|[ -~\n\\\\]{0,20}|weft-hex-.{0,4}") {
            let word = encode(&text);
            prop_assert!(wire::is_word(&word) && !word.is_empty() && !word.contains('\\'));
            prop_assert_eq!(decode(&word), Some(text));
        }
    }
}
