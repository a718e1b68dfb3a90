//! Section 7.6: intercommunicators.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use crate::abi::common::arguments;
use crate::abi::common::arguments::give;
use crate::abi::common::constants::*;
use crate::abi::common::objects::{
    self, communicator, early_communicator, early_intercommunicator, intercommunicator, intracommunicator,
};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::abi::communicator::inherit;
use crate::abi::process;
use crate::abi::process::session::string_tag;
use crate::base::error::Result;
use crate::err;
use crate::identity::PeerIndex;
use crate::objects::communicator::Communicator;
use crate::objects::errhandler::Object;
use crate::objects::group::Group;
use crate::objects::management::Bridge;

/// The rank of a leader in a group.
fn leader(value: c_int, group: &Group, name: &str) -> Result<u32> {
    match u32::try_from(value).ok().filter(|&value| value < group.size()) {
        Some(leader) => Ok(leader),
        None => Err(err!(
            Rank,
            "{name} {value} is outside the group of {} processes",
            group.size()
        )),
    }
}

/// The process that leads the remote group.
fn remote_process(local: &Group, remote: MPI_Group, remote_leader: c_int) -> Result<PeerIndex> {
    let remote = objects::group(remote)?;
    let leader = leader(remote_leader, &remote, "remote_leader")?;
    match remote.iter().find(|&process| local.rank_of(process).is_some()) {
        None => Ok(remote.member(leader)),
        Some(both) => Err(err!(
            Group,
            "process {} is in local_group and in remote_group: the groups must not share a process",
            both.number()
        )),
    }
}

mpi! {
    /// Section 7.6.1.
    small fn MPI_Comm_test_inter(comm: MPI_Comm, flag: *mut c_int) comm(comm) {
        let inter = early_communicator(comm)?.is_inter();
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, inter.into(), "flag") }
    }

    /// Section 7.6.1.
    small fn MPI_Comm_remote_size(comm: MPI_Comm, size: *mut c_int) comm(comm) {
        let remote = early_intercommunicator(comm, "comm")?;
        // SAFETY: null or an `int` of the user's.
        unsafe { give(size, remote.peers().size() as c_int, "size") }
    }

    /// Section 7.6.1.
    small fn MPI_Comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) comm(comm) {
        let remote = early_intercommunicator(comm, "comm")?.peers().clone();
        // SAFETY: null or a handle of the user's.
        unsafe { give(group, objects::new_group(remote)?, "group") }
    }

    /// Section 7.6.2. `peer_comm` and the later arguments matter only at the leader.
    small fn MPI_Intercomm_create(local_comm: MPI_Comm, local_leader: c_int, peer_comm: MPI_Comm,
        remote_leader: c_int, tag: c_int, newintercomm: *mut MPI_Comm) comm(local_comm) {
        let local = intracommunicator(local_comm, "local_comm")?;
        let leader = leader(local_leader, local.group(), "local_leader")?;
        let bridge = (local.rank() == leader).then(|| -> Result<Bridge> {
            let peer = communicator(peer_comm)?;
            Bridge::over(&peer, remote_leader, arguments::tag(tag)?)
        });
        let new = local.instance().block_on_turns(local.clone().connect(leader, bridge))?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&local, Some(new), newintercomm) }
    }

    /// Section 7.6.2. Collective over both groups only. `remote_group` and `remote_leader` matter only at the
    /// leader, except that an empty group ends the call at once.
    small fn MPI_Intercomm_create_from_groups(local_group: MPI_Group, local_leader: c_int, remote_group: MPI_Group,
        remote_leader: c_int, stringtag: *const c_char, info: MPI_Info, errhandler: MPI_Errhandler,
        newintercomm: *mut MPI_Comm) always {
        // SAFETY: null or a string of the user's.
        let tag = unsafe { string_tag(stringtag) }?;
        objects::optional_info(info)?;
        let handler = objects::errhandler(errhandler, Object::Communicator)?;
        let instance = process::instance()?;
        let group = objects::group(local_group)?;
        if group.size() == 0 || remote_group == MPI_GROUP_EMPTY {
            // SAFETY: null or a handle of the user's.
            return unsafe { give(newintercomm, MPI_COMM_NULL, "newintercomm") };
        }
        let leader = leader(local_leader, &group, "local_leader")?;
        let remote = remote_process(&group, remote_group, remote_leader);
        let creating = Communicator::between_groups(instance.clone(), group, leader, remote, tag);
        let new: Arc<Communicator> = instance.block_on_turns(creating)?;
        *new.errhandler().lock() = handler;
        // SAFETY: null or a handle of the user's.
        unsafe { give(newintercomm, objects::new_communicator(Some(new))?, "newintercomm") }
    }

    /// Section 7.6.2.
    small fn MPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: *mut MPI_Comm) comm(intercomm) {
        let inter = intercommunicator(intercomm, "intercomm")?;
        let new = inter.instance().block_on(inter.clone().merge(high != 0))?;
        // SAFETY: null or a handle of the user's.
        unsafe { inherit(&inter, Some(new), newintracomm) }
    }
}
