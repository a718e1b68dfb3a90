//! The facts, in the form in which `--json` prints them.

use serde::Serialize;

use weft::Result;
use weft::abi::constants::{MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_SUBVERSION, MPI_VERSION};
use weft::fabric::{self, select};
use weft::lane::shm::{self, ShmLane};
use weft::lane::{Lane, ProcId, choose as lanes};
use weft::settings::{Kind, Origin, Settings, TABLE};
use weft::topology::Topology;

use super::ways::Ways;

/// All that `weft-info` says.
#[derive(Serialize)]
pub struct Report {
    /// Version of Weft.
    pub weft: &'static str,
    /// Version of the MPI standard.
    pub mpi: String,
    /// Version of the standard's ABI.
    pub abi: String,
    /// What can carry messages.
    #[serde(flatten)]
    pub transports: Transports,
    /// What `MPI_Comm_split_type` can divide by.
    pub hardware: Hardware,
    /// Every setting.
    pub settings: Vec<Setting>,
}

/// What can carry messages on this machine.
#[derive(Serialize)]
pub struct Transports {
    /// What carries the messages of a job.
    pub uses: Ways,
    /// Version of the libfabric that is loaded; `None`: there is none.
    pub libfabric: Option<String>,
    /// Whether the choice is that of a job on this machine alone.
    pub local_only: bool,
    /// `FI_PROVIDER`, which makes libfabric hide all other providers.
    pub fi_provider: Option<String>,
    /// Whether processes of one machine can share memory, and how.
    pub shared_memory: SharedMemory,
    /// What libfabric offers.
    pub providers: Vec<Provider>,
    /// Why no provider can be used.
    pub problem: Option<String>,
}

/// The kinds of hardware that this machine has, as hwloc tells them.
#[derive(Serialize)]
pub struct Hardware {
    /// Name and number of each kind, the largest first.
    pub kinds: Vec<(&'static str, usize)>,
    /// Why hwloc does not tell.
    pub problem: Option<String>,
}

/// The lane `shm`.
#[derive(Serialize)]
pub struct SharedMemory {
    /// Whether it is there.
    pub works: bool,
    /// Whether large messages can be read from the sender's memory.
    pub reads_memory: bool,
    /// Why it is not there, or why it is not used.
    pub reason: Option<String>,
}

/// A provider on an interface.
#[derive(Serialize)]
pub struct Provider {
    /// Such as `tcp;ofi_rxm`.
    pub name: String,
    /// The provider's own version.
    pub version: String,
    /// Network interface or device.
    pub interface: String,
    /// Its address, for providers on IP.
    pub address: Option<String>,
    /// Whether it reads remote memory.
    pub rma: bool,
    /// Whether it keeps messages in order.
    pub ordered: bool,
    /// Messages up to this many bytes are sent without a completion.
    pub inject_size: usize,
    /// The longest message in bytes.
    pub max_msg_size: usize,
    /// Whether Weft would use it.
    pub chosen: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// A setting and its value.
#[derive(Serialize)]
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// The value in force.
    pub value: String,
    /// The value without the variable.
    pub default: &'static str,
    /// `default` or `environment`.
    pub origin: &'static str,
    /// What it accepts.
    pub accepts: String,
    /// What it is for.
    pub help: &'static str,
}

impl Report {
    /// Asks libfabric, and reads the settings through `lookup`. An error: a setting is malformed.
    pub fn gather(lookup: impl Fn(&str) -> Option<String>, local_only: bool) -> Result<Report> {
        let settings = Settings::read(&lookup)?;
        let chosen = select::choose(&settings, local_only);
        let problem = chosen.err().map(|error| error.to_string());
        // Where libfabric can't even be asked, the problem says so already.
        let candidates = select::survey(&settings, local_only).unwrap_or_default();
        let wanted = lanes::Wanted::of(&settings, lookup("FI_PROVIDER"));
        let shared_memory = shared_memory(&settings, wanted);
        Ok(Report {
            weft: env!("CARGO_PKG_VERSION"),
            mpi: format!("{MPI_VERSION}.{MPI_SUBVERSION}"),
            abi: format!("{MPI_ABI_VERSION}.{MPI_ABI_SUBVERSION}"),
            transports: Transports {
                uses: Ways::of(&settings, wanted, &shared_memory),
                libfabric: fabric::version()
                    .ok()
                    .map(|(major, minor)| format!("{major}.{minor}")),
                local_only,
                fi_provider: lookup("FI_PROVIDER").filter(|value| !value.is_empty()),
                shared_memory,
                providers: candidates.into_iter().map(provider).collect(),
                problem,
            },
            hardware: hardware(),
            settings: TABLE.iter().map(|row| setting(row, lookup(row.name))).collect(),
        })
    }
}

fn hardware() -> Hardware {
    match Topology::discover() {
        Ok(topology) => Hardware {
            kinds: (topology.kinds())
                .map(|kind| (kind.uri(), topology.instances(kind).len()))
                .collect(),
            problem: None,
        },
        Err(problem) => Hardware {
            kinds: Vec::new(),
            problem: Some(problem),
        },
    }
}

fn shared_memory(settings: &Settings, wanted: lanes::Wanted) -> SharedMemory {
    let options = shm::Options {
        me: ProcId(0),
        senders: 1,
        token: 0,
        node: 0,
        cma: settings.cma,
        crowded: false,
        stores: shm::Allowed::of(&settings.stores),
    };
    let opened = ShmLane::open(options);
    SharedMemory {
        works: opened.is_ok(),
        reads_memory: opened.as_ref().is_ok_and(|lane| lane.limits().rma),
        reason: match opened {
            Err(error) => Some(error.message.into_owned()),
            Ok(_) if !wanted.shm => Some(wanted.why_no_shm()),
            Ok(_) => None,
        },
    }
}

fn provider(candidate: select::Candidate) -> Provider {
    let (major, minor) = candidate.version;
    Provider {
        name: candidate.provider,
        version: format!("{major}.{minor}"),
        interface: candidate.interface,
        address: candidate.address.map(|address| address.to_string()),
        rma: candidate.rma,
        ordered: candidate.ordered,
        inject_size: candidate.inject_size,
        max_msg_size: candidate.max_msg_size,
        chosen: candidate.rejected.is_none(),
        reason: candidate.rejected,
    }
}

fn setting(row: &weft::settings::Setting, found: Option<String>) -> Setting {
    let origin = match found {
        Some(_) => Origin::Environment,
        None => Origin::Default,
    };
    Setting {
        name: row.name,
        value: found.unwrap_or_else(|| row.default.to_string()),
        default: row.default,
        origin: match origin {
            Origin::Default => "default",
            Origin::Environment => "environment",
        },
        accepts: match row.kind {
            Kind::Text => "text".into(),
            Kind::List { of } => of.join(","),
            Kind::Switch => "0 or 1".into(),
            Kind::Number { min, max } => format!("{min} to {max}"),
        },
        help: row.help.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(values: &[(&str, &str)]) -> Result<Report> {
        let lookup = |name: &str| {
            let found = values.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        };
        Report::gather(lookup, true)
    }

    #[test]
    fn one_provider_is_chosen_and_the_rest_have_reasons() {
        let report = gather(&[]).unwrap().transports;
        assert_eq!(report.problem, None);
        assert_eq!(report.providers.iter().filter(|one| one.chosen).count(), 1);
        assert!(
            report
                .providers
                .iter()
                .all(|one| one.chosen == one.reason.is_none())
        );
    }

    #[test]
    fn settings_say_where_they_come_from() {
        let report = gather(&[("WEFT_EAGER_MAX", "16k")]).unwrap();
        assert_eq!(report.settings.len(), TABLE.len());
        for setting in &report.settings {
            let given = setting.name == "WEFT_EAGER_MAX";
            let expected = if given {
                ("16k", "environment")
            } else {
                (setting.default, "default")
            };
            assert_eq!(
                (setting.value.as_str(), setting.origin),
                expected,
                "{}",
                setting.name
            );
        }
    }

    #[test]
    fn an_unknown_provider_is_the_problem() {
        let report = gather(&[("WEFT_PROVIDER", "carrier-pigeon")]).unwrap().transports;
        let problem = report.problem.expect("there is no such provider");
        assert!(
            problem.contains("carrier-pigeon") && !problem.contains('\n'),
            "{problem}"
        );
        assert!(report.providers.iter().all(|one| !one.chosen));
    }

    #[test]
    fn a_malformed_setting_is_an_error_of_one_line() {
        let error = gather(&[("WEFT_RMA", "perhaps")])
            .err()
            .expect("not a switch")
            .to_string();
        assert!(
            error.contains("WEFT_RMA") && error.contains("perhaps") && !error.contains('\n'),
            "{error}"
        );
    }
}
