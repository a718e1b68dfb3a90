//! What carries the messages of a job: within a machine, and between machines.

use serde::Serialize;

use weft::tools::Wanted;
use weft::tools::select;
use weft::tools::settings::Settings;

use super::report::SharedMemory;

/// What two ranks use to communicate, by where they are.
#[derive(Serialize)]
pub struct TransportChoice {
    /// Both on this machine.
    pub within_machine: Way,
    /// On different machines.
    pub between_machines: Way,
}

/// What carries messages, or why nothing does.
#[derive(Serialize, Default)]
pub struct Way {
    /// `shm` or `ofi`; `None`: nothing does.
    pub lane: Option<&'static str>,
    /// For the lane `ofi`: libfabric's provider.
    pub provider: Option<String>,
    /// For the lane `ofi`: network interface or device.
    pub interface: Option<String>,
    /// Its address, for providers on IP.
    pub address: Option<String>,
    /// Why there is no lane.
    pub problem: Option<String>,
}

impl TransportChoice {
    /// By the settings, as [`weft::tools::choose::open`] uses them.
    pub fn of(settings: &Settings, wanted: Wanted, shared: &SharedMemory) -> TransportChoice {
        let through_shm = shared.reason.is_none();
        TransportChoice {
            within_machine: match (through_shm, wanted.ofi) {
                (true, _) => Way {
                    lane: Some("shm"),
                    ..Way::default()
                },
                (false, true) => through_libfabric(settings, true),
                (false, false) => Way::none(shared.reason.clone().unwrap_or_default()),
            },
            between_machines: match wanted.ofi {
                true => through_libfabric(settings, false),
                false => Way::none("WEFT_LANES does not name ofi".into()),
            },
        }
    }
}

impl Way {
    fn none(problem: String) -> Way {
        Way {
            problem: Some(problem),
            ..Way::default()
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        let place = match (&self.interface, &self.address) {
            (Some(interface), Some(address)) => format!(" on {interface} ({address})"),
            (Some(interface), None) => format!(" on {interface}"),
            (None, _) => String::new(),
        };
        match (self.lane, &self.provider) {
            (None, _) => format!("nothing: {}", self.problem.as_deref().unwrap_or_default()),
            (Some(_), Some(provider)) => format!("{provider}{place}"),
            (Some(_), None) => "Weft's shared memory".into(),
        }
    }
}

/// What libfabric would be asked to use.
fn through_libfabric(settings: &Settings, local_only: bool) -> Way {
    let chosen = match select::choose(settings, local_only) {
        Ok(chosen) => chosen,
        Err(error) => return Way::none(error.message.into_owned()),
    };
    let address = chosen.info.source_ip();
    let (provider, interface) = (chosen.info.provider(), chosen.info.domain_name());
    if !local_only && (provider == "shm" || address.is_some_and(|address| address.is_loopback())) {
        return Way::none(format!(
            "{provider} finds no network interface by which other machines could be reached"
        ));
    }
    Way {
        lane: Some("ofi"),
        provider: Some(provider),
        interface: Some(interface),
        address: address.map(|address| address.to_string()),
        problem: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(values: &[(&str, &str)], why_no_shm: Option<&str>) -> TransportChoice {
        let lookup = |name: &str| {
            let found = values.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        };
        let shared = SharedMemory {
            works: true,
            reads_memory: true,
            reason: why_no_shm.map(String::from),
        };
        let settings = Settings::read(lookup).unwrap();
        TransportChoice::of(&settings, Wanted::of(&settings, None), &shared)
    }

    #[test]
    fn one_machine_has_shared_memory_and_no_provider() {
        let ways = ways(&[], None);
        assert_eq!(ways.within_machine.lane, Some("shm"));
        assert_eq!(ways.within_machine.words(), "Weft's shared memory");
        assert_eq!(ways.within_machine.provider, None);
        assert_ne!(ways.between_machines.lane, Some("shm"));
    }

    #[test]
    fn without_it_libfabric_serves_the_machine_too() {
        let ways = ways(&[("WEFT_PROVIDER", "tcp;ofi_rxm")], Some("not wanted"));
        assert_eq!(ways.within_machine.lane, Some("ofi"));
        assert_eq!(ways.within_machine.words(), "tcp;ofi_rxm on lo (127.0.0.1)");
        // A machine may be alone.
        let between = ways.between_machines;
        assert!(
            between.address.as_deref() != Some("127.0.0.1")
                && between.lane.is_some() != between.problem.is_some(),
            "{}",
            between.words()
        );
    }

    #[test]
    fn what_is_not_there_says_why() {
        let alone = ways(&[("WEFT_LANES", "shm")], None).between_machines;
        assert!(alone.words().contains("WEFT_LANES does not name ofi"));
        let neither = ways(&[("WEFT_LANES", "shm")], Some("the reason")).within_machine;
        assert_eq!(neither.words(), "nothing: the reason");
        let shm = ways(&[("WEFT_PROVIDER", "shm")], Some("not wanted"));
        assert_eq!(shm.within_machine.provider.as_deref(), Some("shm"));
        assert_eq!(
            shm.between_machines.lane,
            None,
            "{}",
            shm.between_machines.words()
        );
    }
}
