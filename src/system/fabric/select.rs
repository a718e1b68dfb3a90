//! Which provider and which interface an instance uses, and why not the others.
//!
//! The order: hardware first, then TCP by its cost, then `sockets`. `WEFT_PROVIDER` names one; otherwise libfabric itself
//! obeys `FI_PROVIDER`, and then offers nothing else. For providers on IP, the address is 127.0.0.1 when all processes
//! are on one machine, so that a machine without a network works; otherwise `WEFT_INTERFACE` says which, and by default
//! interfaces of containers and tunnels are passed over.
//!
//! libfabric is asked for providers by name wherever possible: asked for all, 2.x makes each provider look for its
//! hardware, and the one of InfiniBand reads the kernel's symbol table for that (0.2 s, instead of 8 ms). So where the
//! system has no fast network, only the software providers are asked for, in turn.
//!
//! `survey` is for reports: what else there is, and why it is not used.

mod survey;

use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

use super::info::{Facts, Info, InfoList, Query, query};
use super::interface::{Device, Reach, Wishes, best_device, network, reach};
use crate::base::error::Result;
use crate::base::settings::{Access, Settings};
use crate::err;
use crate::system::locality::Processors;

pub use survey::{Candidate, survey};

/// Providers that are chosen without being named, best first. `tcp` offers what Weft needs from 2.x on, where it is
/// what 1.17 calls `net`.
const ORDER: &[&str] = &[
    "cxi",
    "efa",
    "verbs;ofi_rxm",
    "psm3",
    "opx",
    "tcp",
    "net",
    "tcp;ofi_rxm",
    "sockets",
];

/// The providers of [`ORDER`] that need no hardware, by their names in this version of libfabric.
fn software() -> Result<&'static [&'static str]> {
    // In 1.17, `tcp` by itself is a layer below `tcp;ofi_rxm`, and the better way is `net`.
    Ok(if super::version()? >= (1, 18) {
        &["tcp", "tcp;ofi_rxm", "sockets"]
    } else {
        &["net", "tcp;ofi_rxm", "sockets"]
    })
}

/// Whether the system has a network that a provider of [`ORDER`] uses without TCP.
pub(super) fn has_fast_network() -> bool {
    const CLASSES: &[&str] = &[
        "infiniband",
        "infiniband_verbs",
        "cxi",
        "cxi_user",
        "hfi1",
        "hfi1_user",
    ];
    CLASSES.iter().any(|class| {
        std::fs::read_dir(format!("/sys/class/{class}")).is_ok_and(|mut devices| devices.next().is_some())
    })
}

/// Providers that work, but are used only when named: they reach only this machine, or are slower than their base.
const WHEN_NAMED: &[&str] = &["shm", "udp;ofi_rxd"];

/// Providers whose domains are network interfaces with IP addresses.
const ON_IP: &[&str] = &[
    "tcp",
    "net",
    "tcp;ofi_rxm",
    "net;ofi_rxm",
    "sockets",
    "udp;ofi_rxd",
];

/// Where the choice of a provider comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Choice {
    /// `WEFT_PROVIDER`.
    Setting(String),
    /// `FI_PROVIDER` lists providers; libfabric shows only those.
    Libfabric(String),
    /// Nothing: the order decides.
    Order,
}

impl Choice {
    fn of(settings: &Settings) -> Result<Choice> {
        match settings.provider.as_deref() {
            // What 1.17 calls `net` is `tcp` from 1.18 on, so one setting works for both.
            Some("net") if super::version()? >= (1, 18) => return Ok(Choice::Setting("tcp".into())),
            Some(name) => return Ok(Choice::Setting(name.into())),
            None => {}
        }
        Ok(match std::env::var("FI_PROVIDER") {
            // A list that starts with ^ excludes; the order decides among what is left.
            Ok(list) if !list.is_empty() && !list.starts_with('^') => Choice::Libfabric(list),
            _ => Choice::Order,
        })
    }

    /// What to ask libfabric for, in turn; `None`: for all providers.
    fn names(&self) -> Result<Vec<Option<&str>>> {
        Ok(match self {
            // Intel's build of 2.4 finds no layered provider by its name, but lists it among all.
            Choice::Setting(name) => vec![Some(name), None],
            Choice::Libfabric(_) => vec![None],
            Choice::Order if has_fast_network() => vec![None],
            Choice::Order => software()?.iter().copied().map(Some).chain([None]).collect(),
        })
    }

    /// The position of `provider` in the order, the lowest first; `None`: not to be used.
    fn rank(&self, provider: &str) -> Option<usize> {
        let position = |names: &[&str]| names.iter().position(|name| *name == provider);
        match self {
            Choice::Setting(name) if name == provider => Some(0),
            // `tcp` of 1.17 has what Weft needs only under ofi_rxm, `udp` only under ofi_rxd.
            Choice::Setting(name) => provider
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.starts_with(";ofi_rx"))
                .then_some(1),
            Choice::Order => position(ORDER),
            Choice::Libfabric(_) => Some(
                position(ORDER)
                    .or_else(|| position(WHEN_NAMED).map(|at| ORDER.len() + at))
                    .unwrap_or(ORDER.len() + WHEN_NAMED.len()),
            ),
        }
    }
}

/// Providers whose atomic operations are not used: with hundreds under way, those of `shm` (1.17) write other bytes to the target, and
/// `udp;ofi_rxd` (1.17) crashes.
const BAD_ATOMICS: &[&str] = &["shm", "udp;ofi_rxd"];

/// What to open for an instance.
pub struct Chosen {
    /// The entry.
    pub info: Info,
    /// Whether writes and atomic operations can report that the data is in the target's memory (`FI_DELIVERY_COMPLETE`).
    pub delivers: bool,
}

/// The entry to open for an instance. `local_only`: all processes of the job are on this machine.
pub fn choose(settings: &Settings, local_only: bool) -> Result<Chosen> {
    let info = choose_from(settings, local_only, query)?;
    let provider = info.provider();
    // Nobody else uses them, and each question takes time.
    let uses_writes =
        settings.windows == Access::Rdma || settings.emulated_atomics || accesses_memory(&provider);
    if !info.has_writes() || !uses_writes {
        return Ok(Chosen {
            info,
            delivers: false,
        });
    }
    let ask_of = |provider, atomics, delivers| {
        query(&Query {
            provider,
            rma: true,
            write: true,
            atomics,
            delivers,
            ordered: info.is_ordered(),
            source: None,
        })
    };
    let is_same = |other: &Facts| {
        other.provider() == provider
            && other.domain_name() == info.domain_name()
            && other.fabric_name() == info.fabric_name()
            && other.address_format() == info.address_format()
            && other.source_ip() == info.source_ip()
    };
    // Some versions find no layered provider by its name. Without an answer the endpoint is good for everything else.
    let ask = |atomics, delivers| {
        let found = |provider| {
            let list = ask_of(provider, atomics, delivers).ok()?;
            list.iter()
                .find(|other| is_same(other))
                .and_then(|same| same.to_owned().ok())
        };
        found(Some(&provider)).or_else(|| found(None))
    };
    let delivers = ask(false, true).is_some();
    // Asking for them changes what some providers promise (ofi_rxm no more promises an order of reads and writes), others do not have
    // them at all, and no window uses them.
    let wanted = settings.emulated_atomics && !BAD_ATOMICS.contains(&provider.as_str());
    let with = (delivers && wanted).then(|| ask(true, false)).flatten();
    Ok(Chosen {
        info: with.unwrap_or(info),
        delivers,
    })
}

/// Whether a provider has the network's hardware perform atomic operations. The others that have such operations leave them to the target's
/// processor.
pub fn performs_atomics(provider: &str) -> bool {
    provider == "cxi"
}

/// Whether a provider's hardware reads and writes the target's memory, without the target's processor.
pub fn accesses_memory(provider: &str) -> bool {
    matches!(provider, "cxi" | "verbs;ofi_rxm")
}

/// The same, with `ask` in place of libfabric.
fn choose_from(
    settings: &Settings,
    local_only: bool,
    ask: impl Fn(&Query<'_>) -> Result<InfoList>,
) -> Result<Info> {
    let choice = Choice::of(settings)?;
    let names = choice.names()?;
    for (rma, ordered) in wishes(settings.rma) {
        for &provider in &names {
            let list = ask(&Query {
                provider,
                rma,
                // No provider is known that only reads.
                write: rma,
                ordered,
                ..Query::default()
            })?;
            let entries: Vec<_> = list.iter().collect();
            let facts: Vec<&Facts> = entries.iter().map(|entry| &**entry).collect();
            if let Some(best) = best(&choice, settings, local_only, &facts)? {
                return Ok(entries[best].to_owned()?);
            }
        }
    }
    Err(nothing_found(&choice))
}

/// What to ask for: RMA and order, the most first. RMA is not asked for where the settings switch it off.
fn wishes(rma: bool) -> impl Iterator<Item = (bool, bool)> {
    [(true, true), (false, true), (true, false), (false, false)]
        .into_iter()
        .filter(move |(with_rma, _)| rma || !with_rma)
}

/// The position of the best entry, if any may be used.
fn best(choice: &Choice, settings: &Settings, local_only: bool, entries: &[&Facts]) -> Result<Option<usize>> {
    let ranked = |facts: &Facts| choice.rank(&facts.provider());
    let Some(rank) = entries.iter().filter_map(|facts| ranked(facts)).min() else {
        return Ok(None);
    };
    let of_provider: Vec<(usize, &Facts)> = entries
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, facts)| ranked(facts) == Some(rank))
        .collect();
    let quality = |facts: &Facts| preference(facts, local_only);
    let best_of = |group: Vec<(usize, &Facts)>| {
        let best = group.iter().map(|(_, facts)| quality(facts)).max()?;
        let equals: Vec<_> = group
            .into_iter()
            .filter(|(_, facts)| quality(facts) == best)
            .collect();
        nearest(&equals)
    };
    let Some(text) = &settings.interface else {
        return Ok(best_of(of_provider));
    };
    let wishes = Wishes::parse(text)?;
    let wish = |facts: &Facts| wishes.position(&facts.domain_name(), facts.source_ip());
    let Some(first) = of_provider.iter().filter_map(|(_, facts)| wish(facts)).min() else {
        let names = of_provider.iter().map(|(_, facts)| interface_words(facts));
        return Err(err!(
            Arg,
            "the setting WEFT_INTERFACE has the value '{text}': the provider {} offers {}",
            of_provider[0].1.provider(),
            unique(names.collect()).join(", ")
        ));
    };
    let wished = of_provider
        .into_iter()
        .filter(|(_, facts)| wish(facts) == Some(first));
    Ok(best_of(wished.collect()))
}

/// Which of several entries that are equally good otherwise; each is given with its position, which is returned.
fn nearest(equals: &[(usize, &Facts)]) -> Option<usize> {
    let &(first, facts) = equals.first()?;
    let name = facts.domain_name();
    if equals.iter().all(|(_, facts)| facts.domain_name() == name) {
        // Most often there is one interface, and the system need not be asked.
        return Some(first);
    }
    let here = Processors::of_this_process();
    let networks: Vec<(IpAddr, u32)> = interfaces()
        .filter_map(|one| Some((ip(&one)?, bits(&one)?)))
        .collect();
    let device = |facts: &Facts| {
        let found = facts
            .source_ip()
            .and_then(|address| networks.iter().find(|(own, _)| *own == address));
        device_of(
            &facts.domain_name(),
            found.map_or_else(
                || facts.fabric_name(),
                |&(own, bits)| network(own, bits).to_string(),
            ),
            &here,
        )
    };
    let devices: Vec<Device> = equals.iter().map(|(_, facts)| device(facts)).collect();
    best_device(&devices).map(|at| equals[at].0)
}

/// What the system tells of an interface or device.
fn device_of(name: &str, network: String, here: &Processors) -> Device {
    // A domain of verbs is named `mlx5_0` or `mlx5_0-rdm`.
    let name = name.split('-').next().unwrap_or(name);
    let told = |file: &str| {
        let classes = ["net", "infiniband", "cxi"];
        let paths = classes.map(|class| format!("/sys/class/{class}/{name}/{file}"));
        paths.iter().find_map(|path| std::fs::read_to_string(path).ok())
    };
    let near = told("device/local_cpulist").and_then(|list| Processors::parse(list.trim()));
    Device {
        network,
        speed: told("speed")
            .and_then(|speed| speed.trim().parse().ok())
            .unwrap_or(0),
        near: near.is_none_or(|near| near.is_empty() || near.meets(here)),
    }
}

fn interfaces() -> impl Iterator<Item = InterfaceAddress> {
    getifaddrs().into_iter().flatten()
}

/// The addresses of this machine that other machines may reach, those first that they reach best.
pub fn addresses() -> Vec<IpAddr> {
    rated().into_iter().map(|(_, _, address)| address).collect()
}

/// Those at which this process is to be found: what `WEFT_INTERFACE` lists, if anything of that is an interface, and otherwise those that
/// other machines reach best, without interfaces of containers and tunnels where there are others.
pub(crate) fn addresses_wanted(wanted: Option<&str>) -> Result<Vec<IpAddr>> {
    if let Some(wanted) = wanted {
        let wishes = Wishes::parse(wanted)?;
        let mut fulfilled: Vec<(usize, IpAddr)> = up()
            .filter(|(reach, _, address)| address.is_ipv4() || *reach != Reach::LinkLocal)
            .filter_map(|(_, name, address)| Some((wishes.position(&name, Some(address))?, address)))
            .collect();
        fulfilled.sort_by_key(|&(position, _)| position);
        if !fulfilled.is_empty() {
            return Ok(fulfilled.into_iter().map(|(_, address)| address).collect());
        }
    }
    let all = rated();
    let has_better = all.iter().any(|(reach, ..)| *reach > Reach::Virtual);
    let good = all
        .into_iter()
        .filter(|(reach, ..)| !has_better || *reach > Reach::Virtual);
    Ok(good.map(|(_, _, address)| address).collect())
}

/// The interfaces in use that reach other machines, those first that do it best.
fn rated() -> Vec<(Reach, String, IpAddr)> {
    let mut all: Vec<_> = up()
        .filter(|(reach, ..)| !matches!(reach, Reach::Loopback | Reach::LinkLocal))
        .collect();
    all.sort_by_key(|&(reach, ..)| std::cmp::Reverse(reach));
    all
}

/// The interfaces in use, with their names and addresses.
fn up() -> impl Iterator<Item = (Reach, String, IpAddr)> {
    interfaces().filter_map(|interface| {
        let address = ip(&interface).filter(|_| interface.flags.contains(InterfaceFlags::IFF_UP))?;
        let name = interface.interface_name;
        Some((reach(&name, address), name, address))
    })
}

fn ip(interface: &InterfaceAddress) -> Option<IpAddr> {
    of_storage(interface.address.as_ref()?)
}

/// How many bits of its address name the network.
fn bits(interface: &InterfaceAddress) -> Option<u32> {
    Some(match of_storage(interface.netmask.as_ref()?)? {
        IpAddr::V4(mask) => mask.to_bits().count_ones(),
        IpAddr::V6(mask) => mask.to_bits().count_ones(),
    })
}

fn of_storage(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

/// Whether `WEFT_INTERFACE`, where it is set, names something of this machine: an interface that the kernel knows, or a
/// device of libfabric's. libfabric is asked only for names that the kernel does not know.
pub fn check_interface(settings: &Settings, local_only: bool) -> Result<()> {
    let Some(wanted) = &settings.interface else {
        return Ok(());
    };
    let wishes = Wishes::parse(wanted)?;
    let interfaces: Vec<InterfaceAddress> = interfaces().collect();
    let is_it = |interface: &InterfaceAddress| {
        wishes
            .position(&interface.interface_name, ip(interface))
            .is_some()
    };
    if interfaces.iter().any(is_it) || choose(settings, local_only).is_ok() {
        return Ok(());
    }
    let words = interfaces.iter().map(|interface| match ip(interface) {
        Some(address) => format!("{} ({address})", interface.interface_name),
        None => interface.interface_name.clone(),
    });
    Err(err!(
        Arg,
        "the setting WEFT_INTERFACE has the value '{wanted}': this machine has {}, and libfabric offers no device of that name",
        unique(words.collect()).join(", ")
    ))
}

/// How good an entry's address is; the highest wins.
fn preference(facts: &Facts, local_only: bool) -> (bool, Option<Reach>) {
    let Some(address) = facts.source_ip().filter(|_| is_on_ip(facts)) else {
        return (false, None);
    };
    let reach = reach(&facts.domain_name(), address);
    // On one machine 127.0.0.1 is always there, and no firewall blocks it.
    (
        local_only && reach == Reach::Loopback && address.is_ipv4(),
        Some(reach),
    )
}

fn is_on_ip(facts: &Facts) -> bool {
    ON_IP.contains(&facts.provider().as_str())
}

fn interface_words(facts: &Facts) -> String {
    match facts.source_ip() {
        Some(address) => format!("{} ({address})", facts.domain_name()),
        None => facts.domain_name(),
    }
}

fn unique(mut names: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    names.retain(|name| {
        let new = !seen.contains(name);
        if new {
            seen.push(name.clone());
        }
        new
    });
    names
}

#[cold]
fn nothing_found(choice: &Choice) -> crate::Error {
    let everything = query(&Query::default());
    let names = |list: &InfoList| unique(list.iter().map(|entry| entry.provider()).collect());
    let offered = match everything.as_ref().map(names) {
        Ok(names) if names.is_empty() => "libfabric offers no provider that Weft can use".to_string(),
        Ok(names) => format!("libfabric offers {}", names.join(", ")),
        Err(error) => error.to_string(),
    };
    let filter = match std::env::var("FI_PROVIDER") {
        Ok(filter) if !filter.is_empty() => format!(" (FI_PROVIDER is '{filter}', which libfabric obeys)"),
        _ => String::new(),
    };
    match choice {
        Choice::Setting(name) => {
            let room = match name.as_str() {
                // libfabric's own check, which it does not report.
                "shm" => {
                    "; it leaves shm out where /dev/shm has no room for an endpoint of every processor, and that takes \
                          up to 32 MiB each"
                }
                _ => "",
            };
            err!(
                Arg,
                "the setting WEFT_PROVIDER has the value '{name}', which is not a provider that can be used here: \
                 {offered}{filter}{room}"
            )
        }
        _ => err!(Other, "no libfabric provider can be used: {offered}{filter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Settings {
        Settings::read(|name| {
            values
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_string())
        })
        .unwrap()
    }

    #[test]
    fn on_one_machine_loopback_is_chosen() {
        let chosen = choose(&settings(&[("WEFT_PROVIDER", "tcp;ofi_rxm")]), true)
            .unwrap()
            .info;
        assert_eq!(chosen.provider(), "tcp;ofi_rxm");
        assert_eq!(chosen.source_ip(), Some("127.0.0.1".parse().unwrap()));
        assert!(chosen.has_rma() && chosen.is_ordered());
    }

    #[test]
    fn tcp_works_in_every_version() {
        let chosen = choose(&settings(&[("WEFT_PROVIDER", "tcp")]), true).unwrap().info;
        assert!(chosen.provider().starts_with("tcp"), "{}", chosen.provider());
    }

    /// With a name that this version of libfabric does not know, a job would not find its best provider.
    #[test]
    fn asked_by_name_and_asked_for_all_the_choice_is_the_same() {
        let settings = settings(&[]);
        let list = query(&Query {
            rma: true,
            ordered: true,
            ..Query::default()
        })
        .unwrap();
        let offered: Vec<_> = list.iter().map(|entry| entry.provider()).collect();
        let first = software()
            .unwrap()
            .iter()
            .find(|name| offered.iter().any(|offer| offer == *name));
        if std::env::var("FI_PROVIDER").is_ok() || has_fast_network() {
            eprintln!("skipped: this system's choice is another");
            return;
        }
        let chosen = choose(&settings, true).unwrap().info.provider();
        assert_eq!(Some(&chosen.as_str()), first, "{offered:?}");
        let rank = |name: &str| Choice::Order.rank(name);
        assert!(
            software().unwrap().iter().map(|name| rank(name)).is_sorted(),
            "the order of names is that of the ranks"
        );
    }

    /// `udp;ofi_rxd` of 1.17 loses messages: where there is no other, a job gets an error.
    #[test]
    fn udp_rxd_is_used_only_when_named() {
        let alone = |wanted: &Query<'_>| {
            query(&Query {
                provider: Some("udp;ofi_rxd"),
                ..wanted.clone()
            })
        };
        let named = settings(&[("WEFT_PROVIDER", "udp;ofi_rxd")]);
        let Ok(chosen) = choose_from(&named, true, alone) else {
            eprintln!("skipped: this libfabric has none");
            return;
        };
        assert_eq!(chosen.provider(), "udp;ofi_rxd");
        if std::env::var("FI_PROVIDER").is_err() {
            assert!(choose_from(&settings(&[]), true, alone).is_err());
        }
    }

    #[test]
    fn an_unknown_provider_names_what_there_is() {
        let error = choose(&settings(&[("WEFT_PROVIDER", "carrier-pigeon")]), true)
            .err()
            .unwrap();
        assert!(error.message.contains("carrier-pigeon"), "{error}");
        assert!(error.message.contains("tcp;ofi_rxm"), "{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }

    /// The behaviour of Intel's build of libfabric 2.4 (in PyPI's `impi-rt`): asked for `tcp;ofi_rxm` by name, `fi_getinfo` returns
    /// -FI_ENODATA; asked for all providers, it lists it.
    #[test]
    fn a_layered_provider_is_used_that_libfabric_does_not_find_by_name() {
        let intel = |wanted: &Query<'_>| match wanted.provider {
            Some(name) if name.contains(';') => query(&Query {
                provider: Some("none-of-that-name"),
                ..wanted.clone()
            }),
            _ => query(wanted),
        };
        let named = settings(&[("WEFT_PROVIDER", "tcp;ofi_rxm")]);
        let chosen = choose_from(&named, true, intel).expect("it is in the list of all");
        assert_eq!(chosen.provider(), "tcp;ofi_rxm");
        let error = choose_from(&settings(&[("WEFT_PROVIDER", "carrier-pigeon")]), true, intel);
        assert!(error.is_err());
    }

    #[test]
    fn an_unknown_interface_names_what_there_is() {
        let values = [("WEFT_PROVIDER", "tcp;ofi_rxm"), ("WEFT_INTERFACE", "ib7")];
        let error = choose(&settings(&values), false).err().unwrap();
        assert!(
            error.message.contains("ib7") && error.message.contains("lo (127.0.0.1)"),
            "{error}"
        );
    }

    #[test]
    fn an_interface_is_chosen_by_name_and_by_address() {
        for wanted in ["lo", "127.0.0.1"] {
            let values = [("WEFT_PROVIDER", "tcp;ofi_rxm"), ("WEFT_INTERFACE", wanted)];
            let chosen = choose(&settings(&values), false).unwrap().info;
            assert_eq!(chosen.domain_name(), "lo");
        }
    }

    #[test]
    fn the_survey_has_one_choice_and_reasons_for_the_rest() {
        let candidates = survey(&settings(&[]), true).unwrap();
        let chosen: Vec<_> = candidates.iter().filter(|one| one.rejected.is_none()).collect();
        assert_eq!(chosen.len(), 1, "{candidates:#?}");
        assert!(candidates.iter().any(|one| one.provider == "tcp;ofi_rxm"));
    }
}
