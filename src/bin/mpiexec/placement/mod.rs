//! Which rank runs on which host: the hosts that the user or an allocation names, and the rule by which ranks fill them.

mod allocation;
mod map;
mod names;

use std::ffi::OsString;

use crate::cli::{App, Plan, Universe};
use crate::host_file;
use crate::host_list::{self, Entry, RANKS_MAX};
use crate::launch::HOSTS_MAX;
use crate::outcome::Failure;
use allocation::{Allocation, Manager};
use map::{Rule, Share};
use names::Names;
use weft::tools::UNIVERSE_MIN;

/// A host of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// As typed: for the launcher command.
    pub name: String,
    /// How many ranks it takes before ranks go around again.
    pub slots: u32,
    /// It is this machine.
    pub is_this: bool,
}

/// Ranks of other jobs on a host: a job and those that it has spawned share the slots.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Taken {
    /// As typed.
    host: String,
    /// It is this machine.
    is_this: bool,
    /// How many.
    ranks: u32,
}

/// Where ranks go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Only those that have ranks, in order.
    pub hosts: Vec<Host>,
    /// Index into `hosts` for each rank of the job.
    pub of_rank: Vec<usize>,
    /// `MPI_UNIVERSE_SIZE`.
    pub universe_size: u32,
    /// What starts agents on other hosts.
    pub launcher: Launcher,
}

/// What starts agents on other hosts.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Launcher {
    /// ssh, for each host.
    Ssh,
    /// srun, for all at once.
    Slurm,
    /// prterun, for all at once.
    Prrte,
    /// A program that is called like ssh.
    Program(OsString),
}

/// A host that ranks may go to; no other one is the same machine.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    entry: Entry,
    is_this: bool,
}

/// The hosts that the job may use.
struct Pool {
    hosts: Vec<Known>,
    /// Somebody has said how many slots some host has.
    counted: bool,
    /// They are those of a list, not just this machine.
    listed: bool,
}

/// Places the ranks of `plan`; without `-n`, a single program takes all slots of the hosts that are named.
pub fn place(plan: &mut Plan) -> Result<Placement, Failure> {
    let own = nix::unistd::gethostname().unwrap_or_default();
    let variables = |name: &str| std::env::var(name).ok();
    place_with(plan, &own.to_string_lossy(), &variables)
}

fn place_with(
    plan: &mut Plan,
    own: &str,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Placement, Failure> {
    let names = Names { own };
    let allocation = match plan.ignore_allocation {
        true => None,
        false => Allocation::find(variables).map_err(Failure::usage)?,
    };
    let mut pool = pool(plan, &names, allocation.as_ref())?;
    let parts = parts(plan, &names, allocation.as_ref(), &mut pool)?;
    fill(plan, &pool, &parts)?;
    let share = match (
        plan.per_host,
        pool.counted || plan.no_oversubscribe || plan.by_node,
    ) {
        (Some(ranks), _) => Share::Each(ranks),
        (None, true) => Share::Slots,
        (None, false) if pool.listed => Share::Even,
        (None, false) => Share::Slots,
    };
    let rule = Rule {
        share,
        by_node: plan.by_node,
        wraps: !plan.no_oversubscribe,
    };
    let counts: Vec<u32> = plan.apps.iter().map(|app| app.count).collect();
    let taken = |known: &Known| {
        let here = plan.taken.iter().filter(|taken| match known.is_this {
            true => taken.is_this,
            false => taken.host == known.entry.name,
        });
        here.fold(0, |all: u32, taken| all.saturating_add(taken.ranks))
    };
    // A spawn that names hosts gets these, whatever else is there.
    let taken = |app: &App| match app.hosts.is_empty() {
        true => pool.hosts.iter().map(taken).collect(),
        false => vec![0; pool.hosts.len()],
    };
    let taken: Vec<Vec<u32>> = plan.apps.iter().map(taken).collect();
    let mapped = map::ranks(&pool.hosts, &taken, &parts, &counts, &rule).map_err(Failure::usage)?;
    let ranks = mapped.of_rank.len() as u32;
    let slots = |known: &Known| known.entry.slots.unwrap_or(1);
    let all: u32 = (pool.hosts.iter().map(slots)).fold(0, u32::saturating_add);
    let universe_size = match plan.universe {
        Some(Universe::Ranks(number)) => number,
        Some(Universe::System) => all,
        Some(Universe::Infinite) => i32::MAX as u32,
        None if pool.counted && pool.listed => all.max(ranks),
        None if pool.listed => ranks.max(UNIVERSE_MIN),
        // The slots are this machine's cores.
        None => all.max(ranks).max(UNIVERSE_MIN),
    };
    // Those that have ranks.
    let mut hosts = Vec::new();
    let mut place_of = vec![None; pool.hosts.len()];
    for (number, known) in pool.hosts.into_iter().enumerate() {
        if mapped.used[number] > 0 {
            place_of[number] = Some(hosts.len());
            hosts.push(Host {
                name: known.entry.name,
                slots: mapped.slots[number],
                is_this: known.is_this,
            });
        }
    }
    let others = hosts.iter().filter(|host| !host.is_this).count();
    if others > HOSTS_MAX {
        return Err(Failure::usage(format!(
            "{others} other hosts: this mpiexec starts ranks on {HOSTS_MAX} at most; for more use the engine of the scheduler \
             (srun --mpi=pmix, srun --mpi=pmi2, prterun) or Hydra"
        )));
    }
    let managed = allocation.as_ref().map(|allocation| allocation.manager);
    Ok(Placement {
        hosts,
        of_rank: mapped
            .of_rank
            .into_iter()
            .filter_map(|host| place_of[host])
            .collect(),
        universe_size,
        launcher: launcher(plan, managed, variables),
    })
}

impl Placement {
    /// The slots that its ranks take.
    pub fn taken(&self) -> Vec<Taken> {
        let hosts = self.hosts.iter().enumerate();
        hosts
            .map(|(number, host)| Taken {
                host: host.name.clone(),
                is_this: host.is_this,
                ranks: self.of_rank.iter().filter(|&&of| of == number).count() as u32,
            })
            .collect()
    }

    /// That of a process which runs on this machine already.
    pub fn here(universe_size: u32) -> Placement {
        Placement {
            hosts: vec![Host {
                name: nix::unistd::gethostname()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                slots: 1,
                is_this: true,
            }],
            of_rank: vec![0],
            universe_size,
            launcher: Launcher::Ssh,
        }
    }
}

/// What starts agents: what the user says, or the engine of the allocation if its command is there, or ssh.
fn launcher(plan: &Plan, managed: Option<Manager>, variables: &dyn Fn(&str) -> Option<String>) -> Launcher {
    let is_there = |command: &str| {
        let folders = variables("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(command).is_file())
    };
    match (&plan.launcher, managed) {
        (Some(launcher), _) => launcher.clone(),
        (None, Some(Manager::Slurm)) if is_there("srun") => Launcher::Slurm,
        (None, Some(Manager::Pbs)) if is_there("prterun") => Launcher::Prrte,
        _ => Launcher::Ssh,
    }
}

/// The hosts that the job may use: those of the host file, or else of the allocation, cut to those of `-hosts`; or those of
/// `-hosts` or `-host` alone; or this machine.
fn pool(plan: &Plan, names: &Names<'_>, allocation: Option<&Allocation>) -> Result<Pool, Failure> {
    let typed = host_list::entries(&plan.hosts).map_err(Failure::usage)?;
    let base = match (&plan.host_file, allocation) {
        (Some(path), _) => Some((
            host_file::read(path).map_err(Failure::usage)?,
            format!("host file '{}'", path.display()),
        )),
        (None, Some(allocation)) => Some((
            allocation.hosts.clone(),
            format!("allocation of {}", allocation.manager.name()),
        )),
        (None, None) => None,
    };
    if let Some((entries, source)) = base {
        let all = names.merge(entries);
        if all.is_empty() {
            return Err(Failure::usage(format!("the {source} has no hosts")));
        }
        let hosts = match typed.is_empty() {
            true => all,
            false => names.filter(&all, typed, &source).map_err(Failure::usage)?,
        };
        return Ok(Pool::listed(hosts));
    }
    let entries = match typed.is_empty() {
        false => typed,
        true => {
            let of_apps = plan.apps.iter().map(|app| host_list::entries(&app.hosts));
            let lists = of_apps.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
            names.union(lists)
        }
    };
    if entries.is_empty() {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        return Ok(Pool {
            hosts: vec![Known {
                entry: Entry {
                    name: names.own.to_string(),
                    slots: Some(cores as u32),
                    max: None,
                },
                is_this: true,
            }],
            counted: false,
            listed: false,
        });
    }
    Ok(Pool::listed(names.merge(entries)))
}

impl Pool {
    fn listed(hosts: Vec<Known>) -> Pool {
        Pool {
            counted: hosts.iter().any(|known| known.entry.slots.is_some()),
            hosts,
            listed: true,
        }
    }
}

/// For each program the hosts that it may use, as numbers in the pool.
fn parts(
    plan: &Plan,
    names: &Names<'_>,
    allocation: Option<&Allocation>,
    pool: &mut Pool,
) -> Result<Vec<Vec<usize>>, Failure> {
    let source = match (&plan.host_file, allocation) {
        _ if !plan.hosts.is_empty() => "list of -hosts".to_string(),
        (None, Some(allocation)) => format!("allocation of {}", allocation.manager.name()),
        _ => "host file".to_string(),
    };
    let mut parts = Vec::new();
    for app in &plan.apps {
        let typed = host_list::entries(&app.hosts).map_err(Failure::usage)?;
        if typed.is_empty() {
            parts.push((0..pool.hosts.len()).collect());
            continue;
        }
        let wanted = names
            .filter(&pool.hosts, typed, &source)
            .map_err(Failure::usage)?;
        let number = |known: &Known| {
            pool.hosts
                .iter()
                .position(|other| other.entry.name == known.entry.name)
        };
        let part: Vec<usize> = wanted.iter().filter_map(number).collect();
        // For a single program these numbers of slots are the job's.
        if plan.apps.len() == 1 {
            for (&number, known) in part.iter().zip(&wanted) {
                pool.hosts[number].entry.slots = known.entry.slots;
            }
            pool.counted = wanted.iter().any(|known| known.entry.slots.is_some());
        }
        parts.push(part);
    }
    Ok(parts)
}

/// Gives a single program without `-n` its number of ranks.
fn fill(plan: &mut Plan, pool: &Pool, parts: &[Vec<usize>]) -> Result<(), Failure> {
    let ([app], [part]) = (&mut plan.apps[..], parts) else {
        return Ok(());
    };
    if !plan.fill || !(pool.listed || plan.per_host.is_some()) {
        return Ok(());
    }
    let slots = |&host: &usize| u64::from(plan.per_host.or(pool.hosts[host].entry.slots).unwrap_or(1));
    let ranks: u64 = part.iter().map(slots).sum();
    app.count = u32::try_from(ranks)
        .ok()
        .filter(|ranks| (1..=RANKS_MAX).contains(ranks))
        .ok_or_else(|| {
            Failure::usage(format!(
                "the hosts have {ranks} slots: at most {RANKS_MAX} ranks are possible"
            ))
        })?;
    Ok(())
}

#[cfg(test)]
mod tests;
