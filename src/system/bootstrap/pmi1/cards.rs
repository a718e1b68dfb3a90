//! Business cards as values of the launcher's keys: as hexadecimal text, in several parts where one value is too short. Each value begins with
//! "1." (another part follows) or "0." (it is the last).

use super::Pmi1;
use super::wire::{self, Message};
use crate::base::error::Result;
use crate::err;

/// The most parts of a card.
pub(super) const PARTS_MAX: u32 = 1024;

/// Whose card it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct CardName {
    pub incarnation: u32,
    pub rank: u32,
}

impl CardName {
    /// The key of a part of the card. A card that is too long for one value is put in several parts.
    pub fn key(self, part: u32) -> String {
        format!("weft-card-{}-{}-{part}", self.incarnation, self.rank)
    }

    /// The card and the part that a key names.
    pub fn from_key(key: &str) -> Option<(CardName, u32)> {
        let mut numbers = key
            .strip_prefix("weft-card-")?
            .split('-')
            .map(|text| text.parse::<u32>().ok());
        let name = CardName {
            incarnation: numbers.next()??,
            rank: numbers.next()??,
        };
        let part = numbers.next()??;
        numbers.next().is_none().then_some((name, part))
    }
}

/// The card as it comes in, part after part.
#[derive(Default, Debug)]
pub(super) struct Lookup {
    hex: String,
    /// The part that is to come next.
    next: u32,
    pub result: Option<Result<Vec<u8>>>,
}

impl Lookup {
    /// Adds a part of the card; `true` if it was the last.
    fn take_part(&mut self, name: CardName, part: u32, answer: &Message) -> Result<bool> {
        if answer.code()? != 0 {
            return Err(err!(
                Other,
                "the launcher knows no business card of process {} (incarnation {})",
                name.rank,
                name.incarnation
            ));
        }
        let (more, hex) = answer
            .get("value")?
            .split_once('.')
            .filter(|(more, _)| matches!(*more, "0" | "1"))
            .ok_or_else(|| err!(Other, "the business card of process {} is malformed", name.rank))?;
        if part >= PARTS_MAX {
            return Err(err!(
                Other,
                "the business card of process {} has too many parts",
                name.rank
            ));
        }
        self.hex.push_str(hex);
        if more == "1" {
            return Ok(false);
        }
        self.result = Some(wire::from_hex(&self.hex));
        Ok(true)
    }
}

impl Pmi1 {
    /// Passes an answer to the lookup that asked for it; `false` if it is not an answer to a lookup. Weft's launcher
    /// answers when the card is there, which may be when nothing waits for it any more: the connection before this one
    /// had asked (it ended with the last session), or the lookup was repeated for that reason. Such an answer is ignored.
    pub(super) fn take_card_answer(&mut self, answer: &Message) -> Result<bool> {
        let asked = match self.outstanding.take() {
            Some(asked) => Some(asked),
            None => answer.find("key").and_then(CardName::from_key),
        };
        let Some((name, part)) = asked else {
            return Ok(false);
        };
        let Some(lookup) = self
            .lookups
            .get_mut(&name)
            .filter(|lookup| lookup.result.is_none() && lookup.next == part)
        else {
            return Ok(true);
        };
        match lookup.take_part(name, part, answer) {
            Ok(true) => {}
            Ok(false) => {
                lookup.next = part + 1;
                self.queue.push_back((name, part + 1));
            }
            Err(error) => lookup.result = Some(Err(error)),
        }
        Ok(true)
    }
}
