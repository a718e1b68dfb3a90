//! A singleton: a process that no launcher started.

use std::os::fd::BorrowedFd;

use super::{Bootstrap, Job};
use crate::base::error::Result;
use crate::identity::ProcessName;
use crate::system::locality::Layout;

/// The bootstrap of a singleton.
pub struct Singleton {
    job: Job,
    /// The last published card and its incarnation.
    card: Option<(u32, Vec<u8>)>,
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
            universe_size: None,
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
        };
        Singleton { job, card: None }
    }
}

/// Detects a launcher that Weft does not support yet, under which each process takes itself for a singleton. One process
/// of the job gets the sentence to print for the user.
pub fn other_launcher(environment: impl Fn(&str) -> Option<String>) -> Option<String> {
    let number = |name: &str| environment(name).and_then(|text| text.parse::<u32>().ok());
    let (launcher, size, rank) = [
        (
            "PRRTE or Open MPI (PMIx)",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_RANK",
        ),
        ("Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
        ("another launcher (PMI without PMI_FD)", "PMI_SIZE", "PMI_RANK"),
    ]
    .into_iter()
    .find_map(|(launcher, size, rank)| {
        Some((launcher, number(size).filter(|&size| size > 1)?, number(rank)?))
    })?;
    (rank == 0).then(|| {
        format!(
            "this process is one of {size} started by {launcher}, which Weft can't talk to yet: each of them is rank 0 \
             of a world of 1. Start the program with Weft's mpiexec."
        )
    })
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

    fn attend(&mut self) -> Result<bool> {
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
        None
    }

    fn abort(&mut self, _: i32, _: &str) -> bool {
        false
    }

    fn finalize(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn one_process_tells_of_the_wrong_launcher() {
        let slurm_of = |size: &'static str, rank: &'static str| {
            move |name: &str| match name {
                "SLURM_STEP_NUM_TASKS" => Some(size.to_string()),
                "SLURM_PROCID" => Some(rank.to_string()),
                _ => None,
            }
        };
        let slurm = |rank| slurm_of("4", rank);
        assert!(other_launcher(slurm_of("2", "0")).is_some());
        assert_eq!(other_launcher(slurm_of("1", "0")), None, "it is alone");
        assert!(
            other_launcher(slurm("0"))
                .unwrap()
                .contains("one of 4 started by Slurm")
        );
        assert_eq!(other_launcher(slurm("1")), None);
        assert_eq!(other_launcher(|_| None), None);
    }
}
