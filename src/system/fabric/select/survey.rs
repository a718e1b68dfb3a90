//! Everything that libfabric offers, and why not each of it is used: for reports.

use std::net::IpAddr;

use super::super::info::{Facts, Query, query};
use super::super::interface::{Reach, reach};
use super::{Choice, choose, interface_words, wishes};
use crate::base::error::Result;
use crate::base::settings::Settings;

/// One way to communicate that libfabric offers, for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The provider, such as `tcp;ofi_rxm`.
    pub provider: String,
    /// The provider's version, such as (117, 0).
    pub version: (u32, u32),
    /// The network interface or device.
    pub interface: String,
    /// Its address, for providers on IP.
    pub address: Option<IpAddr>,
    /// Messages up to this many bytes are sent without a completion.
    pub inject_size: usize,
    /// The longest message in bytes.
    pub max_msg_size: usize,
    /// Whether it reads remote memory.
    pub rma: bool,
    /// Whether it keeps messages in order.
    pub ordered: bool,
    /// Why it is not used; `None` for the one that is.
    pub rejected: Option<String>,
}

/// Everything that libfabric offers, in its order, each with the reason why it is not the one that [`choose`] takes.
/// It asks for more than the start of a process does, and can take some milliseconds.
pub fn survey(settings: &Settings, local_only: bool) -> Result<Vec<Candidate>> {
    let choice = Choice::of(settings)?;
    let chosen = choose(settings, local_only).map(|chosen| chosen.info);
    let mut candidates: Vec<Candidate> = Vec::new();
    for (rma, ordered) in wishes(true) {
        let all = Query {
            rma,
            ordered,
            ..Query::default()
        };
        for facts in query(&all)?.iter() {
            let candidate = Candidate {
                provider: facts.provider(),
                version: facts.provider_version(),
                interface: facts.domain_name(),
                address: facts.source_ip(),
                inject_size: facts.inject_size(),
                max_msg_size: facts.max_msg_size(),
                rma: facts.has_rma(),
                ordered: facts.is_ordered(),
                rejected: None,
            };
            let same = |other: &Candidate| {
                (&other.provider, &other.interface, other.address)
                    == (&candidate.provider, &candidate.interface, candidate.address)
            };
            if !candidates.iter().any(same) {
                candidates.push(candidate);
            }
        }
    }
    for candidate in &mut candidates {
        candidate.rejected = match &chosen {
            Ok(chosen) => why_not(candidate, chosen, &choice, settings, local_only),
            Err(error) => Some(error.to_string()),
        };
    }
    Ok(candidates)
}

/// Why `candidate` is not `chosen`; `None` if it is.
fn why_not(
    candidate: &Candidate,
    chosen: &Facts,
    choice: &Choice,
    settings: &Settings,
    local_only: bool,
) -> Option<String> {
    let provider = chosen.provider();
    if candidate.provider == provider {
        if candidate.interface == chosen.domain_name() && candidate.address == chosen.source_ip() {
            return None;
        }
        return Some(if settings.interface.is_some() {
            "WEFT_INTERFACE names another interface".into()
        } else if local_only {
            "all processes are on this machine, so the loopback address is used".into()
        } else {
            match candidate
                .address
                .map(|address| reach(&candidate.interface, address))
            {
                Some(Reach::Loopback) => "it reaches only this machine".into(),
                Some(Reach::Virtual) => "it belongs to containers, virtual machines or a tunnel".into(),
                Some(Reach::LinkLocal) => "a link-local address".into(),
                _ if candidate.interface != chosen.domain_name() => format!(
                    "{} is used: on the network that comes first, by speed and by number, the nearest to this process",
                    interface_words(chosen)
                ),
                _ => format!("{} comes before it", interface_words(chosen)),
            }
        });
    }
    Some(match choice.rank(&candidate.provider) {
        Some(_) => format!("{provider} is preferred"),
        None => match choice {
            Choice::Setting(name) => format!("WEFT_PROVIDER is '{name}'"),
            _ if candidate.provider == "shm" => {
                "reaches only this machine: used when WEFT_PROVIDER names it".into()
            }
            _ => "used only when WEFT_PROVIDER names it".into(),
        },
    })
}
