//! How two groups of processes that may never have met become able to send to each other: their leaders exchange where the processes are,
//! all open the lanes that they need, and the leaders exchange names and business cards, which every process gets.
//!
//! What does not belong here: how the leaders found each other (`dynamic`, `inter`), and lanes (`instance::reach`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::inter::Bridge;
use crate::base::error::{Class, Error, Result};
use crate::engine::business_card::BusinessCard;
use crate::err;
use crate::identity::{Context, JobId, PeerIndex, ProcessName};
use crate::instance::Instance;
use crate::instance::reach::{Needed, Whereabouts};
use crate::objects::collective;
use crate::objects::communicator::Collective;
use crate::system::port::Courier;

/// How a leader reaches the other one.
pub(super) enum Way<'a> {
    /// By frames.
    Frames(&'a mut dyn Courier),
    /// By messages of a communicator.
    Messages(&'a Bridge),
}

/// The longest text of an error that is sent on.
const WORDS_MAX: usize = 4096;

impl Way<'_> {
    /// Sends something to the other leader, and gets what it has sent: one of both may be an error, which both get then.
    async fn exchange(&mut self, mine: Result<Vec<u8>>) -> Result<Vec<u8>> {
        let said = encode_result(&mine);
        let heard = match self {
            Way::Frames(courier) => {
                courier.send(said)?;
                let frame = poll_fn(|_| match courier.receive() {
                    Ok(None) => Poll::Pending,
                    Ok(Some(frame)) => Poll::Ready(Ok(frame)),
                    Err(error) => Poll::Ready(Err(error)),
                });
                let frame = frame.await?;
                poll_fn(|_| match courier.is_drained() {
                    Ok(false) => Poll::Pending,
                    Ok(true) => Poll::Ready(Ok(())),
                    Err(error) => Poll::Ready(Err(error)),
                })
                .await?;
                frame
            }
            Way::Messages(bridge) => bridge.exchange_bytes(said).await?,
        };
        mine.and(decode_result(&heard)?)
    }
}

/// The class of an error, or 0, and then its text, or what is sent.
fn encode_result(result: &Result<Vec<u8>>) -> Vec<u8> {
    let (class, bytes) = match result {
        Ok(bytes) => (0, &bytes[..]),
        Err(error) => {
            let words = error.message.as_bytes();
            (error.class as u32, &words[..words.len().min(WORDS_MAX)])
        }
    };
    [&class.to_le_bytes(), bytes].concat()
}

/// Reads that. The outer error: it can't be read.
fn decode_result(bytes: &[u8]) -> Result<Result<Vec<u8>>> {
    let (class, rest) = bytes.split_first_chunk().ok_or_else(not_understood)?;
    Ok(match u32::from_le_bytes(*class) {
        0 => Ok(rest.to_vec()),
        class => {
            let words = String::from_utf8_lossy(rest).into_owned();
            Err(Error::new(Class::of_number(class).unwrap_or(Class::Other), words))
        }
    })
}

#[cold]
fn not_understood() -> Error {
    err!(
        Other,
        "what the other group's processes say is not understood: do both use the same version of Weft?"
    )
}

/// What the leader says to its whole group: bytes or an error. `said` matters only there.
pub(super) async fn tell(
    operation: &Collective,
    leader: u32,
    said: Option<Result<Vec<u8>>>,
) -> Result<Vec<u8>> {
    let said = said.map(|said| encode_result(&said)).unwrap_or_default();
    let len = collective::bcast_bytes(operation, leader, (said.len() as u64).to_le_bytes().to_vec()).await?;
    let len = u64::from_le_bytes(*len.first_chunk().expect("8 bytes"));
    let mut bytes = said;
    bytes.resize(len as usize, 0);
    let heard = collective::bcast_bytes(operation, leader, bytes).await?;
    decode_result(&heard)?
}

/// The other group, which this one has been introduced to.
pub(super) struct Introduced {
    /// Its processes, by rank.
    pub peers: Vec<PeerIndex>,
    /// The context that both groups take for their communicator.
    pub context: Context,
    /// The job of its leader.
    pub job: JobId,
}

/// Introduces the processes of `operation`, an intracommunicator's, to those that another leader brings. `way` matters only at the rank
/// `leader`; an error in it is an error of all.
pub(super) async fn introduce(
    operation: &Collective,
    leader: u32,
    mut way: Option<Result<Way<'_>>>,
) -> Result<Introduced> {
    let instance = operation.communicator().instance().clone();
    let found = way.as_ref().map(|way| match way {
        Ok(_) => Ok(Vec::new()),
        Err(error) => Err(error.clone()),
    });
    tell(operation, leader, found).await?;
    let mut way = match way.take() {
        Some(Ok(way)) => Some(way),
        _ => None,
    };

    // Which lanes all of them need.
    let here = collective::allgather_bytes(operation, &instance.whereabouts().encode()).await?;
    let needed = match &mut way {
        Some(way) => Some(which_lanes(way, &here).await),
        None => None,
    };
    let needed = tell(operation, leader, needed).await?;
    let needed = match needed[..] {
        [shm, ofi, outward] => Needed {
            shm: shm != 0,
            ofi: ofi != 0,
            outward: outward != 0,
        },
        _ => return Err(not_understood()),
    };

    // Names and cards.
    let opened = instance.open_lanes(needed);
    let mine = opened.as_ref().map(|()| instance.engine().card().encode());
    let card = mine.as_ref().map_or(&[][..], |card| &card[..]);
    let longest = collective::largest(operation, [card.len() as u64, opened.is_err().into()]).await?;
    let [longest, any_failed] = longest;
    let mut padded = (card.len() as u32).to_le_bytes().to_vec();
    padded.extend_from_slice(card);
    padded.resize(4 + longest as usize, 0);
    let cards = collective::allgather_bytes(operation, &padded).await?;
    let met = match &mut way {
        Some(way) => Some(members(&instance, way, operation, &cards, padded.len(), any_failed != 0).await),
        None => None,
    };
    let met = tell(operation, leader, met).await;
    // Its own reason says more than the other processes'.
    opened?;
    Introduction::decode(&met?)?.take(&instance)
}

/// The leaders' part: what the processes of both groups need. `here`: where those of this group are.
async fn which_lanes(way: &mut Way<'_>, here: &[u8]) -> Result<Vec<u8>> {
    let mut all: Vec<&[u8; Whereabouts::BYTES]> = here.as_chunks().0.iter().collect();
    all.sort_unstable();
    all.dedup();
    let mine = all.iter().flat_map(|place| place.iter().copied()).collect();
    let theirs = way.exchange(Ok(mine)).await?;
    let (theirs, []) = theirs.as_chunks() else {
        return Err(not_understood());
    };
    all.extend(theirs);
    all.sort_unstable();
    all.dedup();
    let all: Option<Vec<Whereabouts>> = all.into_iter().map(Whereabouts::decode).collect();
    // Both leaders come to the same result.
    let Needed { shm, ofi, outward } = Needed::by(&all.ok_or_else(not_understood)?)?;
    Ok(vec![shm.into(), ofi.into(), outward.into()])
}

/// The leaders' part: exchanges names and cards; the result is what the other leader has said, with the context that both take.
async fn members(
    instance: &Arc<Instance>,
    way: &mut Way<'_>,
    operation: &Collective,
    cards: &[u8],
    block: usize,
    any_failed: bool,
) -> Result<Vec<u8>> {
    let directory = instance.directory();
    let cards = (0..operation.size())
        .zip(cards.chunks_exact(block))
        .map(|(rank, padded)| {
            let (len, card) = padded.split_first_chunk().expect("a block begins with a length");
            let name = directory.name(operation.process(rank));
            (name, card[..u32::from_le_bytes(*len) as usize].to_vec())
        });
    let mine = Introduction {
        context: instance.new_context(),
        leader: directory.name(instance.me()),
        members: cards.collect(),
    };
    let said = match any_failed {
        true => Err(err!(
            Other,
            "a process of the other group can't open the lanes that it needs"
        )),
        false => Ok(mine.encode()),
    };
    let theirs = way.exchange(said).await?;
    let mut theirs = Introduction::decode(&theirs)?;
    mine.check(&theirs)?;
    // One of the two contexts, the same on both sides.
    if mine.members[0].0 < theirs.members[0].0 {
        theirs.context = mine.context;
    }
    Ok(theirs.encode())
}

/// What one leader says to the other: a context, its own name, and name and card of each process of its group.
struct Introduction {
    context: Context,
    leader: ProcessName,
    members: Vec<(ProcessName, Vec<u8>)>,
}

impl Introduction {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.context.encode().to_vec();
        bytes.extend_from_slice(&self.leader.encode());
        for (name, card) in &self.members {
            bytes.extend_from_slice(&name.encode());
            bytes.extend_from_slice(&(card.len() as u32).to_le_bytes());
            bytes.extend_from_slice(card);
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Introduction> {
        Self::parse(bytes).ok_or_else(not_understood)
    }

    fn parse(bytes: &[u8]) -> Option<Introduction> {
        let (context, rest) = bytes.split_first_chunk()?;
        let (leader, mut rest) = rest.split_first_chunk()?;
        let mut members = Vec::new();
        while !rest.is_empty() {
            let (name, after) = rest.split_first_chunk()?;
            let (len, after) = after.split_first_chunk()?;
            let (card, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            members.push((ProcessName::decode(name), card.to_vec()));
            rest = after;
        }
        (!members.is_empty()).then(|| Introduction {
            context: Context::decode(*context),
            leader: ProcessName::decode(leader),
            members,
        })
    }

    /// Whether two groups can be the sides of an intercommunicator.
    fn check(&self, other: &Introduction) -> Result<()> {
        let mine: rustc_hash::FxHashSet<ProcessName> = self.members.iter().map(|(name, _)| *name).collect();
        let both = other.members.iter().find(|(name, _)| mine.contains(name));
        if let Some((name, _)) = both {
            return Err(err!(
                Comm,
                "process {} of its job is in both groups: the groups must not share a process",
                name.rank
            ));
        }
        // Each process of one side has to reach each of the other, so each kind of set of lanes has to.
        let kinds = |side: &Introduction| -> Result<Vec<Vec<String>>> {
            let mut kinds: Vec<Vec<String>> = Vec::new();
            for (_, card) in &side.members {
                let lanes: Vec<String> = (BusinessCard::decode(card)?.lanes.into_iter())
                    .map(|lane| lane.network)
                    .collect();
                if !kinds.contains(&lanes) {
                    kinds.push(lanes);
                }
            }
            Ok(kinds)
        };
        let theirs = kinds(other)?;
        for mine in kinds(self)? {
            if let Some(theirs) = theirs
                .iter()
                .find(|theirs| !theirs.iter().any(|lane| mine.contains(lane)))
            {
                let list = |lanes: &[String]| match lanes {
                    [] => "none".to_string(),
                    lanes => lanes.join(", "),
                };
                // The same words on both sides.
                let mut both = [list(&mine), list(theirs)];
                both.sort();
                return Err(err!(
                    Other,
                    "the two groups have no way to each other: processes of one have the lanes {}, those of the other {} (WEFT_LANES and \
                     WEFT_PROVIDER have to let both use the same)",
                    both[0],
                    both[1]
                ));
            }
        }
        Ok(())
    }

    /// Every process's part: it can send to those processes from now on.
    fn take(self, instance: &Arc<Instance>) -> Result<Introduced> {
        let directory = instance.directory();
        let mut peers = Vec::with_capacity(self.members.len());
        for (name, card) in self.members {
            let process = directory.place(name).ok_or_else(|| {
                err!(
                    Intern,
                    "there is no process {} in job {:#x}",
                    name.rank,
                    name.job.0
                )
            })?;
            if !instance.is_of_this_job(process) {
                instance.keep_cards([(process, card)]);
                instance.engine().meet(process);
            }
            peers.push(process);
        }
        Ok(Introduced {
            peers,
            context: self.context,
            job: self.leader.job,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn results_come_back() {
        for result in [Ok(vec![1, 2, 3]), Ok(vec![]), Err(err!(Port, "closed"))] {
            assert_eq!(decode_result(&encode_result(&result)), Ok(result));
        }
        assert!(decode_result(&[0, 0, 0]).is_err());
        let unknown = decode_result(&[0xff, 0xff, 0, 0, b'x']).expect("a result");
        assert_eq!(unknown, Err(err!(Other, "x")));
    }

    proptest! {
        #[test]
        fn introductions_come_back(context: u64, members in prop::collection::vec((any::<u64>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)), 1..6)) {
            let members: Vec<_> = members.into_iter().map(|(job, rank, card)| (ProcessName { job: JobId(job), rank }, card)).collect();
            let said = Introduction { context: Context::of_bits(context), leader: members[0].0, members };
            let bytes = said.encode();
            let back = Introduction::parse(&bytes).expect("what was encoded");
            prop_assert_eq!(&back.members, &said.members);
            prop_assert_eq!(back.encode(), bytes.clone());
            // Cut behind a member, it is another one of fewer members.
            for cut in 0..bytes.len() {
                if let Some(short) = Introduction::parse(&bytes[..cut]) {
                    prop_assert!(short.members.len() < said.members.len());
                }
            }
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(said) = Introduction::parse(&bytes) {
                prop_assert_eq!(said.encode(), bytes);
            }
        }
    }
}
