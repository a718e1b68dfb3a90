//! A singleton: a process that no launcher started.

use std::collections::hash_map::Entry;
use std::os::fd::BorrowedFd;

use rustc_hash::FxHashMap;

use super::own_head::{self, OwnHead};
use super::{Bootstrap, Job, Notice, Spawn, Spawned};
use crate::base::error::Result;
use crate::err;
use crate::identity::ProcessName;
use crate::system::locality::Layout;

/// The setting with the address of a name server.
const NAME_SERVER: &str = "WEFT_NAME_SERVER";
/// `MPI_UNIVERSE_SIZE` where nothing says how many processes there can be, at least.
pub const UNIVERSE_MIN: u32 = 16;

/// The bootstrap of a singleton.
pub struct Singleton {
    job: Job,
    /// The last published card and its incarnation.
    card: Option<(u32, Vec<u8>)>,
    /// The ports of the services that it has published, as long as it has no head: nobody else sees them.
    names: FxHashMap<String, String>,
    /// From the first spawn on.
    head: Option<OwnHead>,
}

impl Singleton {
    /// A singleton, whose job id is made from the process id and the clock.
    pub fn new() -> Singleton {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |duration| duration.as_nanos() as u64);
        let job = Job {
            rank: 0,
            size: 1,
            appnum: None,
            universe_size: Some(universe_size()),
            local_only: true,
            local_rank: 0,
            local_ranks: 1,
            processors: None,
            launcher_pids: None,
            layout: Layout::one_node(1),
            layout_unknown: None,
            id: format!("singleton-{}-{since_epoch:x}", std::process::id()),
            memory_alloc_kinds: None,
            process_sets: Vec::new(),
            parent: None,
        };
        Singleton {
            job,
            card: None,
            names: FxHashMap::default(),
            head: None,
        }
    }
}

impl Singleton {
    /// The head, which is started if there is none. It keeps names from then on, as others ask for them.
    fn head(&mut self) -> Result<&mut OwnHead> {
        if self.head.is_none() {
            let mut head = OwnHead::start()?;
            for (service, port) in self.names.drain() {
                head.pmi.publish_name(&service, &port)?;
            }
            self.head = Some(head);
        }
        self.head.as_mut().ok_or_else(own_head::gone)
    }

    /// What keeps its names, if it does not do that itself: its head, which it has if it spawns, or needs if a name server keeps them.
    fn keeper(&mut self) -> Result<Option<&mut OwnHead>> {
        let is_pointed = std::env::var_os(NAME_SERVER).is_some_and(|address| !address.is_empty());
        match self.head.is_some() || is_pointed {
            true => self.head().map(Some),
            false => Ok(None),
        }
    }
}

/// Variables in which launchers say how many processes they have started, and which this is.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    (
        "PRRTE or Open MPI (PMIx)",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
    ),
    ("Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ("another launcher (PMI without PMI_FD)", "PMI_SIZE", "PMI_RANK"),
];

/// The launcher that has started this process, as the environment tells, with the number of processes.
fn launcher(environment: impl Fn(&str) -> Option<String>) -> Option<(&'static str, u32)> {
    let number = |name: &str| environment(name).and_then(|text| text.parse::<u32>().ok());
    LAUNCHERS
        .into_iter()
        .find_map(|(launcher, size, rank)| number(rank).and(Some((launcher, number(size)?))))
}

/// Whether Slurm has started this process alone: it needs no other then, and no server.
pub fn is_alone(environment: impl Fn(&str) -> Option<String>) -> bool {
    // A launcher of its own may have started more processes inside the step.
    let slurms = environment("PMIX_NAMESPACE").is_some_and(|name| name.starts_with("slurm."));
    slurms && launcher(environment).is_some_and(|(_, size)| size == 1)
}

/// An error if a launcher that Weft can't talk to has started several processes: each would take itself for a singleton.
pub fn other_launcher(environment: impl Fn(&str) -> Option<String>) -> Result<()> {
    match launcher(environment) {
        Some((launcher, size @ 2..)) => Err(err!(
            Other,
            "this process is one of {size} started by {launcher} in a way that Weft can't talk to. Start the program with srun \
             --mpi=pmi2 or --mpi=pmix, prterun, or Weft's mpiexec; to run it alone, unset {}",
            LAUNCHERS
                .iter()
                .find(|(name, ..)| *name == launcher)
                .map_or("", |(_, size, _)| *size)
        )),
        _ => Ok(()),
    }
}

/// How many processes there can be, as far as this one knows: one for each core, and so many that a program which asks first does spawn.
fn universe_size() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    u32::try_from(cores).unwrap_or(u32::MAX).max(UNIVERSE_MIN)
}

impl Default for Singleton {
    fn default() -> Self {
        Singleton::new()
    }
}

impl Bootstrap for Singleton {
    fn job(&self) -> &Job {
        &self.job
    }

    fn name(&self) -> &'static str {
        "singleton"
    }

    fn publish(&mut self, incarnation: u32, card: &[u8]) -> Result<()> {
        self.card = Some((incarnation, card.to_vec()));
        Ok(())
    }

    fn needs_fence(&self) -> bool {
        false
    }

    fn has_news(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.pmi.has_news())
    }

    fn attend(&mut self) -> Result<bool> {
        // This process goes on without it.
        if self.head.as_mut().is_some_and(|head| head.pmi.attend().is_err()) {
            self.head = None;
        }
        Ok(false)
    }

    fn begin_fence(&mut self) -> Result<()> {
        Ok(())
    }

    fn fence_is_over(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn lookup(&mut self, incarnation: u32, peer: ProcessName) -> Result<Option<Vec<u8>>> {
        self.job.rank_of(peer)?;
        let published = self
            .card
            .as_ref()
            .filter(|(published, _)| *published == incarnation);
        Ok(published.map(|(_, card)| card.clone()))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.head.as_ref().and_then(|head| head.pmi.descriptor())
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        self.head()?.pmi.spawn(spawn)
    }

    fn spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        let head = self.head.as_mut().ok_or_else(own_head::gone)?;
        head.pmi.spawned(spawn)
    }

    fn notices(&mut self) -> Vec<Notice> {
        let head = self.head.as_mut();
        head.map_or_else(Vec::new, |head| head.pmi.notices())
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<()> {
        if let Some(head) = self.keeper()? {
            return head.pmi.publish_name(service, port);
        }
        match self.names.entry(service.to_string()) {
            Entry::Occupied(_) => Err(err!(Service, "the service '{service}' is published already")),
            Entry::Vacant(entry) => {
                entry.insert(port.to_string());
                Ok(())
            }
        }
    }

    fn unpublish_name(&mut self, service: &str) -> Result<()> {
        if let Some(head) = self.keeper()? {
            return head.pmi.unpublish_name(service);
        }
        match self.names.remove(service) {
            Some(_) => Ok(()),
            None => Err(err!(Service, "the service '{service}' is not published")),
        }
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>> {
        if let Some(head) = self.keeper()? {
            return head.pmi.lookup_name(service);
        }
        Ok(self.names.get(service).cloned())
    }

    fn abort(&mut self, _: i32, _: &str) -> bool {
        false
    }

    fn finalize(&mut self) -> Result<()> {
        if let Some(head) = &mut self.head {
            // If it is gone, it needs no notice.
            let _ = head.pmi.finalize();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    #[test]
    fn it_finds_only_itself() {
        let mut alone = Singleton::new();
        assert_eq!(alone.lookup(0, alone.job().process(0)).unwrap(), None);
        alone.publish(0, b"card").unwrap();
        assert_eq!(
            alone.lookup(0, alone.job().process(0)).unwrap().as_deref(),
            Some(&b"card"[..])
        );
        assert_eq!(alone.lookup(1, alone.job().process(0)).unwrap(), None);
        alone.lookup(0, alone.job().process(1)).unwrap_err();
    }

    #[test]
    fn it_waits_for_nobody() {
        let mut alone = Singleton::new();
        assert_eq!(alone.name(), "singleton");
        assert!(!alone.needs_fence() && !alone.is_over() && !alone.tells_why());
        alone.begin_fence().unwrap();
        assert!(alone.fence_is_over().unwrap());
        assert!(!alone.attend().unwrap() && alone.descriptor().is_none());
        assert!(!alone.abort(1, "why"), "the process ends itself");
    }

    #[test]
    fn names_are_published_once() {
        let mut alone = Singleton::new();
        assert_eq!(alone.lookup_name("service").unwrap(), None);
        assert_eq!(alone.unpublish_name("service").unwrap_err().class, Class::Service);
        alone.publish_name("service", "port").unwrap();
        let again = alone.publish_name("service", "other").unwrap_err();
        assert!(
            again.class == Class::Service && again.message.contains("'service'"),
            "{again}"
        );
        alone.publish_name("another", "other").unwrap();
        assert_eq!(alone.lookup_name("service").unwrap().as_deref(), Some("port"));
        alone.unpublish_name("service").unwrap();
        assert_eq!(alone.lookup_name("service").unwrap(), None);
        alone.publish_name("service", "new").unwrap();
    }

    #[test]
    fn the_wrong_launcher_is_an_error_in_every_process() {
        let slurm_of = |size: &'static str, rank: &'static str| {
            move |name: &str| match name {
                "SLURM_STEP_NUM_TASKS" => Some(size.to_string()),
                "SLURM_PROCID" => Some(rank.to_string()),
                "PMIX_NAMESPACE" => Some("slurm.pmix.1.0".to_string()),
                _ => None,
            }
        };
        for rank in ["0", "3"] {
            let error = other_launcher(slurm_of("4", rank)).unwrap_err();
            assert!(error.message.contains("one of 4 started by Slurm"), "{error}");
            assert!(error.message.contains("unset SLURM_STEP_NUM_TASKS"), "{error}");
        }
        other_launcher(slurm_of("1", "0")).unwrap();
        other_launcher(slurm_of("many", "0")).unwrap();
        other_launcher(|_| None).unwrap();
        assert!(is_alone(slurm_of("1", "0")) && !is_alone(slurm_of("4", "0")) && !is_alone(|_| None));
    }
}
