//! One host of `--hosts`: what it tells of itself, and which other hosts it can reach.
//!
//! The `weft-info` that was asked starts one of these on each host, and speaks with it over its standard input and output, a line of JSON
//! each way: it tells its [`Facts`], gets the addresses of the others, and tells for each why it can't connect to it. It ends
//! when its input does, so none is left when the first is killed or the network is cut.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use weft::tools::{Machine, fabric};

use crate::report::Report;
use crate::ways::Way;

/// For one connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);

/// What a host tells of itself.
#[derive(Serialize, Deserialize, Debug, Default, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Version of Weft.
    pub weft: String,
    /// Version of the libfabric that is loaded.
    pub libfabric: Option<String>,
    /// What it calls itself.
    pub host_name: String,
    /// Its boot and pid namespace, if they are known: hosts that have the same share memory.
    pub machine: Option<String>,
    /// Why ranks of it use no shared memory.
    pub no_shared_memory: Option<String>,
    /// What carries messages within it, in words.
    pub within: String,
    /// The provider that carries messages to other hosts.
    pub provider: Option<String>,
    /// Its network interface or device.
    pub interface: Option<String>,
    /// Its address, if the provider has IP addresses.
    pub address: Option<String>,
    /// Why nothing carries messages to other hosts.
    pub problem: Option<String>,
    /// Other interfaces that the provider could use.
    pub others: Vec<String>,
    /// Where it accepts connections meanwhile, for the others to try.
    pub listens: Option<SocketAddr>,
}

impl Facts {
    /// Of this host, and what listens for the others' tries.
    fn gather() -> weft::Result<(Facts, Option<TcpListener>)> {
        let lookup = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let found = Report::gather(lookup, false)?.transports;
        let between: Way = found.uses.between_machines;
        let address: Option<IpAddr> = between.address.as_ref().and_then(|text| text.parse().ok());
        let listener = address.and_then(|address| TcpListener::bind(bindable(address)).ok());
        let listens = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let used = |one: &&crate::report::Provider| !one.between_machines;
        let mut others: Vec<String> = (found.providers.iter())
            .filter(|one| Some(&one.name) == between.provider.as_ref())
            .filter(used)
            .filter_map(|one| {
                one.address
                    .as_ref()
                    .map(|address| format!("{} ({address})", one.interface))
            })
            .collect();
        others.dedup();
        let facts = Facts {
            weft: env!("CARGO_PKG_VERSION").into(),
            libfabric: fabric::version()
                .ok()
                .map(|(major, minor)| format!("{major}.{minor}")),
            host_name: nix::unistd::gethostname()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            machine: Machine::here()
                .ok()
                .map(|machine| format!("{:032x}-{}", machine.boot, machine.pids)),
            no_shared_memory: found.shared_memory.reason,
            within: found.uses.within_machine.words(),
            provider: between.provider,
            interface: between.interface,
            address: between.address,
            problem: between.problem,
            others,
            listens,
        };
        Ok((facts, listener))
    }
}

/// A link-local address can be bound only with its interface, so this binds any.
fn bindable(address: IpAddr) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => (Ipv6Addr::UNSPECIFIED, 0).into(),
        address => (address, 0).into(),
    }
}

/// Serves the `weft-info` that was asked.
///
/// # Errors
/// A malformed setting, or a peer that does not speak this protocol.
pub fn serve() -> Result<(), String> {
    let (facts, listener) = Facts::gather().map_err(|error| error.to_string())?;
    say(&facts)?;
    // Whoever connects sees that by the connection alone. The kernel makes it; it stays in the queue, or is closed here.
    if let Some(listener) = listener {
        std::thread::spawn(move || for _ in listener.incoming() {});
    }
    let mut lines = io::stdin().lock().lines();
    let Some(line) = lines.next() else {
        return Ok(());
    };
    let line = line.map_err(|error| format!("standard input can't be read: {error}"))?;
    let targets: Vec<Option<SocketAddr>> = serde_json::from_str(&line)
        .map_err(|error| format!("expected a list of addresses on standard input: {error}"))?;
    let tries: Vec<_> = (targets.into_iter())
        .map(|target| std::thread::spawn(move || target.and_then(why_unreachable)))
        .collect();
    let results: Vec<Option<String>> = (tries.into_iter())
        .map(|one| {
            one.join()
                .unwrap_or_else(|_| Some("the try came to no end".into()))
        })
        .collect();
    say(&results)?;
    // The others may still be trying: the listener stays until they are through.
    for _ in lines {}
    Ok(())
}

fn say(what: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(what).map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| format!("standard output can't be written: {error}"))
}

/// Tries to connect. `None`: it can be reached.
fn why_unreachable(target: SocketAddr) -> Option<String> {
    let error = TcpStream::connect_timeout(&target, CONNECT_LIMIT).err()?;
    Some(match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", CONNECT_LIMIT.as_secs()),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_reached_and_a_closed_port_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(why_unreachable(address), None);
        drop(listener);
        let why = why_unreachable(address).expect("nobody listens there any more");
        assert!(why.contains("refused"), "{why}");
    }

    #[test]
    fn facts_survive_their_way() {
        let (facts, _listener) = Facts::gather().unwrap();
        let text = serde_json::to_string(&facts).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
        assert_eq!(facts.provider.is_some(), facts.problem.is_none());
    }
}
