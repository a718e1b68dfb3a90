//! Names of services, which the launcher keeps: the lines `publish_name`, `unpublish_name` and `lookup_name`. Weft's launcher takes
//! service and port in hexadecimal (`hex=1`), as a service may have any name; others take words.

use super::wire::{self, Message};
use super::{Pmi1, gone};
use crate::base::error::Result;
use crate::err;

/// The longest name of a service (bytes).
pub const SERVICE_MAX: usize = 4096;
/// What Weft's launcher answers if there is no such name.
pub const NOT_PUBLISHED: &str = "it_is_not_published";

impl Pmi1 {
    pub(super) fn publish_service(&mut self, service: &str, port: &str) -> Result<()> {
        let answer = self.ask_about("publish_name", service, Some(port), "publish_result")?;
        match answer.code()? {
            0 => Ok(()),
            _ => Err(err!(
                Service,
                "the service '{service}' can't be published: {}",
                reason(&answer)
            )),
        }
    }

    pub(super) fn unpublish_service(&mut self, service: &str) -> Result<()> {
        let answer = self.ask_about("unpublish_name", service, None, "unpublish_result")?;
        match answer.code()? {
            0 => Ok(()),
            _ => Err(err!(
                Service,
                "the service '{service}' can't be unpublished: {}",
                reason(&answer)
            )),
        }
    }

    pub(super) fn look_up_service(&mut self, service: &str) -> Result<Option<String>> {
        let answer = self.ask_about("lookup_name", service, None, "lookup_result")?;
        if answer.code()? != 0 {
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
        if !self.weft {
            return Ok(Some(port.to_string()));
        }
        let port = String::from_utf8(wire::from_hex(port)?);
        port.map(Some).map_err(|_| {
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
            return Err(gone());
        }
        let words = [Some(service), port];
        if service.len() > SERVICE_MAX {
            return Err(err!(
                Service,
                "the name of a service has {} bytes: at most {SERVICE_MAX} are possible",
                service.len()
            ));
        }
        if !self.weft
            && !words
                .iter()
                .flatten()
                .all(|word| wire::is_word(word) && !word.is_empty())
        {
            return Err(err!(
                Service,
                "the launcher of this job takes no name of a service or a port that is empty or has blanks: '{service}'"
            ));
        }
        let written = |word: &str| match self.weft {
            true => wire::to_hex(word.as_bytes()),
            false => word.to_string(),
        };
        let mut line = format!("cmd={command} service={}", written(service));
        if let Some(port) = port {
            line += &format!(" port={}", written(port));
        }
        line += if self.weft { " hex=1\n" } else { "\n" };
        self.send(&line)?;
        self.next_answer(answer)
    }
}

/// Why not; a word has no blanks.
fn reason(answer: &Message) -> String {
    answer.find("msg").unwrap_or("no reason given").replace('_', " ")
}
