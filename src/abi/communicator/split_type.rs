//! What processes learn about the hardware on which they run (MPI 5.0 sections 7.4.2 and 9.1.2).

use std::ffi::c_int;

use crate::abi::common::arguments::give;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, communicator};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::inherit;
use crate::base::error::Result;
use crate::err;
use crate::identity::fnv;
use crate::objects::communicator::Communicator;
use crate::objects::info::Info;
use crate::objects::management::split_type::{By, Place};
use crate::objects::session::ProcessSet;
use crate::system::locality::{HardwareKind, Processors, Topology};
use crate::system::shared_memory::Machine;

/// Info keys of `MPI_Comm_split_type`.
const RESOURCE: &str = "mpi_hw_resource_type";
const PROCESS_SET: &str = "mpi_pset_name";
/// The value of [`RESOURCE`] that means `MPI_COMM_TYPE_SHARED`.
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// The number of this process's node. Jobs number their nodes each by itself, so among several jobs it is made of what the system says.
fn node(comm: &Communicator) -> u64 {
    let instance = comm.instance();
    let of_job = instance.node_of(instance.me());
    if !comm.is_of_several_jobs() {
        return of_job;
    }
    match Machine::here() {
        Ok(machine) if instance.settings().fake_nodes <= 1 => fnv(machine.boot.to_le_bytes()),
        Ok(machine) => fnv(machine.boot.to_le_bytes().into_iter().chain(of_job.to_le_bytes())),
        // It is with those of its job at least.
        Err(_) => instance.job().name().job.0 ^ of_job,
    }
}

/// Where this process is, where processes that share memory are to be together: those of one node may be in different containers.
fn on_node(comm: &Communicator) -> Place {
    let machine = Machine::here().map_or(0, |machine| machine.short());
    Place::within(node(comm), machine)
}

/// Where it is by a kind of hardware that the user named; nowhere if Weft knows none of that name, or if this process may run
/// on more than one.
fn by_kind(comm: &Communicator, name: &str) -> Place {
    if name == SHARED_MEMORY {
        return on_node(comm);
    }
    let number = HardwareKind::of_name(name).and_then(|kind| match kind {
        // hwloc is not needed to know that.
        HardwareKind::Machine => Some(0),
        kind => Topology::of_this_machine().confined(kind, &Processors::of_this_process()),
    });
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(number) => Place::within(node(comm), number),
        None => Place::NOWHERE,
    }
}

/// Where it is by the process set that the user named; nowhere if there is none of that name, or if this process is not in it.
fn by_process_set(comm: &Communicator, name: &str) -> Place {
    let job = comm.instance().job();
    // Each job has sets of its own.
    let whose = match comm.is_of_several_jobs() {
        true => fnv(job.name().job.0.to_le_bytes()) << 32,
        false => 0,
    };
    match ProcessSet::of_name(name, job) {
        Ok(ProcessSet::World) => Place::within(whose, 0),
        Ok(ProcessSet::Named(at)) if job.process_sets[at].contains(job.rank) => {
            Place::within(whose, 1 + at as u32)
        }
        // Each process has one of its own.
        Ok(ProcessSet::Myself) => Place::within(whose + 1 + u64::from(job.rank), 0),
        Ok(ProcessSet::Named(_)) | Err(_) => Place::NOWHERE,
    }
}

/// Where this process is by what the user asks for, and how the communicator is then divided.
fn place(comm: &Communicator, split_type: c_int, info: Option<&Info>) -> Result<(Place, By)> {
    let asked = |key: &str| info.and_then(|info| info.get(key));
    let guided = |resource: Option<String>| match resource {
        Some(name) => by_kind(comm, &name),
        None => Place::NOWHERE,
    };
    Ok(match split_type {
        MPI_COMM_TYPE_SHARED => (on_node(comm), By::First),
        MPI_COMM_TYPE_HW_GUIDED => (guided(asked(RESOURCE)), By::First),
        MPI_COMM_TYPE_RESOURCE_GUIDED => match (asked(RESOURCE), asked(PROCESS_SET)) {
            (Some(_), Some(_)) => {
                return Err(err!(
                    Info,
                    "the info object has both {RESOURCE} and {PROCESS_SET}: at most one of them is possible"
                ));
            }
            (None, Some(name)) => (by_process_set(comm, &name), By::First),
            (resource, None) => (guided(resource), By::First),
        },
        MPI_COMM_TYPE_HW_UNGUIDED => {
            let processors = Processors::of_this_process();
            (
                Place::of_hardware(node(comm), Topology::of_this_machine(), &processors),
                By::Different,
            )
        }
        MPI_UNDEFINED => (Place::NOWHERE, By::First),
        _ => {
            return Err(err!(
                Arg,
                "split_type is {split_type}, which is none of MPI_COMM_TYPE_SHARED, _HW_GUIDED, _HW_UNGUIDED, \
                 _RESOURCE_GUIDED and MPI_UNDEFINED"
            ));
        }
    })
}

mpi! {
    /// Section 7.4.2. Kinds of hardware have the names of `MPI_Get_hw_resource_info`; a process set that contains the calling
    /// process can be named as well.
    small fn MPI_Comm_split_type(comm: MPI_Comm, split_type: c_int, key: c_int, info: MPI_Info,
        newcomm: *mut MPI_Comm) comm(comm) {
        let comm = communicator(comm)?;
        let hints = objects::optional_info(info)?;
        let instance = comm.instance();
        let (place, by) = place(&comm, split_type, hints.as_deref())?;
        let made = instance.block_on(comm.clone().split_by_place(place, by, key))?;
        let new = made.map(|(new, kind)| {
            // A shared predefined object can be read by everybody but not changed.
            if let Some(hints) = hints.filter(|_| by == By::Different && info != MPI_INFO_ENV) {
                hints.set(RESOURCE, HardwareKind::ALL[kind].uri());
            }
            new
        });
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&comm, new, newcomm) }
    }

    /// Section 9.1.2. The kinds of hardware that this machine has and Weft distinguishes, and whether the process, with all of
    /// its threads, is confined to a single one of the kind.
    small fn MPI_Get_hw_resource_info(hw_info: *mut MPI_Info) local {
        let processors = Processors::of_this_process();
        let topology = Topology::of_this_machine();
        let confined = |kind| topology.confined(kind, &processors).is_some();
        let known = topology.kinds().map(|kind| (kind.uri().to_string(), confined(kind).to_string()));
        // SAFETY: null or a handle of the user's.
        unsafe { give(hw_info, objects::new_info(Info::of(known))?, "hw_info") }
    }
}
