//! The facts, in the form in which `--json` prints them.

use serde::Serialize;

use weft::Result;
use weft::tools::locality::Topology;
use weft::tools::settings::{Origin, Settings, TABLE, ValueKind};
use weft::tools::{JobId, ProcessName, Wanted};
use weft::tools::{MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_SUBVERSION, MPI_VERSION};
use weft::tools::{ShmLane, shm};
use weft::tools::{fabric, select};

use super::ways::{TransportChoice, Way};

/// All that `weft-info` prints.
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
    pub uses: TransportChoice,
    /// Version of the libfabric that is loaded; `None`: there is none.
    pub libfabric: Option<String>,
    /// Whether the choice is for a job on this machine alone that uses libfabric.
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

/// The kinds of hardware that this machine has, as hwloc reports them.
#[derive(Serialize)]
pub struct Hardware {
    /// Name and number of each kind, the largest first.
    pub kinds: Vec<(&'static str, usize)>,
    /// Why hwloc does not report them.
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
    /// Whether libfabric's messages go over it in a job of the kind that was asked for.
    pub chosen: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Whether two ranks of this machine use it.
    pub within_machine: bool,
    /// Whether ranks of different machines use it.
    pub between_machines: bool,
}

impl Provider {
    /// Whether any ranks use it.
    pub fn is_used(&self) -> bool {
        self.within_machine || self.between_machines
    }

    /// What it is used for, or why it is not.
    pub fn role(&self) -> String {
        match (self.within_machine, self.between_machines, &self.reason) {
            (true, true, _) => "used".into(),
            (true, false, _) => "used by ranks of one machine".into(),
            (false, true, _) => "used by ranks of different machines".into(),
            (false, false, Some(reason)) => reason.clone(),
            (false, false, None) => "it reaches no other machine".into(),
        }
    }
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
        let wanted = Wanted::of(&settings, lookup("FI_PROVIDER"));
        let shared_memory = shared_memory(&settings, wanted);
        let uses = TransportChoice::of(&settings, wanted, &shared_memory);
        // Where shared memory is used on this machine, the provider is for other machines.
        let local_only = local_only && uses.within_machine.lane == Some("ofi");
        let chosen = select::choose(&settings, local_only);
        let problem = chosen.err().map(|error| error.to_string());
        // Where libfabric can't even be asked, the problem already has the reason.
        let candidates = select::survey(&settings, local_only).unwrap_or_default();
        let providers = candidates
            .into_iter()
            .map(|candidate| provider(candidate, &uses))
            .collect();
        Ok(Report {
            weft: env!("CARGO_PKG_VERSION"),
            mpi: format!("{MPI_VERSION}.{MPI_SUBVERSION}"),
            abi: format!("{MPI_ABI_VERSION}.{MPI_ABI_SUBVERSION}"),
            transports: Transports {
                uses,
                libfabric: fabric::version()
                    .ok()
                    .map(|(major, minor)| format!("{major}.{minor}")),
                local_only,
                fi_provider: lookup("FI_PROVIDER").filter(|value| !value.is_empty()),
                shared_memory,
                providers,
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

fn shared_memory(settings: &Settings, wanted: Wanted) -> SharedMemory {
    let options = shm::Options {
        me: ProcessName {
            job: JobId(0),
            rank: 0,
        },
        size: 1,
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
        reads_memory: opened.as_ref().is_ok_and(|lane| lane.reads_memory()),
        reason: match opened {
            Err(error) => Some(error.message.into_owned()),
            Ok(_) if !wanted.shm => Some(wanted.why_no_shm()),
            Ok(_) => None,
        },
    }
}

fn provider(candidate: select::Candidate, uses: &TransportChoice) -> Provider {
    let (major, minor) = candidate.version;
    let address = candidate.address.map(|address| address.to_string());
    let is_that = |way: &Way| {
        way.provider.as_ref() == Some(&candidate.provider)
            && way.interface.as_ref() == Some(&candidate.interface)
            && way.address == address
    };
    let (within_machine, between_machines) = (is_that(&uses.within_machine), is_that(&uses.between_machines));
    Provider {
        name: candidate.provider,
        version: format!("{major}.{minor}"),
        interface: candidate.interface,
        address,
        rma: candidate.rma,
        ordered: candidate.ordered,
        inject_size: candidate.inject_size,
        max_msg_size: candidate.max_msg_size,
        chosen: candidate.rejected.is_none(),
        reason: candidate.rejected,
        within_machine,
        between_machines,
    }
}

fn setting(row: &weft::tools::settings::Setting, found: Option<String>) -> Setting {
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
            ValueKind::Text => "text".into(),
            ValueKind::List { of } => of.join(","),
            ValueKind::Word { of } => of.join(" or "),
            ValueKind::Switch => "0 or 1".into(),
            ValueKind::Number { min, max } => format!("{min} to {max}"),
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
    fn what_is_used_is_what_is_said_to_be_used() {
        for values in [&[][..], &[("WEFT_LANES", "ofi")], &[("WEFT_PROVIDER", "sockets")]] {
            let found = gather(values).unwrap().transports;
            let used = |of: fn(&Provider) -> bool| found.providers.iter().filter(|one| of(one)).count();
            let through_libfabric = |way: &Way| usize::from(way.lane == Some("ofi"));
            assert_eq!(
                used(|one| one.within_machine),
                through_libfabric(&found.uses.within_machine)
            );
            assert_eq!(
                used(|one| one.between_machines),
                through_libfabric(&found.uses.between_machines)
            );
            assert!(found.providers.iter().all(
                |one| one.is_used() == (one.role() == "used" || one.role().starts_with("used by ranks"))
            ));
        }
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
