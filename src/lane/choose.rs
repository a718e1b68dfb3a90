//! Which lanes a process opens: by the settings, and by where the job's processes are.

use super::Lane;
use super::loopback::Loopback;
use super::ofi::{MACHINE, OfiLane, shm_room};
use super::shm::{self, ShmLane};
use crate::base::error::Result;
use crate::base::settings::Settings;
use crate::base::startup::Ledger;
use crate::system::bootstrap::Job;
use crate::system::fabric::select;
use crate::system::locality::{has_network_of_parent, is_outside_containers, pid_namespace, pretended_node};

/// The lanes that the settings ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The lane over shared memory.
    pub shm: bool,
    /// The lane over libfabric.
    pub ofi: bool,
    /// `WEFT_LANES` says so.
    named: bool,
    /// A provider is named.
    provider: bool,
}

impl Wanted {
    /// `fi_provider` is libfabric's own setting, `FI_PROVIDER`. A user who names a provider gets that one.
    pub fn of(settings: &Settings, fi_provider: Option<String>) -> Wanted {
        let named = !settings.lanes.is_empty();
        let provider = settings.provider.is_some() || fi_provider.is_some_and(|name| !name.is_empty());
        Wanted {
            shm: if named {
                settings.lanes.contains(&"shm")
            } else {
                !provider
            },
            ofi: !named || settings.lanes.contains(&"ofi"),
            named,
            provider,
        }
    }

    /// In words.
    pub fn why_no_shm(&self) -> String {
        if self.named {
            "WEFT_LANES does not name it".into()
        } else {
            "a libfabric provider is named, and WEFT_LANES does not name shm".into()
        }
    }
}

/// Opens the lanes of a process, its loopback lane first. `spins`: whether each process has a core, so that waits may
/// spin; see also [`OfiLane::open`]. `token` is random.
///
/// Where all processes are on one machine and shared memory reaches them, libfabric is not used: asking it for its
/// providers alone can take longer than the rest of the start.
pub fn open(
    settings: &Settings,
    job: &Job,
    spins: bool,
    token: u64,
    ledger: &Ledger,
) -> Result<Vec<Box<dyn Lane>>> {
    // Also where it carries no message.
    select::check_interface(settings, job.local_only)?;
    let mut lanes: Vec<Box<dyn Lane>> = vec![Box::new(Loopback::default())];
    if job.size == 1 {
        return Ok(lanes);
    }
    let fi_provider = std::env::var("FI_PROVIDER").ok();
    let wanted = Wanted::of(settings, fi_provider);
    let mut reaches_all = false;
    if wanted.shm && (job.local_ranks > 1 || !wanted.ofi) {
        match open_shm(settings, job, spins, token) {
            Ok(lane) => {
                lanes.push(Box::new(lane));
                reaches_all = job.local_only && settings.fake_nodes <= 1 && shares_pids_with_launcher(job);
            }
            // libfabric is used instead.
            Err(_) if wanted.ofi => {}
            Err(error) => return Err(error),
        }
    }
    if wanted.ofi && (wanted.named || !reaches_all) {
        let local = shares_loopback(job);
        lanes.push(Box::new(open_ofi(settings, job, local, spins, ledger)?));
    }
    Ok(lanes)
}

/// The name of the lane over shared memory.
pub const SHM: &str = "shm";
/// The names of lanes over libfabric begin with this.
pub const OFI: &str = "ofi/";

/// What processes of several jobs use instead of a network that [`loses_first_messages`].
const BETWEEN_JOBS: &str = "tcp;ofi_rxm";

/// Whether a network is left alone between processes of several jobs, if there is another. `net` of libfabric 1.17 may drop a connection that
/// it has just made, with what was sent on it, if both sides make one at the same moment and one of them has had connections to
/// processes that have ended ("old connection exists, replacing" in its log). From 1.18 on it is called `tcp`.
pub fn loses_first_messages(network: &str) -> bool {
    let provider = network.strip_prefix(OFI).unwrap_or_default();
    provider.split(MACHINE).next() == Some("net")
}

/// Opens a lane over libfabric for processes of other jobs; see [`open_ofi`]. `open`: the networks that this process is at already and that
/// would do. `None`: there is none that is better than these.
pub fn open_ofi_between_jobs(
    settings: &Settings,
    job: &Job,
    local: bool,
    spins: bool,
    ledger: &Ledger,
    open: &[&String],
) -> Result<Option<OfiLane>> {
    let lane = match open.is_empty() {
        true => Some(open_ofi(settings, job, local, spins, ledger)?),
        false => None,
    };
    let own = lane.as_ref().map(|lane| lane.network());
    let mut networks = open.iter().copied().chain(&own);
    // A user who names it gets it.
    if Wanted::of(settings, std::env::var("FI_PROVIDER").ok()).provider
        || !networks.all(|name| loses_first_messages(name))
    {
        return Ok(lane);
    }
    let other = Settings {
        provider: Some(BETWEEN_JOBS.into()),
        ..settings.clone()
    };
    // Where it is not offered, the first one is better than none.
    Ok(open_ofi(&other, job, local, spins, ledger).ok().or(lane))
}

/// Opens the lane over shared memory; see [`open`].
pub fn open_shm(settings: &Settings, job: &Job, spins: bool, token: u64) -> Result<ShmLane> {
    ShmLane::open(shm::Options {
        me: job.name(),
        size: job.size,
        senders: job.local_ranks,
        token,
        node: pretended_node(job.rank, settings.fake_nodes),
        cma: settings.cma,
        crowded: !spins,
        stores: shm::Allowed::of(&settings.stores),
    })
}

/// Opens a lane over libfabric. `local`: the loopback address will do; see [`open`].
pub fn open_ofi(
    settings: &Settings,
    job: &Job,
    local: bool,
    spins: bool,
    ledger: &Ledger,
) -> Result<OfiLane> {
    let named = settings.provider.clone().or(std::env::var("FI_PROVIDER").ok());
    if named.as_deref() == Some("shm") {
        shm_room::check(job.local_ranks)?;
    }
    OfiLane::open(settings, local, spins, ledger)
}

/// Whether all ranks can be taken to reach each other by 127.0.0.1: those that the launcher has put on one machine may be
/// in containers with networks of their own. Where that can't be told, an address that others can reach is used if there is one.
fn shares_loopback(job: &Job) -> bool {
    job.local_only
        && has_network_of_parent()
        && (shares_pids_with_launcher(job) || job.launcher_pids.is_none() && is_outside_containers())
}

/// Ranks that were started in separate containers are on one machine, and still can't share memory. Where the launcher
/// does not tell its namespace, it is not known whether they can.
fn shares_pids_with_launcher(job: &Job) -> bool {
    job.launcher_pids
        .is_some_and(|theirs| pid_namespace().is_ok_and(|own| own == theirs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::bootstrap::Bootstrap;
    use crate::system::bootstrap::singleton::Singleton;

    fn wanted(values: &[(&str, &str)], fi_provider: Option<&str>) -> (bool, bool) {
        let settings = Settings::read(|name| {
            let found = values.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        })
        .expect("good values");
        let wanted = Wanted::of(&settings, fi_provider.map(String::from));
        (wanted.shm, wanted.ofi)
    }

    #[test]
    fn a_named_provider_is_used_alone_unless_the_lanes_are_named_too() {
        assert_eq!(wanted(&[], None), (true, true));
        assert_eq!(wanted(&[], Some("")), (true, true));
        assert_eq!(wanted(&[], Some("tcp")), (false, true));
        assert_eq!(wanted(&[("WEFT_PROVIDER", "tcp")], None), (false, true));
        let both = [("WEFT_PROVIDER", "tcp"), ("WEFT_LANES", "ofi, shm")];
        assert_eq!(wanted(&both, None), (true, true));
        assert_eq!(wanted(&[("WEFT_LANES", "shm")], Some("tcp")), (true, false));
        assert_eq!(wanted(&[("WEFT_LANES", "ofi")], None), (false, true));
    }

    #[test]
    fn a_lane_that_does_not_exist_is_an_error() {
        let error = Settings::read(|name| (name == "WEFT_LANES").then(|| "shm,pigeon".into()))
            .expect_err("there is no such lane");
        assert!(
            error.message.contains("WEFT_LANES") && error.message.contains("shm and ofi"),
            "{error}"
        );
    }

    fn job(size: u32, local_ranks: u32) -> Job {
        Job {
            size,
            local_only: size == local_ranks,
            local_ranks,
            launcher_pids: pid_namespace().ok(),
            ..Singleton::new().job().clone()
        }
    }

    /// The names of the lanes that are opened.
    fn opened(values: &[(&str, &str)], job: &Job) -> Vec<String> {
        let settings = Settings::read(|name| {
            let found = values.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        })
        .expect("good values");
        let lanes = open(&settings, job, true, 1, &Ledger::default()).expect("lanes");
        lanes.iter().map(|lane| lane.name()).collect()
    }

    #[test]
    fn libfabric_is_left_alone_where_shared_memory_reaches_all() {
        assert_eq!(opened(&[], &job(1, 1)), ["loopback"]);
        assert_eq!(opened(&[("WEFT_LANES", "shm,ofi")], &job(1, 1)), ["loopback"]);
        assert_eq!(opened(&[], &job(2, 2)), ["loopback", "shm"]);
        assert_eq!(opened(&[("WEFT_LANES", "shm")], &job(2, 2)), ["loopback", "shm"]);
        // A user who names it gets it, whatever the number of ranks here.
        assert_eq!(opened(&[("WEFT_LANES", "shm")], &job(2, 1)), ["loopback", "shm"]);
    }

    #[test]
    fn libfabric_is_opened_where_a_rank_may_be_out_of_reach() {
        let tcp = "tcp;ofi_rxm";
        let ofi = format!("ofi/{tcp}");
        let both = [("WEFT_PROVIDER", tcp), ("WEFT_LANES", "shm,ofi")];
        let shm_and_ofi = ["loopback", "shm", &ofi];
        assert_eq!(opened(&both, &job(2, 2)), shm_and_ofi);
        assert_eq!(opened(&both, &job(3, 2)), shm_and_ofi);
        // No other rank is on this machine.
        assert_eq!(opened(&both, &job(2, 1)), ["loopback", &ofi]);
        assert_eq!(opened(&[("WEFT_PROVIDER", tcp)], &job(2, 2)), ["loopback", &ofi]);
        // By default: pretended nodes, other machines, a launcher in another or an unknown namespace.
        let names = |values: &[_], job: &Job| opened(values, job).len();
        assert_eq!(names(&[("WEFT_FAKE_NODES", "2")], &job(2, 2)), 3);
        assert_eq!(names(&[("WEFT_FAKE_NODES", "1")], &job(2, 2)), 2);
        assert_eq!(names(&[], &job(3, 2)), 3);
        for launcher_pids in [None, Some(1)] {
            let apart = Job {
                launcher_pids,
                ..job(2, 2)
            };
            assert_eq!(names(&[], &apart), 3, "{launcher_pids:?}");
        }
    }

    #[test]
    fn a_lane_at_the_loopback_address_names_the_machine() {
        let tcp = Settings::read(|name| (name == "WEFT_PROVIDER").then(|| "tcp;ofi_rxm".into()))
            .expect("good values");
        let network = |local| {
            let lane = open_ofi(&tcp, &job(2, 2), local, true, &Ledger::default()).expect("a lane");
            (lane.network(), lane.name())
        };
        let (here, name) = network(true);
        let number = here.strip_prefix(&format!("{name}@")).expect(&here);
        assert_eq!(number.len(), 16, "{here}");
        assert_eq!(network(true).0, here);
        // Others reach this one, so its name is enough.
        assert_eq!(network(false), (name.clone(), name));
    }

    #[test]
    fn loopback_is_used_only_where_it_reaches_all() {
        assert!(shares_loopback(&job(2, 2)));
        assert!(!shares_loopback(&job(3, 2)));
        let elsewhere = Job {
            launcher_pids: Some(1),
            ..job(2, 2)
        };
        assert!(!shares_loopback(&elsewhere));
        let unknown = Job {
            launcher_pids: None,
            ..job(2, 2)
        };
        assert_eq!(shares_loopback(&unknown), is_outside_containers());
    }

    #[test]
    fn it_is_told_why_shared_memory_is_not_used() {
        for (name, words) in [
            ("WEFT_LANES", "WEFT_LANES does not name it"),
            ("WEFT_PROVIDER", "a libfabric provider is named"),
        ] {
            let settings =
                Settings::read(|asked| (asked == name).then(|| "ofi".into())).expect("a good value");
            assert!(
                Wanted::of(&settings, None).why_no_shm().starts_with(words),
                "{name}"
            );
        }
    }
}
